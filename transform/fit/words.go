package fit

import (
	"bytes"
	"strings"
)

// Protected reports whether a string must not be shortened because it is an
// identifier, an address, a cursor, a date or base64. name is the name of its
// member, and inner is the string without its quotes.
func Protected(name string, inner []byte) bool {
	return name != "" && isKey(name) || (name == "data" || name == "blob") && onlyBase64(inner) || dateLike(inner)
}

// isKey reports whether a member of that name identifies a thing or says where
// it is.
func isKey(name string) bool {
	switch name {
	case "id", "identifier", "key", "uuid", "url", "uri", "href", "email", "cursor", "next_cursor", "nextCursor", "endCursor":
		return true
	}
	return strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "Id") ||
		strings.HasSuffix(name, "_url") || strings.HasSuffix(name, "Url")
}

// onlyBase64 reports whether the beginning of a text has only the characters of
// base64.
func onlyBase64(text []byte) bool {
	_, _, _, other := letters(text)
	return other == 0
}

// base64Like reports whether a long text looks like base64: its beginning has, besides, more
// capitals and digits than words have.
func base64Like(text []byte) bool {
	if len(text) <= longString {
		return false
	}
	small, large, digits, other := letters(text)
	return other == 0 && small > 0 && large > 0 && large+digits > 64
}

// in64 are the characters of base64.
var in64 = func() (b [256]bool) {
	for c := range b {
		_, _, _, other := letters([]byte{byte(c)})
		b[c] = other == 0
	}
	return b
}()

// wrapped64 reports whether a line may be one of several of a long base64.
func wrapped64(line []byte) bool {
	if len(line) < 56 || len(line) > 128 || bytes.IndexByte(line, ' ') >= 0 {
		return false
	}
	small, large, _, other := letters(line)
	return other == 0 && small > 3 && large > 7
}

// letters counts, at the beginning of a text, the small letters, the capitals, the digits,
// and the characters that base64 does not have.
func letters(text []byte) (small, large, digits, other int) {
	for _, c := range text[:min(len(text), 512)] {
		switch {
		case c-'a' <= 25:
			small++
		case c-'A' <= 25:
			large++
		case c-'0' <= 9:
			digits++
		case strings.IndexByte("+/=-_", c) < 0:
			other++
		}
	}
	return small, large, digits, other
}

// dateLike reports whether a string begins like 2025-01-31 and is not long.
func dateLike(raw []byte) bool {
	return len(raw) >= 10 && len(raw) <= 40 && raw[4] == '-' && raw[7] == '-' &&
		raw[0]-'0' <= 9 && raw[3]-'0' <= 9 && raw[5]-'0' <= 9 && raw[8]-'0' <= 9 && raw[9]-'0' <= 9
}
