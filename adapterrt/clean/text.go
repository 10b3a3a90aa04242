package clean

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is adapter text as a model may read it: no control or bidirectional
// formatting characters, at most limit runes.
func Text(s string, limit int) string {
	if len(s) <= limit {
		plain := true
		for i := range len(s) {
			if c := s[i]; c < ' ' || c >= 0x7f {
				plain = false
				break
			}
		}
		if plain {
			return s
		}
	}
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == limit {
			break
		}
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			r = ' '
		case r < ' ' || r >= 0x7f && r < 0xa0:
			continue
		case r == 0x2028 || r == 0x2029:
			r = ' '
		case isHidden(r):
			continue
		case r == utf8.RuneError:
			continue
		}
		b.WriteRune(r)
		n++
	}
	return strings.TrimSpace(b.String())
}

// isHidden tells what reorders the text that people see, or carries what they do
// not see: format characters, and the variation selectors that no emoji needs.
func isHidden(r rune) bool {
	return unicode.Is(unicode.Cf, r) || r >= 0xfe00 && r <= 0xfe0d || r >= 0xe0000 && r <= 0xe0fff
}

// EscapeHidden is the JSON text raw with such characters escaped, where the value
// has to stay what it is.
func EscapeHidden(raw []byte) []byte {
	if !bytes.ContainsFunc(raw, isHidden) {
		return raw
	}
	var out []byte
	for _, r := range string(raw) {
		switch {
		case !isHidden(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// FirstRunes is s cut after n runes.
func FirstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
