package wire

import (
	"encoding/binary"
	"math/bits"
)

// MaxDepth is the maximum nesting of arrays and objects in a message.
const MaxDepth = 512

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
// the control characters, so that one subtraction finds both. Of the bytes beyond ASCII, the other
// subtraction finds all but 0xDC, and the first one finds that.
func care(x uint64) uint64 {
	return (((x ^ ones*0x02) - ones*0x21) | ((x ^ ones*'\\') - ones)) & highs
}

// word returns the eight bytes at i. b must have that many.
func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i : i+8]) }

// skipString starts behind the opening quote. Most names and many strings are so short that they end within two words.
func skipString(b []byte, i int) int {
	const words = 16
	if i+words <= len(b) {
		w := b[i : i+words : i+words]
		if c := care(binary.LittleEndian.Uint64(w)); c != 0 {
			if n := bits.TrailingZeros64(c) >> 3; w[n] == '"' {
				return i + n + 1
			}
		} else if c := care(binary.LittleEndian.Uint64(w[8:])); c != 0 {
			if n := bits.TrailingZeros64(c)>>3 + 8; w[n] == '"' {
				return i + n + 1
			}
		} else {
			i += words
		}
	}
	return skipLong(b, i)
}

// longRun is after how many bytes of text skipLong expects many more. A call of skipText that skips nothing takes as
// long as the check of some 40 bytes.
const longRun = 128

// skipLong is skipString for any string, from anywhere in it.
func skipLong(b []byte, i int) int {
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

// literal returns the length of the literal that the word begins with, or 0. It has no branches, since which of true and
// false a value is cannot be predicted.
func literal(x uint64) int {
	t, f, n := x<<32^'t'<<32^'r'<<40^'u'<<48^'e'<<56, x<<24^'f'<<24^'a'<<32^'l'<<40^'s'<<48^'e'<<56, x<<32^'n'<<32^'u'<<40^'l'<<48^'l'<<56
	return int((t>>1-1)>>63<<2 | (n>>1-1)>>63<<2 | (f>>1-1)>>63*5)
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)
