package downstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
)

type openFunc func(Pipe, *Request, *Response) PipeSession

func (f openFunc) OpenPipe(p Pipe, q *Request, r *Response) PipeSession { return f(p, q, r) }

// fakeSession answers by functions, which may be missing.
type fakeSession struct {
	take   func(message []byte, header func(string) string)
	ending func()
	left   func(error)
	owns   func()
}

func (f fakeSession) Take(m []byte, header func(string) string) {
	if f.take != nil {
		f.take(m, header)
	}
}

func (f fakeSession) Owns(string, func(string) string) bool {
	if f.owns != nil {
		f.owns()
	}
	return true
}

func (f fakeSession) Ending() {
	if f.ending != nil {
		f.ending()
	}
}

func (f fakeSession) Left(why error) {
	if f.left != nil {
		f.left(why)
	}
}

// pipes passes to a test the pipes that clients open, and why they ended.
type pipes struct {
	opened chan Pipe
	left   chan error
}

func newPipes() pipes { return pipes{make(chan Pipe, 100), make(chan error, 100)} }

// with returns a handler whose sessions take messages by take, which may be nil.
func (ps pipes) with(take func(Pipe, []byte, func(string) string)) PipeHandler {
	return openFunc(func(p Pipe, q *Request, r *Response) PipeSession {
		ps.opened <- p
		return fakeSession{
			take: func(m []byte, header func(string) string) {
				if take != nil {
					take(p, m, header)
				}
			},
			left: func(why error) { ps.left <- why },
		}
	})
}

// sseClient is a client on HTTP+SSE.
type sseClient struct {
	net.Conn
	addr   string
	res    *http.Response
	events *sse.Reader
	uri    string // to POST to
}

// openSSE opens a stream and reads the URI to POST to.
func openSSE(t *testing.T, s *server, headers string) *sseClient {
	t.Helper()
	return openSSEOn(t, s, dial(t, s.addr), sseHead+headers+"\r\n")
}

func openSSEOn(t *testing.T, s *server, nc net.Conn, request string) *sseClient {
	t.Helper()
	c := &sseClient{Conn: nc, addr: s.addr}
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.res, err = http.ReadResponse(bufio.NewReader(c), nil); err != nil {
		t.Fatal(err)
	}
	if c.res.StatusCode != 200 || c.res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %d %v", c.res.StatusCode, c.res.Header)
	}
	c.events = sse.NewReader(c.res.Body, 100<<20)
	c.uri = c.next(t, "endpoint")
	return c
}

// next reads one event, which must have that name.
func (c *sseClient) next(t *testing.T, name string) string {
	t.Helper()
	e, err := c.events.Next()
	if err != nil || string(e.Name) != name {
		t.Fatalf("got event %q %.40q, %v; want %q", e.Name, e.Data, err, name)
	}
	return string(e.Data)
}

// postTo returns the POST of one message.
func postTo(uri, headers, message string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
		uri, headers, len(message), message)
}

func (c *sseClient) post(t *testing.T, message string) {
	t.Helper()
	if res, body := ask(t, c.addr, postTo(c.uri, "", message)); res.StatusCode != 202 || body != "" {
		t.Fatalf("got %d %q", res.StatusCode, body)
	}
}

func TestPipeCarriesMessagesBothWays(t *testing.T) {
	ps := newPipes()
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Pipes: ps.with(func(p Pipe, m []byte, header func(string) string) {
		_ = p.Write(fmt.Appendf(nil, `{"got":%s,"with":%q}`, m, header("traceparent")+header(tokenHeader)))
	})})
	c := openSSE(t, s, "")
	if !strings.HasPrefix(c.uri, "/messages?session=") || len(c.uri) < len("/messages?session=")+22 {
		t.Errorf("endpoint is %q", c.uri)
	}
	for _, h := range []string{"Cache-Control", "X-Accel-Buffering"} {
		if c.res.Header.Get(h) == "" {
			t.Errorf("%s is missing", h)
		}
	}
	if res, _ := ask(t, s.addr, postTo(c.uri, "Traceparent: 00-ab\r\nX-Dragoman-Token: secret\r\n", `{"jsonrpc":"2.0","method":"x"}`)); res.StatusCode != 202 {
		t.Errorf("status %d", res.StatusCode)
	}
	if got, want := c.next(t, "message"), `{"got":{"jsonrpc":"2.0","method":"x"},"with":"00-ab"}`; got != want {
		t.Errorf("got %s", got)
	}
	for _, message := range []string{`{"jsonrpc":"2.0","id":1,"result":{}}`, "[]", `[{"jsonrpc":"2.0","method":"a"}]`} {
		c.post(t, message)
		if got := c.next(t, "message"); !strings.Contains(got, message) {
			t.Errorf("got %s, want %s", got, message)
		}
	}
	big := `{"jsonrpc":"2.0","method":"` + strings.Repeat("x", 1<<20) + `"}`
	c.post(t, big)
	if got := c.next(t, "message"); !strings.Contains(got, big) {
		t.Errorf("got %d bytes", len(got))
	}
}

// TestPostIsAnsweredBeforeItsMessageIsHandled checks also that messages are taken one by one, in
// order.
func TestPostIsAnsweredBeforeItsMessageIsHandled(t *testing.T) {
	ps := newPipes()
	goOn := make(chan struct{})
	taken := make(chan string, 10)
	s := start(t, fakeHandler{}, HTTPConfig{Pipes: ps.with(func(p Pipe, m []byte, _ func(string) string) {
		<-goOn
		taken <- string(m)
	})})
	c := openSSE(t, s, "")
	message := func(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","method":"%d"}`, i) }
	for i := range 5 {
		c.post(t, message(i))
	}
	for i := range 5 {
		goOn <- struct{}{}
		if got := recv(t, taken, "a message"); got != message(i) {
			t.Errorf("got %s in place %d", got, i)
		}
	}
}

func TestPipeEndsWhenItsClientLeaves(t *testing.T) {
	cert := certificate(t)
	withTLS := &tls.Config{Certificates: []tls.Certificate{cert}}
	for _, c := range []struct {
		name   string
		tls    *tls.Config
		hide   bool
		half   bool
		busy   bool // while a message is taken
		behind string
	}{
		{name: "plain"}, {name: "half-closed", half: true}, {name: "busy", busy: true},
		{name: "TLS", tls: withTLS}, {name: "no watch", hide: true}, {name: "no watch, TLS", tls: withTLS, hide: true},
		{name: "bytes behind the request", behind: "GET / HTTP/1.1\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ps := newPipes()
			inside := make(chan struct{}, 1)
			take := func(p Pipe, _ []byte, _ func(string) string) {
				inside <- struct{}{}
				<-p.Context().Done()
			}
			cfg := HTTPConfig{Pipes: ps.with(take), TLS: c.tls}
			s := start(t, fakeHandler{}, cfg, func(ln net.Listener) net.Listener {
				if c.hide {
					return hidden{ln}
				}
				return ln
			})
			nc := dial(t, s.addr)
			raw := nc
			if c.tls != nil {
				nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
			}
			client := openSSEOn(t, s, nc, sseHead+"\r\n"+c.behind)
			p := recv(t, ps.opened, "the pipe")
			if c.busy {
				client.post(t, `{"jsonrpc":"2.0","method":"x"}`)
				recv(t, inside, "the message")
			}
			if c.half {
				_ = raw.(*net.TCPConn).CloseWrite()
			} else {
				_ = raw.Close()
			}
			if why := recv(t, ps.left, "the client's leaving"); !errors.Is(why, ErrClientLeft) {
				t.Errorf("why = %v", why)
			}
			if err := p.Write([]byte("{}")); !errors.Is(err, ErrClientLeft) {
				t.Errorf("write: %v", err)
			}
			if c.tls == nil {
				if res, _ := ask(t, s.addr, postTo(client.uri, "", "{}")); res.StatusCode != 404 {
					t.Errorf("POST after the end: %d", res.StatusCode)
				}
			}
		})
	}
}

// TestPipeEndsDuringAPost: the client closes the stream while it sends a large message.
func TestPipeEndsDuringAPost(t *testing.T) {
	found, left := make(chan struct{}, 1), make(chan error, 1)
	s := start(t, fakeHandler{}, HTTPConfig{Pipes: openFunc(func(Pipe, *Request, *Response) PipeSession {
		return fakeSession{owns: func() { found <- struct{}{} }, left: func(why error) { left <- why }}
	})})
	client, posts := openSSE(t, s, ""), dial(t, s.addr)
	request := postTo(client.uri, "", strings.Repeat(" ", 1<<20)+`{"jsonrpc":"2.0","method":"x"}`)
	_, _ = io.WriteString(posts, request[:len(request)-1])
	recv(t, found, "the session of the POST")
	_ = client.Close()
	recv(t, left, "the client's leaving")
	_, _ = io.WriteString(posts, request[len(request)-1:])
	if res, body := answer(t, bufio.NewReader(posts), request); res.StatusCode != 404 || !strings.Contains(body, "Session not found") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// TestWrittenMessagesAreSentBeforeThePipeEnds checks that what was written comes before the end, and that the
// client can tell the end from a broken connection.
func TestWrittenMessagesAreSentBeforeThePipeEnds(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/1.0"} {
		t.Run(proto, func(t *testing.T) {
			ps := newPipes()
			s := start(t, fakeHandler{}, HTTPConfig{Pipes: ps.with(nil)})
			c := openSSEOn(t, s, dial(t, s.addr), strings.Replace(sseHead, "HTTP/1.1", proto, 1)+"\r\n")
			if chunked := len(c.res.TransferEncoding) > 0; chunked != (proto == "HTTP/1.1") {
				t.Errorf("Transfer-Encoding: %v", c.res.TransferEncoding)
			}
			p := recv(t, ps.opened, "the pipe")
			const n = 200
			for i := range n {
				if err := p.Write(fmt.Appendf(nil, "%d%s", i, strings.Repeat(" ", 10*i))); err != nil {
					t.Fatal(err)
				}
			}
			p.Close()
			p.Close()
			for i := range n {
				if got := c.next(t, "message"); strings.TrimSpace(got) != fmt.Sprint(i) {
					t.Fatalf("got %.20q in place %d", got, i)
				}
			}
			if _, err := c.events.Next(); err != io.EOF {
				t.Errorf("at the end: %v", err)
			}
			if why := recv(t, ps.left, "the end"); !errors.Is(why, ErrClosed) {
				t.Errorf("why = %v", why)
			}
			if err := p.Write([]byte("{}")); !errors.Is(err, ErrClosed) {
				t.Errorf("write: %v", err)
			}
		})
	}
}

// TestMessagesThatWaitAreTakenBeforeThePipeEnds: they were accepted before it was closed, and what is written about them goes
// out. No more are accepted after it.
func TestMessagesThatWaitAreTakenBeforeThePipeEnds(t *testing.T) {
	inside, goOn, left := make(chan Pipe, 10), make(chan struct{}), make(chan error, 1)
	s := start(t, fakeHandler{}, HTTPConfig{Pipes: openFunc(func(p Pipe, _ *Request, _ *Response) PipeSession {
		return fakeSession{
			take: func(m []byte, _ func(string) string) {
				inside <- p
				<-goOn
				_ = p.Write(m)
			},
			ending: func() { _ = p.Write([]byte("last")) },
			left:   func(why error) { left <- why },
		}
	})})
	c := openSSE(t, s, "")
	const n = 3
	for i := range n {
		c.post(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x"}`, i))
	}
	recv(t, inside, "the first message").Close()
	if res, body := ask(t, c.addr, postTo(c.uri, "", `{"jsonrpc":"2.0","id":9,"method":"x"}`)); res.StatusCode != 404 {
		t.Errorf("after the end: %d %s", res.StatusCode, body)
	}
	close(goOn)
	for i := range n {
		if got, want := c.next(t, "message"), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x"}`, i); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := c.next(t, "message"); got != "last" {
		t.Errorf("got %s", got)
	}
	if _, err := c.events.Next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if why := recv(t, left, "the end"); !errors.Is(why, ErrClosed) {
		t.Errorf("why = %v", why)
	}
}

// TestPipeOfAClientThatDoesNotReadIsClosed checks also that writing to the client does not block.
func TestPipeOfAClientThatDoesNotReadIsClosed(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  HTTPConfig
	}{
		{"queue", HTTPConfig{MaxQueue: 1 << 20, WriteTimeout: time.Hour}},
		{"time", HTTPConfig{MaxQueue: 1 << 30, WriteTimeout: 50 * time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ps := newPipes()
			c.cfg.Pipes = ps.with(nil)
			s := start(t, fakeHandler{}, c.cfg)
			openSSE(t, s, "")
			p := recv(t, ps.opened, "the pipe")
			message := []byte(strings.Repeat("x", 1<<20))
			var err error
			for i := 0; i < 64 && err == nil; i++ {
				err = p.Write(message)
			}
			if why := recv(t, ps.left, "the end"); !errors.Is(why, ErrNotRead) {
				t.Errorf("why = %v", why)
			}
			if err := p.Write(message); !errors.Is(err, ErrNotRead) {
				t.Errorf("write: %v", err)
			}
			if !strings.Contains(s.logs.String(), ErrNotRead.Error()) {
				t.Errorf("log: %s", &s.logs)
			}
		})
	}
}

func TestHeartbeatsComeOnAQuietPipe(t *testing.T) {
	ps := newPipes()
	s := start(t, fakeHandler{}, HTTPConfig{Pipes: ps.with(nil), Heartbeat: time.Millisecond})
	c := openSSE(t, s, "")
	p := recv(t, ps.opened, "the pipe")
	body := bufio.NewReader(c.res.Body) // the endpoint event is read, and nothing behind it but comments
	for range 3 {
		if line, err := body.ReadString('\n'); strings.Trim(line, ":\n") != "" || err != nil {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	for range 100 {
		_ = p.Write([]byte("{}"))
	}
	p.Close()
	rest, err := io.ReadAll(body)
	if n := strings.Count(string(rest), "event: message\ndata: {}\n\n"); err != nil || n != 100 {
		t.Errorf("%d events are whole, %v", n, err)
	}
}

func TestEventsOfManyWritersStayWhole(t *testing.T) {
	ps := newPipes()
	s := start(t, fakeHandler{}, HTTPConfig{Pipes: ps.with(nil), Heartbeat: time.Microsecond})
	c := openSSE(t, s, "")
	p := recv(t, ps.opened, "the pipe")
	const writers, each = 8, 100
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := p.Write(fmt.Appendf(nil, "%d %d %s", w, i, strings.Repeat("y", i*w))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	next := make([]int, writers)
	for range writers * each {
		var w, i int
		var pad string
		text := c.next(t, "message")
		if n, _ := fmt.Sscanf(text, "%d %d %s", &w, &i, &pad); n < 2 || len(pad) != i*w || i != next[w] {
			t.Fatalf("got %.40q, want number %d of it", text, next[w])
		}
		next[w]++
	}
	wg.Wait()
}

func TestPanicEndsOneMessageOfAPipeOnly(t *testing.T) {
	ps := newPipes()
	s := start(t, fakeHandler{}, HTTPConfig{Pipes: ps.with(func(p Pipe, m []byte, _ func(string) string) {
		if strings.Contains(string(m), "panic") {
			panic("no")
		}
		_ = p.Write(m)
	})})
	c := openSSE(t, s, "")
	c.post(t, `{"jsonrpc":"2.0","method":"panic"}`)
	c.post(t, `{"jsonrpc":"2.0","method":"x"}`)
	if got := c.next(t, "message"); got != `{"jsonrpc":"2.0","method":"x"}` {
		t.Errorf("got %s", got)
	}
	if !strings.Contains(s.logs.String(), "panic: no") {
		t.Errorf("log: %s", &s.logs)
	}
}

func TestShutdownWaitsForPipesThenCutsThem(t *testing.T) {
	ps := newPipes()
	s := start(t, fakeHandler{}, HTTPConfig{Pipes: ps.with(nil)})
	a, b := openSSE(t, s, ""), openSSE(t, s, "")
	first := recv(t, ps.opened, "a pipe")
	recv(t, ps.opened, "a pipe")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(ctx) }()
	for !s.draining.Load() {
		runtime.Gosched()
	}
	_ = first.Write([]byte("bye"))
	first.Close()
	if why := recv(t, ps.left, "the first"); !errors.Is(why, ErrClosed) {
		t.Errorf("why = %v", why)
	}
	if got := a.next(t, "message"); got != "bye" {
		t.Errorf("got %q", got)
	}
	select {
	case err := <-done:
		t.Fatalf("Shutdown did not wait: %v", err)
	default:
	}
	cancel()
	if err := recv(t, done, "Shutdown"); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if why := recv(t, ps.left, "the second"); !errors.Is(why, ErrStopped) {
		t.Errorf("why = %v", why)
	}
	if _, err := b.events.Next(); err == nil || err == io.EOF {
		t.Errorf("the cut stream ends with %v", err)
	}
}
