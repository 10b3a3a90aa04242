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
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

const (
	ping     = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	answer   = `{"jsonrpc":"2.0","id":1,"result":{}}`
	bearer   = "Bearer s3cr3t"
	patience = peertest.Patience
)

// server is a server whose every byte a test chooses.
type server struct {
	address string
	conns   atomic.Int32
	gone    atomic.Int32 // connections that the client has closed
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
	s.address = peertest.Accept(t, func(c net.Conn) {
		s.conns.Add(1)
		handle(c, bufio.NewReader(c))
	})
}

// inMemory makes the connections of h pipes without a socket, each served by handle: in a bubble of testing/synctest, where
// waiting takes no time.
func inMemory(t *testing.T, h *HTTP, handle func(c net.Conn, in *bufio.Reader)) {
	var served sync.WaitGroup
	t.Cleanup(func() {
		h.Close()
		served.Wait()
	})
	h.pool.dial = func(context.Context) (*conn, error) {
		ours, theirs := net.Pipe()
		served.Go(func() {
			defer theirs.Close()
			handle(theirs, bufio.NewReader(theirs))
		})
		return newConn(ours, ours), nil
	}
}

func (s *server) url() string { return "http://" + s.address + "/mcp" }

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
	s.start(t, silent(reply, &s.gone))
	return s
}

func silent(reply string, gone *atomic.Int32) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, in *bufio.Reader) {
		if _, ok := take(in); ok {
			if reply != "" { // an empty write to a pipe in memory waits
				io.WriteString(c, reply)
			}
			if _, err := in.ReadByte(); err != nil {
				gone.Add(1)
			}
		}
	}
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
	s, err := c.Send(ctx, &Outgoing{Body: []byte(ping), Request: true, Header: []mcp.Header{{Name: "Authorization", Value: bearer}}})
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
