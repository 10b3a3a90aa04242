package fit

import (
	"bytes"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A list of objects with the same members can be written as a table, where the
// configuration says so: {"columns": […], "rows": [[…]]}. Its units and their places are
// those of the list: only the names are written once.

const (
	leastRows   = 3
	maxColumns  = 100
	missingCell = `"…"`
)

// asTable writes a list as a table, where it is one and shorter so.
func (w *writer) asTable(n uint32) bool {
	if !w.Columns || w.guards[n] != nil || w.total(n) < leastRows || w.docOf(n).Partial {
		return false
	}
	w.expand(n)
	head := w.nodes[n].first
	w.expand(head)
	width := int(w.nodes[head].count)
	if w.nodes[head].kind != object || width == 0 || width > maxColumns {
		return false
	}
	var rows []uint32
	kept, saved := make([]bool, width), 0
	for m := head; m < w.end(n); m++ {
		if w.nodes[m].kept == 0 {
			continue
		}
		if w.expand(m); !w.sameMembers(head, m) {
			return false
		}
		rows = append(rows, m)
		for i := range kept {
			if c := w.nodes[m].first + uint32(i); w.inTable(m, c) {
				kept[i] = true
				saved += len(w.name(c)) + len(`"":`)
			} else {
				saved -= len(missingCell + ",")
			}
		}
	}
	saved -= len(`{"columns":[],"rows":[]}`)
	for i := range kept {
		if kept[i] {
			saved -= len(w.name(w.nodes[head].first+uint32(i))) + len(`"",`)
		} else {
			saved += len(rows) * len(missingCell+",")
		}
	}
	if saved <= 0 {
		return false
	}
	w.out = append(w.out, `{"columns":`...)
	w.row(head, kept, func(c uint32) { w.out = append(append(append(w.out, '"'), w.name(c)...), '"') })
	w.out = append(w.out, `,"rows":[`...)
	for k, m := range rows {
		w.comma(k)
		w.row(m, kept, func(c uint32) {
			switch {
			case w.is(m, unit):
				w.out = wire.AppendCompact(w.out, w.raw(c))
			case w.nodes[c].kept > 0:
				w.node(c)
			default:
				w.out = append(w.out, missingCell...)
			}
		})
	}
	w.out = append(w.out, `]}`...)
	return true
}

// inTable reports whether a member of an item is kept, or the item as a whole.
func (w *writer) inTable(item, member uint32) bool {
	return w.is(item, unit) || w.nodes[member].kept > 0
}

// sameMembers reports whether two objects have members of the same names, in their order.
func (w *writer) sameMembers(a, b uint32) bool {
	if w.nodes[b].kind != object || w.nodes[a].count != w.nodes[b].count {
		return false
	}
	for i := range w.nodes[a].count {
		if !bytes.Equal(w.name(w.nodes[a].first+i), w.name(w.nodes[b].first+i)) {
			return false
		}
	}
	return true
}

// row writes the members of an object that stand in the columns that are kept.
func (w *writer) row(n uint32, kept []bool, cell func(c uint32)) {
	w.out = append(w.out, '[')
	k := 0
	for i := range kept {
		if kept[i] {
			w.comma(k)
			cell(w.nodes[n].first + uint32(i))
			k++
		}
	}
	w.out = append(w.out, ']')
}
