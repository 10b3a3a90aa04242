package command

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLinesArePairedInOrder checks that pairs are of equal lines and in order, and that all lines are paired if the
// sides are equal.
func TestLinesArePairedInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"a", "b", "c", "{", "}", "", "d", "e", "f", "g"})
		before := rapid.SliceOfN(line, 0, 40).Draw(t, "before")
		after := rapid.SliceOfN(line, 0, 40).Draw(t, "after")
		last := pair{-1, -1}
		for _, p := range same(before, after, 0, 0) {
			if p.i <= last.i || p.j <= last.j || before[p.i] != after[p.j] {
				t.Fatalf("%v behind %v in %q and %q", p, last, before, after)
			}
			last = p
		}
		if n := len(same(before, before, 0, 0)); n != len(before) {
			t.Fatalf("%d of %d lines are the same as themselves", n, len(before))
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
