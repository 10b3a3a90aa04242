package fit

import (
	"bytes"
	"iter"

	"github.com/dragoman-proxy/dragoman/transform/grapheme"
	"github.com/dragoman-proxy/dragoman/transform/schema"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// New ranks the units of an answer.
func New(parts []Part, o Options) *Plan {
	p := &Plan{Options: o, parts: parts, docs: make([]doc, 0, len(parts)), queue: new(queue), seen: make(map[uint64]bool), guards: make(map[uint32]schema.Guards)}
	p.pages, p.next = [][]node{make([]node, pageNodes)}, 1
	p.makeRoom(0, len(parts))
	for i := range parts {
		p.add(0, p.root(parts[i].Text, &parts[i], 0))
		if !parts[i].Solid {
			p.open++
		}
	}
	p.rank(0)
	p.sort()
	p.queue = nil
	p.clearKept()
	return p
}

// sort puts the units in order. It expands only nodes that there may be room
// for.
func (p *Plan) sort() {
	p.size = append(p.size, 0)
	for r := range p.queue {
		for n := p.queue[r].first; n > 0; n = p.at(n).kept {
			switch {
			case len(p.units) == p.Most:
				return
			case p.is(n, unit), r == int(last): // the last rank is too deep to be expanded
				p.at(n).is |= unit
				p.unit(n, len(p.raw(n)))
			case p.is(n, entry):
				p.unit(n, 0)
				fallthrough
			default:
				p.expand(n)
			}
		}
	}
}

func (p *Plan) unit(n uint32, size int) {
	p.units = append(p.units, n)
	p.size = append(p.size, p.size[len(p.size)-1]+size+len(p.name(n))+2)
}

// value returns the node for a node of a JSON document.
func (p *Plan) value(d *doc, at uint32, g schema.Guards) node {
	v := &d.Nodes[at]
	n := node{pos: v.Pos, end: v.End, at: at, kind: kind(d.Text[v.Pos])}
	switch {
	case n.kind == quoted && (n.end-n.pos <= longString || g.Fixed() || n.end-n.pos < 10*longString && d.Name(at) != nil && isKey(d.Label(at))),
		n.kind != quoted && n.kind != object && n.kind != list,
		n.kind != quoted && (v.Count == 0 || g.Frozen() || g != nil && d.Partial || d.row(at)):
		n.is = unit
	case n.kind == list && g.Ordered():
		n.is = ordered
	}
	return n
}

// row reports whether an object or list is short and flat.
func (d *doc) row(at uint32) bool {
	v := &d.Nodes[at]
	if v.End-v.Pos > rowLength || v.Next-at > 16 {
		return false
	}
	for m := at + 1; m < v.Next; m++ {
		if d.Nodes[m].Count > 0 {
			return false
		}
	}
	return true
}

// root returns the node of a text. If the text is JSON, that is the node of its
// value.
func (p *Plan) root(src []byte, part *Part, depth int) (n node) {
	d := doc{Document: noDocument, src: src, part: part, depth: depth}
	isJSON := func() bool {
		d.Document = new(tree.Document)
		return d.Read(src) == nil
	}
	switch {
	case depth == 0 && part.Solid || len(src) == 0:
		n = node{kind: text, is: unit}
	case depth == 0 && part.Guards != nil && isJSON():
		n = p.value(&d, 0, part.Guards)
		n.is |= demanded
		p.guards[p.next] = part.Guards
	case depth < maxInner && tree.IsContainer(src) && isJSON():
		n = p.value(&d, 0, nil)
	default:
		if d.Document = noDocument; !part.Solid {
			if shown := asShown(src); len(shown) > 0 {
				d.src, src = shown, shown
			}
		}
		n = node{kind: text}
	}
	if n.doc = uint32(len(p.docs)); n.kind == text {
		n.end = uint32(len(src))
	}
	p.docs = append(p.docs, d)
	return n
}

// expand makes the children of a node.
func (p *Plan) expand(n uint32) {
	if p.at(n).first > 0 {
		return
	}
	at, d := p.at(n), p.docOf(n)
	switch at.kind {
	case object, list:
		p.expandValue(n, d)
	case quoted:
		raw := p.raw(n)
		p.makeRoom(n, 1)
		p.add(n, p.root(wire.AppendUnescaped(nil, raw[1:len(raw)-1]), d.part, d.depth+1))
	case text:
		p.expandText(n, d)
	case line:
		p.expandLine(n, d)
	}
	if p.queue != nil {
		p.rank(n)
	}
}

func (p *Plan) expandValue(n uint32, d *doc) {
	at := p.at(n)
	p.makeRoom(n, int(min(d.Nodes[at.at].Count, d.Nodes[at.at].Next-at.at)))
	g, i := p.guards[n], 0
	for m := at.at + 1; m < d.Nodes[at.at].Next; m = d.Nodes[m].Next {
		var inner schema.Guards
		needed := false
		switch {
		case g == nil:
		case at.kind == object:
			inner, needed = g.Member(d.Document, m), !g.MayDrop(d.Name(m))
		default:
			inner, needed = g.Element(d.Document, m, i), i < g.MinItems()
		}
		child := p.value(d, m, inner)
		if child.doc = at.doc; needed {
			child.is |= demanded
		}
		if inner != nil {
			p.guards[p.next] = inner
		}
		p.add(n, child)
		i++
	}
}

// expandText splits a text into lines, each with the blank lines after it.
func (p *Plan) expandText(n uint32, d *doc) {
	count := bytes.Count(d.src, []byte("\n")) + 1
	if count > len(d.src)/16 { // blank lines are no children
		count = 0
		for range lines(d.src) {
			count++
		}
	}
	p.makeRoom(n, count)
	for child := range lines(d.src) {
		child.doc = p.at(n).doc
		p.add(n, child)
	}
}

// lines yields the lines of a text, each with the blank lines after it.
func lines(src []byte) iter.Seq[node] {
	return func(yield func(node) bool) {
		least := len(src) >> 20 // bytes of a node: shorter lines share one, so that there are about a million at most
		for i, number := 0, uint32(0); i < len(src); number++ {
			end := lineEnd(src, i)
			n := node{pos: uint32(i), at: number, kind: line}
			if end-i <= pieceLength+pieceLength/4 {
				n.is = unit
			}
			i = min(end+1, len(src))
			for at := i; at < len(src) && (src[at] <= ' ' || i-int(n.pos) < least); at++ {
				if src[at] == '\n' {
					i = at + 1
					number++
				}
			}
			if n.end = uint32(i); !yield(n) {
				return
			}
		}
	}
}

// expandLine splits a long line into pieces. Of base64, the rest after its first characters is dull.
func (p *Plan) expandLine(n uint32, d *doc) {
	at := p.at(n)
	var pieces []node
	end := lineEnd(d.src, int(at.pos))
	from, to := 0, int(at.pos) // the next base64
	for i := int(at.pos); i < int(at.end); {
		if i >= to {
			from, to = base64In(d.src[:end], i)
		}
		next, is := int(at.end), unit
		switch {
		case i == from && to > from:
			next = i + firstOf64
		case i > from && i < to:
			next, is = min(to, i+4*pieceLength), unit|dull
		case min(end, from)-i > pieceLength+pieceLength/4:
			next = pieceEnd(d.src[:min(end, from)], i)
		case from < end:
			next = from
		}
		if next >= end {
			next = int(at.end)
		}
		pieces = append(pieces, node{doc: at.doc, pos: uint32(i), end: uint32(next), kind: piece, is: is})
		i = next
	}
	p.makeRoom(n, len(pieces))
	for i := range pieces {
		p.add(n, pieces[i])
	}
}

// base64In returns where the next base64 in a line begins and ends, from i on. If there is none, both are the
// end of the line.
func base64In(line []byte, i int) (from, to int) {
	for i < len(line) {
		from = i
		for i < len(line) && in64[line[i]] {
			i++
		}
		if base64Like(line[from:i]) {
			return from, i
		}
		for i < len(line) && !in64[line[i]] {
			i++
		}
	}
	return i, i
}

// pieceEnd returns the end of the piece of a long line that begins at i.
func pieceEnd(line []byte, i int) int {
	n := min(len(line), i+pieceLength)
	for at := n - 1; at >= n-pieceLength/3; at-- {
		if c := line[at]; c == ' ' || c == '\t' || c == ';' || c == ',' && !grapheme.InNumber(line, at+1) {
			return at + 1
		}
	}
	near := line[i:min(len(line), n+pieceLength)] // i is between two graphemes
	if at := grapheme.BeforeNumber(near, grapheme.Floor(near, n-i)); at > 0 {
		return i + at
	}
	if at := grapheme.Floor(near, n-i); at > 0 {
		return i + at
	}
	return i + grapheme.Ceil(line[i:], n-i)
}

// mark marks the first n units as kept, and no others.
func (p *Plan) mark(n int) {
	for ; p.marked < n; p.marked++ {
		p.count(p.units[p.marked], 1)
	}
	for p.marked > n {
		p.marked--
		p.count(p.units[p.marked], ^uint32(0))
	}
}

// count adds more to the number of kept units of n and of every node that
// contains n, up to p.apart.
func (p *Plan) count(n, more uint32) {
	for p.at(n).kept += more; n > 0 && n != p.apart; {
		n = p.at(n).up
		p.at(n).kept += more
	}
}

// Kept returns how many units are kept.
func (p *Plan) Kept() int { return p.marked }
