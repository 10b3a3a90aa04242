package transform

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/grapheme"
)

// shortening says how a text is made shorter.
type shortening struct {
	max      int // code points, marker included
	strategy string
	marker   string // a %d in it becomes the number of code points that are left out
}

// text returns what is left of a text that has more than max code points, of
// which it has total.
func (s shortening) text(text []byte, total int) []byte {
	// The number of code points that are left out has no more digits than
	// total, so the text stays within max.
	marker := strings.Replace(s.marker, "%d", strconv.Itoa(total), 1)
	room := s.max - utf8.RuneCountInString(marker)
	if room < 0 {
		// Not even the marker fits: keep as much of the text as fits.
		return bytes.Clone(text[:grapheme.Floor(text, runeIndex(text, s.max))])
	}
	head, tail := s.parts(text, room)
	if marker != s.marker {
		gone := total - utf8.RuneCount(text[:head]) - utf8.RuneCount(text[tail:])
		marker = strings.Replace(s.marker, "%d", strconv.Itoa(gone), 1)
	}
	out := make([]byte, 0, head+len(marker)+len(text)-tail)
	return append(append(append(out, text[:head]...), marker...), text[tail:]...)
}

// parts returns where the beginning that is kept ends, and where the end that
// is kept begins.
func (s shortening) parts(text []byte, room int) (head, tail int) {
	if room <= 0 {
		return 0, len(text)
	}
	switch s.strategy {
	case "middle":
		head = grapheme.BeforeNumber(text, grapheme.Floor(text, runeIndex(text, (room+1)/2)))
		tail = grapheme.AfterNumber(text, grapheme.Ceil(text, lastRunes(text, room/2)))
		return head, max(head, tail)
	case "word":
		n := runeIndex(text, room)
		if n < len(text) && !blank(text[n]) {
			if at := bytes.LastIndexAny(text[:n], " \t\r\n"); at > n/2 {
				n = at
			}
		}
		return len(bytes.TrimRight(text[:grapheme.BeforeNumber(text, grapheme.Floor(text, n))], " \t\r\n")), len(text)
	}
	return niceCut(text, runeIndex(text, room)), len(text)
}

// runeIndex returns where the n-th code point begins.
func runeIndex(text []byte, n int) int {
	i := 0
	for ; n > 0 && i < len(text); n-- {
		_, size := utf8.DecodeRune(text[i:])
		i += size
	}
	return i
}

// lastRunes returns where the last n code points begin.
func lastRunes(text []byte, n int) int {
	i := len(text)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRune(text[:i])
		i -= size
	}
	return i
}

// niceCut returns where to cut a text at or before n: between two graphemes,
// and within the last tenth at the end of a paragraph, a line, a sentence or a
// word, in this order.
func niceCut(text []byte, n int) int {
	if n >= len(text) {
		return len(text)
	}
	n = grapheme.BeforeNumber(text, grapheme.Floor(text, n))
	from := n - n/10
	window := text[from:n]
	if blank(text[n]) { // the cut is between two words as it is
		window = text[from : n+1]
	}
	if i := bytes.LastIndex(window, []byte("\n\n")); i >= 0 {
		return trimmed(text, from+i)
	}
	if i := bytes.LastIndexByte(window, '\n'); i >= 0 {
		return trimmed(text, from+i)
	}
	for i := len(window) - 1; i > 0; i-- {
		if blank(window[i]) && (window[i-1] == '.' || window[i-1] == '!' || window[i-1] == '?') {
			return from + i
		}
	}
	if i := bytes.LastIndexAny(window, " \t"); i >= 0 {
		return trimmed(text, from+i)
	}
	return n
}

// trimmed returns where text[:n] ends without the blanks at its end.
func trimmed(text []byte, n int) int { return len(bytes.TrimRight(text[:n], " \t\r\n")) }

func blank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
