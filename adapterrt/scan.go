package adapterrt

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// kind is the JSON type of a value as it stands in a text.
type kind byte

const (
	absent kind = iota
	null
	boolean
	number
	text
	array
	object
)

// kindOf tells a valid JSON value's type by its first byte.
func kindOf(raw []byte) kind {
	switch raw[0] {
	case '{':
		return object
	case '[':
		return array
	case '"':
		return text
	case 't', 'f':
		return boolean
	case 'n':
		return null
	}
	return number
}

// fault says why a scan stopped; the scanner's pos is where.
type fault byte

const (
	fine fault = iota
	faultEnd
	faultChar
	faultUTF8
	faultTrailing
	faultDepth
	faultString
	faultArray
	faultNUL
	faultSurrogate
)

// reason words a fault for people. None of the words ends in "at" before a blank.
func (f fault) reason() string {
	switch f {
	case faultEnd:
		return "unexpected end of input"
	case faultUTF8:
		return "invalid UTF-8"
	case faultTrailing:
		return "trailing data"
	case faultDepth:
		return "nesting too deep"
	}
	return "unexpected character"
}

// scanner walks one JSON text (RFC 8259) and checks it, building nothing.
type scanner struct {
	data      []byte
	pos       int
	size      int  // after faultString or faultArray: what was counted
	maxDepth  int  // containers inside each other, the root is 1
	maxString int  // bytes between the quotes; 0 for any
	maxArray  int  // elements; 0 for any
	clean     bool // refuse U+0000 and lone surrogates in strings
}

// valid checks that data is one JSON value nested at most depth deep. What is an
// API's answer is read by the quicker scanner, which cannot say what is wrong.
func valid(data []byte, depth int) (fault, int) {
	if depth == wire.MaxDepth && wire.Valid(data) {
		return fine, len(data)
	}
	s := scanner{data: data, maxDepth: depth}
	f := s.document()
	return f, s.pos
}

func (s *scanner) document() fault {
	s.space()
	if f := s.value(1); f != fine {
		return f
	}
	if s.space(); s.pos < len(s.data) {
		return faultTrailing
	}
	return fine
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\n', '\r', '\t':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) value(depth int) fault {
	if s.pos >= len(s.data) {
		return faultEnd
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

func (s *scanner) object(depth int) fault {
	if depth > s.maxDepth {
		s.size = depth
		return faultDepth
	}
	s.pos++
	if s.space(); s.pos < len(s.data) && s.data[s.pos] == '}' {
		s.pos++
		return fine
	}
	for {
		if f := s.key(); f != fine {
			return f
		}
		if f := s.value(depth + 1); f != fine {
			return f
		}
		if more, f := s.next('}'); f != fine || !more {
			return f
		}
	}
}

// key reads a member's name and its colon, up to the value.
func (s *scanner) key() fault {
	if s.pos >= len(s.data) {
		return faultEnd
	}
	if s.data[s.pos] != '"' {
		return faultChar
	}
	if f := s.string(); f != fine {
		return f
	}
	if s.space(); s.pos >= len(s.data) {
		return faultEnd
	}
	if s.data[s.pos] != ':' {
		return faultChar
	}
	s.pos++
	s.space()
	return fine
}

// next reads what stands behind an element: a comma, then there is more, or the
// container's end.
func (s *scanner) next(end byte) (more bool, f fault) {
	if s.space(); s.pos >= len(s.data) {
		return false, faultEnd
	}
	switch s.data[s.pos] {
	case ',':
		s.pos++
		s.space()
		return true, fine
	case end:
		s.pos++
		return false, fine
	}
	return false, faultChar
}

func (s *scanner) array(depth int) fault {
	if depth > s.maxDepth {
		s.size = depth
		return faultDepth
	}
	s.pos++
	if s.space(); s.pos < len(s.data) && s.data[s.pos] == ']' {
		s.pos++
		return fine
	}
	for n := 1; ; n++ {
		if s.maxArray > 0 && n > s.maxArray {
			s.size = n
			return faultArray
		}
		if f := s.value(depth + 1); f != fine {
			return f
		}
		if more, f := s.next(']'); f != fine || !more {
			return f
		}
	}
}

func (s *scanner) word(w string) fault {
	for i := range len(w) {
		if s.pos >= len(s.data) {
			return faultEnd
		}
		if s.data[s.pos] != w[i] {
			return faultChar
		}
		s.pos++
	}
	return fine
}

func (s *scanner) digits() fault {
	if s.pos >= len(s.data) {
		return faultEnd
	}
	if c := s.data[s.pos]; c < '0' || c > '9' {
		return faultChar
	}
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return fine
}

func (s *scanner) number() fault {
	if s.data[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++
	} else if f := s.digits(); f != fine {
		return f
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		if f := s.digits(); f != fine {
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
	return fine
}

// plainRun counts the leading bytes of b that need no look: printable ASCII but
// for the quote and the backslash. It may stop short in the last seven.
func plainRun(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for len(b)-n >= 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		// Borrows run upwards only: the lowest mark is always a true one.
		if stop := (w | (w - ones*0x20) | (quote - ones) | (slash - ones)) & highs; stop != 0 {
			return n + bits.TrailingZeros64(stop)>>3
		}
		n += 8
	}
	return n
}

func (s *scanner) string() fault {
	s.pos++
	start := s.pos
	for {
		s.pos += plainRun(s.data[s.pos:])
		if s.pos >= len(s.data) {
			return faultEnd
		}
		switch c := s.data[s.pos]; {
		case c == '"':
			if s.size = s.pos - start; s.maxString > 0 && s.size > s.maxString {
				return faultString
			}
			s.pos++
			return fine
		case c == '\\':
			if f := s.escape(); f != fine {
				return f
			}
		case c < 0x20:
			return faultChar
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, n := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && n <= 1 {
				return faultUTF8
			}
			s.pos += n
		}
	}
}

func (s *scanner) escape() fault {
	at := s.pos
	if s.pos+1 >= len(s.data) {
		s.pos = len(s.data)
		return faultEnd
	}
	switch s.data[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return fine
	case 'u':
	default:
		s.pos++
		return faultChar
	}
	u, f := s.unit()
	if f != fine || !s.clean {
		return f
	}
	if u == 0 {
		s.pos = at
		return faultNUL
	}
	if !utf16.IsSurrogate(u) {
		return fine
	}
	if u < 0xDC00 && s.pos+1 < len(s.data) && s.data[s.pos] == '\\' && s.data[s.pos+1] == 'u' {
		low, f := s.unit()
		if f != fine {
			return f
		}
		if low >= 0xDC00 && low <= 0xDFFF {
			return fine
		}
	}
	s.pos = at
	return faultSurrogate
}

// unit reads \uXXXX.
func (s *scanner) unit() (rune, fault) {
	s.pos += 2
	var u rune
	for range 4 {
		if s.pos >= len(s.data) {
			return 0, faultEnd
		}
		d, ok := hexDigit(s.data[s.pos])
		if !ok {
			return 0, faultChar
		}
		u = u<<4 | rune(d)
		s.pos++
	}
	return u, fine
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

// each calls f for every element of the array or every member of the object raw,
// which is valid; name is the member's name, unescaped. It ends early when f
// returns false.
func each(raw []byte, f func(name, value []byte) bool) {
	s := scanner{data: raw, maxDepth: 1 << 30}
	s.space()
	end := byte(']')
	if s.data[s.pos] == '{' {
		end = '}'
	}
	s.pos++
	if s.space(); s.data[s.pos] == end {
		return
	}
	for more := true; more; {
		var name []byte
		if end == '}' {
			at := s.pos
			s.string()
			name = unquoted(s.data[at:s.pos])
			s.space()
			s.pos++
			s.space()
		}
		at := s.pos
		s.value(1)
		if !f(name, raw[at:s.pos:s.pos]) {
			return
		}
		more, _ = s.next(end)
	}
}

// member returns the last member of that name of the object raw, which is valid,
// or nil when it has none or is no object.
func member(raw []byte, name string) (value []byte) {
	if raw = trimSpace(raw); len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	each(raw, func(n, v []byte) bool {
		if string(n) == name {
			value = v
		}
		return true
	})
	return value
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\r' || b[0] == '\t') {
		b = b[1:]
	}
	for n := len(b); n > 0 && (b[n-1] == ' ' || b[n-1] == '\n' || b[n-1] == '\r' || b[n-1] == '\t'); n-- {
		b = b[:n-1]
	}
	return b
}
