package fit

import "github.com/dragoman-proxy/dragoman/translate/wire"

// A list of objects with the same members can be written as a table, where the
// configuration says so: {"columns": […], "rows": [[…]]}. Its units and their places are
// those of the list: only the names are written once.

const (
	leastRows   = 3
	maxColumns  = 100
	missingCell = `"…"`
)

// columns are the members of each item of a list that is a table, as far as they are
// kept: which ones, by their place in an item. ok is false where the list is no table, or
// would be no shorter as one.
func (w *writer) columns(d *doc, n uint32) (columns []int, ok bool) {
	t := d.tree
	at := &t.Nodes[n]
	if at.Count < leastRows || t.Partial || t.Doc[t.Nodes[n+1].Pos] != '{' {
		return nil, false
	}
	first := n + 1
	width := int(t.Nodes[first].Count)
	if width == 0 || width > maxColumns {
		return nil, false
	}
	kept := make([]bool, width)
	saved, rows, cells := 0, 0, 0
	for m := n + 1; m < at.Next; m = t.Nodes[m].Next {
		if !d.shown(m) {
			continue
		}
		if t.Doc[t.Nodes[m].Pos] != '{' || !t.sameMembers(first, m) {
			return nil, false
		}
		i := 0
		for c := m + 1; c < t.Nodes[m].Next; c = t.Nodes[c].Next {
			if t.isUnit(m) || d.shown(c) {
				kept[i] = true
				saved += len(t.Name(c)) + len(`"":`)
				cells++
			}
			i++
		}
		rows++
	}
	i := 0
	for c := first + 1; c < t.Nodes[first].Next; c = t.Nodes[c].Next {
		if kept[i] {
			columns = append(columns, i)
			saved -= len(t.Name(c)) + len(`"",`)
		}
		i++
	}
	saved -= len(`{"columns":[],"rows":[]}`) + (rows*len(columns)-cells)*len(missingCell+",")
	return columns, saved > 0
}

// isUnit reports whether an object is kept as a whole or not at all.
func (t *tree) isUnit(n uint32) bool { return t.ranks[n] != none && !t.entries.has(int(n)) }

// sameMembers reports whether two objects have members of the same names, in their order.
func (t *tree) sameMembers(a, b uint32) bool {
	if t.Nodes[a].Count != t.Nodes[b].Count {
		return false
	}
	x, y := a+1, b+1
	for x < t.Nodes[a].Next && y < t.Nodes[b].Next {
		if string(t.Name(x)) != string(t.Name(y)) {
			return false
		}
		x, y = t.Nodes[x].Next, t.Nodes[y].Next
	}
	return x >= t.Nodes[a].Next && y >= t.Nodes[b].Next
}

// table writes a list as a table of these columns. What of a row is missing is "…".
func (w *writer) table(d *doc, n uint32, columns []int) {
	t := d.tree
	w.out = append(w.out, `{"columns":[`...)
	t.cells(n+1, columns, func(k int, c uint32) {
		w.out = append(append(append(w.comma(k), '"'), t.Name(c)...), '"')
	})
	w.out = append(w.out, `],"rows":[`...)
	rows := 0
	for m := n + 1; m < t.Nodes[n].Next; m = t.Nodes[m].Next {
		if !d.shown(m) {
			continue
		}
		w.out = append(w.comma(rows), '[')
		t.cells(m, columns, func(k int, c uint32) {
			switch w.out = w.comma(k); {
			case t.isUnit(m):
				w.out = wire.AppendCompact(w.out, t.Raw(c))
			case d.shown(c):
				w.value(d, c, nil)
			default:
				w.out = append(w.out, missingCell...)
			}
		})
		w.out = append(w.out, ']')
		rows++
	}
	w.out = append(w.out, `]}`...)
}

// comma is the output with a comma in front of all but the first.
func (w *writer) comma(k int) []byte {
	if k > 0 {
		w.out = append(w.out, ',')
	}
	return w.out
}

// cells calls f with the members of an object that stand in these columns.
func (t *tree) cells(n uint32, columns []int, f func(k int, c uint32)) {
	k, i := 0, 0
	for c := n + 1; c < t.Nodes[n].Next && k < len(columns); c = t.Nodes[c].Next {
		if i == columns[k] {
			f(k, c)
			k++
		}
		i++
	}
}
