package wire

import (
	"bytes"
	"strconv"
)

// validID reports whether a value may be an id: a string or an integer, however it is written; 1.0 and 1e0 are
// integers (https://modelcontextprotocol.io/specification/2025-11-25/basic#requests).
func validID(value []byte) bool {
	switch c := value[0]; {
	case c == '"':
		return true
	case c == '-' || c-'0' <= 9:
		_, exp, frac := decimal(value)
		return !frac || exp >= 0
	}
	return false
}

// AppendIDKey appends a key that is equal for equal ids, progress tokens or
// cursors. Strings compare unescaped, numbers by value however they are written, and a
// string never equals a number.
func AppendIDKey(dst, value []byte) []byte {
	if raw, ok := Inner(value); ok {
		return AppendUnescaped(append(dst, 's'), raw)
	}
	if len(value) > 0 && (value[0] == '-' || value[0]-'0' <= 9) {
		digits, exp, _ := decimal(value)
		if digits == nil {
			return append(dst, "n0"...)
		}
		dst = append(dst, 'n')
		if value[0] == '-' {
			dst = append(dst, '-')
		}
		for _, c := range digits {
			if c != '.' {
				dst = append(dst, c)
			}
		}
		dst = append(dst, 'e')
		return strconv.AppendInt(dst, exp, 10)
	}
	return append(append(dst, 'x'), value...)
}

// IntegerIn returns the integer that a string id has as its text, as some servers answer a request whose id is that integer:
// 1 of "1". ok is false for another id, and for a text in which an integer is written another way.
func IntegerIn(id []byte) (integer []byte, ok bool) {
	text, ok := Inner(id)
	digits := bytes.TrimPrefix(text, []byte("-"))
	if !ok || len(digits) == 0 || digits[0] == '0' && len(text) > 1 {
		return nil, false
	}
	for _, c := range digits {
		if c-'0' > 9 {
			return nil, false
		}
	}
	return text, true
}

// decimal splits a number. digits is the part from its first to its last digit that is not zero, perhaps with a
// point between them; it is nil for zero. exp is the power of ten of that last digit. frac reports whether exp is
// negative, which means that the number is not whole. Of an exponent of more than ten digits only the first ten count.
func decimal(num []byte) (digits []byte, exp int64, frac bool) {
	if num[0] == '-' {
		num = num[1:]
	}
	mantissa := num
	if e := bytes.IndexAny(num, "eE"); e >= 0 {
		mantissa = num[:e]
		exp = exponent(num[e+1:])
	}
	first, last := -1, -1
	for i, c := range mantissa {
		if c != '0' && c != '.' {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return nil, 0, false
	}
	point := bytes.IndexByte(mantissa, '.')
	switch {
	case point < 0:
		exp += int64(len(mantissa) - 1 - last)
	case last < point:
		exp += int64(point - 1 - last)
	default:
		exp -= int64(last - point)
	}
	return mantissa[first : last+1], exp, exp < 0
}

func exponent(b []byte) (e int64) {
	neg := b[0] == '-'
	for _, c := range b {
		if c-'0' <= 9 && e < 1e9 {
			e = e*10 + int64(c-'0')
		}
	}
	if neg {
		return -e
	}
	return e
}
