//go:build amd64 || arm64

package wire

import "math/bits"

// unicodeEscapes reports whether each byte of a block that odd has is in an escape such as \u00e4.
func unicodeEscapes(b []byte, at int, odd uint64) bool {
	for ; odd != 0; odd &= odd - 1 {
		if p := at + bits.TrailingZeros64(odd); p >= len(b) || b[p] != 'u' || !unicodeEscape(b[p-1:]) {
			return false
		}
	}
	return true
}

// areScalars reports whether at each byte of a block that begin has, a number or literal begins and ends as it must.
func areScalars(b []byte, at int, begin uint64) bool {
	for ; begin != 0; begin &= begin - 1 {
		p := at + bits.TrailingZeros64(begin)
		if p+8 <= len(b) {
			text := word(b, p)
			if n := usualScalar(text); n > 0 && endsScalar[byte(text>>(8*n))] {
				continue
			}
		}
		if p = skipScalar(b, p); p < 0 || p < len(b) && !endsScalar[b[p]] {
			return false
		}
	}
	return true
}

// usualScalar returns the length of the literal or natural number with which eight bytes begin, or 0 if it is none of less than
// eight bytes. The caller must check what follows, as in truex.
func usualScalar(text uint64) int {
	const (
		isTrue = 'e'<<24 | 'u'<<16 | 'r'<<8 | 't'
		isNull = 'l'<<24 | 'l'<<16 | 'u'<<8 | 'n'
		isFals = 's'<<24 | 'l'<<16 | 'a'<<8 | 'f'
	)
	switch uint32(text) {
	case isTrue, isNull:
		return 4
	case isFals:
		if byte(text>>32) == 'e' {
			return 5
		}
	}
	digits := text ^ ones*'0'
	n := bits.TrailingZeros64((digits&^highs+ones*(0x80-10)|digits)&highs) >> 3
	if n > 1 && byte(text) == '0' {
		return 0
	}
	return n & 7
}

var (
	endsScalar = [256]bool{',': true, ']': true, '}': true, ' ': true, '\t': true, '\n': true, '\r': true}
	blanks     = func() (b [3 + 64]byte) { // a block at the end of a text is filled with them
		for i := range b {
			b[i] = ' '
		}
		return b
	}()
)
