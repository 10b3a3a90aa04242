package translate_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/corpus"
	"github.com/dragoman-proxy/dragoman/translate/internal/slowtest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// BenchmarkAgainstSlow compares the engine with package slow, which looks up and edits
// path by path, on a list of 50 tools, about 45 KB. An op is one translation by package slow; x-slow
// is the number of translations by the engine that take as long.
func BenchmarkAgainstSlow(b *testing.B) {
	c, err := corpus.New(corpus.Small)
	if err != nil {
		b.Fatal(err)
	}
	table := newTable(b, switches(0))
	for _, pair := range corpus.Pairs() {
		from, to := pair[0], pair[1]
		if from == to {
			continue
		}
		b.Run("from="+from.Name+"/to="+to.Name, func(b *testing.B) {
			in := corpus.Find(c.Between(from, to), "tools_list_50")
			t := table.Between(from, to)
			text := string(in.Raw)
			var m wire.Message
			scratch := make([]byte, 0, 2*len(text))
			var ours time.Duration
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				fresh := bytes.Clone(in.Raw)
				start := time.Now()
				if _, _, err := in.Rewrite(t, &m, fresh, scratch); err != nil {
					b.Fatal(err)
				}
				ours += time.Since(start)
				if _, err := slowtest.Translate(from.Name, to.Name, slowtest.Options{}, slowtest.Message{Text: text, Kind: in.Kind, Method: in.Method, Facts: in.Facts}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N), "ours-ns")
			b.ReportMetric(float64(b.Elapsed()-ours)/float64(ours), "x-slow")
		})
	}
}
