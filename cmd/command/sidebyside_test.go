package command

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
)

// TestLinesArePairedInOrder checks that pairs are of equal lines and in order, and that all lines are paired if the
// sides are equal.
func TestLinesArePairedInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"a", "b", "c", "{", "}", "", "d", "e", "f", "g"})
		before := rapid.SliceOfN(line, 0, 40).Draw(t, "before")
		after := rapid.SliceOfN(line, 0, 40).Draw(t, "after")
		last, same := observe.Pair{A: -1, B: -1}, 0
		for _, p := range observe.Align(before, after) {
			if p.A < 0 || p.B < 0 {
				continue
			}
			if p.A <= last.A || p.B <= last.B || before[p.A] != after[p.B] {
				t.Fatalf("%v behind %v in %q and %q", p, last, before, after)
			}
			last = p
		}
		for _, p := range observe.Align(before, before) {
			if p.A == p.B {
				same++
			}
		}
		if same != len(before) {
			t.Fatalf("%d of %d lines are the same as themselves", same, len(before))
		}
		var right []string
		for _, r := range rows(before, after) {
			if r.mark != gone {
				right = append(right, r.after)
			}
		}
		if !slices.Equal(right, after) {
			t.Fatalf("the right side is %q, not %q", right, after)
		}
	})
}

func TestTextIsFittedToAWidth(t *testing.T) {
	for _, c := range []struct {
		text, want string
		width      int
	}{
		{"abc", "abc  ", 5}, {"abcdef", "abcd…", 5}, {"abcde", "abcde", 5}, {"", "     ", 5},
		{"日本語文", "日本… ", 6}, {"日本", "日本 ", 5}, {"\tx", "    x", 5}, {"👩‍👩‍👧x", "👩‍👩‍👧x  ", 5}, {strings.Repeat("e\u0301", 9), strings.Repeat("e\u0301", 4) + "…", 5},
	} {
		if got := cell(c.text, c.width); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
