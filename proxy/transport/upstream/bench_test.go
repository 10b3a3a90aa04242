package upstream

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// again is a connection on which every request has the same answer at once.
type again struct {
	script
	reply []byte
}

func (a *again) Write(p []byte) (int, error) {
	a.rest = a.reply
	return len(p), nil
}

func newAgain(t testing.TB, reply string) Conn {
	h, err := NewHTTP(HTTPConfig{URL: "http://server/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	h.pool.dial = func(context.Context) (*conn, error) {
		a := &again{reply: []byte(reply)}
		c := newConn(a, a)
		c.probe = func() error { return nil }
		return c, nil
	}
	return h.Session("6b1c", "2025-06-18")
}

// lastError is that of the last event. keepError is bound once, so that it allocates nothing.
var (
	lastError error
	keepError = func(_ sse.Event, err error) bool {
		lastError = err
		return false
	}
)

func oneCall(t testing.TB, ctx context.Context, c Conn, m *Outgoing) {
	s, err := c.Send(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	s.Events(keepError)
	if lastError != nil {
		t.Fatal(lastError)
	}
	s.Release()
	s.Close()
}

// replies are answers of the two common kinds, as a Node server sends them.
var replies = map[string]string{
	"json": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nmcp-session-id: 6b1c\r\nDate: Fri, 20 Nov 2026 16:00:00 GMT\r\n" +
		"Connection: keep-alive\r\nKeep-Alive: timeout=5\r\nContent-Length: " + strconv.Itoa(len(answer)) + "\r\n\r\n" + answer,
	"events": eventHead + "Cache-Control: no-cache\r\nmcp-session-id: 6b1c\r\nDate: Fri, 20 Nov 2026 16:00:00 GMT\r\n" +
		"Connection: keep-alive\r\nKeep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n\r\n" +
		fmt.Sprintf("%x\r\nevent: message\ndata: %s\n\n\r\n0\r\n\r\n", len(answer)+23, answer),
}

var call1 = Outgoing{
	Body:    []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}`),
	Request: true,
	Header:  []mcp.Header{{Name: "Authorization", Value: bearer}},
}

// BenchmarkCall measures dragoman's own share of a call, without a network.
func BenchmarkCall(b *testing.B) {
	for name, reply := range replies {
		b.Run(name, func(b *testing.B) {
			c := newAgain(b, reply)
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithCancel(context.Background())
				oneCall(b, ctx, c, &call1)
				cancel()
			}
		})
	}
}

// BenchmarkLoopback measures a call to a server that does nothing but answer.
func BenchmarkLoopback(b *testing.B) {
	for name, size := range map[string]int{"small": len(answer), "1MB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			reply := []byte(jsonReply(strings.Repeat("x", size)))
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				for in := make([]byte, 4096); ; {
					if _, err := c.Read(in); err != nil {
						return
					}
					if _, err := c.Write(reply); err != nil {
						return
					}
				}
			}()
			h, err := NewHTTP(HTTPConfig{URL: "http://" + l.Addr().String()})
			if err != nil {
				b.Fatal(err)
			}
			defer h.Close()
			c := h.Session("6b1c", "2025-06-18")
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				oneCall(b, ctx, c, &call1)
				cancel()
			}
		})
	}
}
