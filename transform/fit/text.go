package fit

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/grapheme"
)

// A text is cut into units: lines, with the blank ones behind them, and pieces of
// long lines.
type text struct {
	src    []byte
	start  []uint32 // of each unit, and the end of the last one
	line   []uint32 // the number of each unit's line, from 0
	ranks  []rank
	blocks []block // of code
	fenced bool    // some line begins with a fence, or may where it is cut
	binary bool    // base64: one line that is worth its beginning
}

// block is a block of code: its fences stay while any of it stays.
type block struct{ open, close uint32 }

const (
	piece     = 160 // about how many bytes of a long line are a unit
	firstOf64 = 24  // bytes of base64 that stay
)

func newText(src []byte, base rank, n int, markdown bool) *text {
	t := &text{src: src}
	if len(src) > longString && base64Like(src) {
		t.binary = true
		t.start = append(t.start, 0)
		for i := firstOf64; i < len(src); i += 4 * piece {
			t.start = append(t.start, uint32(i))
		}
		t.line = make([]uint32, len(t.start))
		t.start = append(t.start, uint32(len(src)))
		t.ranks = make([]rank, len(t.line))
		for i := range t.ranks {
			t.ranks[i] = add(base, min(i, 1)*restOfCode+lg(i))
		}
		return t
	}
	t.split()
	t.rank(base, markdown)
	return t
}

// split finds the units.
func (t *text) split() {
	guess := len(t.src)/48 + 2
	t.start, t.line = make([]uint32, 0, guess), make([]uint32, 0, guess)
	fence, open, line := "", uint32(0), uint32(0)
	for i := 0; i < len(t.src); line++ {
		end := lineEnd(t.src, i)
		here := t.src[i:end]
		if first := firstByte(here); first == '`' || first == '~' {
			t.fenced = true
			if f := FenceOf(here); f != "" {
				switch {
				case fence == "":
					fence, open = f, uint32(len(t.line))
				case f[0] == fence[0] && len(f) >= len(fence) && len(bytes.TrimSpace(here)) == len(f):
					t.blocks = append(t.blocks, block{open, uint32(len(t.line))})
					fence = ""
				}
			}
		}
		t.start, t.line = append(t.start, uint32(i)), append(t.line, line)
		for end-i > piece+piece/4 {
			i = pieceEnd(t.src[:end], i)
			t.start, t.line = append(t.start, uint32(i)), append(t.line, line)
		}
		i = end + 1
		for at := i; at < len(t.src) && t.src[at] <= ' '; at++ { // blank lines
			if t.src[at] == '\n' {
				i = at + 1
				line++
			}
		}
	}
	if fence != "" {
		t.blocks = append(t.blocks, block{open, uint32(len(t.line))})
	}
	t.start = append(t.start, uint32(len(t.src)))
}

func firstByte(line []byte) byte {
	for _, c := range line {
		if c != ' ' {
			return c
		}
	}
	return 0
}

// pieceEnd is where the piece of a long line ends that begins at i.
func pieceEnd(line []byte, i int) int {
	n := min(len(line), i+piece)
	if at := bytes.LastIndexAny(line[n-piece/3:n], " \t,;"); at >= 0 {
		return n - piece/3 + at + 1
	}
	near := line[i:min(len(line), n+piece)] // i is between two graphemes
	if at := grapheme.Floor(near, n-i); at > 0 {
		return i + at
	}
	return i + grapheme.Ceil(line[i:], n-i)
}

// rank ranks the units. Each stream says how early it would have a line; the
// earliest counts.
func (t *text) rank(base rank, markdown bool) {
	n := len(t.line)
	t.ranks = make([]rank, n)
	for i := range t.ranks {
		t.ranks[i] = add(base, min(kindOfHead+lg(i), kindOfTail+lg(n-1-i)))
	}
	earlier := func(i, more int) { t.ranks[i] = min(t.ranks[i], add(base, more)) }
	spread(n, func(j, i int) { earlier(i, kindOfAny+lg(j)) })
	s := t.survey(markdown)
	for k, h := range s.titles {
		earlier(int(h.at), kindOfTitle+perLevel*int(h.level)+lg(k)*perTitle/16)
	}
	late := 0
	if s.source {
		late = errorInText
	}
	wrong := func(i, first int) { // and the lines behind it
		for d := range min(1+linesBehind, n-i) {
			earlier(i+d, first+d*behindError)
		}
	}
	for k, i := range s.failed {
		earlier(int(i), kindOfError+late+lg(turn(k, len(s.failed)))*perFailed/16)
		wrong(int(i), kindOfError+late+lg(k))
	}
	for k, i := range s.errors {
		wrong(int(i), kindOfError+late+lg(k))
	}
	// What a long line has behind its first piece comes behind that.
	for i, from := 1, 0; i < n; i++ {
		if t.line[i] != t.line[i-1] {
			from = i
			continue
		}
		t.ranks[i] = max(t.ranks[i], add(t.ranks[from], min(restOfLine, 8*(i-from))))
	}
}

// entry is the k-th line, or where line is not below 0 the k-th piece of that line;
// n is how many there are.
func (t *text) entry(line, k int) (unit, n int) {
	if line < 0 {
		return t.unitOf(k), int(t.line[len(t.line)-1]) + 1
	}
	first, end := t.unitOf(line), t.unitOf(line+1)
	return min(first+k, end), end - first
}

// unitOf is the first unit of a line, or that of the next one where the line is
// blank.
func (t *text) unitOf(line int) int {
	i, _ := slices.BinarySearch(t.line, uint32(line))
	return i
}

// place is where a unit is: a line, or a piece of a long line.
func (t *text) place(i int) Place {
	line := int(t.line[i])
	if first := t.unitOf(line); first < i {
		return Place{[]string{strconv.Itoa(line)}, i - first}
	}
	return Place{From: line}
}

func (t *text) unit(i int) []byte { return t.src[t.start[i]:t.start[i+1]] }

// write appends the kept units, and a line for each gap between from and to.
func (t *text) write(dst []byte, kept bitset, from, to int, cut edge) []byte {
	for _, b := range t.blocks {
		if kept.any(int(b.open), min(int(b.close)+1, len(t.line))) {
			kept.add(int(b.open))
			if int(b.close) < len(t.line) {
				kept.add(int(b.close))
			}
		}
	}
	begin, pos := len(dst), from
	for pos < to {
		at := min(kept.next(pos), to)
		if cut.at >= pos && cut.at < at {
			at = cut.at
		}
		if at > pos {
			dst = t.gap(dst, begin, pos, at)
		}
		if pos = at; pos == cut.at && pos < to {
			dst = cut.of(dst, t.unit(pos))
			pos++
			continue
		}
		for pos < to && kept.has(pos) {
			pos++
		}
		dst = append(dst, t.src[t.start[at]:t.start[pos]]...)
	}
	if to < len(t.line) || from > 0 || len(dst) == begin || kept.next(0) > 0 {
		dst = append(dst[:begin], bytes.TrimRight(dst[begin:], "\r\n")...)
	}
	if t.fenced {
		if fence, _ := OpenFence(dst[begin:]); fence != "" {
			dst = append(append(dst, '\n'), fence...)
		}
	}
	return dst
}

// gap tells of the units from a up to b that are missing; where that takes no less
// than they do, they are there.
func (t *text) gap(dst []byte, begin, a, b int) []byte {
	whole := t.src[t.start[a]:t.start[b]]
	var room [64]byte
	var mark []byte
	first, last := t.line[a], t.line[b-1]
	inside := a > 0 && t.line[a-1] == first // it begins within a line
	within := b < len(t.line) && t.line[b] == last
	switch {
	case t.binary:
		mark = fmt.Appendf(room[:0], "… (%d characters in all)", utf8.RuneCount(t.src))
	case first == last && (inside || within):
		mark = fmt.Appendf(room[:0], " … %d characters … ", utf8.RuneCount(whole))
		if !within {
			mark = append(bytes.TrimRight(mark, "… "), " …\n"...)
		}
	default:
		if b < len(t.line) {
			last = t.line[b] - 1 // blank lines behind the last one are in it
			if within {
				last = t.line[b]
			}
		}
		mark = append(appendGap(room[:0], int(first), int(last)), '\n')
	}
	if len(whole) <= len(mark) {
		return append(dst, whole...)
	}
	if inside && first != last || len(dst) > begin && dst[len(dst)-1] != '\n' && !inside && !t.binary {
		dst = append(dst, '\n')
	}
	return append(dst, mark...)
}

// appendGap appends which entries are missing, by the numbers that reading on takes.
func appendGap(dst []byte, first, last int) []byte {
	dst = strconv.AppendInt(append(dst, "…"...), int64(first), 10)
	if last > first {
		dst = strconv.AppendInt(append(dst, "–"...), int64(last), 10)
	}
	return dst
}

// An edge is the unit behind the last one that is kept: as much of it as there is
// room for.
type edge struct{ at, bytes int }

var noEdge = edge{at: -1}

func (e edge) of(dst, unit []byte) []byte {
	unit = unit[:grapheme.Floor(unit, min(e.bytes, len(unit)))]
	return append(append(dst, bytes.TrimRight(unit, " \r\n")...), "…\n"...)
}

func lineEnd(text []byte, i int) int {
	if n := bytes.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(text)
}

// FenceOf is the fence that a line begins with, "" for none.
// https://spec.commonmark.org/0.31.2/#fenced-code-blocks
func FenceOf(line []byte) string {
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

// OpenFence is the fence that is open at the end of a text, and where its line
// begins; "" for none.
func OpenFence(text []byte) (open string, at int) {
	for i := 0; i < len(text); {
		end := lineEnd(text, i)
		line := text[i:end]
		if fence := FenceOf(line); fence != "" {
			switch {
			case open == "":
				open, at = fence, i
			case fence[0] == open[0] && len(fence) >= len(open) && len(bytes.TrimSpace(line)) == len(fence):
				open = ""
			}
		}
		i = end + 1
	}
	return open, at
}

// base64Like reports whether a text has only letters, digits and what base64 has
// beside them, in words that no language has.
func base64Like(text []byte) bool {
	lower, upper, digit := 0, 0, 0
	for _, c := range text[:min(len(text), 512)] {
		switch {
		case c >= 'a' && c <= 'z':
			lower++
		case c >= 'A' && c <= 'Z':
			upper++
		case c >= '0' && c <= '9':
			digit++
		case c == '+' || c == '/' || c == '=' || c == '-' || c == '_':
		default:
			return false
		}
	}
	return lower > 0 && upper > 0 && upper+digit > 64
}
