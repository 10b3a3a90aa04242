package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/corpus"
	"github.com/dragoman-proxy/dragoman/bench/histogram"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var messages = sync.OnceValues(func() (*corpus.Corpus, error) { return corpus.New(corpus.Largest) })

func loadCorpus(tb testing.TB) *corpus.Corpus {
	tb.Helper()
	c, err := messages()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func newTable(tb testing.TB) *translate.Table {
	tb.Helper()
	t, err := translate.NewTable(translate.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// find returns the message of that name that a peer of from sends to one of to.
func find(tb testing.TB, from, to *translate.Revision, name string) *corpus.Message {
	tb.Helper()
	m := corpus.Find(loadCorpus(tb).Between(from, to), name)
	if m == nil {
		tb.Fatalf("no message %s in %s", name, from)
	}
	return m
}

// pairName names a sub-benchmark so that benchstat can tell the two apart.
func pairName(from, to *translate.Revision) string {
	return fmt.Sprintf("from=%s/to=%s", from, to)
}

// runner translates message after message in the same memory, as a proxy does after it has
// run for a while.
type runner struct {
	message       wire.Message
	text, scratch []byte
}

// load copies a message, since rules that remove members work in place, and makes
// room for its translation.
func (r *runner) load(in *corpus.Message) {
	r.text = append(r.text[:0], in.Raw...)
	if room := 2*len(in.Raw) + 4<<10; cap(r.scratch) < room {
		r.scratch = make([]byte, 0, room)
	}
}

// run translates the loaded message.
func (r *runner) run(t *translate.Translator, in *corpus.Message) ([]byte, wire.Verdict, error) {
	return in.Rewrite(t, &r.message, r.text, r.scratch)
}

// time translates a fresh copy and returns how long scan and rewrite took.
func (r *runner) time(b *testing.B, t *translate.Translator, in *corpus.Message) time.Duration {
	r.load(in)
	start := time.Now()
	_, _, err := r.run(t, in)
	took := time.Since(start)
	if err != nil {
		b.Fatalf("%s: %v", in.Name, err)
	}
	return took
}

// report reports the measured times instead of the benchmark's own, which
// include copying the messages. An op has this many bytes.
func report(b *testing.B, h *histogram.Histogram, total time.Duration, bytes int) {
	b.ReportMetric(float64(total.Nanoseconds())/float64(b.N), "ns/op")
	b.ReportMetric(float64(bytes)*float64(b.N)/1e6/total.Seconds(), "MB/s")
	b.ReportMetric(float64(h.Quantile(0.5)), "p50-ns")
	b.ReportMetric(float64(h.Quantile(0.99)), "p99-ns")
	b.ReportMetric(float64(h.Max()), "max-ns")
}

// ratios collects quotients of two durations that were measured one right after the
// other, so that other load of the machine affects both.
type ratios struct{ histogram.Histogram }

const ratioUnit = 1e6

func (r *ratios) record(a, b time.Duration) {
	if b > 0 {
		r.Record(int64(float64(a) / float64(b) * ratioUnit))
	}
}

// median returns the median of the quotients.
func (r *ratios) median() float64 { return float64(r.Quantile(0.5)) / ratioUnit }
