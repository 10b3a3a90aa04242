package downstream

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"
)

const sseHead = "GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"

// BenchmarkIdleStreams opens 2,000 streams without events, and reports how much memory
// each one takes: heap and stacks, of both ends.
func BenchmarkIdleStreams(b *testing.B) {
	for _, c := range []struct{ name, request string }{{"HTTP+SSE", sseHead + "\r\n"}, {"GET", getHead + "\r\n"}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(idleStreams(b, c.request, 2000), "B/stream")
			}
		})
	}
}

// idleStreams opens n streams and returns how many bytes each one takes.
func idleStreams(t testing.TB, request string, n int) float64 {
	handler := fakeHandler{get: func(q *Request, r *Response) { stream(newEvents(), q, r) }}
	pipes := openFunc(func(p Pipe, q *Request, r *Response) PipeSession { return fakeSession{} })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewHTTP(handler, HTTPConfig{Pipes: pipes, Heartbeat: 15 * time.Second})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	conns := make([]net.Conn, n)
	br := bufio.NewReader(nil)
	before := inUse()
	for i := range conns {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = nc
		if _, err := io.WriteString(nc, request); err != nil {
			t.Fatal(err)
		}
		br.Reset(nc)
		if _, err := http.ReadResponse(br, nil); err != nil {
			t.Fatal(err)
		}
	}
	each := float64(inUse()-before) / float64(n)
	for _, nc := range conns {
		_ = nc.Close()
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	return each
}

func inUse() int64 {
	runtime.GC()
	runtime.GC() // what pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
