package tokens

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// naive merges by the definition: of all neighbours that together form a token,
// it joins those of the lowest rank first, and the leftmost of equals.
type naive map[string]int

func newNaive(t testing.TB, name string, size int) naive {
	t.Helper()
	ranks, c := make(naive, size), codec(t, name)
	for rank := range size {
		word, err := c.Decode([]uint{uint(rank)})
		if err != nil {
			t.Fatal(err)
		}
		ranks[word] = rank
	}
	return ranks
}

func (ranks naive) merge(piece string) []string {
	var parts []string
	for i := range len(piece) {
		parts = append(parts, piece[i:i+1])
	}
	for {
		best, at := len(ranks), -1
		for i := range len(parts) - 1 {
			if r, ok := ranks[parts[i]+parts[i+1]]; ok && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			return parts
		}
		parts[at] += parts[at+1]
		parts = append(parts[:at+1], parts[at+2:]...)
	}
}

// alphabets make pieces that merge in many ways.
func alphabets() map[string][]string {
	chars := func(lo, hi rune) (all []string) {
		for r := lo; r <= hi; r++ {
			if utf8.ValidRune(r) {
				all = append(all, string(r))
			}
		}
		return all
	}
	a := map[string][]string{
		"one letter":  {"a"},
		"two letters": {"a", "b"},
		"english":     strings.Split("etaoinshrdluETAOIN", ""),
		"syllables":   strings.Fields("ing tion the re con ed er ly un pre 's able"),
		"lines":       {"=", "-", "_", "*", "#", "/", "\n"},
		"blanks":      {" ", "\n", "\t", "\u00a0", "\u3000"},
		"latin":       chars(0x20, 0x24f),
		"cyrillic":    chars(0x410, 0x44f),
		"han":         chars(0x4e00, 0x9fff),
		"kana":        append(chars(0x3040, 0x30ff), "，", "。"),
		"hangul":      chars(0xac00, 0xd7a3),
		"indic":       chars(0x900, 0xdff),
		"emoji":       append(chars(0x1f300, 0x1f6ff), "\u200d", "\ufe0f", "🏽"),
		"marks":       append(chars(0x300, 0x36f), "e", "o", "A"),
		"all":         chars(0x80, 0x2ffff),
	}
	for _, list := range a {
		a["mixed"] = append(a["mixed"], list[:min(len(list), 100)]...)
	}
	return a
}

// TestAllMergesAgree: all the ways to merge give the same result: as defined, in place, with
// queues, in windows.
func TestAllMergesAgree(t *testing.T) {
	for name, e := range exact(t) {
		v := e.loaded().(*vocabulary)
		ranks := newNaive(t, name, v.merges.size)
		r := rand.New(rand.NewPCG(7, 7))
		s := newScratch(v)
		for kind, alphabet := range alphabets() {
			rounds := 100
			if testing.Short() {
				rounds = 40
			}
			for range 1 + rounds/effort {
				var piece []byte
				for size := 2 + r.IntN(200); len(piece) < size; {
					piece = append(piece, alphabet[r.IntN(len(alphabet))]...)
				}
				want := len(ranks.merge(string(piece)))
				s.queue.merge(v.merges, piece)
				got := 0
				for i := 0; i < len(piece); i = int(s.queue.nodes[i].next) {
					got++
				}
				if got != want {
					t.Errorf("%s, %s, by queue: %q is %d tokens, want %d", name, kind, piece, got, want)
				}
				for s.window = 16; s.window < 2*len(piece); s.window *= 2 {
					if got := s.long(v.merges, piece, unlimited); got != want {
						t.Errorf("%s, %s, in windows of %d: %q is %d tokens, want %d", name, kind, s.window, piece, got, want)
					}
				}
				for len(piece) > shortPiece {
					_, w := utf8.DecodeLastRune(piece)
					piece = piece[:len(piece)-w]
				}
				want = len(ranks.merge(string(piece)))
				if got := s.short.count(v.merges, piece); got != want {
					t.Errorf("%s, %s, in place: %q is %d tokens, want %d", name, kind, piece, got, want)
				}
			}
		}
	}
}

func TestRandomTextsMatchLibrary(t *testing.T) {
	for name, e := range exact(t) {
		c, classes := codec(t, name), e.loaded().(*vocabulary).classes
		r := rand.New(rand.NewPCG(11, 12))
		all := alphabets()
		kinds := [][]string{{" ", " ", "\n", "'s", "'LL", "1", "23", "!", "(", "A", "b", "ſ", "ǅ"}, {" "}}
		for _, kind := range []string{"english", "syllables", "lines", "blanks", "latin", "cyrillic", "han", "kana", "hangul", "indic", "emoji", "marks", "all", "mixed"} {
			kinds = append(kinds, all[kind])
		}
		rounds := 4000
		if testing.Short() {
			rounds = 400
		}
		for range 1 + rounds/effort {
			var raw []byte
			for range 1 + r.IntN(12) {
				kind := kinds[r.IntN(len(kinds))]
				for range 1 + r.IntN(9) {
					raw = append(raw, kind[r.IntN(len(kind))]...)
				}
			}
			text := agreed(classes, raw)
			if got, want := e.Count([]byte(text)), libraryCount(t, c, text); got != want {
				t.Errorf("%s: %q is %d tokens, the library says %d", name, text, got, want)
			}
		}
	}
}

// TestWindowsGrowUntilTwoAgree: there may be a text of which no two windows agree. The window then
// grows until one holds the whole text.
func TestWindowsGrowUntilTwoAgree(t *testing.T) {
	v := exact(t)[O200K].loaded().(*vocabulary)
	s := newScratch(v)
	piece := bytes.Repeat([]byte("="), 3000)
	want := s.long(v.merges, piece, unlimited)
	disagreed := false
	for window := 2; window < 64; window++ {
		if n, ok := s.windows(v.merges, piece, unlimited, window); !ok {
			disagreed = true
		} else if n != want {
			t.Errorf("in windows of %d: %d tokens, want %d", window, n, want)
		}
		s.window = window
		if got := s.long(v.merges, piece, unlimited); got != want {
			t.Errorf("in windows from %d: %d tokens, want %d", window, got, want)
		}
	}
	if !disagreed {
		t.Error("all windows agreed: nothing was tried")
	}
}
