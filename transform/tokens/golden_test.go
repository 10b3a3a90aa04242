package tokens

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"
	"unicode"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// golden is a text and its counts by the original tokenizer, as testdata/golden.mjs writes it.
type golden struct {
	Kind, Text, Base64 string
	Times              int // 0 is once
	Bytes              int
	CL100K, O200K      int
}

func (g *golden) bytes(t testing.TB) []byte {
	t.Helper()
	if g.Base64 != "" {
		b, err := base64.StdEncoding.DecodeString(g.Base64)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	text := bytes.Repeat([]byte(g.Text), max(1, g.Times))
	if len(text) != g.Bytes {
		t.Fatalf("%s %.40q is %d bytes, want %d", g.Kind, g.Text, len(text), g.Bytes)
	}
	return text
}

func loadGolden(t testing.TB) []golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []golden
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 2000 {
		t.Fatalf("only %d golden texts", len(all))
	}
	return all
}

// exact returns the encodings that have a vocabulary.
func exact(t testing.TB) map[string]*Encoding {
	t.Helper()
	all := make(map[string]*Encoding)
	for _, name := range []string{CL100K, O200K} {
		e, err := Named(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Load(); err != nil {
			t.Fatal(err)
		}
		all[name] = e
	}
	return all
}

func (g *golden) want() map[string]int {
	return map[string]int{CL100K: g.CL100K, O200K: g.O200K}
}

func TestCountsMatchOriginalTokenizer(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	encodings := exact(t)
	for _, g := range loadGolden(t) {
		text := g.bytes(t)
		for name, want := range g.want() {
			e := encodings[name]
			if got := e.Count(text); got != want {
				t.Errorf("%s, %s %.200q: %d tokens, want %d", name, g.Kind, text, got, want)
			}
			if got, over := e.CountUpTo(text, want); over || got != want {
				t.Errorf("%s, %s %.200q up to %d: %d, over %t", name, g.Kind, text, want, got, over)
			}
			if n, over := e.CountUpTo(text, want-1); !over || n < want && n <= want-1 {
				t.Errorf("%s, %s %.200q up to %d: %d, over %t", name, g.Kind, text, want-1, n, over)
			}
			if !e.Fits(text, want) || e.Fits(text, want-1) {
				t.Errorf("%s, %s %.200q of %d: fits %d: %t, %d: %t", name, g.Kind, text, want, want, e.Fits(text, want), want-1, e.Fits(text, want-1))
			}
		}
	}
}

// cuts calls f with every place where a text of up to 2 KiB can be cut, and
// with forty random places of a longer text.
func cuts(length int, f func(at int)) {
	if length <= 2<<10 {
		for at := range length + 1 {
			f(at)
		}
		return
	}
	r := rand.New(rand.NewPCG(uint64(length), 100))
	for range 40 {
		f(r.IntN(length + 1))
	}
}

func TestCountsOfPartsAreThoseOfTheWhole(t *testing.T) {
	t.Parallel()
	encodings := exact(t)
	for i, g := range loadGolden(t) {
		if i%effort != 0 || testing.Short() && i%10 != 0 {
			continue
		}
		text := g.bytes(t)
		for name, want := range g.want() {
			c := encodings[name].Counter()
			bad := 0
			cuts(len(text), func(at int) {
				if bad > 0 {
					return
				}
				c.Reset()
				c.retry = 0 // count at once; otherwise a counter waits for more text
				c.Write(text[:at])
				least := c.AtLeast()
				c.Write(text[at:])
				if got := c.Sum(); got != want || least > want {
					bad++
					t.Errorf("%s, %s %.200q cut at %d: %d tokens, at least %d; want %d", name, g.Kind, text, at, got, least, want)
				}
			})
			c.Release()
		}
	}
}

func TestCountsOfSingleBytesAreThoseOfTheWhole(t *testing.T) {
	t.Parallel()
	encodings := exact(t)
	for i, g := range loadGolden(t) {
		if i%effort != 0 {
			continue
		}
		text := g.bytes(t)
		for name, want := range g.want() {
			c := encodings[name].Counter()
			for i := range text {
				if i%7 == 0 && len(text) < 2000 {
					c.retry = 0
				}
				c.Write(text[i : i+1])
			}
			if got := c.Sum(); got != want {
				t.Errorf("%s, %s %.200q byte by byte: %d tokens, want %d", name, g.Kind, text, got, want)
			}
			c.Release()
		}
	}
}

// TestClassesMatchGoUnicodeTables: the character classes are those of the original tokenizer, of
// Unicode 16. They differ from Go's tables only in characters that Unicode added after the version
// of Go's tables.
func TestClassesMatchGoUnicodeTables(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	if unicode.Version != "15.0.0" {
		t.Skip("Go's tables are of Unicode " + unicode.Version)
	}
	c, err := newClasses(classRanges)
	if err != nil {
		t.Fatal(err)
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if got, want := c.of(r), goClass(r); got != want && !unicode.Is(unicode.Cn, r) {
			t.Fatalf("%U is of class %b, in Go's tables %b", r, got, want)
		}
	}
}

// goClass returns the class of r by Go's tables.
func goClass(r rune) class {
	switch {
	case r == '\r' || r == '\n':
		return newline
	case unicode.Is(unicode.White_Space, r):
		return blank
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return upper
	case unicode.Is(unicode.Ll, r):
		return lower
	case unicode.In(r, unicode.Lm, unicode.Lo):
		return either
	case unicode.Is(unicode.M, r):
		return mark
	case unicode.Is(unicode.N, r):
		return number
	}
	return other
}
