package fit

import "strings"

// Protected reports whether a string stays whole: a name for something, an
// address, a cursor, a date, base64.
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

func onlyBase64(raw []byte) bool {
	for _, c := range raw[:min(len(raw), 256)] {
		switch {
		case c|0x20-'a' <= 25, c-'0' <= 9, strings.IndexByte("+/=-_", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// dateLike reports whether a string begins like 2025-01-31 and is not long.
func dateLike(raw []byte) bool {
	return len(raw) >= 10 && len(raw) <= 40 && raw[4] == '-' && raw[7] == '-' &&
		raw[0]-'0' <= 9 && raw[3]-'0' <= 9 && raw[5]-'0' <= 9 && raw[8]-'0' <= 9 && raw[9]-'0' <= 9
}
