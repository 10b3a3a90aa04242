package upstream

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	ping   = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	secret = "Bearer s3cr3t"
	// patience is how long a test waits for what must happen, on a machine that may be
	// busy.
	patience = 20 * time.Second
)

// noLeaks fails the test when goroutines outlive it.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for end := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				buf := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
			}
		}
	})
}

// server is a server whose every byte a test chooses.
type server struct {
	net.Listener
	conns atomic.Int32
	gone  atomic.Int32 // connections that the client has closed
}

// serve calls handle with each connection, which is closed when it returns.
func serve(t *testing.T, handle func(c net.Conn, in *bufio.Reader)) *server {
	t.Helper()
	s := new(server)
	s.start(t, handle)
	return s
}

func (s *server) start(t *testing.T, handle func(c net.Conn, in *bufio.Reader)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Listener = l
	var mu sync.Mutex
	var open []net.Conn
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			running.Go(func() {
				defer c.Close()
				handle(c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
}

func (s *server) url() string { return "http://" + s.Addr().String() + "/mcp" }

// take reads one request and its body.
func take(in *bufio.Reader) (*http.Request, bool) {
	r, err := http.ReadRequest(in)
	if err != nil {
		return nil, false
	}
	b, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(b))
	return r, err == nil
}

// always answers every request of a connection with the same bytes.
func always(reply string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, in *bufio.Reader) {
		for {
			if _, ok := take(in); !ok {
				return
			}
			if _, err := io.WriteString(c, reply); err != nil {
				return
			}
		}
	}
}

// once answers the first request and closes.
func once(reply string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, in *bufio.Reader) {
		if _, ok := take(in); ok {
			io.WriteString(c, reply)
		}
	}
}

// serveSilent answers the first request of a connection with the bytes reply, which end
// early, and then waits until the client leaves.
func serveSilent(t *testing.T, reply string) *server {
	t.Helper()
	s := new(server)
	s.start(t, func(c net.Conn, in *bufio.Reader) {
		if _, ok := take(in); ok {
			io.WriteString(c, reply)
			if _, err := in.ReadByte(); err != nil {
				s.gone.Add(1)
			}
		}
	})
	return s
}

// newHTTP makes an HTTP. Limits that c does not set are long enough for a busy machine.
func newHTTP(t *testing.T, c HTTPConfig) *HTTP {
	t.Helper()
	c.DialTimeout = cmp.Or(c.DialTimeout, patience)
	c.EndpointTimeout = cmp.Or(c.EndpointTimeout, patience)
	h, err := NewHTTP(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func jsonReply(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

const (
	jsonHead  = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	eventHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
)

// said sends a ping and returns all messages that come back, and the error at the end.
func said(ctx context.Context, c Conn) (messages []string, err error) {
	s, err := c.Send(ctx, &Outgoing{Body: []byte(ping), Request: true, Header: []Header{{"Authorization", secret}}})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for {
		e, err := First(s)
		if err != nil {
			return messages, err
		}
		messages = append(messages, string(e.Data))
	}
}

func wantMessages(t *testing.T, got []string, err error, want ...string) {
	t.Helper()
	if err != io.EOF {
		t.Errorf("ended with %v, want EOF", err)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || len(got) != len(want) {
		t.Errorf("got %.300q, want %.300q", got, want)
	}
}
