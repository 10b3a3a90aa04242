package tree

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The functions in this file take only text that is valid JSON. Those named Skip… return the index after the space, string or
// value at i.

func SkipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// Care returns the index of the first quote, backslash or control character at
// or after i, or len(b) if there is none.
func Care(b []byte, i int) int {
	for i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i : i+8])
		// The lowest high bit set is that of the first such byte. See wire.care.
		if m := (((x ^ ones*0x02) - ones*0x21) | ((x ^ ones*'\\') - ones)) &^ x & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
		i++
	}
	return i
}

// Escape returns the length of the escape sequence that b begins with, or 0 if
// it is not valid. b begins with a backslash.
func Escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if c-'0' > 9 && c|0x20-'a' > 5 {
				return 0
			}
		}
		return 6
	}
	return 0
}

func SkipString(b []byte, i int) int {
	for i++; i < len(b); {
		if i = Care(b, i); i >= len(b) {
			break
		}
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
		i++
	}
	return len(b)
}

// SkipValue returns the end of the value at i, which has to be valid.
func SkipValue(b []byte, i int) int {
	end, _ := SkipSome(b, i, math.MaxInt)
	return end
}

// SkipSome does what SkipValue does, but stops after more than n bytes, at the
// end of a value inside. whole reports whether it came to the end of the value
// at i.
func SkipSome(b []byte, i, n int) (end int, whole bool) {
	start := i
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = SkipString(b, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			i++
			continue
		default:
			for i++; i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' '; {
				i++
			}
		}
		if depth <= 0 {
			return i, true
		}
		if i-start > n {
			return i, false
		}
	}
	return len(b), true
}

// Each calls f with every member or element of the container at i: name is a
// member's name as it is written, without its quotes, or nil for an element; at
// is where the value begins. f returns the value's end, and false to stop. Each
// returns the container's end, or the end that f returned with false.
func Each(b []byte, i int, f func(name []byte, at int) (end int, more bool)) int {
	object := b[i] == '{'
	for i = SkipSpace(b, i+1); i < len(b) && b[i] != '}' && b[i] != ']'; {
		var name []byte
		if object {
			end := SkipString(b, i)
			name = b[i+1 : max(i+1, end-1)]
			i = SkipSpace(b, end)
			i = SkipSpace(b, i+1)
		}
		if i >= len(b) {
			return i
		}
		end, more := f(name, i)
		if !more {
			return end
		}
		if i = SkipSpace(b, max(end, i+1)); i < len(b) && b[i] == ',' {
			i = SkipSpace(b, i+1)
		}
	}
	return min(i+1, len(b))
}

// Member returns the value of an object's member of that name. It returns the
// last one if there are several, and nil if there is none.
func Member(object []byte, name string) (value []byte) {
	if i := SkipSpace(object, 0); i < len(object) && object[i] == '{' {
		Each(object, i, func(n []byte, at int) (int, bool) {
			end := SkipValue(object, at)
			if wire.IsText(n, name) {
				value = object[at:end]
			}
			return end, true
		})
	}
	return value
}

// IsContainer reports whether text begins like a JSON object or array.
func IsContainer(text []byte) bool {
	i := SkipSpace(text, 0)
	return i < len(text) && (text[i] == '{' || text[i] == '[')
}

// CodePoints returns how many code points the inside of a string stands for. It
// stops counting just above limit.
func CodePoints(raw []byte, limit int) (n int) {
	for i := 0; i < len(raw) && n <= limit; n++ {
		i += CodePoint(raw[i:])
	}
	return n
}

// CodePoint returns the length, as it is written, of the code point that the
// inside of a string begins with.
func CodePoint(raw []byte) int {
	switch {
	case raw[0] == '\\' && len(raw) >= 12 && raw[1] == 'u' && raw[6] == '\\' && raw[7] == 'u' &&
		raw[2]|0x20 == 'd' && raw[8]|0x20 == 'd' && surrogate(raw[3], '8', '9', 'a', 'b') && surrogate(raw[9], 'c', 'd', 'e', 'f'):
		return 12
	case raw[0] == '\\':
		return max(1, Escape(raw))
	case raw[0] < utf8.RuneSelf:
		return 1
	}
	_, n := utf8.DecodeRune(raw)
	return n
}

func surrogate(c byte, any ...byte) bool {
	return slices.Contains(any, c|0x20) || slices.Contains(any, c)
}

// Scalar reports whether a value is neither object nor array.
func Scalar(value []byte) bool { return value[0] != '{' && value[0] != '[' }
