package wire

import "errors"

// ErrTooMany says that an array holds more elements than allowed.
var ErrTooMany = errors.New("too many messages in one batch")

// Trim returns raw without the white space around it.
func Trim(raw []byte) []byte {
	raw = raw[skipSpace(raw, 0):]
	for n := len(raw); n > 0 && raw[n-1] <= ' ' && skipSpace(raw[n-1:], 0) == 1; n-- {
		raw = raw[:n-1]
	}
	return raw
}

// IsArray reports whether a text begins like a JSON array.
func IsArray(raw []byte) bool {
	i := skipSpace(raw, 0)
	return i < len(raw) && raw[i] == '['
}

// AppendElements checks that raw is one JSON array of at most limit elements and
// appends the elements, as parts of raw, to dst. Its error is ErrTooMany or an
// *EnvelopeError.
func AppendElements(dst [][]byte, raw []byte, limit int) ([][]byte, error) {
	i := skipSpace(raw, 0)
	if i >= len(raw) {
		return dst, parseError(broken(i, faultEnd))
	}
	if raw[i] != '[' {
		return dst, parseError(broken(i, faultSyntax))
	}
	i = skipSpace(raw, i+1)
	for n := 0; ; n++ {
		if n == 0 && i < len(raw) && raw[i] == ']' {
			break
		}
		pos := skipSpace(raw, i)
		end := skipValue(raw, pos, 1)
		if end < 0 {
			return dst, parseError(end)
		}
		if n == limit {
			return dst, ErrTooMany
		}
		dst = append(dst, raw[pos:end:end])
		if i = skipSpace(raw, end); i >= len(raw) {
			return dst, parseError(broken(i, faultEnd))
		}
		if raw[i] == ']' {
			break
		}
		if raw[i] != ',' {
			return dst, parseError(broken(i, faultSyntax))
		}
		i++
	}
	if i = skipSpace(raw, i+1); i != len(raw) {
		return dst, parseError(broken(i, faultTrail))
	}
	return dst, nil
}
