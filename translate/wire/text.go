package wire

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// The functions in this file take only values that Scan has checked.

// AppendUnescaped appends the text of a string, given without its quotes.
// A lone surrogate becomes U+FFFD.
func AppendUnescaped(dst, raw []byte) []byte {
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 || n+1 >= len(raw) {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:n]...)
		c := raw[n+1]
		raw = raw[n+2:]
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(raw)
			raw = raw[min(4, len(raw)):]
			if utf16.IsSurrogate(r) {
				if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
					if pair := utf16.DecodeRune(r, hex4(raw[2:])); pair != utf8.RuneError {
						dst = utf8.AppendRune(dst, pair)
						raw = raw[6:]
						continue
					}
				}
				r = utf8.RuneError
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
}

func hex4(b []byte) (r rune) {
	if len(b) < 4 {
		return utf8.RuneError
	}
	for _, c := range b[:4] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c)
	}
	return r
}

// AppendCompact appends a value without the white space between its tokens.
func AppendCompact(dst, value []byte) []byte { return appendCompact(dst, value, false) }

// AppendCompactQuoted appends a value without the white space between its tokens,
// escaped for the inside of a JSON string.
func AppendCompactQuoted(dst, value []byte) []byte { return appendCompact(dst, value, true) }

// CompactQuotedLen returns at least the length of what AppendCompactQuoted appends: with the white space.
func CompactQuotedLen(value []byte) int {
	return len(value) + bytes.Count(value, []byte{'"'}) + bytes.Count(value, []byte{'\\'})
}

func appendCompact(dst, value []byte, quoted bool) []byte {
	inString := false
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '"':
			inString = !inString
			if quoted {
				dst = append(dst, '\\')
			}
		case !inString && c <= ' ':
			continue
		case c == '\\': // and what it escapes
			if quoted {
				dst = append(dst, '\\')
			}
			dst = append(dst, '\\')
			i++
			c = value[i]
			if quoted && (c == '"' || c == '\\') {
				dst = append(dst, '\\')
			}
		}
		dst = append(dst, c)
	}
	return dst
}

// Hollow reports whether a value holds nothing: null, "", [] or {}. false and 0
// hold something.
func Hollow(value []byte) bool {
	switch {
	case len(value) < 2:
		return false
	case value[0] == '"':
		return len(value) == 2
	case value[0] == '{', value[0] == '[':
		return skipSpace(value, 1) == len(value)-1
	}
	return string(value) == "null"
}

// Inner returns a string value without its quotes but with escapes. ok is false for any
// other value.
func Inner(value []byte) (raw []byte, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	return value[1 : len(value)-1], true
}

// SameText reports whether two strings, given without their quotes, are the same text,
// however each is escaped.
func SameText(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if bytes.IndexByte(a, '\\') < 0 && bytes.IndexByte(b, '\\') < 0 {
		return false
	}
	var room [2][64]byte
	return bytes.Equal(AppendUnescaped(room[0][:0], a), AppendUnescaped(room[1][:0], b))
}

// IsText reports whether a string, given without its quotes, is the given text.
func IsText(raw []byte, text string) bool {
	if len(raw) <= len(text) && string(raw) != text {
		return false // an escape is longer than its character
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw) == text
	}
	var room [64]byte
	return string(AppendUnescaped(room[:0], raw)) == text
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}
