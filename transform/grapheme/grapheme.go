// Package grapheme finds where a text may be cut: at the boundary of a grapheme cluster, which is a character as
// readers see it.
package grapheme

import (
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Floor returns the byte offset of the last grapheme boundary at or before byte offset n.
func Floor(text []byte, n int) int {
	at, _ := graphemes(text, n)
	return at
}

// Ceil returns the byte offset of the first grapheme boundary at or after byte offset n.
func Ceil(text []byte, n int) int {
	_, at := graphemes(text, n)
	return at
}

// graphemes returns the grapheme boundaries next to n: both are n if n is a
// boundary. https://www.unicode.org/reports/tr29/#Grapheme_Cluster_Boundaries
func graphemes(text []byte, n int) (floor, ceil int) {
	if n <= 0 || n >= len(text) {
		n = max(0, min(n, len(text)))
		return n, n
	}
	start := n
	for start > 0 && !apart(text, start) {
		start--
	}
	if start == n {
		return n, n
	}
	for state := -1; ; {
		var cluster []byte
		cluster, _, _, state = uniseg.FirstGraphemeCluster(text[start:], state)
		next := start + len(cluster)
		if next == n || len(cluster) == 0 {
			return n, n
		}
		if next > n {
			return start, next
		}
		start = next
	}
}

// apart reports whether two bytes or characters alone show a boundary before i:
// between two ASCII characters, or two ideographs.
func apart(text []byte, i int) bool {
	if text[i] < utf8.RuneSelf && text[i-1] < utf8.RuneSelf {
		return text[i] != '\n' || text[i-1] != '\r'
	}
	return i >= 3 && ideograph(text[i:]) && ideograph(text[i-3:])
}

// ideograph reports whether text begins with U+4E00 to U+9FBF.
func ideograph(text []byte) bool {
	return len(text) >= 3 && text[1]&0xC0 == 0x80 && text[2]&0xC0 == 0x80 &&
		(text[0] > 0xE4 && text[0] < 0xE9 || text[0] == 0xE4 && text[1] >= 0xB8 || text[0] == 0xE9 && text[1] < 0xBF)
}
