//go:build unix

package tests

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/bench/histogram"
	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// side is a dragoman without transports, and a call that it gets again and again.
type side struct {
	srv     *proxy.Server
	face    downstream.Handler
	req     downstream.Request
	body    []byte
	call    string
	latency histogram.Histogram
}

func newSide(b *testing.B, call, answer string, keep bool) *side {
	b.Helper()
	conn := &instant{answer: []byte(initAnswer)}
	cfg := config.Default()
	cfg.Inspect.Enabled, cfg.Inspect.Keep = keep, keep
	srv, err := proxy.NewWith(cfg, zap.NewNop(), origin.Opened(false, func(context.Context) (upstream.Conn, error) { return instantConn{conn}, nil }))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(srv.Close)
	s := &side{srv: srv, face: srv.Handler(), call: call, body: make([]byte, len(call))}
	var resp downstream.Response
	s.face.Post(&downstream.Request{Ctx: b.Context(), Body: []byte(initialize("2024-11-05", `{}`))}, &resp)
	resp.Done()
	s.req = downstream.Request{Ctx: b.Context(), Session: resp.Header[0].Value, Header: func(string) string { return "" }}
	conn.answer = []byte(answer)
	return s
}

// usage is what a turn has used.
type usage struct {
	cpu    time.Duration // of all threads
	bytes  uint64        // allocated
	allocs uint64
}

func used() usage {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{time.Duration(r.Utime.Nano() + r.Stime.Nano()), m.TotalAlloc, m.Mallocs}
}

// turn makes calls, and waits until the reader has read what was seen of them.
func (s *side) turn(b *testing.B, calls int) usage {
	before := used()
	for range calls {
		s.req.Body = append(s.body[:0], s.call...)
		var resp downstream.Response
		began := time.Now()
		s.face.Post(&s.req, &resp)
		s.latency.Record(int64(time.Since(began)))
		if resp.Body == nil {
			b.Fatal("no answer")
		}
		resp.Done()
	}
	time.Sleep(30 * time.Millisecond)
	after := used()
	return usage{after.cpu - before.cpu, after.bytes - before.bytes, after.allocs - before.allocs}
}

// BenchmarkWatched measures what it costs that calls are kept for the live page: turns of calls with that and without. It reports
// what one call more costs, and the median of the quotients; the work that transports do for a call is in neither.
func BenchmarkWatched(b *testing.B) {
	var tools []string
	for i := range 50 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool-%d","title":"Tool %d","description":%q,"inputSchema":{"type":"object","properties":{"a":{"type":"string"}}},"annotations":{"readOnlyHint":true}}`,
			i, i, strings.Repeat("words ", 100)))
	}
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"small","arguments":{"query":"what the weather will be","limit":20}}}`
	text := func(n int) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", n) + `"}]}}`
	}
	for _, c := range []struct {
		name, call, answer string
		calls              int
	}{
		{"small call", call, text(30), 20_000},
		{"list of 50 tools", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, `{"jsonrpc":"2.0","id":1,"result":{"tools":[` + strings.Join(tools, ",") + `]}}`, 5_000},
		{"result of 1 MB", call, text(1 << 20), 200},
	} {
		b.Run(c.name, func(b *testing.B) {
			without, with := newSide(b, c.call, c.answer, false), newSide(b, c.call, c.answer, true)
			without.turn(b, c.calls/10)
			with.turn(b, c.calls/10)
			var quotients []float64
			var more [3]float64
			for b.Loop() {
				u, v := without.turn(b, c.calls), with.turn(b, c.calls)
				quotients = append(quotients, float64(v.cpu)/float64(u.cpu))
				more[0] += float64(v.cpu - u.cpu)
				more[1] += float64(v.bytes) - float64(u.bytes)
				more[2] += float64(v.allocs) - float64(u.allocs)
			}
			slices.Sort(quotients)
			b.ReportMetric(quotients[len(quotients)/2], "x-unwatched")
			for i, unit := range []string{"cpu-ns-more/call", "B-more/call", "allocs-more/call"} {
				b.ReportMetric(more[i]/float64(b.N*c.calls), unit)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// stuck is a reader that reads nothing until it is released.
type stuck struct{ observe.Reader }

func (s *stuck) Message(*observe.Message) { select {} }

// BenchmarkReaderThatBlocks measures how long a call takes while a recording's disk blocks, as a multiple of the time without
// a reader, and what the slowest percent take longer.
func BenchmarkReaderThatBlocks(b *testing.B) {
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"small","arguments":{}}}`
	answer := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}]}}`
	without, with := newSide(b, call, answer, false), newSide(b, call, answer, false)
	with.srv.Observer.Attach("record", &stuck{})
	for range 5 {
		with.turn(b, 10_000) // the queue is full
	}
	with.latency = histogram.Histogram{}
	for b.Loop() {
		without.turn(b, 10_000)
		with.turn(b, 10_000)
	}
	for _, q := range []struct {
		at   float64
		name string
	}{{0.5, "p50"}, {0.99, "p99"}, {0.999, "p99.9"}} {
		b.ReportMetric(float64(with.latency.Quantile(q.at)-without.latency.Quantile(q.at)), q.name+"-ns-more")
	}
	b.ReportMetric(0, "ns/op")
}
