package fit

import (
	"bytes"
	"fmt"
	"hash/maphash"

	"github.com/dragoman-proxy/dragoman/transform/schema"
	"github.com/dragoman-proxy/dragoman/transform/tape"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A tree is cut into units: scalars, small rows of them, and what a schema does
// not let us cut. A long text in it is a doc of its own.
type tree struct {
	tape.Tape
	guards  schema.Guards
	ranks   []rank           // by node; none for what is no unit
	inner   map[uint32]int32 // long strings: the doc, once it is made
	long    []uint32         // long strings
	entries bitset           // containers that are there by their name: entries of maps
	names   *names
	seen    map[uint64]bool // objects, by a hash of how they are written
}

const (
	longString = 200 // bytes: a longer string is a text
	rowLength  = 160 // bytes of a row
	mapLength  = 24  // members that make a map of an object
	maxDepth   = 64  // an object below is a unit

	leastRepeat = 64      // bytes of an object that is looked for again
	mostRepeat  = 1 << 14 // bytes of one
)

// newTree ranks the nodes of a document.
func newTree(t tape.Tape, g schema.Guards, base rank, n *names) *tree {
	tr := &tree{Tape: t, guards: g, names: n, ranks: make([]rank, len(t.Nodes)), entries: newBitset(len(t.Nodes)), inner: make(map[uint32]int32), seen: make(map[uint64]bool)}
	for i := range tr.ranks {
		tr.ranks[i] = none
	}
	tr.rank(0, base, g, 0)
	return tr
}

func (t *tree) rank(n uint32, base rank, g schema.Guards, depth int) {
	at := &t.Nodes[n]
	switch c := t.Doc[at.Pos]; {
	case c == '"' && int(at.End-at.Pos) > longString && (g == nil || !g.Fixed()) && !t.address(n):
		t.long = append(t.long, n)
		t.ranks[n] = add(base, longText)
	case c != '{' && c != '[', at.Count == 0, depth > maxDepth, g != nil && g.Frozen(), at.Next-n > 1 && t.row(n):
		t.ranks[n] = add(base, max(0, lg(int(at.End-at.Pos)/64))/2)
	case c == '{':
		t.rankObject(n, base, g, depth)
	default:
		t.rankList(n, base, g, depth)
	}
}

// address reports whether a string says which thing is meant, or where it is.
func (t *tree) address(n uint32) bool {
	at := &t.Nodes[n]
	return at.End-at.Pos < 10*longString && t.Name(n) != nil && isKey(t.Label(n))
}

// row reports whether a container is a unit: it is short and flat.
func (t *tree) row(n uint32) bool {
	at := &t.Nodes[n]
	if at.End-at.Pos > rowLength || at.Next-n > 16 {
		return false
	}
	for m := n + 1; m < at.Next; m++ {
		if t.Nodes[m].Next > m+1 || t.Nodes[m].Count > 0 {
			return false
		}
	}
	return true
}

func (t *tree) rankObject(n uint32, base rank, g schema.Guards, depth int) {
	at := &t.Nodes[n]
	if depth > 0 {
		base = add(base, deeper)
	}
	entries := t.isMap(n)
	i, count := 0, int(at.Count)
	for m := n + 1; m < at.Next; m = t.Nodes[m].Next {
		value := t.Raw(m)
		var inner schema.Guards
		if g != nil {
			inner = g.Member(&t.Tape, m)
		}
		var r rank
		switch {
		case entries: // names before contents
			r = add(base, lg(turn(i, count)))
			if !tape.Scalar(value) && t.Nodes[m].Count > 0 && inner == nil {
				t.rank(m, add(r, ofEntry), inner, depth+1)
				if t.ranks[m] == none {
					t.ranks[m] = r
					t.entries.add(int(m))
				}
				i++
				continue
			}
		case wire.Hollow(value) && !t.names.empty:
			r = add(base, hollow)
		default:
			b := t.names.bits(t.Name(m))
			switch {
			case b == otherMember && !tape.Scalar(value):
				b = otherObject
			case string(value) == "false", string(value) == "0":
				b += falseMember
			}
			r = add(base, b)
			if t.repeats(m) {
				r = add(r, repeated)
			}
		}
		t.rank(m, r, inner, depth+1)
		i++
	}
}

// repeats reports whether an object was there before, as it is: each issue of a list
// has the same repository.
func (t *tree) repeats(n uint32) bool {
	raw := t.Raw(n)
	if raw[0] != '{' || len(raw) < leastRepeat || len(raw) > mostRepeat {
		return false
	}
	sum := maphash.Bytes(seed, raw)
	if t.seen[sum] {
		return true
	}
	if len(t.seen) < maxNamed {
		t.seen[sum] = true
	}
	return false
}

var seed = maphash.MakeSeed()

// isMap reports whether an object is a map: its many members are entries.
func (t *tree) isMap(n uint32) bool { return t.Nodes[n].Count >= mapLength && t.alike(n) }

// alike reports whether an object's members look like entries of a map: values of
// one kind, under names that say nothing to us.
func (t *tree) alike(n uint32) bool {
	kind, same, seen := byte(0), 0, 0
	for m := n + 1; m < t.Nodes[n].Next && seen < 32; m = t.Nodes[m].Next {
		c := t.Doc[t.Nodes[m].Pos]
		if kind == 0 {
			kind = c
		}
		if c == kind {
			same++
		}
		seen++
	}
	return same*4 >= seen*3
}

func (t *tree) rankList(n uint32, base rank, g schema.Guards, depth int) {
	at := &t.Nodes[n]
	count := int(at.Count)
	failed := t.failed(n)
	k := 0
	i := 0
	for m := n + 1; m < at.Next; m = t.Nodes[m].Next {
		var inner schema.Guards
		if g != nil {
			inner = g.Element(&t.Tape, m, i)
		}
		r := add(base, lg(turn(i, count))*perItem/16)
		if k < len(failed) && failed[k] == m {
			r = min(r, add(base, failedItem+lg(k)))
			k++
		}
		t.rank(m, r, inner, depth)
		i++
	}
}

// failed are the items of a list that say that something failed, if few do.
func (t *tree) failed(n uint32) (failed []uint32) {
	at := &t.Nodes[n]
	if at.Count < 5 {
		return nil
	}
	for m := n + 1; m < at.Next; m = t.Nodes[m].Next {
		for k := m + 1; k < t.Nodes[m].Next && t.Name(k) != nil; k = t.Nodes[k].Next {
			if saysFailed(t.Name(k), t.Raw(k)) {
				failed = append(failed, m)
				break
			}
		}
	}
	if len(failed) > int(at.Count)/4 {
		return nil
	}
	return failed
}

// saysFailed reports whether a member says that something went wrong.
func saysFailed(name, value []byte) bool {
	switch string(name) {
	case "status", "state", "conclusion", "severity", "level", "result", "outcome":
		switch string(value) {
		case `"failed"`, `"failure"`, `"error"`, `"timed_out"`, `"critical"`, `"fatal"`, `"FAILED"`, `"ERROR"`, `"cancelled"`:
			return true
		}
	case "error", "errors", "exception", "isError", "is_error":
		return !wire.Hollow(value) && string(value) != "false" && string(value) != "0"
	}
	return false
}

// writer writes what is kept of the docs of a plan.
type writer struct {
	*Plan
	out []byte
}

func (w *writer) value(d *doc, n uint32, g schema.Guards) {
	t := d.tree
	at := &t.Nodes[n]
	sub, long := t.inner[n]
	switch c := t.Doc[at.Pos]; {
	case long:
		w.long(d, n, sub, g)
	case g != nil && g.Frozen():
		w.out = wire.AppendCompact(w.out, t.Raw(n))
	case c != '{' && c != '[':
		if d.cut.at == int(n) && !d.kept.has(int(n)) {
			w.clipped(t.Raw(n), d.cut.bytes)
			return
		}
		w.out = append(w.out, t.Raw(n)...)
	case t.ranks[n] != none && !t.entries.has(int(n)): // a row, and what a schema does not let us cut
		w.out = wire.AppendCompact(w.out, t.Raw(n))
	case c == '{':
		w.object(d, n, g)
	default:
		if w.tables && g == nil {
			if columns, ok := w.columns(d, n); ok {
				w.table(d, n, columns)
				return
			}
		}
		w.list(d, n, g)
	}
}

// clipped writes a string of which only the beginning is there.
func (w *writer) clipped(raw []byte, n int) {
	text := wire.AppendUnescaped(nil, raw[1:len(raw)-1])
	text = bytes.TrimRight(edge{bytes: n}.of(nil, text), "\n")
	w.quoted(text)
}

func (w *writer) quoted(text []byte) {
	w.out = append(w.out, '"')
	w.out = wire.AppendQuotedInner(w.out, string(text))
	w.out = append(w.out, '"')
}

// long writes a long string by its doc.
func (w *writer) long(d *doc, n uint32, sub int32, g schema.Guards) {
	in := w.docs[sub]
	if w.whole(in) {
		w.out = append(w.out, d.tree.Raw(n)...)
		return
	}
	outer := w.out
	w.out = nil
	w.doc(in)
	text := w.out
	w.out = outer
	if g != nil && codePoints(text) < g.MinLength() {
		w.out = append(w.out, d.tree.Raw(n)...)
		return
	}
	w.quoted(text)
}

func codePoints(text []byte) int { return len(bytes.Runes(text)) }

// shown reports whether anything is kept of a node and what is in it.
func (d *doc) shown(n uint32) bool {
	next := int(d.tree.Nodes[n].Next)
	return d.kept.any(int(n), next) || d.cut.at >= int(n) && d.cut.at < next
}

func (w *writer) object(d *doc, n uint32, g schema.Guards) {
	t := d.tree
	at := &t.Nodes[n]
	if g != nil && t.Partial && t.members(n) < int(at.Count) {
		w.out = wire.AppendCompact(w.out, t.Raw(n)) // not all of it is on the tape
		return
	}
	w.out = append(w.out, '{')
	first, seen := true, 0
	for m := n + 1; m < at.Next; m = t.Nodes[m].Next {
		if !d.shown(m) && (g == nil || g.MayDrop(t.Name(m))) {
			continue
		}
		if !first {
			w.out = append(w.out, ',')
		}
		first = false
		seen++
		w.out = append(append(append(w.out, '"'), t.Name(m)...), '"', ':')
		var inner schema.Guards
		if g != nil {
			inner = g.Member(&t.Tape, m)
		}
		w.value(d, m, inner)
	}
	if missing := int(at.Count) - seen; missing > 0 && g == nil && t.isMap(n) && seen > 0 && !w.reading {
		w.out = fmt.Appendf(w.out, `,"…":"%d more keys"`, missing)
	}
	w.out = append(w.out, '}')
}

// members counts the members that are on the tape.
func (t *tree) members(n uint32) (count int) {
	for m := n + 1; m < t.Nodes[n].Next; m = t.Nodes[m].Next {
		count++
	}
	return count
}

func (w *writer) list(d *doc, n uint32, g schema.Guards) {
	t := d.tree
	at := &t.Nodes[n]
	least, upTo := 0, uint32(0)
	if g != nil {
		least = g.MinItems()
		if t.Partial && t.members(n) < least {
			w.out = wire.AppendCompact(w.out, t.Raw(n))
			return
		}
		if g.Ordered() { // the place of an item says what it is
			for m := n + 1; m < at.Next; m = t.Nodes[m].Next {
				if d.shown(m) {
					upTo = m
				}
			}
		}
	}
	told := g == nil && at.Count >= 5 && t.Doc[t.Nodes[n+1].Pos] == '"' && !w.reading
	w.out = append(w.out, '[')
	first, i, gap := true, 0, 0
	tell := func() {
		if told && gap > 0 {
			if !first {
				w.out = append(w.out, ',')
			}
			first = false
			w.out = append(appendGap(append(w.out, '"'), i-gap, i-1), '"')
		}
		gap = 0
	}
	for m := n + 1; m < at.Next; m = t.Nodes[m].Next {
		if i >= least && m > upTo && !d.shown(m) {
			i++
			gap++
			continue
		}
		tell()
		if !first {
			w.out = append(w.out, ',')
		}
		first = false
		var inner schema.Guards
		if g != nil {
			inner = g.Element(&t.Tape, m, i)
		}
		w.value(d, m, inner)
		i++
	}
	gap += int(at.Count) - i // not on the tape
	i = int(at.Count)
	tell()
	w.out = append(w.out, ']')
}
