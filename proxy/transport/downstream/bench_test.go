package downstream

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
)

// three is a stream of three events.
type three struct {
	event sse.Event
	n     int
}

func (s *three) Next() (sse.Event, error) {
	if s.n++; s.n > 3 {
		s.n = 0
		return sse.Event{}, io.EOF
	}
	return s.event, nil
}
func (s *three) Close() error { return nil }

// BenchmarkPost measures one request and its answer over loopback, including the
// client's part, which allocates nothing. "bare" is a fasthttp handler that does
// nothing but answer.
func BenchmarkPost(b *testing.B) {
	small := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}`)
	large := []byte(strings.Repeat("x", 1<<20))
	ours := func(h fakeHandler) func(net.Listener) func() {
		return func(ln net.Listener) func() {
			s := NewHTTP(h, HTTPConfig{Heartbeat: 15 * time.Second})
			go func() { _ = s.Serve(ln) }()
			return func() { _ = s.Shutdown(context.Background()) }
		}
	}
	body := func(body []byte) fakeHandler {
		return fakeHandler{post: func(q *Request, r *Response) { r.Body = body }}
	}
	events := func(data []byte) fakeHandler {
		s := &three{event: sse.Event{Data: data}}
		return fakeHandler{post: func(q *Request, r *Response) { stream(s, q, r) }}
	}
	for _, c := range []struct {
		name  string
		serve func(net.Listener) func()
		end   string // of an answer
	}{
		{"bare", func(ln net.Listener) func() {
			s := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { ctx.SetBody(small) }}
			go func() { _ = s.Serve(ln) }()
			return func() { _ = s.Shutdown() }
		}, string(small)},
		{"body", ours(body(small)), string(small)},
		{"body of 1 MiB", ours(body(large)), string(large)},
		{"three events", ours(events(small)), "\r\n0\r\n\r\n"},
		{"three events of 1 MiB", ours(events(large)), "\r\n0\r\n\r\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			stop := c.serve(ln)
			nc, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			request := []byte(strings.Replace(post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), "Accept:",
				"Mcp-Session-Id: 0123456789abcdef\r\nMCP-Protocol-Version: 2025-06-18\r\nAccept:", 1))
			r := bufio.NewReaderSize(nc, 4<<20)
			end := []byte(c.end)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := nc.Write(request); err != nil {
					b.Fatal(err)
				}
				for {
					if _, err := r.Peek(r.Buffered() + 1); err != nil {
						b.Fatal(err)
					}
					got, _ := r.Peek(r.Buffered())
					if bytes.HasSuffix(got, end) {
						_, _ = r.Discard(len(got))
						break
					}
				}
			}
			_ = nc.Close()
			stop()
		})
	}
}

// BenchmarkPipe measures one message that is POSTed over loopback, taken, and answered
// on the stream of HTTP+SSE.
func BenchmarkPipe(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := NewHTTP(fakeHandler{}, HTTPConfig{Heartbeat: 15 * time.Second, Pipes: openFunc(
		func(p Pipe, q *Request, r *Response) PipeSession {
			return fakeSession{take: func(m []byte, _ func(string) string) { _ = p.Write(m) }}
		})})
	go func() { _ = s.Serve(ln) }()
	stream, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.WriteString(stream, sseHead+"\r\n"); err != nil {
		b.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(stream), nil)
	if err != nil {
		b.Fatal(err)
	}
	events := sse.NewReader(res.Body, 1<<20)
	e, err := events.Next()
	if err != nil {
		b.Fatal(err)
	}
	posts, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	request := []byte(postTo(string(e.Data), "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`))
	br := bufio.NewReader(posts)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := posts.Write(request); err != nil {
			b.Fatal(err)
		}
		for line := []byte(nil); string(line) != "\r\n"; {
			if line, err = br.ReadSlice('\n'); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := events.Next(); err != nil {
			b.Fatal(err)
		}
	}
	_ = posts.Close()
	_ = stream.Close()
	_ = s.Shutdown(context.Background())
}
