package tokens

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"
)

// The encodings and the two plain measures, by name.
const (
	CL100K  = "cl100k_base"
	O200K   = "o200k_base"
	P50K    = "p50k_base"
	P50Edit = "p50k_edit"
	R50K    = "r50k_base"
	Bytes   = "bytes"  // a token is a byte: never too low
	Chars4  = "chars4" // a token is four code points, rounded up: far too low for CJK or base64
)

// methods are the ways to count, by encoding. Each loads its tables at the first call,
// once for the process: they never change, and take megabytes.
var methods = map[string]func() (method, error){
	CL100K:  sync.OnceValues(func() (method, error) { return newVocabulary(cl100kMerges, cl100kPattern) }),
	O200K:   sync.OnceValues(func() (method, error) { return newVocabulary(o200kMerges, o200kPattern) }),
	P50K:    fromLibrary(P50K),
	P50Edit: fromLibrary(P50Edit),
	R50K:    fromLibrary(R50K),
	Bytes:   func() (method, error) { return byteMethod{}, nil },
	Chars4:  func() (method, error) { return runeMethod{}, nil },
}

func fromLibrary(name tokenizer.Encoding) func() (method, error) {
	return sync.OnceValues(func() (method, error) { return newLibrary(name) })
}

// A method counts one way. It is safe for concurrent use.
type method interface {
	// take counts units from the start of text and returns how many and how
	// many bytes they took. When more text may follow (open) it leaves what that
	// could change. It may stop when there are more than limit.
	take(text []byte, open bool, limit int) (units, used int)
}

// An UnknownError says that there is no encoding of that name.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown encoding %q: have %s", e.Name,
		strings.Join([]string{CL100K, O200K, P50K, P50Edit, R50K, Bytes, Chars4}, ", "))
}

// A FactorError says that a safety factor is out of its range.
type FactorError struct{ Factor float64 }

func (e *FactorError) Error() string {
	return fmt.Sprintf("safety factor %v is not above 0 and at most %d", e.Factor, maxFactor)
}

const maxFactor = 10

// Named returns the encoding of that name, with counts multiplied by factor and
// rounded up; 0 is 1. It loads nothing yet. The error is an [*UnknownError] or
// a [*FactorError].
func Named(name string, factor float64) (*Encoding, error) {
	if factor == 0 {
		factor = 1
	}
	if !(factor > 0 && factor <= maxFactor) {
		return nil, &FactorError{factor}
	}
	e := &Encoding{name: name, factor: factor, unit: 1, method: methods[name]}
	if e.method == nil {
		return nil, &UnknownError{name}
	}
	if name == Chars4 {
		e.unit = 4
	}
	return e, nil
}

// An Encoding counts the tokens of texts. Bytes that are no UTF-8 count as one
// U+FFFD each; the names of special tokens are plain text. It is safe for
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

// Factor returns what counts are multiplied by.
func (e *Encoding) Factor() float64 { return e.factor }

// Load loads the encoding's tables unless they are: call it beside other work
// to have them when they are needed. Counting loads them too. An error says
// that the tables in this binary are damaged; counts are then the bytes, which
// tokens never exceed.
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

// CountUpTo returns the number of tokens of text when that is at most limit.
// When it is over, n is some number above limit and most of the text may be
// unread: the work is bounded by limit, not by the text.
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
	// A token is a byte or more; of U+FFFD in a bad byte's place, a third of one.
	most := e.units(limit)
	if 3*len(text) <= most || len(text) <= most && utf8.Valid(text) {
		return true
	}
	_, over := e.CountUpTo(text, limit)
	return !over
}

// unlimited is more tokens than any text has.
const unlimited = math.MaxInt

// longestToken is at least the bytes of the longest token of every encoding,
// and of the longest UTF-8 sequence.
const longestToken = 128

// maxBytes returns how many bytes units can be at the most.
func maxBytes(units int) int {
	if units > math.MaxInt/longestToken {
		return math.MaxInt
	}
	return units * longestToken
}

// tokens turns units into tokens, the factor included.
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

// library counts with the Go library as it is, the whole text at once.
type library struct{ codec tokenizer.Codec }

func newLibrary(name tokenizer.Encoding) (library, error) {
	c, err := tokenizer.Get(name)
	return library{c}, err
}

func (l library) take(text []byte, open bool, _ int) (n, used int) {
	if open {
		return 0, 0
	}
	clean := text
	if !utf8.Valid(text) {
		clean = appendClean(nil, text)
	}
	n, err := l.codec.Count(string(clean))
	if err != nil {
		n = len(clean) // the regular expression gave up; tokens are no more than bytes
	}
	return n, len(text)
}
