package fit

import (
	"bytes"
	"slices"
)

// spans are places in a text, in order.
type spans []span

type span struct{ from, to uint32 }

// has reports whether nearly all of what is from pos to end is in these places.
func (s spans) has(pos, end uint32) bool {
	i, _ := slices.BinarySearchFunc(s, pos, func(e span, pos uint32) int {
		if e.to <= pos {
			return -1
		}
		return 1
	})
	in := uint32(0)
	for ; i < len(s) && s[i].from < end; i++ {
		in += min(s[i].to, end) - max(s[i].from, pos)
	}
	return in > 0 && in+1 >= (end-pos)*3/4
}

// unseen are elements of HTML that a browser does not show.
var unseen = [...]string{"head", "script", "style", "svg", "template", "noscript"}

// notShown returns the places in a page of HTML that a browser does not show. It returns none for other texts.
func notShown(src []byte) (all spans) {
	if begin := bytes.ToLower(bytes.TrimSpace(src[:min(len(src), 512)])); !bytes.HasPrefix(begin, []byte("<!doctype html")) && !bytes.HasPrefix(begin, []byte("<html")) && !bytes.Contains(begin, []byte("<head>")) {
		return nil
	}
	var open [len(unseen) + 1]bool // those that do not end any more
	for i := 0; i < len(src); {
		n := bytes.IndexByte(src[i:], '<')
		if n < 0 {
			break
		}
		i += n
		end := 0
		for k, name := range unseen {
			if !open[k] && isTag(src[i:], name) {
				end = after(src, i, "</"+name)
				open[k] = end == 0
			}
		}
		if k := len(unseen); !open[k] && bytes.HasPrefix(src[i:], []byte("<!--")) {
			end = after(src, i, "-->")
			open[k] = end == 0
		}
		if end == 0 {
			i++
			continue
		}
		all = append(all, span{uint32(i), uint32(end)})
		i = end
	}
	return all
}

// isTag reports whether a text begins with the start of an element.
func isTag(text []byte, name string) bool {
	n := 1 + len(name)
	return len(text) > n && bytes.EqualFold(text[1:n], []byte(name)) && (text[n] == '>' || text[n] == ' ' || text[n] == '\n' || text[n] == '\t')
}

// after returns the end of the mark after i, and of the tag that it begins, or 0 if there is none.
func after(text []byte, i int, mark string) int {
	for i < len(text) {
		n := bytes.IndexByte(text[i:], mark[0])
		if n < 0 {
			break
		}
		if i += n; len(text)-i >= len(mark) && bytes.EqualFold(text[i:i+len(mark)], []byte(mark)) {
			i += len(mark)
			if mark[0] == '<' {
				if n := bytes.IndexByte(text[i:], '>'); n >= 0 {
					return i + n + 1
				}
				break
			}
			return i
		}
		i++
	}
	return 0
}

// oddRowsOf returns the rows of tables of HTML that stand out, the oddest of each table first.
func oddRowsOf(src []byte) (all spans) {
	if !bytes.Contains(src, []byte("<td")) && !bytes.Contains(src, []byte("<TD")) {
		return nil
	}
	t := tableReader{src: src, cell: -1}
	for i := 0; i < len(src); i++ {
		n := bytes.IndexByte(src[i:], '<')
		if n < 0 {
			break
		}
		i += n
		switch tag := src[i:min(len(src), i+len("</table>"))]; {
		case len(tag) < 4 || tag[1]|0x20 != 't' && (tag[1] != '/' || tag[2]|0x20 != 't'):
		case isTag(tag, "td"):
			t.endCell(i)
			if at := bytes.IndexByte(src[i:min(len(src), i+longTag)], '>'); at > 0 && t.open {
				t.cell = i + at + 1
			}
		case isTag(tag, "th"):
			t.endCell(i)
		case isTag(tag, "tr"):
			t.begin(i)
		case isTag(tag, "/tr"):
			t.endRow(i)
		case isTag(tag, "table"), isTag(tag, "/table"):
			t.endTable(i)
		}
	}
	t.endTable(len(src))
	return t.odd
}

// longTag is within how many bytes a tag ends.
const longTag = 1 << 10

// A tableReader finds the rows of tables.
type tableReader struct {
	grid  grid
	src   []byte
	spans spans // of the rows
	odd   spans
	open  bool // in a row
	width int  // cells in that row
	cell  int  // where the open cell begins, or -1
}

func (t *tableReader) begin(i int) {
	t.endRow(i)
	if len(t.spans) == mostRows {
		t.endTable(i)
	}
	t.open, t.width, t.spans = true, 0, append(t.spans, span{from: uint32(i)})
	t.grid.row()
}

func (t *tableReader) endCell(i int) {
	if t.cell >= 0 && t.width < maxCells {
		t.grid.cell(t.width, textIn(t.src[t.cell:min(i, t.cell+8*longCell)]))
		t.width++
	}
	t.cell = -1
}

func (t *tableReader) endRow(i int) {
	t.endCell(i)
	if n := len(t.spans) - 1; t.open && t.width == 0 { // a head
		t.spans, t.grid.sums, t.grid.sizes = t.spans[:n], t.grid.sums[:n], t.grid.sizes[:n]
	} else if t.open {
		t.spans[n].to = uint32(i)
	}
	t.open = false
}

func (t *tableReader) endTable(i int) {
	t.endRow(i)
	for _, k := range t.grid.odd(0, 0, oddShare) {
		t.odd = append(t.odd, t.spans[k])
	}
	t.grid.reset()
	t.spans = t.spans[:0]
}

// textIn returns the text between the tags of a cell, as far as it is looked at.
func textIn(cell []byte) []byte {
	var text []byte
	for len(cell) > 0 && len(text) < longCell {
		n := bytes.IndexByte(cell, '<')
		if n < 0 {
			n = len(cell)
		}
		if t := bytes.TrimSpace(cell[:n]); len(t) > 0 {
			text = append(append(text, t...), ' ')
		}
		end := bytes.IndexByte(cell[n:], '>')
		if end < 0 {
			break
		}
		cell = cell[n+end+1:]
	}
	return bytes.TrimSpace(text)
}
