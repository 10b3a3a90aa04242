package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// legacy is a server of HTTP+SSE whose every answer a test chooses.
type legacy struct {
	*server
	endpoint string                          // the first event; "" for none
	say      chan string                     // what comes on the stream next; closing it ends the stream
	accept   func(r *http.Request) string    // the response to a POST
	joined   func(r *http.Request) string    // the response to a GET; nil for a stream
	requests func(r *http.Request, s string) // called with each request and its body
}

const accepted = "HTTP/1.1 202 Accepted\r\nContent-Length: 8\r\n\r\nAccepted"

func (l *legacy) start(t *testing.T) *legacy {
	t.Helper()
	l.server = new(server)
	if l.say == nil {
		l.say = make(chan string, 10)
	}
	l.server.start(t, l.handle)
	return l
}

func (l *legacy) handle(c net.Conn, in *bufio.Reader) {
	for {
		r, ok := take(in)
		if !ok {
			return
		}
		body, _ := io.ReadAll(r.Body)
		if l.requests != nil {
			l.requests(r, string(body))
		}
		switch {
		case r.Method != "GET":
			reply := accepted
			if l.accept != nil {
				reply = l.accept(r)
			}
			if _, err := io.WriteString(c, reply); err != nil || reply == "" {
				return
			}
			continue
		case l.joined != nil:
			if _, err := io.WriteString(c, l.joined(r)); err != nil {
				return
			}
			continue
		}
		io.WriteString(c, eventHead+"\r\n"+l.endpoint)
		left := make(chan struct{})
		go func() {
			in.ReadByte()
			close(left)
		}()
		defer l.gone.Add(1) // not before this goroutine takes no more of what is to be said
		for {
			select {
			case e, ok := <-l.say:
				if !ok {
					c.Close()
					<-left
					return
				}
				io.WriteString(c, e)
			case <-left:
				return
			}
		}
	}
}

func (l *legacy) url() string { return "http://" + l.address + "/sse?key=1" }

const endpointEvent = "event: endpoint\ndata: /messages?session=s3cr3t\n\n"

func joinSSE(t *testing.T, l *legacy) (*SSESession, Stream) {
	t.Helper()
	s := newHTTP(t, HTTPConfig{URL: l.url()}).SSESession()
	st, err := s.Listen(t.Context(), ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s, st
}

func TestSSEMessagesGoToTheEndpoint(t *testing.T) {
	peertest.NoLeaks(t)
	type seen struct{ method, target, auth, fixed, accept, body string }
	var mu sync.Mutex
	var got []seen
	l := (&legacy{endpoint: endpointEvent, requests: func(r *http.Request, body string) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, seen{r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("X-Key"), r.Header.Get("Accept"), body})
	}}).start(t)
	h := newHTTP(t, HTTPConfig{URL: l.url(), Header: []mcp.Header{{Name: "X-Key", Value: "k"}}})
	s := h.SSESession()
	defer s.Close(t.Context())
	if _, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping)}); !errors.Is(err, errNotJoined) {
		t.Errorf("sent before Listen: %v", err)
	}
	st, err := s.Listen(t.Context(), ListenOptions{Header: []mcp.Header{{Name: "Authorization", Value: bearer}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(t.Context(), ListenOptions{}); !errors.Is(err, errJoined) {
		t.Errorf("listened twice: %v", err)
	}
	stream, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true, Header: []mcp.Header{{Name: "Authorization", Value: "Bearer 2"}}})
	if stream != nil || err != nil {
		t.Fatal(stream, err)
	}
	l.say <- "event: message\ndata: " + answer + "\n\n: heartbeat\n\nevent: endpoint\ndata: /elsewhere\n\nevent: ping\ndata: {}\n\nid: 3\n\ndata: {\"a\":\ndata: 1}\n\n"
	wantNext(t, st, answer)
	wantNext(t, st, "{\"a\":\n1}")
	want := []seen{
		{"GET", "/sse?key=1", bearer, "k", "text/event-stream", ""},
		{"POST", "/messages?session=s3cr3t", "Bearer 2", "k", "application/json, text/event-stream", ping},
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("requests\n%q, want\n%q", got, want)
	}
}

func TestSSEAnswerInTheBodyOfAPost(t *testing.T) {
	peertest.NoLeaks(t)
	replies := make(chan string, 1)
	l := (&legacy{endpoint: endpointEvent, accept: func(*http.Request) string { return <-replies }}).start(t)
	s, st := joinSSE(t, l)
	for _, c := range []struct{ reply, heard string }{
		{jsonReply(answer), answer},
		{jsonReply("[" + answer + "]"), "[" + answer + "]"},
		{"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(answer), answer), answer},
		{jsonReply(`{"ok":true}`), ""},
		{jsonReply(`nonsense`), ""},
		{jsonReply(""), ""},
		{jsonHead + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""},
		{"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok", ""},
		{"HTTP/1.1 204 No Content\r\n\r\n", ""},
		{accepted, ""},
	} {
		replies <- c.reply
		if _, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true}); err != nil {
			t.Errorf("%q: %v", c.reply, err)
		}
		if c.heard != "" {
			wantNext(t, st, c.heard)
		}
	}
	l.say <- "data: {}\n\n"
	wantNext(t, st, "{}") // and nothing came before it
}

func TestSSEBrokenAnswerToAPost(t *testing.T) {
	peertest.NoLeaks(t)
	l := (&legacy{endpoint: endpointEvent, accept: func(*http.Request) string { return jsonHead + "Transfer-Encoding: chunked\r\n\r\nx\r\n" }}).start(t)
	s, st := joinSSE(t, l)
	_, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true})
	if e, ok := errors.AsType[*Error](err); !ok || e.Op != "read" {
		t.Errorf("sent with %v", err)
	}
	l.say <- "data: {}\n\n"
	wantNext(t, st, "{}") // it does not end the session
}

func TestSSEPostRefused(t *testing.T) {
	peertest.NoLeaks(t)
	l := (&legacy{endpoint: endpointEvent, accept: func(*http.Request) string {
		return "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno"
	}}).start(t)
	s, st := joinSSE(t, l)
	_, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping)})
	var status *StatusError
	if !errors.As(err, &status) || status.Code != 404 || string(status.Body) != "no" {
		t.Errorf("sent with %v", err)
	}
	l.say <- "data: {}\n\n"
	wantNext(t, st, "{}") // one refusal does not end the session
}

func TestSSEEndpointIsResolved(t *testing.T) {
	for _, c := range []struct{ base, address, want string }{
		{"http://a.example/sse", "/messages?id=1", "/messages?id=1"},
		{"http://a.example/mcp/sse?x=y", "messages/?id=1", "/mcp/messages/?id=1"},
		{"http://a.example/mcp/sse", "../post", "/post"},
		{"http://a.example/sse", "?id=1", "/sse?id=1"},
		{"http://a.example/sse", "http://a.example:80/m", "/m"},
		{"http://A.example:80/sse", "//a.example/m", "/m"},
		{"https://a.example/sse", "https://a.example:443/m#part", "/m"},
		{"http://[::1]:8080/sse", "http://[::1]:8080/m", "/m"},
		{"http://a.example/sse", "https://a.example/m", errOrigin.Error()},
		{"http://a.example/sse", "http://b.example/m", errOrigin.Error()},
		{"http://a.example/sse", "//b.example/m", errOrigin.Error()},
		{"http://a.example/sse", "http://a.example:81/m", errOrigin.Error()},
		{"http://a.example/sse", "http://u:p@a.example/m", errOrigin.Error()},
		{"http://a.example/sse", "file:///etc/passwd", errOrigin.Error()},
		{"http://a.example/sse", "http:m", errOrigin.Error()},
		{"http://a.example/sse", "", errEndpoint.Error()},
		{"http://a.example/sse", "/m?a b", errEndpoint.Error()},
		{"http://a.example/sse", "/m\nX: y", errEndpoint.Error()},
		{"http://a.example/sse", "http://a.example:x/m", errEndpoint.Error()},
		{"http://a.example/sse", "/" + strings.Repeat("m", maxEndpoint), errEndpoint.Error()},
	} {
		base, err := url.Parse(c.base)
		if err != nil {
			t.Fatal(err)
		}
		got, err := resolve(base, []byte(c.address))
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s with %.100s: %q, want %q", c.base, c.address, got, c.want)
		}
	}
}

// TestSSEWhatComesBeforeTheEndpoint: a reconnection time, a comment or an event of another type may come first, as for the clients
// of a browser.
func TestSSEWhatComesBeforeTheEndpoint(t *testing.T) {
	for _, first := range []string{
		"retry: 3000\n\n", ": welcome\n\n", "\n\n", "data:\n\n", "event: ping\ndata: 2024-11-05\n\n", "\xef\xbb\xbfevent: open\r\nid: 1\r\ndata\r\n\r\n",
		"retry: 1\n\nevent: ping\ndata: {}\n\nretry: 2\n\n",
	} {
		l := (&legacy{endpoint: first + endpointEvent}).start(t)
		s, st := joinSSE(t, l)
		if _, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true}); err != nil {
			t.Errorf("%q: %v", first, err)
		}
		l.say <- "data: " + answer + "\n\n"
		wantNext(t, st, answer)
	}
}

func TestInvalidSSEStreamsAreRefused(t *testing.T) {
	peertest.NoLeaks(t)
	for _, c := range []struct{ name, reply, want string }{
		{"refused", "HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n", "upstream answered 405"},
		{"unauthorized", "HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n", "upstream answered 401"},
		{"html", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi", `response of type "text/html"`},
		{"another first event", eventHead + "\r\ndata: {}\n\n", errNoEndpoint.Error()},
		{"the first event of a stream that can be resumed", eventHead + "\r\nid: 1\ndata: \n\n", errNoEndpoint.Error()},
		{"a message behind an event of another type", eventHead + "\r\nevent: ping\ndata: 1\n\nevent: message\ndata: {}\n\n" + endpointEvent, errNoEndpoint.Error()},
		{"only events of other types", eventHead + "Content-Length: 21\r\n\r\nevent: ping\ndata: 1\n\n", errNoEndpoint.Error()},
		{"no event", eventHead + "Content-Length: 0\r\n\r\n", errNoEndpoint.Error()},
		{"cut event", eventHead + "Content-Length: 15\r\n\r\nevent: endpoint\r\n", errNoEndpoint.Error()},
		{"another origin", eventHead + "\r\nevent: endpoint\ndata: http://127.0.0.2/s3cr3t\n\n", errOrigin.Error()},
		{"malformed", eventHead + "\r\nevent: endpoint\ndata: http://s3cr3t:s3cr3t/\n\n", errEndpoint.Error()},
		{"silent head", "", "no answer within"},
		{"silent stream", eventHead + "\r\n: hi\n\n", "no further data within"},
	} {
		t.Run(c.name, func(t *testing.T) {
			peertest.NoLeaks(t)
			srv := serveSilent(t, c.reply)
			begin := patience
			if strings.HasPrefix(c.name, "silent") {
				begin = 100 * time.Millisecond
			}
			peertest.Within(t, begin, func(limit time.Duration) error { // what the server says comes within it
				s := newHTTP(t, HTTPConfig{URL: srv.url(), EndpointTimeout: limit}).SSESession()
				st, err := s.Listen(t.Context(), ListenOptions{Header: []mcp.Header{{Name: "Authorization", Value: bearer}}})
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if st != nil || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cr3t") {
					return fmt.Errorf("%v, %w, want %s", st, err, c.want)
				}
				return nil
			})
		})
	}
}

func TestSSEIsLostWithItsStream(t *testing.T) {
	peertest.NoLeaks(t)
	for name, last := range map[string]string{"between events": "", "within one": "data: {"} {
		t.Run(name, func(t *testing.T) {
			l := (&legacy{endpoint: endpointEvent, accept: func(*http.Request) string { return jsonReply(answer) }}).start(t)
			s, st := joinSSE(t, l)
			if _, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true}); err != nil {
				t.Fatal(err)
			}
			l.say <- last
			close(l.say)
			peertest.Eventually(t, "end noticed", func() bool { return s.feed.over() != nil })
			_, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping)})
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, ErrLost) {
				t.Errorf("sent with %v", err)
			}
			wantNext(t, st, answer) // it came before the end
			for range 2 {
				if _, err := First(st); !errors.Is(err, ErrLost) {
					t.Errorf("ended with %v", err)
				}
			}
		})
	}
}

func TestSSEPostEndsWithTheStream(t *testing.T) {
	peertest.NoLeaks(t)
	posted := make(chan struct{})
	hold := make(chan struct{})
	defer close(hold)
	l := (&legacy{endpoint: endpointEvent, accept: func(*http.Request) string { close(posted); <-hold; return "" }}).start(t)
	s, _ := joinSSE(t, l)
	sent := make(chan error, 1)
	go func() {
		_, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true})
		sent <- err
	}()
	<-posted
	close(l.say)
	select {
	case err := <-sent:
		if !errors.Is(err, ErrLost) {
			t.Errorf("sent with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Send waits for ever")
	}
}

func TestSSEStreamsCanBeClosed(t *testing.T) {
	for _, how := range []string{"stream", "session", "context", "server"} {
		for _, where := range []string{"in Next", "with a message lent", "with one to be heard"} {
			t.Run(how+" "+where, func(t *testing.T) {
				peertest.NoLeaks(t)
				l := (&legacy{endpoint: endpointEvent}).start(t)
				h := newHTTP(t, HTTPConfig{URL: l.url()})
				s := h.SSESession()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				st, err := s.Listen(ctx, ListenOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if where != "in Next" {
					l.say <- "data: 1\n\n"
					wantNext(t, st, "1")
				}
				if where == "with one to be heard" {
					l.say <- "data: 2\n\ndata: 3\n\n"
					wantNext(t, st, "2")
				}
				ended := make(chan error, 1)
				if where == "in Next" {
					go func() { _, err := First(st); ended <- err }()
				}
				want := ErrClosed
				switch how {
				case "stream":
					st.Close()
					st.Close()
				case "session":
					s.Close(t.Context())
				case "context":
					cancel()
					want = context.Canceled
				case "server":
					h.Close()
				}
				if where != "in Next" {
					go func() {
						for {
							if _, err := First(st); err != nil {
								ended <- err
								return
							}
						}
					}()
				}
				select {
				case err := <-ended:
					if err != want {
						t.Errorf("ended with %v", err)
					}
				case <-time.After(patience):
					t.Fatal("Next did not return")
				}
				peertest.Eventually(t, "connection closed", func() bool { return l.gone.Load() == 1 })
				if _, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping)}); err != want {
					t.Errorf("sent with %v", err)
				}
				st.Close()
			})
		}
	}
}

func TestSSEMessagesOfManySenders(t *testing.T) {
	peertest.NoLeaks(t)
	var n atomic.Int32
	l := &legacy{endpoint: endpointEvent, say: make(chan string, 100)}
	l.accept = func(*http.Request) string { // every other answer comes in the body
		m := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, n.Add(1))
		if n.Load()%2 == 0 {
			return jsonReply(m)
		}
		l.say <- "data: " + m + "\n\n"
		return accepted
	}
	l.start(t)
	s, st := joinSSE(t, l)
	var senders sync.WaitGroup
	for range 60 {
		senders.Go(func() {
			if _, err := s.Send(t.Context(), &Outgoing{Body: []byte(ping), Request: true}); err != nil {
				t.Error(err)
			}
		})
	}
	seen := map[string]bool{}
	for range 60 {
		e, err := First(st)
		if err != nil {
			t.Fatal(err)
		}
		seen[string(e.Data)] = true
	}
	senders.Wait()
	if len(seen) != 60 {
		t.Errorf("%d different answers of 60", len(seen))
	}
}
