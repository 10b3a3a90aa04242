// Package escape writes texts into the parts of a URL.
//
// A value that [AppendPath] wrote stays in its path segment. A value that [AppendQuery]
// wrote stays in its pair of the query. [AppendLiteral] is for the literal parts of a path
// or query in an adapter file.
package escape

import (
	"bytes"
	"errors"
	"unicode/utf8"
)

const upperHex = "0123456789ABCDEF"

// isUnreserved reports whether JavaScript's encodeURIComponent leaves c as it is. These are
// not the bytes that Go's url.PathEscape leaves as they are.
func isUnreserved(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	switch c {
	case '-', '_', '.', '!', '~', '*', '\'', '(', ')':
		return true
	}
	return false
}

// AppendPath appends v as part of one path segment. It does not encode a v that is fully
// percent-encoded already, unless always is true.
func AppendPath(dst, v []byte, always bool) []byte {
	if !always && isEncoded(v) {
		return append(dst, v...)
	}
	for _, c := range v {
		if isUnreserved(c) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return dst
}

// AppendReserved appends v as a part of a path that may have several segments. Slashes and
// colons stay; everything else is encoded as in one segment.
func AppendReserved(dst, v []byte) []byte {
	for _, c := range v {
		if isUnreserved(c) || c == '/' || c == ':' {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return dst
}

// isEncoded reports whether v is fully percent-encoded text. To check that decoding changes v
// would not be enough: "a%20b/../../admin" would pass and leave its segment.
func isEncoded(v []byte) bool {
	if bytes.IndexByte(v, '%') < 0 {
		return false
	}
	decoded := make([]byte, 0, 64)
	for i := 0; i < len(v); i++ {
		c := v[i]
		if c == '%' {
			if i+2 >= len(v) {
				return false
			}
			hi, ok1 := hexDigit(v[i+1])
			lo, ok2 := hexDigit(v[i+2])
			if !ok1 || !ok2 {
				return false
			}
			c = hi<<4 | lo
			i += 2
			if c == 0 {
				return false
			}
		} else if !isUnreserved(c) {
			return false
		}
		decoded = append(decoded, c)
	}
	return utf8.Valid(decoded)
}

// Climbs reports whether a finished path segment is . or .. once it is decoded, or
// has such a part between slashes or backslashes.
func Climbs(segment []byte) bool {
	if bytes.IndexByte(segment, '.') < 0 && bytes.IndexByte(segment, '%') < 0 {
		return false
	}
	dots, other := 0, false // in this part
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		if c == '%' && i+2 < len(segment) {
			hi, ok1 := hexDigit(segment[i+1])
			if lo, ok2 := hexDigit(segment[i+2]); ok1 && ok2 {
				c = hi<<4 | lo
				i += 2
			}
		}
		switch c {
		case '/', '\\':
			if !other && (dots == 1 || dots == 2) {
				return true
			}
			dots, other = 0, false
		case '.':
			dots++
		default:
			other = true
		}
	}
	return !other && (dots == 1 || dots == 2)
}

// HasEncodedNUL reports whether v, percent-decoded, holds U+0000.
func HasEncodedNUL(v []byte) bool {
	return bytes.Contains(v, []byte("%00"))
}

// AppendQuery appends v as application/x-www-form-urlencoded.
func AppendQuery[T string | []byte](dst []byte, v T) []byte {
	for i := range len(v) {
		switch c := v[i]; {
		case c == ' ':
			dst = append(dst, '+')
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == '~':
			dst = append(dst, c)
		default:
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return dst
}

// AppendQueryReserved appends v as application/x-www-form-urlencoded, but leaves the reserved characters of URLs that cannot end
// a pair: RFC 6570, section 3.2.3, without those that a query may not have or that mean something in it.
func AppendQueryReserved(dst, v []byte) []byte {
	for i, c := range v {
		if bytes.IndexByte([]byte(":/?@!$'()*,;="), c) >= 0 {
			dst = append(dst, c)
		} else {
			dst = AppendQuery(dst, v[i:i+1])
		}
	}
	return dst
}

// AppendLiteral appends a literal path or query of an adapter file. It encodes bytes that a
// URL must not contain; the rest stays.
func AppendLiteral(dst []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ' || c >= 0x7f, c == '"', c == '<', c == '>', c == '\\', c == '^', c == '`', c == '|':
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
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

// CheckPercent returns an error if a percent sign in s does not begin a valid escape, or
// begins the escape of NUL.
func CheckPercent(s string) error {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if i+2 < len(s) {
			_, ok1 := hexDigit(s[i+1])
			_, ok2 := hexDigit(s[i+2])
			if ok1 && ok2 && s[i+1:i+3] != "00" {
				continue
			}
		}
		return errors.New("two hexadecimal digits other than 00 must follow a %")
	}
	return nil
}
