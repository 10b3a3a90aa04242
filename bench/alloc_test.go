//go:build !race

package bench

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/bench/corpus"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// fewAllocations is how many allocations a conversion may make, whatever the size of the
// message.
const fewAllocations = 4

// converts lists the rules that replace a value with a new one. All others only remove or
// move values.
var converts = map[string]bool{"C04": true, "C10": true, "C11": true, "C12": true, "C13": true, "C19": true, "C22": true}

// allowed returns how many allocations the translation that r has just made may make: none,
// unless it was a conversion, an answer instead of the receiver's, or wrote values without a loss:
// it made the message longer by so many bytes, or rebuilt it by a note.
func allowed(r *runner, longer int, v wire.Verdict) float64 {
	rebuilt := r.message.Kind == wire.Result && r.message.Note != nil
	if v != wire.Forward || (longer > 0 || rebuilt) && len(r.message.Losses) == 0 {
		return fewAllocations
	}
	for _, l := range r.message.Losses {
		if converts[l.Rule] || l.Rule == "C41" && l.Level == wire.Debug { // a name was added
			return fewAllocations
		}
	}
	return 0
}

// allocations counts the allocations of one scan and rewrite, with buffers that have grown before.
func allocations(t *testing.T, r *runner, j job) (n float64, longer int, v wire.Verdict) {
	t.Helper()
	runs := 20
	if len(j.in.Raw) > corpus.Small {
		runs = 2
	}
	n = testing.AllocsPerRun(runs, func() {
		r.load(j.in)
		out, verdict, err := r.run(j.t, j.in)
		if err != nil {
			t.Fatalf("%s: %v", j.in.Name, err)
		}
		longer, v = len(out)-len(j.in.Raw), verdict
	})
	return n, longer, v
}

func TestEqualRevisionsAllocateNothing(t *testing.T) {
	table := newTable(t)
	for _, pair := range corpus.Pairs() {
		if pair[0] != pair[1] {
			continue
		}
		var r runner
		for _, j := range jobs(t, table, pair[0], pair[1], -1, 2*corpus.Largest) {
			if n, _, _ := allocations(t, &r, j); n != 0 {
				t.Errorf("%s: %s: %v allocations", pairName(pair[0], pair[1]), j.in.Name, n)
			}
			if out, v, _ := r.run(j.t, j.in); v != wire.Forward || &out[0] != &r.text[0] || len(out) != len(r.text) {
				t.Errorf("%s: %s did not come back as it was", pairName(pair[0], pair[1]), j.in.Name)
			}
		}
	}
}

// TestStrippingAllocatesNothing checks that translations make no allocations once their buffers have grown, except
// those that write new values.
func TestStrippingAllocatesNothing(t *testing.T) {
	table := newTable(t)
	for _, pair := range corpus.Pairs() {
		if pair[0] == pair[1] {
			continue
		}
		t.Run(pairName(pair[0], pair[1]), func(t *testing.T) {
			var r runner
			converted, stripped := 0, 0
			for _, j := range jobs(t, table, pair[0], pair[1], -1, 2*corpus.Largest) {
				n, longer, v := allocations(t, &r, j)
				limit := allowed(&r, longer, v)
				if n > limit {
					t.Errorf("%s: %v allocations, at most %v are allowed", j.in.Name, n, limit)
				}
				switch {
				case limit > 0:
					converted++
				case r.message.Edited():
					stripped++
				}
			}
			if converted+stripped == 0 {
				t.Error("no message was changed: nothing was measured")
			}
		})
	}
}
