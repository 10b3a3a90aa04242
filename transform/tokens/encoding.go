package tokens

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"sync"
	"unicode/utf8"
)

// The names of the encodings and of the two plain measures.
const (
	CL100K = "cl100k_base"
	O200K  = "o200k_base"
	Bytes  = "bytes"  // a token is a byte: the count is never too low
	Chars4 = "chars4" // a token is four code points, rounded up: far too low for CJK or base64
)

// methods are the ways to count, by encoding. Each loads its tables at the first call,
// once for the process: they never change, and take megabytes.
var methods = map[string]func() (method, error){
	CL100K: tables(cl100kMerges, cl100kPattern),
	O200K:  tables(o200kMerges, o200kPattern),
	Bytes:  func() (method, error) { return byteMethod{}, nil },
	Chars4: func() (method, error) { return runeMethod{}, nil },
}

func tables(deflated []byte, p pattern) func() (method, error) {
	return sync.OnceValues(func() (method, error) { return newVocabulary(deflated, p) })
}

// A method is one way to count. It is safe for concurrent use.
type method interface {
	// take counts units from the start of text, and returns how many there are
	// and how many bytes they take. If more text may follow (open), it does not
	// count the end that such text could change. It may stop when there are
	// more units than limit.
	take(text []byte, open bool, limit int) (units, used int)
}

const maxFactor = 10

// Named returns the encoding of that name. Its counts are multiplied by factor
// and rounded up; a factor of 0 means 1. Named does not load the tables yet.
func Named(name string, factor float64) (*Encoding, error) {
	factor = cmp.Or(factor, 1)
	if !(factor > 0 && factor <= maxFactor) {
		return nil, fmt.Errorf("safety factor %v is out of range: it must be above 0 and at most %d", factor, maxFactor)
	}
	e := &Encoding{name: name, factor: factor, unit: 1, method: methods[name]}
	if e.method == nil {
		return nil, fmt.Errorf("unknown encoding %q: have %s", name, strings.Join([]string{CL100K, O200K, Bytes, Chars4}, ", "))
	}
	if name == Chars4 {
		e.unit = 4
	}
	return e, nil
}

// An Encoding counts the tokens of texts. Each byte that is not UTF-8 counts as
// one U+FFFD; the names of special tokens count as plain text. It is safe for
// concurrent use and keeps no text.
type Encoding struct {
	name     string
	factor   float64
	unit     int // units of the method that make a token
	method   func() (method, error)
	counters sync.Pool
}

// Name returns the encoding's name.
func (e *Encoding) Name() string { return e.name }

// Factor returns the factor by which counts are multiplied.
func (e *Encoding) Factor() float64 { return e.factor }

// Load loads the encoding's tables if they are not loaded yet. Call it beside
// other work, so that the tables are there when they are needed. Counting loads
// them too. An error means that the tables in this binary are damaged; a count
// is then the number of bytes, which tokens never exceed.
func (e *Encoding) Load() error {
	_, err := e.method()
	if err != nil {
		return fmt.Errorf("load encoding %s: %w", e.name, err)
	}
	return nil
}

func (e *Encoding) loaded() method {
	m, err := e.method()
	if err != nil {
		return byteMethod{}
	}
	return m
}

// Count returns the number of tokens of text.
func (e *Encoding) Count(text []byte) int {
	units, _ := e.loaded().take(text, false, unlimited)
	return e.tokens(units)
}

// CountUpTo returns the number of tokens of text if that is at most limit.
// Otherwise over is true, n is some number above limit, and most of the text
// may be unread: limit bounds the work, not the length of the text.
func (e *Encoding) CountUpTo(text []byte, limit int) (n int, over bool) {
	if limit < 0 {
		return 0, true
	}
	most := e.units(limit)
	if len(text) > maxBytes(most) {
		return limit + 1, true
	}
	units, _ := e.loaded().take(text, false, most)
	if units > most {
		return e.tokens(units), true
	}
	return e.tokens(units), false
}

// Fits reports whether text has at most limit tokens. A text of no more bytes
// than that is not counted, and needs no tables.
func (e *Encoding) Fits(text []byte, limit int) bool {
	if limit < 0 {
		return false
	}
	// A token has one byte or more. A byte that is not UTF-8 counts as U+FFFD,
	// whose three bytes are at most three tokens.
	most := e.units(limit)
	if len(text) <= most/3 || len(text) <= most && utf8.Valid(text) {
		return true
	}
	_, over := e.CountUpTo(text, limit)
	return !over
}

// unlimited is more tokens than any text has.
const unlimited = math.MaxInt

// maxBytes returns how many bytes units can take at most.
func maxBytes(units int) int {
	if units > math.MaxInt/longestToken {
		return math.MaxInt
	}
	return units * longestToken
}

// tokens converts units to tokens, and applies the factor.
func (e *Encoding) tokens(units int) int {
	n := units / e.unit
	if units%e.unit > 0 {
		n++
	}
	if e.factor == 1 {
		return n
	}
	return int(math.Ceil(float64(n) * e.factor))
}

// units returns the most units that are no more than limit tokens.
func (e *Encoding) units(limit int) int {
	limit = min(limit, math.MaxInt32) // no text is that long
	if float64(limit)*float64(e.unit)/e.factor >= math.MaxInt/4 {
		return math.MaxInt / 4
	}
	if e.factor == 1 {
		return limit * e.unit
	}
	n := int(float64(limit)/e.factor) + 1
	for n > 0 && e.tokens(n*e.unit) > limit {
		n--
	}
	return n * e.unit
}

// byteMethod counts bytes.
type byteMethod struct{}

func (byteMethod) take(text []byte, _ bool, _ int) (int, int) { return len(text), len(text) }

// runeMethod counts code points.
type runeMethod struct{}

func (runeMethod) take(text []byte, open bool, _ int) (n, used int) {
	used = len(text)
	if open {
		for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
			if tail := text[len(text)-back:]; utf8.RuneStart(tail[0]) {
				if !utf8.FullRune(tail) {
					used -= back
				}
				break
			}
		}
	}
	return utf8.RuneCount(text[:used]), used
}
