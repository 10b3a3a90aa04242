package wire

import (
	"encoding/binary"
	"math/bits"
)

// MaxDepth is the maximum nesting of arrays and objects in a message.
const MaxDepth = 512

// maxNodes is the maximum number of values that Scan records of one message.
const maxNodes = 4 << 20

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// The functions named skip… check the text at i and return the index behind the value
// or token. A negative index is a fault: see broken.

// fault is the reason why a text is not JSON, or beyond a limit of this package.
type fault int

const (
	faultSyntax fault = iota
	faultEnd
	faultUTF8
	faultDepth
	faultNodes
	faultTrail
)

var faultTexts = [...]string{
	faultSyntax: "invalid JSON",
	faultEnd:    "unexpected end of JSON",
	faultUTF8:   "invalid UTF-8",
	faultDepth:  "nested deeper than 512",
	faultNodes:  "more than 4194304 list entries and members",
	faultTrail:  "data after the message",
}

// broken encodes a fault and its offset as one negative number, so that callers need only
// one comparison if there is no fault.
func broken(at int, why fault) int { return ^(at<<3 | int(why)) }

func unbroken(i int) (at int, why fault) { return ^i >> 3, fault(^i & 7) }

// care sets the high bit of each byte of a word that is not plain inside a string: a quote, a
// backslash, a control character, or a byte beyond ASCII. Only the lowest bit that is set is
// exact; higher ones may be set by a carry. Flipping bit 1 maps the quote to the value after
// the control characters, so that one subtraction finds both.
func care(x uint64) uint64 {
	return (((x ^ ones*0x02) - ones*0x21) | ((x ^ ones*'\\') - ones) | x) & highs
}

// word returns the eight bytes at i. b must have that many.
func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i : i+8]) }

// longRun is after how many bytes of text skipString expects many more. A call of skipText that skips nothing takes as
// long as the check of some 40 bytes.
const longRun = 128

// skipString starts behind the opening quote.
func skipString(b []byte, i int) int {
	long := i + longRun
text:
	for {
		if i >= long {
			i = skipText(b, i)
			long = i + longRun
		}
		for i+16 <= len(b) {
			lo, hi := care(word(b, i)), care(word(b, i+8))
			if lo|hi == 0 {
				if i += 16; i >= long {
					continue text
				}
				continue
			}
			if lo == 0 {
				i += 8
				lo = hi
			}
			i += bits.TrailingZeros64(lo) >> 3
			break
		}
		if i >= len(b) {
			return broken(i, faultEnd)
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i+1 < len(b) && shortEscape[b[i+1]] {
				i += 2
				continue
			}
			if !unicodeEscape(b[i:]) {
				return brokenEscape(b, i)
			}
			i += len(`\u0000`)
		case c < 0x20:
			return broken(i, faultSyntax)
		case c < 0x80:
			i++ // happens only in the last bytes of the text
		default:
			for i < len(b) && b[i] >= 0x80 && i < long {
				n := utf8Len(b[i:])
				if n == 0 {
					return broken(i, faultUTF8)
				}
				i += n
			}
		}
	}
}

// shortEscape has the characters that may follow a backslash, except u.
var shortEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

func unicodeEscape(b []byte) bool {
	return len(b) >= 6 && b[1] == 'u' && isHex(b[2]) && isHex(b[3]) && isHex(b[4]) && isHex(b[5])
}

// brokenEscape returns the fault of the invalid escape at i.
func brokenEscape(b []byte, i int) int {
	if i++; i < len(b) && b[i] == 'u' {
		for i++; i < len(b) && isHex(b[i]); i++ {
		}
	}
	return brokenAt(b, i)
}

// brokenAt returns the fault of an invalid byte at i, or of a text that ends there.
func brokenAt(b []byte, i int) int {
	if i >= len(b) {
		return broken(len(b), faultEnd)
	}
	return broken(i, faultSyntax)
}

func isHex(c byte) bool { return c-'0' <= 9 || c|0x20-'a' <= 5 }

// utf8Len returns the length of the UTF-8 sequence beyond ASCII at the start of b,
// or 0 if it is not well formed (The Unicode Standard, table 3-7).
func utf8Len(b []byte) int {
	c := b[0]
	if c < 0xE0 {
		if c >= 0xC2 && len(b) > 1 && b[1]&0xC0 == 0x80 {
			return 2
		}
		return 0
	}
	if c < 0xF0 {
		if len(b) > 2 && b[1]&0xC0 == 0x80 && b[2]&0xC0 == 0x80 &&
			(c != 0xE0 || b[1] >= 0xA0) && (c != 0xED || b[1] < 0xA0) {
			return 3
		}
		return 0
	}
	if c < 0xF5 && len(b) > 3 && b[1]&0xC0 == 0x80 && b[2]&0xC0 == 0x80 && b[3]&0xC0 == 0x80 &&
		(c != 0xF0 || b[1] >= 0x90) && (c != 0xF4 || b[1] < 0x90) {
		return 4
	}
	return 0
}

func skipNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return broken(i, faultEnd)
	case b[i] == '0':
		i++
	case b[i]-'1' <= 8:
		i = skipDigits(b, i)
	default:
		return broken(i, faultSyntax)
	}
	if i < len(b) && b[i] == '.' {
		from := i + 1
		if i = skipDigits(b, from); i == from {
			return brokenAt(b, i)
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from := i
		if i = skipDigits(b, from); i == from {
			return brokenAt(b, i)
		}
	}
	return i
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

// brokenLiteral returns the fault of what begins at i like the literal want.
func brokenLiteral(b []byte, i int, want string) int {
	for k := 0; i < len(b) && b[i] == want[k]; k++ {
		i++
	}
	return brokenAt(b, i)
}

// skipScalar skips a number or a literal.
func skipScalar(b []byte, i int) int {
	switch c := b[i]; {
	case c == '-' || c-'0' <= 9:
		return skipNumber(b, i)
	case c == 't':
		if i+4 <= len(b) && string(b[i:i+4]) == "true" {
			return i + 4
		}
		return brokenLiteral(b, i, "true")
	case c == 'f':
		if i+5 <= len(b) && string(b[i:i+5]) == "false" {
			return i + 5
		}
		return brokenLiteral(b, i, "false")
	case c == 'n':
		if i+4 <= len(b) && string(b[i:i+4]) == "null" {
			return i + 4
		}
		return brokenLiteral(b, i, "null")
	}
	return broken(i, faultSyntax)
}

// skipName skips a member's name. i is the index of the opening quote.
func skipName(b []byte, i int) int {
	if b[i] != '"' {
		return broken(i, faultSyntax)
	}
	if i = plain(b, i+1); i < len(b) && b[i] == '"' {
		return i + 1
	}
	return skipString(b, i)
}

// readName skips a member's name, as skipName does, and returns which name it is. It need not know that of names whose
// bit is in never.
func readName(b []byte, i int, never uint64) (int, Name) {
	if b[i] != '"' {
		return broken(i, faultSyntax), OtherName
	}
	from := i + 1
	if i = plain(b, from); i == from+8 {
		i = plain(b, i)
	}
	if i < len(b) && b[i] == '"' {
		if likeness(b[from], i-from)&never != 0 { // of an empty name, that of the quote
			return i + 1, OtherName
		}
		return i + 1, NameOf(b[from:i])
	}
	if i = skipString(b, i); i < 0 {
		return i, OtherName
	}
	return i, nameOf(b[from : i-1])
}

// plain skips up to eight plain bytes of a string. Most names and many strings are no longer.
func plain(b []byte, i int) int {
	if i+8 > len(b) {
		return i
	}
	if c := care(word(b, i)); c != 0 {
		return i + bits.TrailingZeros64(c)>>3
	}
	return i + 8
}

// skipColon skips the colon and the blanks around it. The text must go on behind them.
func skipColon(b []byte, i int) int {
	if i+1 < len(b) && b[i] == ':' && b[i+1] > ' ' {
		return i + 1
	}
	if i = skipSpace(b, i); i >= len(b) {
		return broken(i, faultEnd)
	}
	if b[i] != ':' {
		return broken(i, faultSyntax)
	}
	if i = skipSpace(b, i+1); i >= len(b) {
		return broken(i, faultEnd)
	}
	return i
}

// longContainer is after how many bytes of a container skipContainer expects many more.
const longContainer = 48

// levelWords is how many words have a bit for each level of containers.
const levelWords = MaxDepth/64 + 1

// skipValue skips the value at i, which lies in depth containers. Instead of a stack it keeps
// one bit for each level, which is set for an object.
func skipValue(b []byte, i, depth int) int {
	if i >= len(b) {
		return broken(i, faultEnd)
	}
	switch b[i] {
	case '"':
		return skipString(b, i+1)
	case '{', '[':
		return skipContainer(b, i, depth)
	}
	return skipScalar(b, i)
}

func skipContainer(b []byte, i, depth int) int {
	var (
		objects [levelWords]uint64
		level   = depth
		from    int // where a string begins
		long    = i + longContainer
	)
	if !hasBlocks || len(b)-i < 2*longContainer {
		long = len(b)
	}
open:
	if level++; level > MaxDepth {
		return broken(i, faultDepth)
	}
	if b[i] == '{' {
		objects[level>>6] |= 1 << (level & 63)
		if i = skipSpace(b, i+1); i >= len(b) {
			return broken(i, faultEnd)
		}
		if b[i] == '}' {
			goto shut
		}
		goto member
	}
	objects[level>>6] &^= 1 << (level & 63)
	if i = skipSpace(b, i+1); i >= len(b) {
		return broken(i, faultEnd)
	}
	if b[i] == ']' {
		goto shut
	}
value:
	switch b[i] {
	case '"':
		from = i + 1
		if i = plain(b, from); i == from+8 {
			i = plain(b, i)
		}
		if i < len(b) && b[i] == '"' {
			i++
			goto after
		}
		i = skipString(b, i)
	case '{', '[':
		goto open
	default:
		i = skipScalar(b, i)
	}
	if i < 0 {
		return i
	}
after:
	if i >= len(b) {
		return broken(i, faultEnd)
	}
	switch c := b[i]; {
	case c == ',':
		if i >= long {
			long = len(b)
			if end := skipBlocks(b, i, &objects, level, depth); end >= 0 {
				return end
			}
		}
		if i++; i >= len(b) {
			return broken(i, faultEnd)
		}
		if b[i] <= ' ' {
			if i = skipSpace(b, i); i >= len(b) {
				return broken(i, faultEnd)
			}
		}
		if objects[level>>6]&(1<<(level&63)) == 0 {
			goto value
		}
	case c == '}' && objects[level>>6]&(1<<(level&63)) != 0,
		c == ']' && objects[level>>6]&(1<<(level&63)) == 0:
		goto shut
	case c <= ' ':
		if next := skipSpace(b, i); next > i {
			i = next
			goto after
		}
		fallthrough
	default:
		return broken(i, faultSyntax)
	}
member:
	if b[i] != '"' {
		return broken(i, faultSyntax)
	}
	from = i + 1
	if i = plain(b, from); i == from+8 {
		i = plain(b, i)
	}
	if i < len(b) && b[i] == '"' {
		i++
	} else if i = skipString(b, i); i < 0 {
		return i
	}
	if i+1 < len(b) && b[i] == ':' && b[i+1] > ' ' {
		i++
	} else if i = skipColon(b, i); i < 0 {
		return i
	}
	goto value
shut:
	i++
	if level--; level > depth {
		goto after
	}
	return i
}

// record skips the value at i, the next child of the container node parent, and records it, and
// those of its members or elements that shape names. key is the index of its member.
func (m *Message) record(i, key int, name Name, parent uint32, shape *Shape, depth int) int {
	b := m.Raw
	self := len(m.nodes)
	if self >= maxNodes {
		return broken(i, faultNodes)
	}
	m.nodes = append(m.nodes, node{key: uint32(key), pos: uint32(i), parent: parent, name: name})
	switch c := b[i]; {
	case c == '"':
		i = skipString(b, i+1)
	case c == '{' && shape != nil && !shape.shut:
		i = m.recordMembers(i, uint32(self), shape, depth+1)
	case c == '[' && shape != nil && shape.Elem != nil:
		i = m.recordElements(i, uint32(self), shape.Elem, depth+1)
	default:
		i = skipValue(b, i, depth)
	}
	at := &m.nodes[self]
	at.end = uint32(i)
	at.next = uint32(len(m.nodes))
	return i
}

func (m *Message) recordMembers(i int, self uint32, shape *Shape, depth int) int {
	b := m.Raw
	if depth > MaxDepth {
		return broken(i, faultDepth)
	}
	m.nodes[self].open = true
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1
	}
	for next := i; ; {
		if next >= len(b) {
			return broken(next, faultEnd)
		}
		key := next
		i, name := readName(b, key, shape.never)
		if i < 0 {
			return i
		}
		if i+1 < len(b) && b[i] == ':' && b[i+1] > ' ' {
			i++
		} else if i = skipColon(b, i); i < 0 {
			return i
		}
		if inner := shape.member(name); inner != nil {
			i = m.record(i, key, name, self, inner, depth)
		} else {
			i = skipValue(b, i, depth)
		}
		if i < 0 {
			return i
		}
		if i+1 < len(b) && b[i] == ',' && b[i+1] > ' ' {
			next = i + 1
			continue
		}
		if i = behind(b, i, '}'); i < 0 || b[i-1] == '}' {
			return i
		}
		next = i
	}
}

func (m *Message) recordElements(i int, self uint32, elem *Shape, depth int) int {
	b := m.Raw
	if depth > MaxDepth {
		return broken(i, faultDepth)
	}
	m.nodes[self].open = true
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i >= len(b) {
			return broken(i, faultEnd)
		}
		if i = m.record(i, i, OtherName, self, elem, depth); i < 0 {
			return i
		}
		if i = behind(b, i, ']'); i < 0 {
			return i
		}
		if b[i-1] == ']' {
			return i
		}
	}
}

// behind skips what follows a member or element: a comma and the blanks behind
// it, or the closing bracket.
func behind(b []byte, i int, closing byte) int {
	if i = skipSpace(b, i); i >= len(b) {
		return broken(i, faultEnd)
	}
	switch b[i] {
	case ',':
		// The byte before the returned index is not a bracket, by which callers tell the two cases apart.
		return skipSpace(b, i+1)
	case closing:
		return i + 1
	}
	return broken(i, faultSyntax)
}
