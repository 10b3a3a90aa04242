package transform

import (
	"bytes"
	"fmt"
	"strings"
)

// A meter says what fits.
type meter interface {
	fits(text []byte) bool
	// most is a number of bytes that nothing longer fits.
	most() int
	// guess is about how many bytes fit.
	guess() int
}

const (
	longBlock = 20 // lines of code, or rows of a table, that stay
	firstPart = 10 // how many stay of more
)

// fitProse returns what is left of a text that does not fit, and what was done
// to it; nil when nothing can be left.
func (f *fitter) fitProse(text []byte, m meter) (out []byte, step string) {
	for _, s := range [...]squeeze{{squeezeBlanks, "collapse_blanks"}, {squeezeBlocks, "shorten_blocks"}, {squeezeOutline, "outline_text"}} {
		out, whole := s.level.apply(text, m.most())
		if !whole || s.level == squeezeOutline && !bytes.Contains(out, []byte("#")) {
			continue
		}
		if m.fits(out) {
			return out, s.step
		}
	}
	squeezed, whole := squeezeBlocks.apply(text, m.most()+longBlock)
	if f.headTail {
		if out := f.bothEnds(squeezed, text, m); out != nil {
			return out, "cut_text"
		}
	}
	return f.head(squeezed, !whole, m), "cut_text"
}

// head is the longest beginning of a text that fits, with a marker behind it.
func (f *fitter) head(text []byte, more bool, m meter) []byte {
	marker := f.plainMarker()
	return widest(min(m.most(), len(text)), m.guess(), func(n int) []byte {
		if n == len(text) && more {
			n--
		}
		end, closing := proseEnd(text, n)
		if end == 0 {
			return nil
		}
		out := append(append(f.room[:0], text[:end]...), closing...)
		if f.room = append(append(out, '\n'), marker...); m.fits(f.room) {
			return f.room
		}
		return nil
	})
}

// bothEnds is a beginning and an end of a text, four to one, as much as fits.
func (f *fitter) bothEnds(text, original []byte, m meter) []byte {
	marker := f.plainMarker()
	return widest(min(m.most(), len(text)), m.guess(), func(n int) []byte {
		end, closing := proseEnd(text, n-n/5)
		from := len(original) - n/5
		if i := bytes.IndexByte(original[from:], '\n'); i >= 0 && i < n/10 {
			from += i + 1
		}
		from = ceilGrapheme(original, from)
		if end == 0 || from == len(original) {
			return nil
		}
		out := append(append(f.room[:0], text[:end]...), closing...)
		out = append(append(append(out, '\n'), marker...), '\n')
		if fence, _ := openFence(original[:from]); fence != "" {
			out = append(append(out, fence...), '\n')
		}
		out = append(out, original[from:]...)
		if fence, _ := openFence(out); fence != "" {
			out = append(append(out, '\n'), fence...)
		}
		if f.room = out; m.fits(f.room) {
			return f.room
		}
		return nil
	})
}

func (f *fitter) plainMarker() string {
	return strings.TrimSpace(strings.Replace(f.marker, "%d", "", 1))
}

// widest looks for the largest n up to most with which try has something, and
// returns a copy of that; nil when there is none. It begins at guess.
func widest(most, guess int, try func(n int) []byte) (best []byte) {
	low, high := 0, most+1 // low does, or is 0; high does not
	for n := min(max(1, guess), most); low+low/128+1 < high && n > 0; n = (low + high) / 2 {
		if out := try(n); out != nil {
			low, best = n, append(best[:0], out...)
		} else {
			high = n
		}
	}
	return best
}

// proseEnd returns where to cut a Markdown text at or before n, and what closes
// what is open there: a fence stays closed, links, inline code and table rows
// stay whole, and no heading stays alone.
func proseEnd(text []byte, n int) (end int, closing string) {
	if n >= len(text) {
		n = len(text)
	}
	end = niceCut(text, n)
	if fence, at := openFence(text[:end]); fence != "" {
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

// maxSteps is how often a cut steps back, for texts that are nothing but headings.
const maxSteps = 1000

// wholeLine steps back from inside a table row, a link or inline code.
func wholeLine(text []byte, end int) int {
	start := bytes.LastIndexByte(text[:end], '\n') + 1
	line := text[start:end]
	whole := end == len(text) || text[end] == '\n' || text[end] == '\r'
	if tableRow(line) && !whole {
		return start
	}
	if fenceOf(line) != "" { // the end of a block
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

// linkLength is the length of the link that text begins with, 0 for none.
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

// openCode is where inline code begins that does not end in the line, -1 for none.
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

// fenceOf is the fence that a line begins with, "" for none.
// https://spec.commonmark.org/0.31.2/#fenced-code-blocks
func fenceOf(line []byte) string {
	line = bytes.TrimLeft(line, " ")
	n := 0
	for n < len(line) && (line[n] == '`' || line[n] == '~') && line[n] == line[0] {
		n++
	}
	if n < 3 || line[0] == '`' && bytes.IndexByte(line[n:], '`') >= 0 {
		return ""
	}
	return string(line[:n])
}

// fences follows the fences of a text from line to line.
type fences struct{ open string }

// line says whether a line belongs to a code block; opens and closes are its
// first and last.
func (f *fences) line(line []byte) (inside, opens, closes bool) {
	fence := fenceOf(line)
	switch {
	case f.open == "" && fence != "":
		f.open = fence
		return true, true, false
	case f.open == "":
		return false, false, false
	case fence != "" && fence[0] == f.open[0] && len(fence) >= len(f.open) &&
		len(bytes.TrimSpace(line)) == len(fence):
		f.open = ""
		return true, false, true
	}
	return true, false, false
}

// openFence is the fence that is open at the end of a text, and where its line
// begins; "" for none.
func openFence(text []byte) (fence string, at int) {
	var f fences
	for i := 0; i < len(text); {
		end := lineEnd(text, i)
		if _, opens, _ := f.line(text[i:end]); opens {
			at = i
		}
		i = end + 1
	}
	return f.open, at
}

func lineEnd(text []byte, i int) int {
	if n := bytes.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(text)
}

// A level is how much of a text goes.
type level int

const (
	squeezeBlanks  level = iota // blank lines that follow one another, blanks at the end of a line
	squeezeBlocks               // and the greater part of long code and tables
	squeezeOutline              // and all but headings and first sentences
)

type squeeze struct {
	level level
	step  string
}

// apply returns what is left of a text; whole is false when that is more than
// limit bytes, and out only begins it.
func (l level) apply(text []byte, limit int) (out []byte, whole bool) {
	var (
		f       fences
		gap     = true // the last line was blank
		code    int    // lines of code in this block
		rows    int    // rows of this table
		begun   bool   // the paragraph has its first sentence
		enclose string // the fence of this block
	)
	endTable := func() {
		switch {
		case rows == 0:
		case l == squeezeOutline:
			out = fmt.Appendf(out, "[table of %d rows]\n", rows)
		case l == squeezeBlocks && rows > longBlock:
			out = fmt.Appendf(out, "\n[%d more rows]\n", rows-firstPart)
		}
		rows = 0
	}
	for i := 0; i < len(text); {
		if len(out) > limit {
			return out, false
		}
		end := lineEnd(text, i)
		line := bytes.TrimRight(text[i:end], " \t\r")
		start := i
		i = end + 1
		inside, opens, closes := f.line(line)
		if inside {
			endTable()
			gap, begun = false, false
			switch {
			case opens:
				code, enclose = 0, f.open
				if l != squeezeOutline {
					out = appendLine(out, line)
				}
			case closes:
				if l == squeezeOutline {
					out = fmt.Appendf(out, "[code of %d lines]\n", code)
					break
				}
				if l == squeezeBlocks && code > longBlock {
					out = fmt.Appendf(out, "[%d more lines]\n", code-firstPart)
				}
				out = appendLine(out, line)
			default:
				code++
				if l == squeezeBlanks || l == squeezeBlocks && code <= firstPart {
					out = appendLine(out, line)
				} else if l == squeezeBlocks && code == firstPart+1 {
					if rest := codeLines(text[start:], enclose); rest <= longBlock-firstPart {
						code = -rest // short enough to stay
						out = appendLine(out, line)
					}
				} else if l == squeezeBlocks && code <= 0 {
					out = appendLine(out, line)
				}
			}
			continue
		}
		if tableRow(line) {
			gap, begun = false, false
			if rows++; l == squeezeBlanks || l == squeezeBlocks && rows <= longBlock {
				out = appendLine(out, line)
			}
			if l == squeezeBlocks && rows == longBlock+1 {
				out = dropLines(out, longBlock-firstPart)
			}
			continue
		}
		endTable()
		switch {
		case len(line) == 0:
			if !gap {
				out = append(out, '\n')
			}
			gap, begun = true, false
			continue
		case l != squeezeOutline || heading(line):
			out = appendLine(out, line)
		case !begun:
			out = appendLine(out, firstSentence(line))
			begun = true
		}
		gap = false
	}
	endTable()
	if f.open != "" { // as it came
		if l == squeezeBlocks && code > longBlock {
			out = fmt.Appendf(out, "[%d more lines]\n", code-firstPart)
		}
		if l != squeezeOutline {
			out = appendLine(out, []byte(f.open))
		}
	}
	return bytes.TrimRight(out, "\n"), len(out) <= limit
}

func appendLine(out, line []byte) []byte { return append(append(out, line...), '\n') }

// codeLines counts the lines up to where the code block ends, up to one more
// than matters.
func codeLines(text []byte, open string) (n int) {
	f := fences{open}
	for i := 0; i < len(text) && n <= longBlock; n++ {
		end := lineEnd(text, i)
		if _, _, closes := f.line(text[i:end]); closes {
			return n
		}
		i = end + 1
	}
	return n
}

// dropLines takes the last n lines off.
func dropLines(out []byte, n int) []byte {
	for ; n > 0 && len(out) > 0; n-- {
		out = out[:bytes.LastIndexByte(out[:len(out)-1], '\n')+1]
	}
	return out
}

func firstSentence(line []byte) []byte {
	for i := 1; i < len(line); i++ {
		if line[i] == ' ' && (line[i-1] == '.' || line[i-1] == '!' || line[i-1] == '?') {
			return line[:i]
		}
	}
	return line
}
