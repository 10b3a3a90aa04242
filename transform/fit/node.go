package fit

import (
	"bytes"
	"iter"

	"github.com/dragoman-proxy/dragoman/transform/grapheme"
	"github.com/dragoman-proxy/dragoman/transform/schema"
	"github.com/dragoman-proxy/dragoman/transform/tape"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A Part is a text or JSON value of an answer.
type Part struct {
	Text     []byte
	Guards   schema.Guards // for a value that has a schema; nil if it has none
	Markdown bool          // its name or type says so
	Solid    bool          // it is kept whole or not at all; such parts come after the others
}

// Options are what the configuration says about members.
type Options struct {
	Keep, Drop []string // names of members that are kept longest, and that are dropped first
	KeepEmpty  bool     // empty members are kept as long as others
	Columns    bool     // lists of objects with the same members may be tables
	Most       int      // how many units are ranked; there cannot be room for more

	Name func(part int) []string // the first steps of paths into a part; nil if there are none
}

// A Plan is an answer in units, in the order in which they are kept.
type Plan struct {
	Options
	parts  []Part
	open   int // how many parts are not solid
	nodes      // number 0 is the answer, its children are the parts
	docs   []doc
	guards map[uint32]schema.Guards // what a schema asks of a node
	queue  *queue                   // while nodes are ranked
	seen   map[uint64]bool          // hashes of the objects that were ranked, as they are written
	units  []uint32
	size   []int // size[k] is about how many bytes the first k units take
	marked int   // units that are marked as kept
	clip   clip
	reading
}

// A node is a part of an answer, or of another node. Its children stand side by
// side in Plan.nodes; expand makes them when they are needed.
type node struct {
	up, first, count uint32 // the node it is in, its first child, and the number of its children
	doc, pos, end    uint32 // its document, and where it begins and ends there
	at               uint32 // its node on the tape, or its number as a line
	kept             uint32 // units in it that are marked; while nodes are ranked, the next node of its rank
	rank             rank
	kind             kind
	is               trait
}

// A kind is the first byte of a JSON value, or one of these.
type kind byte

const (
	object kind = '{'
	list   kind = '['
	quoted kind = '"' // a string; if it is long, its content is its one child
	text   kind = 't' // lines
	line   kind = 'l' // a line; if it is long, its pieces are its children
	piece  kind = 'p'
)

type trait byte

const (
	unit     trait = 1 << iota // it is kept as a whole or not at all
	demanded                   // a schema demands it as long as the node it is in is kept
	ordered                    // a list in which the place of an item determines what a schema asks of it
	entry                      // of a map: its name is a unit, before its contents
	shown                      // it was in an earlier part of an answer that is now read further
)

// A doc is the text that nodes stand in: a part, or a string inside a part.
type doc struct {
	*tape.Tape // empty if it is not JSON
	src        []byte
	part       *Part
	depth      int
}

// noTape is the tape of all texts that are not JSON.
var noTape = new(tape.Tape)

const (
	longString  = 200 // bytes: a longer string is a text
	rowLength   = 160 // bytes of a short flat object or list, which is a unit
	pieceLength = 160 // about how many bytes of a long line are a unit
	firstOf64   = 24  // bytes at the beginning of base64 that are a unit
	mapLength   = 24  // an object with fewer members is not a map
	maxInner    = 3   // how deep JSON in strings is parsed
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

// A queue holds the nodes of each rank, in the order in which they were added.
type queue [last + 1]struct{ first, last uint32 }

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

func (p *Plan) is(n uint32, t trait) bool { return p.at(n).is&t != 0 }
func (p *Plan) docOf(n uint32) *doc       { return &p.docs[p.at(n).doc] }
func (p *Plan) raw(n uint32) []byte       { return p.docOf(n).src[p.at(n).pos:p.at(n).end] }

// end returns the index after the last child of a node.
func (p *Plan) end(n uint32) uint32 { return p.at(n).first + p.at(n).count }

// name returns the name of a member, or nil if the node is not a member.
func (p *Plan) name(n uint32) []byte {
	if d := p.docOf(n); len(d.Nodes) > 0 && n > 0 {
		return d.Name(p.at(n).at)
	}
	return nil
}

// value returns the node for a node of the tape of a JSON document.
func (p *Plan) value(d *doc, at uint32, g schema.Guards) node {
	v := &d.Nodes[at]
	n := node{pos: v.Pos, end: v.End, at: at, kind: kind(d.Doc[v.Pos])}
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
	d := doc{Tape: noTape, src: src, part: part, depth: depth}
	isJSON := func() bool {
		d.Tape = new(tape.Tape)
		return d.Parse(src) == nil
	}
	switch {
	case depth == 0 && part.Solid || len(src) == 0:
		n = node{kind: text, is: unit}
	case depth == 0 && part.Guards != nil && isJSON():
		n = p.value(&d, 0, part.Guards)
		n.is |= demanded
		p.guards[p.next] = part.Guards
	case depth < maxInner && tape.IsContainer(src) && isJSON():
		n = p.value(&d, 0, nil)
	default:
		d.Tape = noTape
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
			inner, needed = g.Member(d.Tape, m), !g.MayDrop(d.Name(m))
		default:
			inner, needed = g.Element(d.Tape, m, i), i < g.MinItems()
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

// expandLine splits a long line into pieces.
func (p *Plan) expandLine(n uint32, d *doc) {
	at := p.at(n)
	var pieces []node
	end := lineEnd(d.src, int(at.pos))
	in64 := base64Like(d.src[at.pos:end])
	for i := int(at.pos); i < int(at.end); {
		next := int(at.end)
		switch {
		case in64 && i == int(at.pos):
			next = i + firstOf64
		case in64:
			next = i + 4*pieceLength
		case end-i > pieceLength+pieceLength/4:
			next = pieceEnd(d.src[:end], i)
		}
		if next >= end {
			next = int(at.end)
		}
		pieces = append(pieces, node{doc: at.doc, pos: uint32(i), end: uint32(next), kind: piece, is: unit})
		i = next
	}
	p.makeRoom(n, len(pieces))
	for i := range pieces {
		p.add(n, pieces[i])
	}
}

// pieceEnd returns the end of the piece of a long line that begins at i.
func pieceEnd(line []byte, i int) int {
	n := min(len(line), i+pieceLength)
	if at := bytes.LastIndexAny(line[n-pieceLength/3:n], " \t,;"); at >= 0 {
		return n - pieceLength/3 + at + 1
	}
	near := line[i:min(len(line), n+pieceLength)] // i is between two graphemes
	if at := grapheme.Floor(near, n-i); at > 0 {
		return i + at
	}
	return i + grapheme.Ceil(line[i:], n-i)
}

func lineEnd(text []byte, i int) int {
	if n := bytes.IndexByte(text[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(text)
}
