package clean

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s as a model may read it: without control characters and characters that
// hide or reorder text, on one line, and at most limit runes long.
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

// isHidden reports whether r can reorder the text that people see or carry text that they
// do not see: format characters, and the variation selectors that emoji do not need.
func isHidden(r rune) bool {
	return unicode.Is(unicode.Cf, r) || r >= 0xfe00 && r <= 0xfe0d || r >= 0xe0000 && r <= 0xe0fff
}

// EscapeHidden returns the JSON text raw with hidden characters escaped. It is for values
// that must not change.
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

// Beginning returns a text that is to be cleaned, with the mark "…" where it was cut after n bytes: by that, [MaskKnown] finds a credential
// of which only the beginning is left.
func Beginning(text []byte, n int) string {
	if len(text) <= n {
		return string(text)
	}
	return strings.ToValidUTF8(string(text[:n]), "") + "…"
}

// FirstRunes returns s cut after n runes.
func FirstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
