package tokens

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

func codec(t testing.TB, name string) tokenizer.Codec {
	t.Helper()
	c, err := tokenizer.Get(tokenizer.Encoding(name))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func libraryCount(t testing.TB, c tokenizer.Codec, text string) int {
	t.Helper()
	n, err := c.Count(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMergesAreTheLibrarysVocabulary: the committed tables are the library's vocabulary, token by
// token.
func TestMergesAreTheLibrarysVocabulary(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	for name, e := range exact(t) {
		m := e.loaded().(*vocabulary).merges
		c := codec(t, name)
		var q queue
		longest := 0
		for rank := range m.size {
			word, err := c.Decode([]uint{uint(rank)})
			if err != nil {
				t.Fatal(err)
			}
			longest = max(longest, len(word))
			q.merge(m, []byte(word))
			if got := q.nodes[0]; int(got.next) != len(word) || got.rank != uint32(rank) {
				t.Fatalf("%s: %q is merged into token %d and more, want %d alone", name, word, got.rank, rank)
			}
		}
		if word, err := c.Decode([]uint{uint(m.size)}); err == nil {
			t.Errorf("%s: token %d, %q, is missing", name, m.size, word)
		}
		if longest != m.longest || longest > longestToken {
			t.Errorf("%s: the longest token is %d bytes; %d by the tables, at most %d by assumption", name, longest, m.longest, longestToken)
		}
	}
}

// TestCountsFollowTheOriginalWhereTheLibraryDiffers: where the Go library departs from the original
// tokenizer, this package follows the original: the wanted counts are the original's. If the
// library's count is another than expected, the library has changed; this package is not wrong.
func TestCountsFollowTheOriginalWhereTheLibraryDiffers(t *testing.T) {
	type counts map[string]int
	for _, c := range []struct {
		why, text         string
		original, library counts
	}{
		{
			"DEL counts nothing there", "\x7f",
			counts{CL100K: 1, O200K: 1},
			counts{CL100K: 0, O200K: 0},
		},
		{
			"white space is cut at its first newline there", " \n \n x",
			counts{CL100K: 2, O200K: 2},
			counts{CL100K: 3, O200K: 3},
		},
	} {
		for name, e := range exact(t) {
			if got, want := e.Count([]byte(c.text)), c.original[name]; got != want {
				t.Errorf("%s, %s: %q is %d tokens, want %d", name, c.why, c.text, got, want)
			}
			if got, want := libraryCount(t, codec(t, name), c.text), c.library[name]; got != want {
				t.Errorf("%s, %s: the library makes %d tokens of %q, it was %d", name, c.why, got, c.text, want)
			}
		}
	}
}

// agreed returns text without the parts that the library counts differently:
// DEL and characters that Unicode added since its tables become "~", and two
// newlines with blanks between them become one newline.
func agreed(c *classes, text []byte) string {
	text = appendClean(nil, text)
	s := strings.Map(func(r rune) rune {
		if r == 0x7F || c.of(r) != goClass(r) {
			return '~'
		}
		return r
	}, string(text))
	return betweenNewlines.ReplaceAllString(s, "\n")
}

var betweenNewlines = regexp.MustCompile(`[\r\n][\s\v\x{85}\p{Z}]*[\t\v\f\x{85}\p{Z}][\s\v\x{85}\p{Z}]*[\r\n]`)

// FuzzAgainstLibrary checks that the library counts the same, apart from its
// known departures.
func FuzzAgainstLibrary(f *testing.F) {
	for i, g := range loadGolden(f) {
		if text := g.bytes(f); i%25 == 0 && len(text) < 1000 {
			f.Add(text)
		}
	}
	for _, s := range []string{"\u0301", "a\u0301B", "中A'S", "'ſ", "x'ſ", "'\xc5", " \u0301", "!\u0301!", "\u2028\n \u00a0x", "ǅǅa", "/\r\n/x", "\xf0\x9f\x98", "１２３４", "don'T'LL've"} {
		f.Add([]byte(s))
	}
	encodings := exact(f)
	codecs := make(map[string]tokenizer.Codec)
	for name := range encodings {
		codecs[name] = codec(f, name)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for name, e := range encodings {
			text := agreed(e.loaded().(*vocabulary).classes, raw)
			if !utf8.ValidString(text) {
				t.Fatal("not clean")
			}
			if got, want := e.Count([]byte(text)), libraryCount(t, codecs[name], text); got != want {
				t.Errorf("%s: %q is %d tokens, the library says %d", name, text, got, want)
			}
		}
	})
}

// FuzzCuts checks that a text has the same count whole, in two pieces, and with
// U+FFFD in the place of each bad byte; that the lower bound is not above the
// count; and that CountUpTo and Fits agree with the count.
func FuzzCuts(f *testing.F) {
	for i, g := range loadGolden(f) {
		if text := g.bytes(f); i%25 == 0 && len(text) < 1000 {
			f.Add(text, uint16(len(text)/2), uint16(len(text)/3))
		}
	}
	encodings := exact(f)
	f.Fuzz(func(t *testing.T, text []byte, cut, limit uint16) {
		at := min(int(cut), len(text))
		for name, e := range encodings {
			want := e.Count(text)
			if clean := e.Count(appendClean(nil, text)); clean != want {
				t.Errorf("%s: %q is %d tokens, with U+FFFD for bad bytes %d", name, text, want, clean)
			}
			if want > 3*len(text) {
				t.Errorf("%s: %q is %d tokens", name, text, want)
			}
			c := e.Counter()
			c.retry = 0
			c.Write(text[:at])
			least := c.AtLeast()
			c.Write(text[at:])
			if got := c.Sum(); got != want || least > want {
				t.Errorf("%s: %q cut at %d is %d tokens, at least %d; whole %d", name, text, at, got, least, want)
			}
			c.Release()
			n, over := e.CountUpTo(text, int(limit))
			if over != (want > int(limit)) || !over && n != want || over && n <= int(limit) {
				t.Errorf("%s: %q of %d tokens up to %d: %d, %t", name, text, want, limit, n, over)
			}
			if e.Fits(text, int(limit)) == over {
				t.Errorf("%s: %q of %d tokens: fits %d: %t", name, text, want, limit, !over)
			}
		}
	})
}
