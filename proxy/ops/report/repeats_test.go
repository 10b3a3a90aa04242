package report

import (
	"fmt"
	"slices"
	"testing"
)

func TestRepeatsAreMerged(t *testing.T) {
	var lines []string
	s := newRepeats(2, func(kind string, last, repeated int) { lines = append(lines, fmt.Sprint(kind, last, repeated)) }, last)
	says := func(want ...string) {
		t.Helper()
		slices.Sort(lines)
		if !slices.Equal(lines, want) {
			t.Errorf("lines %q, want %q", lines, want)
		}
		lines = nil
	}
	for n := range 4 {
		s.Add("a", n)
	}
	says("a0 0")
	s.Flush()
	says("a3 3")
	s.Add("a", 9) // within the next period: still no line of its own
	says()
	s.Flush()
	says("a9 1")
	s.Flush() // nothing came: the kind is forgotten
	s.Add("a", 4)
	says("a4 0")
	s.Add("a", 5)
	s.Add("b", 6)
	s.Add("c", 7) // one too many: what was merged is written, and nothing is lost
	says("a5 1", "b6 0", "c7 0")
	if len(s.kinds) != 1 {
		t.Errorf("%d kinds are kept", len(s.kinds))
	}
}
