package transform

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// log returns n bytes of log lines, with characters that have to be escaped.
func log(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "2026-11-20T10:%02d:%02d.%03dZ INFO handler=%q request %d took %d ms\n", i/60%60, i%60, i%1000, "list", i, i*7%1000)
	}
	return b.String()[:n]
}

// beside times op and a scan of the same bytes, in turns, and reports the
// medians of both and of their quotients. The proxy makes the scan for every
// result, whether it transforms it or not.
func beside(b *testing.B, in []byte, op func()) {
	var own, scan, quotient []float64
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		from := time.Now()
		op()
		middle := time.Now()
		if !wire.Valid(in) {
			b.Fatal("no JSON")
		}
		end := time.Now()
		own = append(own, middle.Sub(from).Seconds()*1e3)
		scan = append(scan, end.Sub(middle).Seconds()*1e3)
		quotient = append(quotient, own[len(own)-1]/scan[len(scan)-1])
	}
	for unit, all := range map[string][]float64{"p50-ms": own, "scan-ms": scan, "x-scan": quotient} {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], unit)
	}
}

// BenchmarkDecision measures how long it takes to find out that a text has more
// than 4,000 tokens.
func BenchmarkDecision(b *testing.B) {
	e := engine(b, "transform: {}")
	if err := e.Load(); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{64 << 10, 10 << 20} {
		in := textResult(log(n))
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			beside(b, in, func() {
				t := tally{encoding: e.encoding, left: 4000}
				if t.result(in, ""); !t.over {
					b.Fatal("it fits")
				}
			})
		})
	}
}

// BenchmarkUnderBudget applies rules to a result that has fewer bytes than the
// budget has tokens.
func BenchmarkUnderBudget(b *testing.B) {
	e := engine(b, "transform: {rules: [{match: {tool: other}, page_size: 5}, {match: {tool: 'list_*'}, max_tokens: 5000}]}")
	in := textResult(log(3000))
	call := &Call{Tool: "x", Schemas: None}
	b.ReportAllocs()
	for b.Loop() {
		if out, _ := e.Apply(nil, in, call); !same(in, out) {
			b.Fatal("changed")
		}
	}
}

// BenchmarkCap64KiB makes results of 64 KiB fit 4,000 tokens.
func BenchmarkCap64KiB(b *testing.B) {
	e := engine(b, "transform: {}")
	for _, c := range []struct {
		name string
		in   []byte
	}{{"issues", textResult(issues(178))}, {"log", textResult(log(64 << 10))}} {
		b.Run(c.name, func(b *testing.B) {
			var out []byte
			beside(b, c.in, func() {
				if out, _ = e.Apply(out[:0], c.in, &Call{Tool: "x", Schemas: None}); bytes.Equal(out, c.in) {
					b.Fatal("it fits")
				}
			})
		})
	}
}

// BenchmarkHostile makes 9 MiB of each hostile text fit 4,000 tokens.
func BenchmarkHostile(b *testing.B) {
	e := engine(b, "transform: {}")
	for name, in := range hostile(9 << 20) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				e.Apply(nil, in, &Call{Tool: "x", Schemas: None})
			}
		})
	}
}

// BenchmarkCap makes results of 10 MiB fit 4,000 tokens.
func BenchmarkCap(b *testing.B) {
	e := engine(b, "transform: {}")
	list := issues(30_000)
	half := issues(10_000)
	for _, c := range []struct {
		name string
		in   []byte
	}{
		{"list", textResult(list[:len(list)-1] + `,"more":[` + strings.Repeat("1,", (10<<20-len(list))/2+1) + `1]}`)},
		{"issues", textResult(issues(28_500))},
		{"both", []byte(`{"content":[{"type":"text","text":` + string(quoted(half)) + `}],"structuredContent":` + half + `}`)},
		{"log", textResult(log(10 << 20))},
		{"blocks", textResult(strings.Split(strings.Repeat("tiny,", 1_000_000), ",")...)},
		{"links", []byte(`{"content":[` + strings.Repeat(`{"type":"resource_link","uri":"file:///a/b/c","name":"c"},`, 4999) + `{"type":"text","text":"x"}]}`)},
	} {
		b.Run(c.name, func(b *testing.B) {
			var out []byte
			beside(b, c.in, func() {
				if out, _ = e.Apply(out[:0], c.in, &Call{Tool: "x", Schemas: None}); bytes.Equal(out, c.in) {
					b.Fatal("it fits")
				}
			})
		})
	}
}
