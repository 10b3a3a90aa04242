package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/bench/corpus"
	"github.com/dragoman-proxy/dragoman/bench/histogram"
	"github.com/dragoman-proxy/dragoman/translate"
)

// job is a message and the translator that it is for.
type job struct {
	in *corpus.Message
	t  *translate.Translator
}

// jobs returns the messages between two revisions whose size is in (above, upTo].
func jobs(tb testing.TB, table *translate.Table, from, to *translate.Revision, above, upTo int) []job {
	tb.Helper()
	var list []job
	all := loadCorpus(tb).Between(from, to)
	for i := range all {
		if n := len(all[i].Raw); n > above && n <= upTo {
			list = append(list, job{&all[i], table.Between(from, to)})
		}
	}
	return list
}

// BenchmarkTranslate scans and rewrites every message between two revisions; an
// op is one pass over all of them. The quantiles are over single messages.
func BenchmarkTranslate(b *testing.B) {
	table := newTable(b)
	for _, part := range []struct {
		name        string
		above, upTo int
	}{
		{"size=upTo256KiB", -1, corpus.Small},
		{"size=larger", corpus.Small, 2 * corpus.Largest},
	} {
		b.Run(part.name, func(b *testing.B) {
			var every []job
			for _, pair := range corpus.Pairs() {
				list := jobs(b, table, pair[0], pair[1], part.above, part.upTo)
				every = append(every, list...)
				b.Run(pairName(pair[0], pair[1]), func(b *testing.B) { timeAll(b, list) })
			}
			b.Run("every", func(b *testing.B) { timeAll(b, every) })
		})
	}
}

func timeAll(b *testing.B, list []job) {
	var (
		r     runner
		h     histogram.Histogram
		total time.Duration
		bytes int
	)
	for _, j := range list { // so that all buffers have grown
		bytes += len(j.in.Raw)
		r.time(b, j.t, j.in)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, j := range list {
			took := r.time(b, j.t, j.in)
			h.Record(took.Nanoseconds())
			total += took
		}
	}
	report(b, &h, total, bytes)
	b.ReportMetric(float64(total.Nanoseconds())/float64(h.Total()), "ns/msg")
}

// BenchmarkToolsList50 compares scan and rewrite of a list of 50 tools, about 45 KB,
// with gjson.ValidBytes on the same bytes, in turns.
func BenchmarkToolsList50(b *testing.B) { againstGJSON(b, "tools_list_50") }

// BenchmarkText1MiB is BenchmarkToolsList50 for 1 MiB of text.
func BenchmarkText1MiB(b *testing.B) { againstGJSON(b, "call_text_1MiB") }

func againstGJSON(b *testing.B, name string) {
	table := newTable(b)
	for _, pair := range corpus.Pairs() {
		in := find(b, pair[0], pair[1], name)
		t := table.Between(pair[0], pair[1])
		b.Run(pairName(pair[0], pair[1]), func(b *testing.B) {
			var (
				r          runner
				ours, gj   histogram.Histogram
				x          ratios
				total      time.Duration
				validFirst bool
			)
			valid := func() time.Duration {
				start := time.Now()
				ok := gjson.ValidBytes(in.Raw)
				took := time.Since(start)
				if !ok {
					b.Fatal("not valid")
				}
				return took
			}
			r.time(b, t, in)
			b.ReportAllocs()
			for b.Loop() {
				var a, v time.Duration
				if validFirst = !validFirst; validFirst {
					v = valid()
					a = r.time(b, t, in)
				} else {
					a = r.time(b, t, in)
					v = valid()
				}
				ours.Record(a.Nanoseconds())
				gj.Record(v.Nanoseconds())
				x.record(a, v)
				total += a
			}
			report(b, &ours, total, len(in.Raw))
			b.ReportMetric(float64(gj.Quantile(0.5)), "gjson-p50-ns")
			b.ReportMetric(x.median(), "x-gjson")
		})
	}
}

// BenchmarkGrowth compares a list of 5,000 tools with the same tools in a hundred
// lists of 50: x-linear is 1 if the time grows linearly with the list. The lists are next
// to each other in memory, so that both sides find the caches and the branch predictor
// in the same state.
func BenchmarkGrowth(b *testing.B) {
	table := newTable(b)
	for _, pair := range corpus.Pairs() {
		whole := find(b, pair[0], pair[1], "tools_list_5000")
		parts := split(b, whole, 50)
		t := table.Between(pair[0], pair[1])
		b.Run(pairName(pair[0], pair[1]), func(b *testing.B) {
			var (
				one, many runner
				h         histogram.Histogram
				x         ratios
				total     time.Duration
				lists     = make([]runner, len(parts))
			)
			load := func() {
				for i := range parts {
					lists[i].load(&parts[i])
				}
			}
			load() // so that all buffers have grown
			one.time(b, t, whole)
			many.time(b, t, &parts[0])
			b.ReportAllocs()
			for b.Loop() {
				load()
				start := time.Now()
				for i := range parts {
					many.text, many.scratch = lists[i].text, lists[i].scratch
					if _, _, err := many.run(t, &parts[i]); err != nil {
						b.Fatal(err)
					}
				}
				inParts := time.Since(start)
				took := one.time(b, t, whole)
				h.Record(took.Nanoseconds())
				total += took
				x.record(took, inParts)
			}
			report(b, &h, total, len(whole.Raw))
			b.ReportMetric(x.median(), "x-linear")
		})
	}
}

// split splits a list of tools into lists of n tools each.
func split(tb testing.TB, whole *corpus.Message, n int) []corpus.Message {
	tb.Helper()
	tools := gjson.GetBytes(whole.Raw, "result.tools").Array()
	var parts []corpus.Message
	for of := range slices.Chunk(tools, n) {
		part := *whole
		part.Raw = []byte(`{"result":{"tools":[`)
		for i, tool := range of {
			if i > 0 {
				part.Raw = append(part.Raw, ',')
			}
			part.Raw = append(part.Raw, tool.Raw...)
		}
		part.Raw = append(part.Raw, `]},"jsonrpc":"2.0","id":1}`...)
		parts = append(parts, part)
	}
	return parts
}

// conversions are the rules that write new values, each with a message that
// it changes.
var conversions = []struct{ rule, message, from, to string }{
	{"C01", "tools_list_50", "2025-11-25", "2025-03-26"},
	{"C04", "call_structured_1KiB", "2025-11-25", "2025-03-26"},
	{"C04", "call_twin_1KiB", "2025-11-25", "2025-03-26"},
	{"C04", "call_structured_64KiB", "2025-11-25", "2025-03-26"},
	{"C04", "call_twin_64KiB", "2025-11-25", "2025-03-26"},
	{"C10", "call_mixed_1KiB", "2025-03-26", "2024-11-05"},
	{"C10", "call_mixed_64KiB", "2025-03-26", "2024-11-05"},
	{"C11", "call_mixed_1KiB", "2025-11-25", "2025-03-26"},
	{"C11", "call_mixed_64KiB", "2025-11-25", "2025-03-26"},
	{"C12", "sample_arrays", "2025-11-25", "2025-06-18"},
	{"C12", "sample_arrays_result", "2025-11-25", "2024-11-05"},
	{"C13", "sample_tools", "2025-11-25", "2025-06-18"},
	{"C19", "elicit_choices", "2025-11-25", "2025-06-18"},
	{"C19", "elicit_choices_result", "2025-06-18", "2025-11-25"},
	{"C22", "error_urls", "2025-11-25", "2025-06-18"},
	{"C41", "resources_read_blob", "2025-03-26", "2025-06-18"},
}

// BenchmarkConversion measures the time and the memory of single conversions.
func BenchmarkConversion(b *testing.B) {
	table := newTable(b)
	for _, c := range conversions {
		from, to := translate.Lookup(c.from), translate.Lookup(c.to)
		list := []job{{find(b, from, to, c.message), table.Between(from, to)}}
		b.Run("rule="+c.rule+"/message="+c.message+"/"+pairName(from, to), func(b *testing.B) { timeAll(b, list) })
	}
}
