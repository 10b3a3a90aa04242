package transform

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/fit"
)

// max_chars keeps the beginning of a text that is not JSON. It cuts the text where a reader
// of Markdown misses least.

// beginning returns the longest beginning of a text that has at most most code points, the
// marker included, or nil if there is none. A %d in the marker becomes the number of code points that are left out.
func beginning(text []byte, most int, marker string) (best []byte) {
	marker = strings.TrimSpace(marker)
	low, high := 0, min(most, len(text))+1 // low fits, or is 0; high does not fit
	for low+1 < high {
		n := (low + high) / 2
		end, closing := proseEnd(text, runeIndex(text, n))
		out := append(append(bytes.Clone(text[:end]), closing...), '\n')
		said := marker
		if strings.Contains(marker, "%d") {
			said = strings.Replace(marker, "%d", strconv.Itoa(utf8.RuneCount(text[end:])), 1)
		}
		if out = append(out, said...); end > 0 && utf8.RuneCount(out) <= most {
			low, best = n, out
		} else {
			high = n
		}
	}
	return best
}

// proseEnd returns where to cut a Markdown text at or before n, and what closes a fence
// that is open there. Links, inline code and table rows stay whole, and no heading stays
// alone at the end.
func proseEnd(text []byte, n int) (end int, closing string) {
	if n >= len(text) {
		n = len(text)
	}
	end = niceCut(text, n)
	if fence, at := fit.OpenFence(text[:end]); fence != "" {
		body := bytes.IndexByte(text[at:end], '\n')
		if body >= 0 && len(bytes.TrimSpace(text[at+body:end])) > 0 {
			return trimmed(text, end), "\n" + fence
		}
		end = trimmed(text, at) // a fence without a body
	}
	for range maxSteps {
		before := end
		end = trimmed(text, wholeLine(text, end))
		if line := bytes.LastIndexByte(text[:end], '\n') + 1; heading(text[line:end]) && end < len(text) {
			end = trimmed(text, line)
		}
		if end == before {
			break
		}
	}
	return end, ""
}

// maxSteps is how often a cut steps back. It bounds the work for texts that are nothing but
// headings.
const maxSteps = 1000

// wholeLine steps back from inside a table row, a link or inline code.
func wholeLine(text []byte, end int) int {
	start := bytes.LastIndexByte(text[:end], '\n') + 1
	line := text[start:end]
	whole := end == len(text) || text[end] == '\n' || text[end] == '\r'
	if tableRow(line) && !whole {
		return start
	}
	if fit.FenceOf(line) != "" { // the end of a block
		return end
	}
	if open := openCode(line); open >= 0 {
		return start + open
	}
	if whole {
		return end
	}
	if open := bytes.LastIndexByte(line, '['); open >= 0 {
		rest := text[start+open:]
		if i := bytes.IndexByte(rest[:min(len(rest), 4096)], '\n'); i >= 0 {
			rest = rest[:i]
		}
		if n := linkLength(rest); n > end-start-open {
			if open > 0 && line[open-1] == '!' {
				open--
			}
			return start + open
		}
	}
	return end
}

// linkLength returns the length of the link that text begins with, or 0 if there is none.
func linkLength(text []byte) int {
	middle := bytes.Index(text, []byte("]("))
	if middle < 0 {
		return 0
	}
	last := bytes.IndexByte(text[middle:], ')')
	if last < 0 {
		return 0
	}
	return middle + last + 1
}

// openCode returns where inline code begins that does not end in the line, or -1 if there
// is none.
func openCode(line []byte) int {
	open, ticks := -1, 0
	for i := 0; i < len(line); {
		if line[i] != '`' {
			i++
			continue
		}
		from := i
		for i < len(line) && line[i] == '`' {
			i++
		}
		switch {
		case open < 0:
			open, ticks = from, i-from
		case i-from == ticks:
			open = -1
		}
	}
	return open
}

func heading(line []byte) bool {
	n := 0
	for n < len(line) && line[n] == '#' {
		n++
	}
	return n > 0 && n <= 6 && n < len(line) && line[n] == ' '
}

func tableRow(line []byte) bool {
	line = bytes.TrimLeft(line, " ")
	return len(line) > 0 && line[0] == '|'
}
