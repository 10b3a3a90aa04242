package upstream

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
)

// twice is a connection on which the second request has another answer than the first.
type twice struct {
	script
	replies [][]byte
}

func (s *twice) Write(p []byte) (int, error) {
	if len(s.replies) > 0 {
		s.rest, s.replies = s.replies[0], s.replies[1:]
	}
	return len(p), nil
}

// secondResponse says what two calls on one connection get, and what becomes of the connection. forget makes the second response
// the first one for the connection.
func secondResponse(t *testing.T, first, second []byte, forget bool) string {
	h, err := NewHTTP(HTTPConfig{URL: "http://server", MaxMessage: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var c *conn
	h.pool.dial = func(context.Context) (*conn, error) {
		s := &twice{replies: [][]byte{first, second}}
		c = newConn(s, s)
		c.probe = func() error { return nil }
		return c, nil
	}
	session := h.Session("", "")
	if _, err := said(t.Context(), session); err == nil || len(h.pool.idle) == 0 {
		return ""
	}
	if forget {
		c.known.Forget()
	}
	messages, err := said(t.Context(), session)
	return fmt.Sprintf("%q %v; kept %d connections for %v", messages, err, len(h.pool.idle), c.keep)
}

// FuzzKnownHead checks that a response says the same whether or not the head of the response before it, on the same connection,
// was kept.
func FuzzKnownHead(f *testing.F) {
	plain := jsonReply(answer)
	length := fmt.Sprintf("Content-Length: %d", len(answer))
	for _, second := range []string{
		plain, jsonReply(`{"jsonrpc":"2.0","id":1,"result":{"more":1}}`), strings.Replace(plain, length, "Content-Length: 0", 1),
		strings.Replace(plain, length, "Content-Length: 2", 1), strings.Replace(plain, length, "Content-Length: 2222222", 1), strings.Replace(plain, length, "Content-Length: 99999999999999999999", 1),
		strings.Replace(plain, length, "Content-Length: +5", 1), strings.Replace(plain, length, "Content-Length: 035", 1), strings.Replace(plain, length, length+"\r\n"+length, 1), strings.Replace(plain, length, length+"\r\nTransfer-Encoding: chunked", 1),
		strings.Replace(plain, length, length+"\r\nConnection: close", 1), strings.Replace(plain, length, length+"\r\nKeep-Alive: timeout=5", 1), strings.Replace(plain, length, length+"\r\nMcp-Session-Id: s", 1),
		strings.Replace(plain, length, length+"\r\nContent-Encoding: gzip", 1), strings.Replace(plain, "200 OK", "202 Accepted", 1), strings.Replace(plain, "200 OK", "404 No", 1), strings.Replace(plain, "HTTP/1.1", "HTTP/1.0", 1),
		strings.Replace(plain, "\r\n\r\n", "\n\n", 1), strings.Replace(plain, "\r\n\r\n", "\r\n X\r\n\r\n", 1), plain[:len(plain)-3], plain[:20], "HTTP/1.1 100 Continue\r\n\r\n" + plain, "HTTP/1.1 100 Continue\r\n\r\n" + eventHead + "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: {}\n\r\n1\r\n\n\r\n0\r\n\r\n", "\r\n" + plain, plain + plain,
		eventHead + "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: {}\n\r\n1\r\n\n\r\n0\r\n\r\n", eventHead + "Transfer-Encoding: chunked\r\n\r\n5;x\r\ndata:\r\n4\r\n {}\n\r\n1\r\n\n\r\n0\r\nX: y\r\n\r\n", eventHead + "Content-Length: 10\r\n\r\ndata: {}\n\n", eventHead + "\r\ndata: {}\n\n", "",
	} {
		f.Add([]byte(plain), []byte(second))
		f.Add([]byte(second), []byte(second))
		f.Add([]byte(second), []byte(plain))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if kept, parsed := secondResponse(t, first, second, false), secondResponse(t, first, second, true); kept != parsed {
			t.Errorf("%q after %q\n%s\nwithout the first one\n%s", second, first, kept, parsed)
		}
	})
}

// TestSameHeadIsReadOnce: the head of a server that says the same each time is not parsed again, and another one is.
func TestSameHeadIsReadOnce(t *testing.T) {
	bodies := []string{answer, `{"jsonrpc":"2.0","id":1,"result":{"more":1}}`}
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s"
	n := 0
	s := serve(t, func(c net.Conn, in *bufio.Reader) {
		for ; ; n++ {
			if _, ok := take(in); !ok {
				return
			}
			body := bodies[n%2]
			fmt.Fprintf(c, head, [...]string{"a", "b"}[n/4], len(body), body)
		}
	})
	h, err := NewHTTP(HTTPConfig{URL: s.url()})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for i := range 8 {
		var matches bool
		if len(h.pool.idle) > 0 {
			body := bodies[i%2]
			_, _, matches = h.pool.idle[0].known.Match(fmt.Appendf(nil, head, [...]string{"a", "b"}[i/4], len(body), body))
		}
		if want := i != 0 && i != 4; matches != want {
			t.Errorf("response %d: its head is known: %v", i, matches)
		}
		st, err := h.Session("", "").Send(t.Context(), &call1)
		if err != nil {
			t.Fatal(err)
		}
		e, err := First(st)
		if err != nil || string(e.Data) != bodies[i%2] {
			t.Errorf("response %d is %q, %v", i, e.Data, err)
		}
		if id := st.SessionID(); id != [...]string{"a", "b"}[i/4] {
			t.Errorf("response %d names session %q", i, id)
		}
		st.Close()
	}
}
