package tokens

import (
	"bytes"
	"compress/flate"
	"math"
	"strings"
	"sync"
	"testing"
)

func encoding(t testing.TB, name string, factor float64) *Encoding {
	t.Helper()
	e, err := Named(name, factor)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestCountsOfBytesAndCharacters(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		want int
	}{
		{Bytes, "", 0}, {Bytes, "abc", 3}, {Bytes, "中", 3}, {Bytes, "\xff\xff", 2},
		{Chars4, "", 0}, {Chars4, "a", 1}, {Chars4, "abcd", 1}, {Chars4, "abcde", 2}, {Chars4, "中文中文", 1}, {Chars4, "😀😀😀😀😀", 2}, {Chars4, "\xff\xff\xff\xff\xff", 2},
		{Chars4, "\xf0\x9f\x98", 1}, {Chars4, "aa\xf0\x9f\x98", 2},
	} {
		e := encoding(t, c.name, 0)
		if got := e.Count([]byte(c.text)); got != c.want {
			t.Errorf("%s of %q: %d, want %d", c.name, c.text, got, c.want)
		}
		for cut := range len(c.text) + 1 {
			counter := e.Counter()
			counter.retry = 0
			counter.Write([]byte(c.text[:cut]))
			counter.retry = 0
			counter.Write([]byte(c.text[cut:]))
			if got := counter.Sum(); got != c.want {
				t.Errorf("%s of %q cut at %d: %d, want %d", c.name, c.text, cut, got, c.want)
			}
			counter.Release()
		}
	}
}

func TestFactorsRoundUp(t *testing.T) {
	for _, name := range []string{CL100K, Bytes, Chars4} {
		for _, factor := range []float64{0.3, 0.5, 1, 1.1, 1.2, 1.7, 3, 10} {
			plain, scaled := encoding(t, name, 0), encoding(t, name, factor)
			for n := 0; n < 60; n += 1 + n/20 {
				text := []byte(strings.Repeat("a b, ", n))
				want := int(math.Ceil(float64(plain.Count(text)) * factor))
				if got := scaled.Count(text); got != want {
					t.Errorf("%s times %v: %d, want %d", name, factor, got, want)
				}
				for _, limit := range []int{0, want / 2, want - 2, want - 1, want, want + 1, want + 2, 2 * want} {
					limit = max(limit, 0)
					got, over := scaled.CountUpTo(text, limit)
					if over != (want > limit) || !over && got != want || over && got <= limit || scaled.Fits(text, limit) == over {
						t.Fatalf("%s times %v, %d tokens up to %d: %d, %t; fits: %t", name, factor, want, limit, got, over, scaled.Fits(text, limit))
					}
				}
			}
		}
	}
}

func TestLimitsAreExact(t *testing.T) {
	for _, name := range []string{CL100K, O200K, Bytes, Chars4} {
		e := encoding(t, name, 1.2)
		for _, c := range []struct {
			text  string
			limit int
			over  bool
		}{{"", 0, false}, {"", -1, true}, {"x", 0, true}, {"x", -1, true}, {"x", math.MinInt, true}, {"x", 2, false}, {"x", math.MaxInt, false}} {
			if n, over := e.CountUpTo([]byte(c.text), c.limit); over != c.over {
				t.Errorf("%s: %q up to %d: %d, %t", name, c.text, c.limit, n, over)
			}
			if e.Fits([]byte(c.text), c.limit) == c.over {
				t.Errorf("%s: %q fits %d: %t", name, c.text, c.limit, c.over)
			}
		}
	}
}

func TestTextWithinTheBudgetByBytesNeedsNoTables(t *testing.T) {
	e := encoding(t, O200K, 0)
	e.method = func() (method, error) { t.Error("tables were loaded"); return byteMethod{}, nil }
	if !e.Fits(bytes.Repeat([]byte("x"), 4000), 4000) {
		t.Error("4,000 bytes do not fit 4,000 tokens")
	}
	if e.Fits(bytes.Repeat([]byte("x"), 4000*longestToken+1), 4000) {
		t.Error("a byte more than 4,000 of the longest tokens fits 4,000")
	}
}

func TestEncodingsShareTheirTables(t *testing.T) {
	var wg sync.WaitGroup
	methods := make([]method, 8)
	for i := range methods {
		wg.Go(func() {
			e, _, err := ForModel("gpt-4", float64(i))
			if err != nil {
				t.Error(err)
				return
			}
			methods[i] = e.loaded()
		})
	}
	wg.Wait()
	for _, m := range methods {
		if m != methods[0] {
			t.Error("tables were loaded twice")
		}
	}
}

func TestCountingFromManyGoroutines(t *testing.T) {
	texts := loadGolden(t)
	for name, e := range exact(t) {
		var wg sync.WaitGroup
		for part := range 4 {
			wg.Go(func() {
				c := e.Counter()
				defer c.Release()
				for i := part; i < len(texts); i += 8 {
					text, want := texts[i].bytes(t), texts[i].want()[name]
					c.Reset()
					c.Write(text)
					if got, parts := e.Count(text), c.Sum(); got != want || parts != want {
						t.Errorf("%s: %d and %d tokens, want %d", name, got, parts, want)
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestCounterGoesOnAfterSum(t *testing.T) {
	e := encoding(t, O200K, 0)
	c := e.Counter()
	defer c.Release()
	var text []byte
	for _, part := range []string{"", "un", "believ", "able", "'", "l", "l", " \n", " \n", "\xe4", "\xb8", "\xad", strings.Repeat("=", 5000), "\xf0\x9f"} {
		c.Write([]byte(part))
		text = append(text, part...)
		if got, want := c.Sum(), e.Count(text); got != want {
			t.Errorf("after %q: %d tokens, want %d", part, got, want)
		}
	}
}

func TestDamagedTablesAreErrors(t *testing.T) {
	var plain bytes.Buffer
	deflate := func(b []byte) []byte {
		plain.Reset()
		w, err := flate.NewWriter(&plain, 1)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(b)
		w.Close()
		return bytes.Clone(plain.Bytes())
	}
	alphabet := make([]byte, 256)
	for i := range alphabet {
		alphabet[i] = byte(i)
	}
	if _, err := readMerges(deflate(append(bytes.Clone(alphabet), 1, 0, 0, 0, 1, 0, 0))); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"empty":           {},
		"cut":             cl100kMerges[:len(cl100kMerges)/2],
		"not deflated":    alphabet,
		"no bytes":        deflate(alphabet[:255]),
		"no number":       deflate(alphabet),
		"too few":         deflate(append(bytes.Clone(alphabet), 2, 0, 0, 0, 1, 0, 0)),
		"too many":        deflate(append(bytes.Clone(alphabet), 1, 0, 0, 0, 1, 0, 0, 0)),
		"a huge number":   deflate(append(bytes.Clone(alphabet), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)),
		"made of itself":  deflate(append(bytes.Clone(alphabet), 1, 0, 1, 0, 1, 0, 0)),
		"made of a later": deflate(append(bytes.Clone(alphabet), 1, 1, 0, 0, 1, 2, 0)),
	} {
		if _, err := readMerges(b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, ranges := range []string{"41", "41 5a", "41 5a big", "5a 41 upper", "x 5a upper", "41 110000 upper", "41 5a upper more"} {
		if _, err := newClasses(ranges); err == nil {
			t.Errorf("classes %q: no error", ranges)
		}
	}
}

// TestLimitsThatNoTextReaches: they do not overflow where an int has 32 bits, whatever a token is counted as.
func TestLimitsThatNoTextReaches(t *testing.T) {
	text := []byte("two words")
	for _, name := range []string{O200K, Chars4} {
		for _, factor := range []float64{1, .001, maxFactor} {
			e, err := Named(name, factor)
			if err != nil {
				t.Fatal(err)
			}
			for _, limit := range []int{math.MaxInt32 / 2, math.MaxInt32, math.MaxInt} {
				if n, over := e.CountUpTo(text, limit); over || n != e.Count(text) || !e.Fits(text, limit) {
					t.Errorf("%s × %v up to %d: %d, over: %v", name, factor, limit, n, over)
				}
			}
		}
	}
}
