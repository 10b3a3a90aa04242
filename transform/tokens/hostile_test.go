package tokens

import (
	"bytes"
	"strings"
	"testing"
)

// hostile returns texts that are very slow for a tokenizer that backtracks or
// merges naively.
func hostile() map[string][]byte {
	repeat := func(s string, times int) []byte { return []byte(strings.Repeat(s, 1+times/effort)) }
	all := map[string][]byte{
		"equal letters":            repeat("a", 40_000),
		"blank and newline":        repeat(" \n", 20_000),
		"equals signs":             repeat("=", 200_000),
		"a newline, then blanks":   append([]byte("\n"), repeat(" ", 500_000)...),
		"blanks, then a newline":   append(repeat(" ", 500_000), '\n'),
		"apostrophes":              repeat("'", 300_000),
		"capitals after a mark":    append([]byte("\u0301"), repeat("A", 500_000)...),
		"capitals after a han":     append([]byte("中"), repeat("A", 500_000)...),
		"marks":                    repeat("\u0301", 250_000),
		"marks and capitals":       repeat("\u0301A", 150_000),
		"slashes and newlines":     repeat("/\n", 250_000),
		"bad bytes":                repeat("\xff", 300_000),
		"heads of characters":      repeat("\xf0\x9f", 150_000),
		"an endless han word":      repeat("的一是在不了有和人这中大为上个国", 10_000),
		"an endless latin word":    repeat("honorificabilitudinitatibus", 20_000),
		"an endless thai sentence": repeat("ภาษาไทยไม่มีเว้นวรรค", 8_000),
	}
	for _, c := range []string{"a", "Z", "0", " ", "\n", "\t", "=", "-", "_", "é", "中", "\u00a0", "😀", "\u0301", "\x00", "\x7f"} {
		all["a megabyte of "+c] = repeat(c, 1<<20/len(c))
	}
	return all
}

// TestHostileTextsAreCounted: each of these texts takes milliseconds. Code that is quadratic in any
// of them does not end within the time limit of a test.
func TestHostileTextsAreCounted(t *testing.T) {
	t.Parallel()
	encodings := exact(t)
	for kind, text := range hostile() {
		for name, e := range encodings {
			want := e.Count(text)
			if want < (len(text)+longestToken-1)/longestToken || want > 3*len(text) {
				t.Errorf("%s, %s: %d tokens of %d bytes", name, kind, want, len(text))
			}
			c := e.Counter()
			for part := range bytesIn(text, 1000) {
				c.Write(part)
			}
			if got := c.Sum(); got != want {
				t.Errorf("%s, %s: %d tokens in parts, %d whole", name, kind, got, want)
			}
			c.Release()
			for _, limit := range []int{100, 4000, want - 1, want} {
				if n, over := e.CountUpTo(text, limit); over != (want > limit) || !over && n != want {
					t.Errorf("%s, %s: %d tokens up to %d: %d, %t", name, kind, want, limit, n, over)
				}
			}
		}
	}
}

// bytesIn yields text in parts of n bytes.
func bytesIn(text []byte, n int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(text) > 0 {
			part := text[:min(n, len(text))]
			text = text[len(part):]
			if !yield(part) {
				return
			}
		}
	}
}

// TestLargeScratchBuffersAreReleased: buffers that a hostile text made grow are not kept.
func TestLargeScratchBuffersAreReleased(t *testing.T) {
	e := exact(t)[CL100K]
	v := e.loaded().(*vocabulary)
	s := newScratch(v)
	s.window = 1 << 20
	s.long(v.merges, bytes.Repeat([]byte("ab"), 1<<18), unlimited)
	s.clean = make([]byte, 1<<20)
	v.release(s)
	if n := cap(s.queue.nodes); n > 2*windowBytes {
		t.Errorf("%d nodes are kept", n)
	}
	if n := cap(s.queue.turn); n > 2*windowBytes {
		t.Errorf("a list of %d is kept", n)
	}
	if n := cap(s.clean); n > keptScratch {
		t.Errorf("%d bytes are kept", n)
	}
	c := e.Counter()
	c.Write(bytes.Repeat([]byte("x"), 1<<20))
	c.Release()
	if n := cap(c.rest); n > keptScratch {
		t.Errorf("a counter keeps %d bytes", n)
	}
}
