package fit

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/grapheme"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A writer writes what is kept of the nodes of a plan.
type writer struct {
	*Plan
	out []byte
}

// write writes each part; nil where nothing of it is kept. A text in a document that is
// read on comes before them.
func (p *Plan) write() (out [][]byte) {
	w := &writer{Plan: p}
	if p.apart > 0 {
		w.node(p.apart)
		out = append(out, w.out)
	}
	for n := uint32(1); n <= uint32(len(p.parts)); n++ {
		w.out = nil
		json := p.nodes[n].kind != text && len(p.parts) == 1 // it stays JSON, if an empty one
		if p.nodes[n].kept > 0 || !p.isReading && (json || p.is(n, demanded)) {
			w.node(n)
		}
		out = append(out, w.out)
	}
	return out
}

// node writes what is kept of a node, and what of it a schema demands.
func (w *writer) node(n uint32) {
	at := &w.nodes[n]
	raw := w.raw(n)
	switch {
	case at.is&unit != 0 && at.kind == quoted && w.clip.node == n:
		w.quoted(w.clipped(wire.AppendUnescaped(nil, raw[1:len(raw)-1])))
	case at.is&unit != 0 && w.clip.node == n:
		w.out = append(w.out, w.clipped(raw)...)
	case at.is&unit != 0 && at.kept == 0 && at.is&demanded == 0: // of which nothing fits
		w.out = append(w.out, raw[0], raw[len(raw)-1])
	case at.is&unit != 0 && (at.kind == object || at.kind == list):
		w.out = wire.AppendCompact(w.out, raw)
	case at.is&unit != 0:
		w.out = append(w.out, raw...)
	case at.kind == quoted:
		w.string(n)
	case at.kind == object:
		w.object(n)
	case at.kind == list && w.asTable(n):
	case at.kind == list:
		w.list(n)
	default:
		w.lines(n)
	}
}

// clipped is the beginning of the last unit.
func (w *writer) clipped(text []byte) []byte {
	text = text[:grapheme.Floor(text, min(w.clip.bytes, len(text)))]
	return slices.Concat(bytes.TrimRight(text, " \r\n"), []byte("…"))
}

func (w *writer) quoted(text []byte) {
	w.out = append(wire.AppendQuotedInner(append(w.out, '"'), string(text)), '"')
}

// string writes a long string by what is in it.
func (w *writer) string(n uint32) {
	outer := w.out
	w.expand(n)
	w.out = nil
	w.node(w.nodes[n].first)
	text := w.out
	if w.out = outer; utf8.RuneCount(text) < w.guards[n].MinLength() {
		w.out = append(w.out, w.raw(n)...)
		return
	}
	w.quoted(text)
}

// there reports whether a node is written, in a container that is.
func (w *writer) there(n uint32) bool { return w.nodes[n].kept > 0 || w.is(n, demanded) }

// comma is the output with a comma in front of all but the first.
func (w *writer) comma(k int) []byte {
	if k > 0 {
		w.out = append(w.out, ',')
	}
	return w.out
}

func (w *writer) object(n uint32) {
	w.expand(n)
	w.out = append(w.out, '{')
	k := 0
	for m := w.nodes[n].first; m < w.end(n); m++ {
		if w.there(m) {
			w.out = append(append(append(w.comma(k), '"'), w.name(m)...), '"', ':')
			w.node(m)
			k++
		}
	}
	if missing := w.total(n) - k; missing > 0 && k > 0 && w.guards[n] == nil && !w.isReading && w.isMap(n) {
		w.out = fmt.Appendf(w.out, `,"…":"%d more keys"`, missing)
	}
	w.out = append(w.out, '}')
}

func (w *writer) list(n uint32) {
	w.expand(n)
	first, end := w.nodes[n].first, w.end(n)
	upTo := first
	if w.is(n, ordered) { // the place of an item says what it is
		for upTo = end; upTo > first && w.nodes[upTo-1].kept == 0; upTo-- {
		}
	}
	told := w.total(n) >= 5 && w.nodes[first].kind == quoted && w.guards[n] == nil && !w.isReading
	w.out = append(w.out, '[')
	k, next := 0, first
	gap := func(to int) {
		if from := int(next - first); told && from < to {
			w.out = append(appendGap(append(w.comma(k), '"'), from, to-1), '"')
			k++
		}
	}
	for m := first; m < end; m++ {
		if m < upTo || w.there(m) {
			gap(int(m - first))
			w.out = w.comma(k)
			w.whole(m, m < upTo)
			k++
			next = m + 1
		}
	}
	gap(w.total(n))
	w.out = append(w.out, ']')
}

// whole writes a node, and as a schema demands it where it has to be there.
func (w *writer) whole(n uint32, must bool) {
	if must {
		w.nodes[n].is |= demanded
	}
	w.node(n)
}

// lines writes the lines of a text or the pieces of a line, and says what is missing.
func (w *writer) lines(n uint32) {
	at := w.nodes[n]
	w.expand(n)
	begin, next, end := len(w.out), w.nodes[n].first, w.end(n)
	cut := false
	for m := next; m <= end; m++ {
		if m < end && w.nodes[m].kept == 0 {
			continue
		}
		if next < m && !(w.isReading && (m == end || len(w.out) == begin)) {
			w.gap(n, begin, next, m)
		}
		cut = cut || next < m
		if m == end {
			break
		}
		if at.kind == text {
			w.newLine(begin)
		}
		w.node(m)
		next = m + 1
	}
	if at.kind != text {
		return
	}
	if cut {
		w.out = append(w.out[:begin], bytes.TrimRight(w.out[begin:], "\r\n")...)
	}
	if out := w.out[begin:]; bytes.Contains(out, []byte("```")) || bytes.Contains(out, []byte("~~~")) {
		if fence, _ := OpenFence(out); fence != "" {
			w.out = append(append(w.out, '\n'), fence...)
		}
	}
}

func (w *writer) newLine(begin int) {
	if len(w.out) > begin && w.out[len(w.out)-1] != '\n' {
		w.out = append(w.out, '\n')
	}
}

// gap tells of the lines or pieces from a up to b that are missing; where that takes no
// less than they do, they are there.
func (w *writer) gap(n uint32, begin int, a, b uint32) {
	missing := w.docOf(n).src[w.nodes[a].pos:w.nodes[b-1].end]
	var room [64]byte
	mark := room[:0]
	if w.nodes[n].kind == text {
		last := w.nodes[b-1].at
		if b < w.end(n) { // blank lines behind the last one are in it
			last = w.nodes[b].at - 1
		}
		mark = append(appendGap(mark, int(w.nodes[a].at), int(last)), '\n')
	} else if mark = fmt.Appendf(mark, " … %d characters … ", utf8.RuneCount(missing)); b == w.end(n) {
		mark = append(mark[:len(mark)-len(" … ")], " …\n"...)
	}
	if len(missing) <= len(mark) {
		mark = missing
	}
	if w.nodes[n].kind == text {
		w.newLine(begin)
	}
	w.out = append(w.out, mark...)
}

// appendGap appends which entries are missing, by the numbers that reading on takes.
func appendGap(dst []byte, first, last int) []byte {
	dst = strconv.AppendInt(append(dst, "…"...), int64(first), 10)
	if last > first {
		dst = strconv.AppendInt(append(dst, "–"...), int64(last), 10)
	}
	return dst
}
