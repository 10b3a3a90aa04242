package fit

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/grapheme"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A writer writes what is kept of the nodes of a plan.
type writer struct {
	*Plan
	out   []byte
	texts [][]byte // what is kept of each part, in out; nil if nothing is

	numbered struct{ in, line uint32 } // the text of the last gap with a number, and that number
}

// write writes what is kept of each part, in place of what w wrote before. If
// reading continues in a text inside a document, that text comes before the
// parts.
func (w *writer) write() {
	w.numbered.in = 0
	w.out, w.texts = w.out[:0], slices.Grow(w.texts[:0], len(w.parts)+1)
	begin := 0
	done := func() {
		text := w.out[begin:len(w.out):len(w.out)]
		if len(text) == 0 {
			text = nil
		}
		w.texts, begin = append(w.texts, text), len(w.out)
	}
	if w.apart > 0 {
		w.node(w.apart)
		done()
	}
	for n := uint32(1); n <= uint32(len(w.parts)); n++ {
		json := w.at(n).kind != text && len(w.parts) == 1 // it stays JSON, even if it is empty
		if w.at(n).kept > 0 || !w.isReading && (json || w.is(n, demanded)) {
			w.root(n)
		}
		done()
	}
}

// root writes what is kept of a document, or an empty one if nothing is kept.
func (w *writer) root(n uint32) {
	if at := w.at(n); at.kept == 0 && at.is&unit != 0 && at.is&demanded == 0 {
		raw := w.raw(n)
		w.out = append(w.out, raw[0], raw[len(raw)-1])
		return
	}
	w.node(n)
}

// node writes the parts of a node that are kept and those that a schema
// demands.
func (w *writer) node(n uint32) {
	at, raw := w.at(n), w.raw(n)
	switch {
	case at.is&entry != 0 && at.kept == 1 && !w.isReading && w.guards[n] == nil: // only its name is kept
		w.out = append(w.out, missingCell...)
	case at.is&unit == 0 && at.kind == quoted:
		w.string(n)
	case at.is&unit == 0 && !w.asTable(n):
		w.children(n)
	case at.is&unit == 0:
	case w.clip.node == n && at.kind == quoted:
		w.out = wire.AppendQuoted(w.out, w.clipped(wire.AppendUnescaped(nil, raw[1:len(raw)-1]), w.Marker))
	case w.clip.node == n:
		w.out = append(w.out, w.clipped(raw, "")...)
	case at.kind == object, at.kind == list:
		w.out = wire.AppendCompact(w.out, raw)
	default:
		w.out = append(w.out, raw...)
	}
}

// clipped returns the beginning of the last unit: at most w.clip.bytes of text,
// and the marker, or "…" if that is "".
func (w *writer) clipped(text []byte, marker string) []byte {
	kept := bytes.TrimRight(text[:grapheme.BeforeNumber(text, grapheme.Floor(text, min(w.clip.bytes, len(text))))], " \r\n")
	if strings.Contains(marker, "%d") {
		marker = strings.Replace(marker, "%d", strconv.Itoa(utf8.RuneCount(text)-utf8.RuneCount(kept)), 1)
	}
	return slices.Concat(kept, []byte(cmp.Or(marker, "…")))
}

// string writes a long string with what is kept of its content. If that is
// shorter than a schema allows, it writes the whole string.
func (w *writer) string(n uint32) {
	outer := w.out
	w.expand(n)
	w.out = nil
	w.root(w.at(n).first)
	text := w.out
	if w.out = outer; utf8.RuneCount(text) < w.guards[n].MinLength() {
		w.out = append(w.out, w.raw(n)...)
		return
	}
	w.out = wire.AppendQuoted(w.out, text)
}

// children writes the children of a node that are kept, and says what is missing.
func (w *writer) children(n uint32) {
	w.expand(n)
	at, end := w.at(n), w.end(n)
	json := at.kind == object || at.kind == list
	begin, next, upTo, k, cut := len(w.out), at.first, at.first, 0, false
	if at.is&ordered != 0 { // the place of an item determines what a schema asks of it
		for upTo = end; upTo > at.first && w.at(upTo-1).kept == 0; upTo-- {
		}
	}
	if json {
		w.out = append(w.out, byte(at.kind))
	}
	for m := next; m <= end; m++ {
		switch {
		case m == end, m < upTo:
		case w.at(m).kept == 0 && w.at(m).is&demanded == 0:
			continue
		}
		if missing := m - next; missing > 0 || m == end && json {
			cut = true
			// The arguments of a read say where it begins, so no gap is written
			// there. A gap is written at the start of a long line that reading
			// comes to later.
			goesOn := len(w.out) > begin || at.kind == line && n != w.at(w.begin).up
			if !w.isReading || !json && m < end && goesOn {
				k += w.gap(n, begin, next, m, k)
			}
		}
		if m == end {
			break
		}
		w.between(at.kind, begin)
		if at.kind == object {
			w.out = append(append(append(w.out, '"'), w.name(m)...), '"', ':')
		}
		w.node(m)
		next = m + 1
		k++
	}
	switch {
	case json:
		w.out = append(w.out, byte(at.kind)+2)
	case at.kind == text:
		w.shut(begin, cut)
	}
}

// between writes the separator before a child.
func (w *writer) between(k kind, begin int) {
	switch {
	case k == object, k == list:
		w.out = wire.Comma(w.out)
	case k == text && len(w.out) > begin && w.out[len(w.out)-1] != '\n':
		w.out = append(w.out, '\n')
	}
}

// shut ends a text: it removes line breaks at the end if the text is cut, and
// closes an open fence.
func (w *writer) shut(begin int, cut bool) {
	if cut {
		w.out = append(w.out[:begin], bytes.TrimRight(w.out[begin:], "\r\n")...)
	}
	if out := w.out[begin:]; bytes.Contains(out, []byte("```")) || bytes.Contains(out, []byte("~~~")) {
		if fence, _ := OpenFence(out); fence != "" {
			w.out = append(append(w.out, '\n'), fence...)
		}
	}
}

// nearNumber is how many lines after the number of a gap another gap needs none: a reader finds it from there.
const nearNumber = 16

// gap writes a mark for the children from a up to b, which are missing. It
// returns 1 if it wrote something, which counts as a child, and 0 if not. If
// the mark is not shorter than the missing lines or pieces, gap writes these
// instead.
func (w *writer) gap(n uint32, begin int, a, b uint32, k int) int {
	at, end := w.at(n), w.end(n)
	var room [64]byte
	mark, missing := room[:0], []byte(nil)
	if a < b {
		missing = w.docOf(a).src[w.at(a).pos:w.at(b-1).end]
	}
	switch {
	case b == end && k > 0 && w.isMap(n) && w.total(n) > k && w.guards[n] == nil:
		mark = fmt.Appendf(mark, `"…":"%d more keys"`, w.total(n)-k)
	case at.kind == object, at.kind == list && (w.at(at.first).kind != quoted || w.total(n) < 5 || w.guards[n] != nil):
		return 0
	case at.kind == list:
		from, to := int(a-at.first), int(b-at.first)
		if b == end {
			to = w.total(n)
		}
		if from == to {
			return 0
		}
		mark = append(appendGap(append(mark, '"'), from, to-1), '"')
	case at.kind == text:
		mark = append(mark, "…\n"...)
		if len(missing) > len(mark) && (n != w.numbered.in || w.at(b-1).at-w.numbered.line > nearNumber) {
			w.numbered.in, w.numbered.line = n, w.at(a).at
			mark = append(strconv.AppendUint(mark[:len("…")], uint64(w.at(a).at), 10), '\n')
		}
	default:
		mark = fmt.Appendf(mark, " … %d characters … ", utf8.RuneCount(missing))
		if b == end {
			mark = append(mark[:len(mark)-len(" … ")], " …\n"...)
		}
	}
	if (at.kind == text || at.kind == line) && len(missing) <= len(mark) {
		mark = missing
	}
	w.between(at.kind, begin)
	w.out = append(w.out, mark...)
	return 1
}

// appendGap appends the numbers of the missing entries, as the arguments of a
// read name them.
func appendGap(dst []byte, first, last int) []byte {
	dst = strconv.AppendInt(append(dst, "…"...), int64(first), 10)
	if last > first {
		dst = strconv.AppendInt(append(dst, "–"...), int64(last), 10)
	}
	return dst
}

// If the configuration says so, a list of objects with the same members is
// written as a table: {"columns": […], "rows": [[…]]}. Its units and their
// places are those of the list; the names are written only once.

const (
	leastRows   = 3
	maxColumns  = 100
	missingCell = `"…"`
)

// asTable writes a list as a table, if its items have the same members and the
// table is shorter. It reports whether it did.
func (w *writer) asTable(n uint32) bool {
	if !w.Columns || w.at(n).kind != list || w.guards[n] != nil || w.total(n) < leastRows || w.docOf(n).Partial {
		return false
	}
	w.expand(n)
	head := w.at(n).first
	w.expand(head)
	width := w.at(head).count
	if w.at(head).kind != object || width == 0 || width > maxColumns {
		return false
	}
	var rows []uint32
	cells := make([]int, width) // how many cells are kept, by column
	for m := head; m < w.end(n); m++ {
		if w.at(m).kept == 0 {
			continue
		}
		if w.expand(m); w.at(m).kind != object || w.at(m).count != width {
			return false
		}
		for i := range width {
			c := w.at(m).first + i
			if !bytes.Equal(w.name(c), w.name(w.at(head).first+i)) {
				return false
			}
			if w.is(m, unit) || w.at(c).kept > 0 {
				cells[i]++
			}
		}
		rows = append(rows, m)
	}
	saved := -len(`{"columns":[],"rows":[]}`)
	for i, kept := range cells {
		if name := len(w.name(w.at(head).first + uint32(i))); kept > 0 {
			saved += kept*(name+len(`"":`)) - name - len(`"",`) - (len(rows)-kept)*len(missingCell+",")
		}
	}
	if saved <= 0 {
		return false
	}
	w.out = append(w.out, `{"columns":`...)
	w.row(head, cells, func(c uint32) { w.out = append(append(append(w.out, '"'), w.name(c)...), '"') })
	w.out = append(w.out, `,"rows":[`...)
	for _, m := range rows {
		w.out = wire.Comma(w.out)
		w.row(m, cells, func(c uint32) {
			switch {
			case w.is(m, unit):
				w.out = wire.AppendCompact(w.out, w.raw(c))
			case w.at(c).kept > 0:
				w.node(c)
			default:
				w.out = append(w.out, missingCell...)
			}
		})
	}
	w.out = append(w.out, `]}`...)
	return true
}

// row writes the members of an object that stand in columns with kept cells.
func (w *writer) row(n uint32, cells []int, cell func(c uint32)) {
	w.out = append(w.out, '[')
	for i, kept := range cells {
		if kept > 0 {
			w.out = wire.Comma(w.out)
			cell(w.at(n).first + uint32(i))
		}
	}
	w.out = append(w.out, ']')
}
