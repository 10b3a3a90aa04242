package fit

import (
	"bytes"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

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
	for k, m := range rows {
		w.comma(k)
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
	k := 0
	for i, kept := range cells {
		if kept > 0 {
			w.comma(k)
			cell(w.at(n).first + uint32(i))
			k++
		}
	}
	w.out = append(w.out, ']')
}
