package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`

func newDialer(t *testing.T, url string, tr Transport) *Dialer {
	t.Helper()
	d, err := NewDialer(HTTPConfig{URL: url, DialTimeout: patience, EndpointTimeout: patience}, tr)
	if err != nil {
		t.Fatal(err)
	}
	d.limit = patience
	t.Cleanup(func() { d.Close() })
	return d
}

// connector begins sessions.
type connector interface {
	Connect(ctx context.Context, initialize *Outgoing) (*Begun, error)
}

// connect begins a session, and returns the answer to initialize.
func connect(t *testing.T, ctx context.Context, c connector) (*Begun, string, error) {
	t.Helper()
	b, err := c.Connect(ctx, &Outgoing{Body: []byte(initialize), Header: []mcp.Header{{Name: "Authorization", Value: bearer}}})
	if err != nil {
		if b != nil {
			t.Error("a session, although it has failed")
		}
		return nil, "", err
	}
	st := b.Answer
	if st == nil {
		st = b.Standing
	} else if b.Standing != nil {
		t.Error("two streams")
	}
	t.Cleanup(func() {
		st.Close()
		b.Conn.Close(context.Background())
	})
	e, err := First(st)
	return b, string(e.Data), err
}

func refusal(code int, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Length: %d\r\n\r\n%s", code, http.StatusText(code), len(body), body)
}

const rpcError = `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`

// rungs are servers of every kind that a Dialer may find at a URL. Their answers depend
// on the method, and for a POST on the path.
var rungs = []struct {
	name       string
	post, get  string // at the URL; a stream of HTTP+SSE where get is ""
	transport  Transport
	want       string // in the error
	requests   string // made, with those to the endpoint in small letters
	afterwards string // requests of a second session
}{
	{"streamable, json", jsonReply(answer), refusal(405, ""), StreamableHTTP, "", "POST", "POST"},
	{"streamable, events", eventHead + fmt.Sprintf("Content-Length: %d\r\n\r\ndata: %s\n\n", len(answer)+8, answer), refusal(405, ""), StreamableHTTP, "", "POST", "POST"},
	{"old, 404", refusal(404, "Cannot POST /sse"), "", HTTPWithSSE, "", "POST GET post", "GET post"},
	{"old, 405", refusal(405, ""), "", HTTPWithSSE, "", "POST GET post", "GET post"},
	{"old, 400", refusal(400, `{"error":"no session"}`), "", HTTPWithSSE, "", "POST GET post", "GET post"},
	{"old, 400 in JSON-RPC", refusal(400, rpcError), "", HTTPWithSSE, "", "POST GET post", "GET post"},
	{"old, 415", refusal(415, ""), "", HTTPWithSSE, "", "POST GET post", "GET post"},
	{"nothing there", refusal(404, "post"), refusal(404, "get"), Auto, "neither Streamable HTTP (POST: upstream answered 404 Not Found) nor HTTP+SSE (GET: upstream answered 404 Not Found)", "POST GET", "POST GET"},
	{"a web page", refusal(405, ""), "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi", Auto, `(GET: upstream 127.0.0.1`, "POST GET", "POST GET"},
	{"a stream without an endpoint", refusal(400, ""), eventHead + "\r\ndata: {}\n\n", Auto, errNoEndpoint.Error(), "POST GET", "POST GET"},
	{"refusal by JSON-RPC", refusal(406, rpcError), "", Auto, "upstream answered 406", "POST", "POST"},
	{"unauthorized", refusal(401, ""), "", Auto, "upstream answered 401", "POST", "POST"},
	{"forbidden", refusal(403, ""), "", Auto, "upstream answered 403", "POST", "POST"},
	{"wrong host", refusal(421, "Invalid Host header"), "", Auto, "upstream answered 421", "POST", "POST"},
	{"too many", refusal(429, ""), "", Auto, "upstream answered 429", "POST", "POST"},
	{"broken", refusal(500, ""), "", Auto, "upstream answered 500", "POST", "POST"},
	{"stream unauthorized", refusal(405, ""), refusal(401, ""), Auto, "upstream answered 401", "POST GET", "POST GET"},
	{"stream broken", refusal(405, ""), refusal(502, ""), Auto, "upstream answered 502", "POST GET", "POST GET"},
	{"html", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi", "", Auto, `response of type "text/html"`, "POST", "POST"},
}

// recorder notes the requests that a server gets.
type recorder struct {
	mu  sync.Mutex
	got []string
}

func (r *recorder) note(req *http.Request, _ string) {
	method := req.Method
	if strings.HasPrefix(req.RequestURI, "/messages") {
		method = strings.ToLower(method)
	}
	if req.Header.Get("Authorization") != bearer {
		method += " without credentials"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, method)
}

func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := strings.Join(r.got, " ")
	r.got = nil
	return got
}

func TestLadder(t *testing.T) {
	for _, c := range rungs {
		t.Run(c.name, func(t *testing.T) {
			peertest.NoLeaks(t)
			var r recorder
			l := &legacy{endpoint: endpointEvent, requests: r.note}
			l.accept = func(req *http.Request) string {
				if strings.HasPrefix(req.RequestURI, "/messages") {
					l.say <- "data: " + answer + "\n\n"
					return accepted
				}
				return c.post
			}
			if c.get != "" {
				l.joined = func(*http.Request) string { return c.get }
			}
			d := newDialer(t, l.start(t).url(), Auto)
			for _, want := range []string{c.requests, c.afterwards} {
				b, got, err := connect(t, t.Context(), d)
				switch {
				case c.want == "" && (err != nil || got != answer):
					t.Fatalf("answer %q, %v", got, err)
				case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
					t.Errorf("ended with %v, want %s", err, c.want)
				case b != nil && (b.Standing != nil) != (c.transport == HTTPWithSSE):
					t.Errorf("session %+v", b)
				}
				if got := r.take(); got != want {
					t.Errorf("requests %s, want %s", got, want)
				}
				if b != nil {
					gone := l.gone.Load()
					b.Conn.Close(t.Context())
					if b.Standing != nil { // or the server tells the next session's answer on this one's stream
						peertest.Eventually(t, "stream closed", func() bool { return l.gone.Load() > gone })
					}
				}
			}
			if got := d.Transport(); got != c.transport {
				t.Errorf("found %s", got)
			}
		})
	}
}

func TestRefusalOfBothIsThatOfThePost(t *testing.T) {
	l := &legacy{joined: func(*http.Request) string { return refusal(404, "get") }, accept: func(*http.Request) string { return refusal(400, rpcError) }}
	_, _, err := connect(t, t.Context(), newDialer(t, l.start(t).url(), Auto))
	var status *StatusError
	if !errors.As(err, &status) || status.Code != 400 || string(status.Body) != rpcError {
		t.Errorf("ended with %v", err)
	}
}

func TestServerThatChangesItsTransport(t *testing.T) {
	peertest.NoLeaks(t)
	var r recorder
	var mu sync.Mutex
	old := true
	l := &legacy{requests: r.note}
	// It speaks one at a time. A stream is a body with an end here, since only
	// its first event matters.
	l.joined = func(*http.Request) string {
		mu.Lock()
		defer mu.Unlock()
		if old {
			return eventHead + "Content-Length: 1000\r\n\r\n" + endpointEvent + "data: " + answer + "\n\n"
		}
		return refusal(405, "")
	}
	l.accept = func(req *http.Request) string {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasPrefix(req.RequestURI, "/messages"):
			return accepted
		case old:
			return refusal(404, "")
		}
		return jsonReply(answer)
	}
	d := newDialer(t, l.start(t).url(), Auto)
	for _, c := range []struct {
		old  bool
		want string
	}{{true, "POST GET post"}, {true, "GET post"}, {false, "GET POST"}, {false, "POST"}, {true, "POST GET post"}, {true, "GET post"}} {
		mu.Lock()
		old = c.old
		mu.Unlock()
		if _, got, err := connect(t, t.Context(), d); got != answer || err != nil {
			t.Fatalf("answer %q, %v", got, err)
		}
		if got := r.take(); got != c.want {
			t.Errorf("requests %s, want %s", got, c.want)
		}
	}
}

func TestAJSONRPCErrorDoesNotChangeTheTransport(t *testing.T) {
	var r recorder
	replies := []string{jsonReply(answer), refusal(400, rpcError)}
	l := &legacy{requests: r.note}
	l.accept = func(*http.Request) string {
		reply := replies[0]
		replies = replies[1:]
		return reply
	}
	d := newDialer(t, l.start(t).url(), Auto)
	if _, _, err := connect(t, t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if _, _, err := connect(t, t.Context(), d); !isRPC(err) {
		t.Errorf("ended with %v", err)
	}
	if got := r.take(); got != "POST POST" {
		t.Errorf("requests %s", got)
	}
}

// TestLadderIsBoundedInTime: a server that has refused the POST as one of Streamable HTTP does has less time to name an endpoint,
// and the error has both.
func TestLadderIsBoundedInTime(t *testing.T) {
	const (
		both   = "neither Streamable HTTP (POST: upstream answered 400 Bad Request) nor HTTP+SSE (GET: upstream server:80: read: "
		noPost = "neither Streamable HTTP (POST: upstream answered 404 Not Found) nor HTTP+SSE (GET: upstream server:80: read: "
		limit  = 2 * time.Minute
	)
	for _, c := range []struct {
		name, post, get, want string
		wait                  time.Duration // for the endpoint
	}{
		{"silent body of a refusal", "HTTP/1.1 400 Bad Request\r\nContent-Length: 10\r\n\r\n", eventHead + "\r\n", both + "no further data within 3s)", endpointWait},
		{"silent GET", refusal(400, ""), "", both + "no answer within 3s)", endpointWait},
		{"silent stream", refusal(400, ""), eventHead + "\r\n", both + "no further data within 3s)", endpointWait},
		{"comments for ever", refusal(400, ""), eventHead + "\r\n" + strings.Repeat(":\n\n", 100), both + "no further data within 3s)", endpointWait},
		{"silent stream, 404 with a JSON-RPC error", refusal(404, rpcError), eventHead + "\r\n", "no further data within 3s)", endpointWait},
		{"silent stream at a URL that takes no POST", refusal(404, ""), eventHead + "\r\n", noPost + "no further data within 2m0s)", limit},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDialer(t, "http://server", Auto)
				d.limit = limit
				var gets atomic.Int32
				inMemory(t, d.http, func(nc net.Conn, in *bufio.Reader) {
					for {
						r, ok := take(in)
						if !ok {
							return
						}
						reply := c.post
						if r.Method == "GET" {
							reply = c.get
							gets.Add(1)
						}
						if reply != "" {
							io.WriteString(nc, reply)
						}
					}
				})
				most := (c.wait + errorBodyTime) * 9 / 8 // a limit may be an eighth late
				began := time.Now()
				_, _, err := connect(t, t.Context(), d)
				if err == nil || !strings.Contains(err.Error(), c.want) || time.Since(began) > most {
					t.Errorf("ended with %v after %v", err, time.Since(began))
				}
				if _, refused := errors.AsType[*StatusError](err); !refused {
					t.Errorf("%v is not the refusal", err)
				}
				began = time.Now()
				_, _, err = connect(t, t.Context(), d) // another revision is proposed
				if err == nil || !strings.Contains(err.Error(), c.want) || time.Since(began) > most-c.wait || gets.Load() != 1 {
					t.Errorf("then ended with %v after %v and %d requests for a stream", err, time.Since(began), gets.Load())
				}
				pause := endpointPause
				if c.wait == limit {
					pause = startPause
				}
				time.Sleep(pause)
				if connect(t, t.Context(), d); gets.Load() != 2 {
					t.Errorf("later %d requests for a stream", gets.Load())
				}
			})
		})
	}
}

// TestAPOSTMayBeAnsweredLate: a server that has just been started may take as long as its client's limit lets it, and no longer,
// whether or not its transport is known.
func TestAPOSTMayBeAnsweredLate(t *testing.T) {
	const limit = time.Minute
	for _, transport := range []Transport{Auto, StreamableHTTP} {
		for _, late := range []time.Duration{limit - time.Second, limit + time.Second} {
			synctest.Test(t, func(t *testing.T) {
				d := newDialer(t, "http://server", transport)
				d.limit = ladderTime
				inMemory(t, d.http, func(nc net.Conn, in *bufio.Reader) {
					if r, ok := take(in); ok && r.Method == "POST" {
						time.Sleep(late)
						io.WriteString(nc, jsonReply(rpcError))
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				_, answer, err := connect(t, ctx, d)
				if late < limit && answer != rpcError {
					t.Errorf("%s, after %v: %q, %v", transport, late, answer, err)
				}
				if late > limit && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s, after %v: %q, %v", transport, late, answer, err)
				}
			})
		}
	}
}

// TestAServerMayNameItsEndpointLate: as one that is started by the request, if its URL takes no POST.
func TestAServerMayNameItsEndpointLate(t *testing.T) {
	for _, code := range []int{404, 405} {
		synctest.Test(t, func(t *testing.T) {
			d := newDialer(t, "http://server", Auto)
			d.limit = ladderTime
			inMemory(t, d.http, func(nc net.Conn, in *bufio.Reader) {
				for {
					r, ok := take(in)
					switch {
					case !ok:
						return
					case r.Method == "POST" && r.URL.Path == "/messages":
						io.WriteString(nc, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
					case r.Method == "POST":
						io.WriteString(nc, refusal(code, "Cannot POST /"))
					default:
						io.WriteString(nc, eventHead+"\r\n")
						time.Sleep(ladderTime - time.Second)
						io.WriteString(nc, "event: endpoint\ndata: /messages\n\n")
					}
				}
			})
			began, err := d.Connect(t.Context(), &Outgoing{Body: []byte(initialize)})
			if err != nil {
				t.Fatalf("%d: %v", code, err)
			}
			began.Standing.Close()
			began.Conn.Close(t.Context())
		})
	}
}

// TestServerThatHasNothingAtItsURLAnyMore: both ways are tried, and the error has what each of them got.
func TestServerThatHasNothingAtItsURLAnyMore(t *testing.T) {
	peertest.NoLeaks(t)
	for _, known := range []Transport{Auto, HTTPWithSSE} {
		d := newDialer(t, serve(t, always(refusal(404, ""))).url(), Auto)
		if known != Auto {
			d.found.Store(known)
		}
		_, _, err := connect(t, t.Context(), d)
		if e, ok := errors.AsType[*TransportError](err); !ok || strings.Count(e.Error(), "404 Not Found") != 2 {
			t.Errorf("%s: %v", known, err)
		}
	}
}

func TestConnectIsCancelled(t *testing.T) {
	for name, reply := range map[string]string{"POST": "", "GET": refusal(404, ""), "endpoint": refusal(405, "")} {
		t.Run(name, func(t *testing.T) {
			peertest.NoLeaks(t)
			reached := make(chan struct{}, 1)
			s := serve(t, func(nc net.Conn, in *bufio.Reader) {
				for {
					r, ok := take(in)
					if !ok {
						return
					}
					switch {
					case r.Method == "POST" && reply != "":
						io.WriteString(nc, reply)
						continue
					case name == "endpoint":
						io.WriteString(nc, eventHead+"\r\n")
					}
					reached <- struct{}{}
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { <-reached; cancel() }()
			if _, _, err := connect(t, ctx, newDialer(t, s.url(), Auto)); err != context.Canceled {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

func TestStandingStreamOutlivesConnect(t *testing.T) {
	peertest.NoLeaks(t)
	l := &legacy{endpoint: endpointEvent}
	l.accept = func(*http.Request) string { l.say <- "data: " + answer + "\n\n"; return accepted }
	d := newDialer(t, l.start(t).url(), HTTPWithSSE)
	child := role("echo")
	for name, c := range map[string]connector{"sse": d, "stdio": child} {
		ctx, cancel := context.WithCancel(t.Context())
		b, got, err := connect(t, ctx, c)
		if err != nil || got == "" {
			t.Fatalf("%s: %q, %v", name, got, err)
		}
		cancel()
		if _, err := b.Conn.Send(t.Context(), &Outgoing{Body: []byte(answer)}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantNext(t, b.Standing, answer)
		b.Conn.Close(t.Context())
	}
}

func TestFixedTransportIsNotGuessed(t *testing.T) {
	var r recorder
	l := &legacy{endpoint: endpointEvent, requests: r.note, accept: func(*http.Request) string { return refusal(404, "") }}
	l.start(t)
	if _, _, err := connect(t, t.Context(), newDialer(t, l.url(), StreamableHTTP)); err == nil {
		t.Error("no error")
	}
	if _, _, err := connect(t, t.Context(), newDialer(t, l.url(), HTTPWithSSE)); err == nil {
		t.Error("no error")
	}
	if got := r.take(); got != "POST GET post" {
		t.Errorf("requests %s", got)
	}
	peertest.Eventually(t, "stream closed", func() bool { return l.gone.Load() == 1 })
	if _, err := NewDialer(HTTPConfig{URL: l.url()}, "stdio"); err == nil {
		t.Error("stdio at a URL")
	}
}

func TestConnectToAChildThatFails(t *testing.T) {
	peertest.NoLeaks(t)
	deaf := role("does not read")
	deaf.CloseGrace = time.Millisecond
	for _, s := range []Stdio{{Command: []string{"dragoman-no-such-program"}}, deaf} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := s.Connect(ctx, &Outgoing{Body: []byte(strings.Repeat("x", 4<<20)), Request: true, FirstByte: 20 * time.Millisecond})
		cancel()
		if err == nil {
			t.Error("no error")
		}
	}
}
