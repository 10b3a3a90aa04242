package wire

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// slowChecker is a slow and simple twin of Check: it reads the text once, byte by byte.
type slowChecker struct {
	data      []byte
	pos       int
	size      int  // with slowString or slowArray: the bytes or elements counted
	maxDepth  int  // containers inside each other, the root is 1
	maxString int  // bytes between the quotes; 0 for any
	maxArray  int  // elements; 0 for any
	clean     bool // refuse U+0000 and lone surrogates in strings
}

func (s *slowChecker) document() slowFault {
	s.space()
	if f := s.value(1); f != slowFine {
		return f
	}
	if s.space(); s.pos < len(s.data) {
		return slowTrailing
	}
	return slowFine
}

func (s *slowChecker) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\n', '\r', '\t':
			s.pos++
		default:
			return
		}
	}
}

func (s *slowChecker) value(depth int) slowFault {
	if s.pos >= len(s.data) {
		return slowEnd
	}
	switch s.data[s.pos] {
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case '"':
		return s.string()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *slowChecker) object(depth int) slowFault {
	if depth > s.maxDepth {
		s.size = depth
		return slowDepth
	}
	s.pos++
	if s.space(); s.pos < len(s.data) && s.data[s.pos] == '}' {
		s.pos++
		return slowFine
	}
	for {
		if f := s.key(); f != slowFine {
			return f
		}
		if f := s.value(depth + 1); f != slowFine {
			return f
		}
		if more, f := s.next('}'); f != slowFine || !more {
			return f
		}
	}
}

// key reads a member's name and its colon, up to the value.
func (s *slowChecker) key() slowFault {
	if s.pos >= len(s.data) {
		return slowEnd
	}
	if s.data[s.pos] != '"' {
		return slowChar
	}
	if f := s.string(); f != slowFine {
		return f
	}
	if s.space(); s.pos >= len(s.data) {
		return slowEnd
	}
	if s.data[s.pos] != ':' {
		return slowChar
	}
	s.pos++
	s.space()
	return slowFine
}

// next reads the comma or the closing bracket behind an element. more is true after a
// comma.
func (s *slowChecker) next(end byte) (more bool, f slowFault) {
	if s.space(); s.pos >= len(s.data) {
		return false, slowEnd
	}
	switch s.data[s.pos] {
	case ',':
		s.pos++
		s.space()
		return true, slowFine
	case end:
		s.pos++
		return false, slowFine
	}
	return false, slowChar
}

func (s *slowChecker) array(depth int) slowFault {
	if depth > s.maxDepth {
		s.size = depth
		return slowDepth
	}
	s.pos++
	if s.space(); s.pos < len(s.data) && s.data[s.pos] == ']' {
		s.pos++
		return slowFine
	}
	for n := 1; ; n++ {
		if s.maxArray > 0 && n > s.maxArray {
			s.size = n
			return slowArray
		}
		if f := s.value(depth + 1); f != slowFine {
			return f
		}
		if more, f := s.next(']'); f != slowFine || !more {
			return f
		}
	}
}

func (s *slowChecker) word(w string) slowFault {
	for i := range len(w) {
		if s.pos >= len(s.data) {
			return slowEnd
		}
		if s.data[s.pos] != w[i] {
			return slowChar
		}
		s.pos++
	}
	return slowFine
}

func (s *slowChecker) digits() slowFault {
	if s.pos >= len(s.data) {
		return slowEnd
	}
	if c := s.data[s.pos]; c < '0' || c > '9' {
		return slowChar
	}
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return slowFine
}

func (s *slowChecker) number() slowFault {
	if s.data[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++
	} else if f := s.digits(); f != slowFine {
		return f
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		if f := s.digits(); f != slowFine {
			return f
		}
	}
	if s.pos < len(s.data) && s.data[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		return s.digits()
	}
	return slowFine
}

func (s *slowChecker) string() slowFault {
	s.pos++
	start := s.pos
	for {
		if s.pos >= len(s.data) {
			return slowEnd
		}
		switch c := s.data[s.pos]; {
		case c == '"':
			if s.size = s.pos - start; s.maxString > 0 && s.size > s.maxString {
				return slowString
			}
			s.pos++
			return slowFine
		case c == '\\':
			if f := s.escape(); f != slowFine {
				return f
			}
		case c < 0x20:
			return slowChar
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, n := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && n <= 1 {
				return slowUTF8
			}
			s.pos += n
		}
	}
}

func (s *slowChecker) escape() slowFault {
	at := s.pos
	if s.pos+1 >= len(s.data) {
		s.pos = len(s.data)
		return slowEnd
	}
	switch s.data[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return slowFine
	case 'u':
	default:
		s.pos++
		return slowChar
	}
	u, f := s.unit()
	if f != slowFine || !s.clean {
		return f
	}
	if u == 0 {
		s.pos = at
		return slowNUL
	}
	if !utf16.IsSurrogate(u) {
		return slowFine
	}
	if u < 0xDC00 && s.pos+1 < len(s.data) && s.data[s.pos] == '\\' && s.data[s.pos+1] == 'u' {
		low, f := s.unit()
		if f != slowFine {
			return f
		}
		if low >= 0xDC00 && low <= 0xDFFF {
			return slowFine
		}
	}
	s.pos = at
	return slowSurrogate
}

// unit reads \uXXXX.
func (s *slowChecker) unit() (rune, slowFault) {
	s.pos += 2
	var u rune
	for range 4 {
		if s.pos >= len(s.data) {
			return 0, slowEnd
		}
		d, ok := hexDigit(s.data[s.pos])
		if !ok {
			return 0, slowChar
		}
		u = u<<4 | rune(d)
		s.pos++
	}
	return u, slowFine
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

type slowFault byte

const (
	slowFine slowFault = iota
	slowEnd
	slowChar
	slowUTF8
	slowTrailing
	slowDepth
	slowString
	slowArray
	slowNUL
	slowSurrogate
)

var slowReasons = map[slowFault]Reason{
	slowEnd: EndsEarly, slowChar: BadCharacter, slowUTF8: BadUTF8, slowTrailing: TrailingData, slowDepth: TooDeep,
	slowString: LongText, slowArray: ManyElements, slowNUL: HoldsNUL, slowSurrogate: LoneSurrogate,
}

// checkBoth compares Check with slowChecker.
func checkBoth(t *testing.T, in string, lim Limits) {
	t.Helper()
	s := slowChecker{data: []byte(in), maxDepth: lim.Depth, maxString: lim.Text, maxArray: lim.Elements, clean: lim.Unicode}
	if lim.Depth == 0 {
		s.maxDepth = MaxDepth
	}
	got, why := Check([]byte(in), lim), s.document()
	switch {
	case (got == nil) != (why == slowFine):
		t.Fatalf("%q %+v: %+v, want %v", in, lim, got, why)
	case got == nil:
		return
	case got.Why != slowReasons[why] || got.At != s.pos:
		t.Fatalf("%q %+v: %+v, want %v at %d", in, lim, got, slowReasons[why], s.pos)
	case why == slowDepth || why == slowString || why == slowArray:
		if got.Size != s.size {
			t.Fatalf("%q %+v: %+v, want size %d", in, lim, got, s.size)
		}
	}
}

var checked = []string{
	"", " ", "{}", "[", `{"a":1e5}`, `"\ud800"`, "nul", "nulx", "01", "-", "-x", "1.", "1.x", "1e", "1e+", `{"a":1,}`, "[1,]", "[1,,2]", "\xff", `"\xff"`,
	`{"a":"\u00e9\/\x"}`, `"\u0000"`, `"\u000"`, `"\u00`, `"\`, "-0.0E+1", `"\ud83d\ude00"`, `"\ud83d\u0041"`, `"\ud83d\u00`, `"\ud83d\`, `"\ud83d`, `"\ude00\ud83d"`,
	`[[[[1]]]]`, `[[[[`, `[[[[x`, `["abcdef`, `["abcdef",`, `["abcdef"x`, `[1,2,3,4`, `[1,2,3,`, `{"a":[1,2,3],"b":[1,2,3,4]}`, `{"a" 1}`, `{"a"`, `{1:2}`, `{} {}`, "\"a\nb\"", `true false`, `[true,fals]`, `{"a":[{"b":"\u0000"}]}`,
	strings.Repeat("[", 600), strings.Repeat("[", 513) + strings.Repeat("]", 513),
}

var checkLimits = []Limits{{}, {Depth: 3}, {Text: 5}, {Elements: 3}, {Unicode: true}, {Depth: 3, Text: 5, Elements: 3, Unicode: true}}

func TestCheckSaysWhatAndWhere(t *testing.T) {
	for _, in := range checked {
		for _, lim := range checkLimits {
			checkBoth(t, in, lim)
		}
	}
	const letters = `{}[]",:\u0d8ctrue1.-e ` + "\xff\n\u00e9"
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		b := make([]byte, r.IntN(14))
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		checkBoth(t, string(b), checkLimits[r.IntN(len(checkLimits))])
	}
}

func FuzzCheck(f *testing.F) {
	for _, in := range checked {
		f.Add(in, uint8(0))
		f.Add(in, uint8(5))
	}
	f.Fuzz(func(t *testing.T, in string, lim uint8) { checkBoth(t, in, checkLimits[int(lim)%len(checkLimits)]) })
}
