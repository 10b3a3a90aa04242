package fit

import (
	"bytes"

	"github.com/dragoman-proxy/dragoman/transform/schema"
	"github.com/dragoman-proxy/dragoman/transform/tape"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A Part is a text or JSON value of an answer.
type Part struct {
	Text     []byte
	Guards   schema.Guards // of a value that has a schema; nil for none
	Markdown bool          // its name or type says so
	Solid    bool          // it stays whole or goes
	Name     []string      // in paths; nil for the one part of an answer
}

// Options are what the configuration says of members.
type Options struct {
	Keep, Drop []string // names of members that stay first, and that go first
	KeepEmpty  bool     // empty members stay as long as others
	Columns    bool     // lists of objects with the same members may be tables
	Most       int      // units: no more are looked at than there can be room for
}

// A Plan is an answer in units, in the order in which they are kept.
type Plan struct {
	docs    []*doc
	parts   []int // the doc of each part
	units   []unit
	names   *names
	tables  bool // lists may be written as tables
	most    int
	marked  int  // units that are marked as kept
	reading bool // in the document's order, from some place on
	apart   int  // the doc that is read as a text of its own; -1 for none
	aparts  int  // the doc that this is in
	size    []uint32
	target  target // while reading by count
}

type unit struct{ doc, at uint32 }

// A doc is a part, or a long string in one.
type doc struct {
	tree  *tree
	text  *text
	part  *Part
	up    int // the doc that it is in, -1 for none,
	node  uint32
	depth int
	kept  bitset
	count int // units that are kept
	cut   edge
}

// maxInner is how deep JSON in strings is looked into.
const maxInner = 3

// longAddress is of how many bytes an address may be cut, if there is no room for all.
const longAddress = 100

// New ranks the units of an answer.
func New(parts []Part, o Options) *Plan {
	p := &Plan{names: newNames(o), tables: o.Columns, most: o.Most, apart: -1}
	var links rank
	for i := range parts {
		var base rank
		if len(parts) > 8 {
			base = add(0, lg(turn(i, len(parts))))
		} else {
			base = add(0, otherBlock*i)
		}
		if parts[i].Solid {
			links = max(links, add(0, lg(i)+lg(len(parts[i].Text)/64))) // the last ones go first
			base = links
		}
		p.parts = append(p.parts, len(p.docs))
		p.make(parts[i].Text, base, &parts[i], -1, 0, 0)
	}
	for from := 0; from < len(p.docs); {
		most, _ := p.threshold()
		to := len(p.docs)
		for ; from < to; from++ {
			p.open(from, most)
		}
	}
	p.sort()
	return p
}

// make makes a doc of a text.
func (p *Plan) make(src []byte, base rank, part *Part, up int, node uint32, depth int) {
	d := &doc{part: part, up: up, node: node, depth: depth, cut: noEdge}
	p.docs = append(p.docs, d)
	if part.Solid && up < 0 {
		d.text = &text{src: src, start: []uint32{0, uint32(len(src))}, line: []uint32{0}, ranks: []rank{base}}
	} else if t := (tape.Tape{}); depth < maxInner && tape.IsContainer(src) && t.Parse(src) == nil {
		g := part.Guards
		if up >= 0 {
			g = nil
		}
		d.tree = newTree(t, g, base, p.names)
	} else {
		d.text = newText(src, base, len(src), part.Markdown)
	}
	d.kept = newBitset(len(d.ranks()))
}

// open makes docs of the long strings in a doc that rank no later than most.
func (p *Plan) open(i int, most rank) {
	d := p.docs[i]
	if d.tree == nil {
		return
	}
	for _, n := range d.tree.long {
		base := d.tree.ranks[n]
		if base == none || base > most {
			continue
		}
		raw := d.tree.Raw(n)
		d.tree.inner[n] = int32(len(p.docs))
		d.tree.ranks[n] = none
		p.make(wire.AppendUnescaped(nil, raw[1:len(raw)-1]), base, d.part, i, n, d.depth+1)
	}
}

func (d *doc) ranks() []rank {
	if d.tree != nil {
		return d.tree.ranks
	}
	return d.text.ranks
}

// threshold is the rank of the last unit that there can be room for, and how many
// units of each rank there are.
func (p *Plan) threshold() (most rank, counts []uint32) {
	counts = make([]uint32, int(last)+2)
	for _, d := range p.docs {
		for _, r := range d.ranks() {
			counts[min(int(r), int(last)+1)]++
		}
	}
	n := 0
	for r := range int(last) + 1 {
		if n += int(counts[r]); n >= p.most {
			return rank(r), counts
		}
	}
	return last, counts
}

// sort puts the units in order: by rank, and those of one rank as they come.
func (p *Plan) sort() {
	most, counts := p.threshold()
	n := uint32(0)
	for r := range counts {
		counts[r], n = n, n+counts[r]
	}
	p.units = make([]unit, counts[int(most)+1])
	for i, d := range p.docs {
		for at, r := range d.ranks() {
			if r <= most {
				p.units[counts[r]] = unit{uint32(i), uint32(at)}
				counts[r]++
			}
		}
	}
	p.units = p.units[:min(len(p.units), p.most)]
	p.measure()
}

// measure adds up about how many bytes the units take.
func (p *Plan) measure() {
	p.size = make([]uint32, len(p.units)+1)
	for i, u := range p.units {
		p.size[i+1] = p.size[i] + uint32(p.docs[u.doc].bytes(u.at))
	}
}

func (d *doc) bytes(at uint32) int {
	if d.text != nil {
		return len(d.text.unit(int(at))) + 1
	}
	n := &d.tree.Nodes[at]
	size := int(n.Pos-n.Key) + 2
	if !d.tree.entries.has(int(at)) {
		size += int(n.End - n.Pos)
	}
	return size
}

// mark marks the first n units as kept, and no others.
func (p *Plan) mark(n int) {
	if n < p.marked {
		for _, d := range p.docs {
			if d.count > 0 {
				clear(d.kept)
				d.count = 0
			}
		}
		p.marked = 0
	}
	for _, u := range p.units[p.marked:n] {
		d := p.docs[u.doc]
		d.kept.add(int(u.at))
		for d.count++; d.up >= 0; {
			up := p.docs[d.up]
			up.kept.add(int(d.node))
			if up.count++; up.count > 1 && up.up < 0 {
				break
			}
			d = up
		}
	}
	p.marked = n
}

// whole reports whether all of a doc is kept.
func (p *Plan) whole(d *doc) bool {
	if d.cut.at >= 0 {
		return false
	}
	for at, r := range d.ranks() {
		if r != none && !d.kept.has(at) {
			return false
		}
	}
	if d.tree != nil {
		for _, sub := range d.tree.inner {
			if !p.whole(p.docs[sub]) {
				return false
			}
		}
	}
	return true
}

// write writes each part; nil where nothing of it is kept.
func (p *Plan) write() [][]byte {
	out := make([][]byte, 0, len(p.parts)+1)
	w := &writer{Plan: p}
	if p.apart >= 0 {
		w.doc(p.docs[p.apart])
		out = append(out, w.out)
	}
	for _, i := range p.parts {
		d := p.docs[i]
		w.out = nil
		if d.count > 0 || d.cut.at >= 0 || !p.reading && (d.part.Guards != nil || d.tree != nil && len(p.parts) == 1) { // JSON stays JSON, if an empty one
			w.doc(d)
		}
		out = append(out, w.out)
	}
	return out
}

func (w *writer) doc(d *doc) {
	switch {
	case d.tree != nil && d.tree.guards == nil && !d.shown(0):
		root := d.tree.Raw(0)
		w.out = append(w.out, root[0], root[len(root)-1]) // empty, also where the root is one unit
		return
	case d.tree != nil:
		w.value(d, 0, d.tree.guards)
		return
	}
	from, to := 0, len(d.text.line)
	if w.reading {
		from = d.kept.next(0)
		for to > from && !d.kept.has(to-1) {
			to--
		}
	}
	w.out = d.text.write(w.out, d.kept, from, to, d.cut)
}

// Fit keeps as many units as there is room for. count says what parts cost, and all
// that comes with them, up to somewhat more than room; perByte is about what a byte
// costs, better too much than too little.
func (p *Plan) Fit(room int, perByte float64, count func(parts [][]byte) int) (parts [][]byte, cost int) {
	try := func(n int) ([][]byte, int) {
		p.mark(n)
		parts := p.write()
		return parts, count(parts)
	}
	parts, cost = try(0)
	if cost > room {
		return parts, cost
	}
	low, high := 0, len(p.units)+1
	base, margin := cost, .1
	for low+1 < high {
		if len(parts) > 0 && len(parts[0]) > 48*room && high-low <= low/16 {
			break // a run of one letter: what it costs takes long to count
		}
		// Where the sizes say that the room ends, but never at a side for long.
		target := uint32(min(float64(p.size[low])+float64(room-cost)/perByte, 1<<31))
		n := low + 1
		for lo, hi := low+1, high-1; lo <= hi; {
			if mid := (lo + hi) / 2; p.size[mid] <= target {
				n, lo = mid, mid+1
			} else {
				hi = mid - 1
			}
		}
		n = min(max(n, low+1+(high-low)/64), high-1-(high-low)/64)
		now, c := try(n)
		if c <= room {
			low, parts, cost, margin = n, now, c, .1
			if d := c - base; d > 0 && p.size[n] > 0 {
				perByte = float64(d) / float64(p.size[n])
			}
		} else { // by how much it is over is not known
			high = n
			if d := p.size[n] - p.size[low]; d > 0 {
				perByte = max(perByte, (1+margin)*float64(room-cost)/float64(d))
			}
			margin *= 2
		}
	}
	if low < len(p.units) && room-cost > max(3, room/64) && !p.reading {
		parts, cost = p.edge(low, room, parts, cost, count)
	}
	p.mark(low)
	return parts, cost
}

// edge keeps what there is room for of the unit behind the last one.
func (p *Plan) edge(n, room int, parts [][]byte, cost int, count func([][]byte) int) ([][]byte, int) {
	u := p.units[n]
	d := p.docs[u.doc]
	if !d.clips(u.at) {
		return parts, cost
	}
	p.mark(n)
	low, high := 0, d.bytes(u.at)
	best := noEdge
	for low+3 < high {
		mid := (low + high) / 2
		p.cut(d, edge{int(u.at), mid})
		if now := p.write(); true {
			if c := count(now); c <= room {
				low, parts, cost, best = mid, now, c, edge{int(u.at), mid}
			} else {
				high = mid
			}
		}
	}
	p.cut(d, best)
	return parts, cost
}

// cut sets the edge of a doc, and of those that it is in.
func (p *Plan) cut(d *doc, e edge) {
	d.cut = e
	for d.up >= 0 {
		up := p.docs[d.up]
		if up.cut = noEdge; e.at >= 0 {
			up.cut = edge{int(d.node), 0}
		}
		d = up
	}
}

// clips reports whether the beginning of a unit may stand for it.
func (d *doc) clips(at uint32) bool {
	if d.bytes(at) > 4*piece {
		return false
	}
	if d.text != nil {
		return !d.part.Solid && !d.text.binary && len(d.text.unit(int(at))) > 8 && FenceOf(bytes.TrimSpace(d.text.unit(int(at)))) == ""
	}
	raw := d.tree.Raw(at)
	if raw[0] != '"' || len(raw) <= 16 || d.tree.guards != nil {
		return false
	}
	return len(raw) > longAddress || !Protected(d.tree.Label(at), raw[1:len(raw)-1])
}
