package downstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

func TestRequestReachesHandler(t *testing.T) {
	type seen struct{ method, body, session, version, last, other, missing string }
	got := make(chan seen, 1)
	note := func(method string) func(*Request, *Response) {
		return func(q *Request, r *Response) {
			got <- seen{method, string(q.Body), q.Session, q.Version, q.LastEventID, q.Header("x-other"), q.Header("X-Missing")}
			r.Status = http.StatusAccepted
			r.Header = []mcp.Header{{Name: "Mcp-Session-Id", Value: "new"}, {Name: "WWW-Authenticate", Value: "a"}, {Name: "WWW-Authenticate", Value: "b"}}
		}
	}
	s := start(t, fakeHandler{note("POST"), note("GET"), note("DELETE")}, HTTPConfig{})
	headers := "mcp-session-id: s1\r\nMCP-Protocol-Version: 2025-06-18\r\nLast-Event-ID: 7\r\nX-Other: o\r\n"
	for _, c := range []struct {
		name, request string
		want          seen
	}{
		{"post", postHead + headers + "Content-Length: 2\r\n\r\n{}", seen{"POST", "{}", "s1", "2025-06-18", "", "o", ""}},
		{"chunked post", postHead + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", seen{method: "POST", body: "{}"}},
		{"get", getHead + headers + "\r\n", seen{"GET", "", "s1", "2025-06-18", "7", "o", ""}},
		{"delete", "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n", seen{"DELETE", "", "s1", "2025-06-18", "", "o", ""}},
		{"expect", postHead + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", seen{method: "POST", body: "{}"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			nc := dial(t, s.addr)
			if _, err := io.WriteString(nc, c.request); err != nil {
				t.Fatal(err)
			}
			br := bufio.NewReader(nc)
			res, body := answer(t, br, c.request)
			if res.StatusCode == http.StatusContinue {
				res, body = answer(t, br, c.request)
			}
			if g := recv(t, got, "the request"); g != c.want {
				t.Errorf("handler saw %+v\nwant        %+v", g, c.want)
			}
			if res.StatusCode != http.StatusAccepted || body != "" || res.ContentLength != 0 || res.Header.Get("Content-Type") != "" {
				t.Errorf("got %v, body %q", res, body)
			}
			if res.Header.Get("Mcp-Session-Id") != "new" || len(res.Header["Www-Authenticate"]) != 2 {
				t.Errorf("headers %v", res.Header)
			}
		})
	}
}

func TestBodiesOfEverySizeArriveWhole(t *testing.T) {
	for name, cfg := range map[string]HTTPConfig{"": {}, "over TLS": {TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}}} {
		t.Run(name, func(t *testing.T) {
			var want []byte
			done := make(chan struct{}, 1)
			s := start(t, fakeHandler{post: func(q *Request, r *Response) {
				r.Body, r.Done = want, func() { done <- struct{}{} }
			}}, cfg)
			nc := dial(t, s.addr)
			if cfg.TLS != nil {
				nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
			}
			br := bufio.NewReader(nc)
			for _, n := range []int{1, copied, copied + 1, 4000, 4096, 5000, gathered, gathered + 1, piece, piece + 1, 3*piece + 5, 5 << 20} {
				want = bytes.Repeat([]byte{byte('a' + n%26)}, n)
				if _, err := io.WriteString(nc, post("{}")); err != nil {
					t.Fatal(err)
				}
				res, body := answer(t, br, "POST")
				if body != string(want) || res.Header.Get("Content-Type") != "application/json" || res.ContentLength != int64(n) {
					t.Fatalf("%d bytes: got %d, %v", n, len(body), res.Header)
				}
				recv(t, done, "Done")
			}
		})
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	held := make(chan struct{})
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		if string(q.Body) == "2" {
			<-held // until the first answer has come
		}
		echo(q, r)
	}}, HTTPConfig{})
	nc := dial(t, s.addr)
	if _, err := io.WriteString(nc, post("1")+post("2")+post("3")); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(nc)
	for _, want := range []string{"1", "2", "3"} {
		if _, body := answer(t, br, "POST"); body != want {
			t.Errorf("got %q, want %q", body, want)
		}
		if want == "1" {
			close(held)
		}
	}
}

// TestPipelinedEventsComeInOrder: the transport itself writes the events of a response, and fasthttp the responses
// before and after it.
func TestPipelinedEventsComeInOrder(t *testing.T) {
	const nowhere = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		if len(q.Body) > 1 {
			echo(q, r)
			return
		}
		for _, data := range []string{"1", "2"} {
			if err := q.Client.Send(sse.Event{Data: []byte(data)}); err != nil {
				t.Error(err)
			}
		}
		r.Body = []byte("3")
	}}, HTTPConfig{})
	nc := dial(t, s.addr)
	if _, err := io.WriteString(nc, nowhere+post("x")+post("whole")+post("y")+nowhere+post("end")); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(nc)
	const events = "event: message\ndata: 1\n\nevent: message\ndata: 2\n\nevent: message\ndata: 3\n\n"
	for i, want := range []string{"no such path", events, "whole", events, "no such path", "end"} {
		if _, body := answer(t, br, "POST"); !strings.Contains(body, want) {
			t.Errorf("response %d is %q, want %q", i, body, want)
		}
	}

	// fasthttp holds back a response without a body, which events must not overtake.
	nc = dial(t, s.addr)
	if _, err := io.WriteString(nc, strings.Replace(nowhere, "GET", "HEAD", 1)+post("x")); err != nil {
		t.Fatal(err)
	}
	br = bufio.NewReader(nc)
	if res, _ := answer(t, br, "HEAD"); res.StatusCode != 404 {
		t.Errorf("status %d", res.StatusCode)
	}
	if res, _ := answer(t, br, "POST"); res.StatusCode != 503 || !res.Close {
		t.Errorf("status %d, close %v", res.StatusCode, res.Close)
	}
}

func TestPanicsStayInTheirRequest(t *testing.T) {
	var done atomic.Int32
	finish := func() { done.Add(1) }
	for _, c := range []struct {
		name   string
		post   func(*Request, *Response)
		status int // 0: the answer is cut off
	}{
		{"handler", func(q *Request, r *Response) { r.Done = finish; panic("no") }, 500},
		{"done", func(q *Request, r *Response) { r.Done = func() { finish(); panic("no") }; echo(q, r) }, 200},
		{"handler with events", func(q *Request, r *Response) {
			r.Done = finish
			if err := q.Client.Send(sse.Event{Data: []byte("x")}); err != nil {
				t.Error(err)
			}
			panic("no")
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			done.Store(0)
			post1 := atomic.Bool{}
			s := start(t, fakeHandler{post: func(q *Request, r *Response) {
				if post1.Swap(true) {
					echo(q, r)
					return
				}
				c.post(q, r)
			}}, HTTPConfig{})
			nc := dial(t, s.addr)
			_, _ = io.WriteString(nc, post("{}"))
			res, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if c.status == 0 {
				if err == nil {
					_, err = io.ReadAll(res.Body)
				}
				if err == nil {
					t.Error("the answer looks whole")
				}
			} else if err != nil || res.StatusCode != c.status {
				t.Errorf("got %v, %v", res, err)
			} else {
				_, _ = io.ReadAll(res.Body)
			}
			_ = nc.Close()
			if res, _ := ask(t, s.addr, post("{}")); res.StatusCode != 200 {
				t.Errorf("next request: %d", res.StatusCode)
			}
			_ = s.Shutdown(context.Background())
			if done.Load() != 1 {
				t.Errorf("Done was called %d times", done.Load())
			}
			if !strings.Contains(s.logs.String(), "panic: no") {
				t.Errorf("log: %s", &s.logs)
			}
		})
	}
}

func TestTooManyConnections(t *testing.T) {
	s := start(t, fakeHandler{get: func(q *Request, r *Response) { stream(newEvents(), q, r) }}, HTTPConfig{MaxConns: 1})
	listen(t, s, getHead+"\r\n")
	res, body := ask(t, s.addr, "")
	if res.StatusCode != 503 || !json.Valid([]byte(body)) || res.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %q", res.StatusCode, body)
	}
}

func TestShutdownClosesIdleConnectionsAndWaitsForTheRest(t *testing.T) {
	inside, goOn := make(chan struct{}), make(chan struct{})
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		if string(q.Body) == "wait" {
			close(inside)
			<-goOn
		}
		echo(q, r)
	}}, HTTPConfig{})
	fresh, idle, busy := dial(t, s.addr), dial(t, s.addr), dial(t, s.addr)
	_, _ = io.WriteString(idle, post("{}"))
	answer(t, bufio.NewReader(idle), "POST")
	_, _ = io.WriteString(busy, post("wait"))
	recv(t, inside, "the request")

	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	for name, nc := range map[string]net.Conn{"fresh": fresh, "idle": idle} {
		if n, err := nc.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s connection is open: read %d bytes", name, n)
		}
	}
	// A client may need a new connection to end what is under way.
	later := dial(t, s.addr)
	_, _ = io.WriteString(later, post("{}"))
	if res, _ := answer(t, bufio.NewReader(later), "POST"); res.StatusCode != 200 || !res.Close {
		t.Errorf("a new connection: %d %v", res.StatusCode, res.Header)
	}
	if res, body := ask(t, s.addr, sseHead+"\r\n"); res.StatusCode != 404 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	silent, half := dial(t, s.addr), dial(t, s.addr)
	_, _ = io.WriteString(half, post("{}")[:10])
	select {
	case err := <-done:
		t.Fatalf("Shutdown did not wait: %v", err)
	default:
	}
	close(goOn)
	if _, body := answer(t, bufio.NewReader(busy), "POST"); body != "wait" {
		t.Errorf("got %q", body)
	}
	if err := recv(t, done, "Shutdown"); err != nil { // new connections without a whole request do not delay it
		t.Error(err)
	}
	for name, nc := range map[string]net.Conn{"silent": silent, "half a request": half} {
		if n, err := nc.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: read %d bytes", name, n)
		}
	}
	if !s.isClosed() || len(s.listeners) > 0 {
		t.Error("connections are accepted after the shutdown")
	}
}

// TestShutdownAcceptsConnectionsWhileSomethingIsHeld, within its time.
func TestShutdownAcceptsConnectionsWhileSomethingIsHeld(t *testing.T) {
	for _, c := range []struct {
		name string
		late bool // the time ends first
	}{{name: "until it is fetched"}, {name: "until the time is over", late: true}} {
		t.Run(c.name, func(t *testing.T) {
			waits, fetched := make(chan struct{}), make(chan struct{})
			s := start(t, fakeHandler{post: func(q *Request, r *Response) {
				if string(q.Body) == "fetch" {
					close(fetched)
				}
				echo(q, r)
			}}, HTTPConfig{Held: func(ctx context.Context) {
				close(waits)
				select {
				case <-fetched:
				case <-ctx.Done():
				}
			}})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			done := make(chan error, 1)
			ask(t, s.addr, post("{}")) // it serves
			go func() { done <- s.Shutdown(ctx) }()
			recv(t, waits, "the shutdown")
			if res, _ := ask(t, s.addr, post("{}")); res.StatusCode != 200 || !res.Close {
				t.Errorf("%d %v", res.StatusCode, res.Header)
			}
			var want error
			if c.late {
				cancel()
				want = context.Canceled
			} else if _, body := ask(t, s.addr, post("fetch")); body != "fetch" {
				t.Errorf("got %s", body)
			}
			if err := recv(t, done, "Shutdown"); !errors.Is(err, want) {
				t.Errorf("err = %v", err)
			}
			if !s.isClosed() || len(s.listeners) > 0 {
				t.Error("connections are accepted after the shutdown")
			}
		})
	}
}

func TestShutdownCutsWhatDoesNotEnd(t *testing.T) {
	inside := make(chan struct{}, 2)
	causes := make(chan error, 1)
	events := newEvents()
	s := start(t, fakeHandler{
		post: func(q *Request, r *Response) {
			inside <- struct{}{}
			<-q.Ctx.Done()
			causes <- context.Cause(q.Ctx)
		},
		get: func(q *Request, r *Response) { inside <- struct{}{}; stream(events, q, r) },
	}, HTTPConfig{})
	_, _ = io.WriteString(dial(t, s.addr), post("{}"))
	_, _ = io.WriteString(dial(t, s.addr), getHead+"\r\n")
	recv(t, inside, "a request")
	recv(t, inside, "a request")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if err := recv(t, causes, "the handler"); !errors.Is(err, ErrStopped) {
		t.Errorf("cause = %v", err)
	}
	if events.closed.Load() == 0 {
		t.Error("the stream is open")
	}
}

// brokenListener fails a few times before it accepts.
type brokenListener struct {
	net.Listener
	failures atomic.Int32
}

type shortage struct{}

func (shortage) Error() string   { return "too many open files" }
func (shortage) Timeout() bool   { return false }
func (shortage) Temporary() bool { return true }

func (b *brokenListener) Accept() (net.Conn, error) {
	if b.failures.Add(-1) >= 0 {
		return nil, shortage{}
	}
	return b.Listener.Accept()
}

func TestServeGoesOnAfterFailedAccepts(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{}, func(ln net.Listener) net.Listener {
		b := &brokenListener{Listener: ln}
		b.failures.Store(3)
		return b
	})
	if res, _ := ask(t, s.addr, post("{}")); res.StatusCode != 200 {
		t.Errorf("status %d", res.StatusCode)
	}
	if !strings.Contains(s.logs.String(), "too many open files") {
		t.Errorf("log: %s", &s.logs)
	}
}

// TestHeadersOfEachRequestAreItsOwn, although a connection keeps their values.
func TestHeadersOfEachRequestAreItsOwn(t *testing.T) {
	var got []string
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		got = nil
		for i := range 2 * maxOthers {
			got = append(got, q.Header(fmt.Sprintf("Mcp-Param-%d", i)))
		}
		q.Headers("Mcp-", func(name, value string) { got = append(got, name+"="+value) })
		r.Body = []byte("{}")
	}}, HTTPConfig{})
	nc := dial(t, s.addr)
	br := bufio.NewReader(nc)
	for round := range 4 {
		var header strings.Builder
		var want, all []string
		for i := range 2 * maxOthers {
			value := strings.Repeat("v", (round*7+i)%5)
			if round == 2 && i%3 == 0 {
				want = append(want, "")
				continue
			}
			fmt.Fprintf(&header, "Mcp-Param-%d: %s\r\n", i, value)
			want, all = append(want, value), append(all, fmt.Sprintf("Mcp-Param-%d=%s", i, value))
		}
		if _, err := io.WriteString(nc, strings.Replace(post("{}"), "Accept:", header.String()+"Accept:", 1)); err != nil {
			t.Fatal(err)
		}
		answer(t, br, "POST")
		if want = append(want, all...); !slices.Equal(got, want) {
			t.Errorf("round %d: got %q, want %q", round, got, want)
		}
	}
}

// TestLastRequestOfAConnection: a client that says "close" in any of the ways of a list gets no response behind the first one.
func TestLastRequestOfAConnection(t *testing.T) {
	s := start(t, fakeHandler{post: func(q *Request, r *Response) {
		if string(q.Body) == "[]" {
			_ = q.Client.Send(sse.Event{Data: []byte("1")})
		}
		echo(q, r)
	}}, HTTPConfig{})
	for lines, closes := range map[string]bool{
		"Connection: close": true, "connection: Close": true, "Connection: TE, close": true, "Connection: close ,TE": true, "Connection: close\r\nConnection: TE": true,
		"Connection: TE\r\nConnection: x,CLOSE": true, "Connection: keep-alive": false, "Connection: closed": false, "Connection: TE": false, "X: close": false,
	} {
		for _, body := range []string{"{}", "[]"} {
			nc := dial(t, s.addr)
			last := strings.Replace(post(body), "Accept:", lines+"\r\nAccept:", 1)
			_, _ = io.WriteString(nc, post("{}")+last+post("{}"))
			br := bufio.NewReader(nc)
			answer(t, br, "POST")
			res, _ := answer(t, br, "POST")
			_, err := br.Peek(1)
			if res.StatusCode != http.StatusOK || res.Close != closes || (err != nil) != closes {
				t.Errorf("%q, %s: %d, closes %v, then %v", lines, body, res.StatusCode, res.Close, err)
			}
		}
	}
}
