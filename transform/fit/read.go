package fit

import (
	"bytes"
	"slices"
	"strconv"
)

// Read sets a plan to go on in the order of the document: from a place on, up to
// count entries of what it is in, or to the end where count is below 0. What the
// first shown units are is left out, unless they are asked for again. within is where
// in those entries it goes on, nil for their beginning. It is false where there is no
// such place.
func (p *Plan) Read(shown int, at Place, count int, within *Place) bool {
	p.mark(shown)
	was := make([]bitset, len(p.docs))
	for i, d := range p.docs {
		was[i] = slices.Clone(d.kept)
	}
	p.mark(0)
	for i := 0; i < len(p.docs); i++ {
		p.open(i, last)
	}
	begin := unit{}
	if within != nil {
		doc, from, _, ok := p.find(*within, -1)
		if !ok {
			return false
		}
		begin = unit{uint32(doc), uint32(from)}
	}
	doc, from, to, ok := p.find(at, count)
	if !ok {
		return false
	}
	s := &sequence{Plan: p, doc: doc, from: from, to: to, was: was}
	for _, n := range p.parts {
		if !p.docs[n].part.Solid {
			s.visit(n)
		}
	}
	if within != nil {
		n := slices.IndexFunc(s.units, func(u unit) bool { return u.doc == begin.doc && u.at >= begin.at })
		if n < 0 {
			return false
		}
		s.units = s.units[n:]
	}
	p.units, p.reading = s.units, true
	p.measure()
	if len(p.units) > 0 {
		if first := int(p.units[0].doc); p.docs[first].up >= 0 && p.docs[first].text != nil {
			p.apart, p.aparts = first, p.docs[first].up
			p.docs[first].up = -1
		}
	}
	return true
}

// A sequence collects units in the order of the document.
type sequence struct {
	*Plan
	doc, from, to int // from is in that doc; to as well, or -1 for the end of all
	was           []bitset
	begun, ended  bool
	units         []unit
}

func (s *sequence) here(doc, at int) bool {
	if doc == s.doc {
		s.begun = s.begun || at >= s.from
		s.ended = s.ended || s.to >= 0 && at >= s.to
	}
	return s.begun && !s.ended
}

func (s *sequence) visit(doc int) {
	d := s.docs[doc]
	for at, r := range d.ranks() {
		in := s.here(doc, at)
		if s.ended {
			return
		}
		if d.tree != nil {
			if sub, ok := d.tree.inner[uint32(at)]; ok {
				s.visit(int(sub))
				continue
			}
		}
		if in && r != none && !(doc < len(s.was) && s.was[doc].has(at)) {
			s.units = append(s.units, unit{uint32(doc), uint32(at)})
		}
	}
	if doc == s.doc { // what is behind it comes next, unless it was asked for alone
		s.begun, s.ended = true, s.ended || s.to >= 0
	}
}

// A target is what is read.
type target struct {
	doc   int
	node  uint32
	line  int // of a text, -1 for all
	at    Place
	count int
}

// find is where a place is: its doc, and from where to where in it.
func (p *Plan) find(at Place, count int) (doc, from, to int, ok bool) {
	d, path := p.part(at.Path)
	if d == nil {
		return 0, 0, -1, len(at.Path) == 0 && at.From <= 0
	}
	n, line := uint32(0), -1
	defer func() { p.target = target{doc, n, line, at, count} }()
	for i, step := range path {
		if d.tree == nil {
			k, err := strconv.ParseUint(step, 10, 31)
			if err != nil || i < len(path)-1 {
				return 0, 0, 0, false
			}
			line = int(k)
			break
		}
		if n, _ = d.tree.child(n, step); n == 0 {
			return 0, 0, 0, false
		}
		if sub, inner := d.tree.inner[n]; inner {
			d, n = p.docs[sub], 0
		}
	}
	doc = slices.Index(p.docs, d)
	if d.text != nil {
		from, all := d.text.entry(line, at.From)
		if to = -1; count >= 0 {
			count = min(count, all-at.From)
			to, _ = d.text.entry(line, at.From+count)
		}
		return doc, from, to, at.From <= all && all > 0
	}
	t := d.tree
	if t.ranks[n] != none && !t.entries.has(int(n)) && t.Nodes[n].Count > 0 { // a row: now each of it counts
		base := t.ranks[n]
		t.ranks[n] = none
		for m := n + 1; m < t.Nodes[n].Next; m = t.Nodes[m].Next {
			t.rank(m, base, nil, 0)
		}
	}
	entry := func(k int) int {
		for m := n + 1; m < t.Nodes[n].Next; m = t.Nodes[m].Next {
			if k--; k < 0 {
				return int(m)
			}
		}
		return int(t.Nodes[n].Next)
	}
	if from = int(n); at.From > 0 {
		from = entry(at.From)
	}
	if to = -1; count >= 0 {
		count = min(count, int(t.Nodes[n].Count)-at.From)
		to = entry(at.From + count)
		if t.Nodes[n].Count == 0 {
			to = int(n) + 1
		}
	}
	return doc, from, to, at.From <= int(t.Nodes[n].Count)
}

// Left is how many units there are behind those that are kept, while reading.
func (p *Plan) Left() int { return len(p.units) - p.marked }

// Kept is how many units are kept.
func (p *Plan) Kept() int { return p.marked }

// Next is where reading goes on.
func (p *Plan) Next() Place {
	u := p.units[p.marked]
	return p.where(u)
}

func (p *Plan) where(u unit) Place {
	d := p.docs[u.doc]
	var at Place
	if d.tree != nil {
		at = d.tree.place(u.at)
	} else {
		at = d.text.place(int(u.at))
	}
	for d.depth > 0 {
		up := p.docs[p.above(d)]
		at.Path = append(up.tree.path(d.node), at.Path...)
		d = up
	}
	at.Path = slices.Concat(d.part.Name, at.Path)
	return at
}

// lineOf is the line that a unit of a text is in.
func (p *Plan) lineOf(u unit) Place {
	t := p.docs[u.doc].text
	return p.where(unit{u.doc, uint32(t.unitOf(int(t.line[u.at])))})
}

// above is the doc that a doc is in.
func (p *Plan) above(d *doc) int {
	if d.up >= 0 {
		return d.up
	}
	return p.aparts
}

// Skip passes over the unit where reading goes on, which does not fit alone.
func (p *Plan) Skip() (at Place) {
	at = p.Next()
	p.units = p.units[1:]
	return at
}

// NextEntry is the entry of what is read, by its count, where reading goes on, and
// how many there are left of those that were asked for; ok is false where that is
// the entry that reading began with.
func (p *Plan) NextEntry() (at Place, left int, ok bool) {
	k := p.entryOf(p.units[p.marked])
	if k <= p.target.at.From {
		return at, 0, false
	}
	return Place{p.target.at.Path, k}, p.target.at.From + p.target.count - k, true
}

// WholeEntries gives up the units of the last entry that is not there as a whole,
// unless it is the first.
func (p *Plan) WholeEntries(parts [][]byte) [][]byte {
	if p.marked == len(p.units) {
		return parts
	}
	k, n := p.entryOf(p.units[p.marked]), p.marked
	if k <= p.target.at.From {
		return parts
	}
	for n > 0 && p.entryOf(p.units[n-1]) == k {
		n--
	}
	p.mark(n)
	return p.write()
}

// entryOf is the entry of what is read that a unit is in.
func (p *Plan) entryOf(u unit) int {
	t := p.target
	at := int(u.at)
	for i := int(u.doc); i != t.doc; {
		d := p.docs[i]
		if at = int(d.node); d.depth == 0 {
			return 0
		}
		i = p.above(d)
	}
	d := p.docs[t.doc]
	if d.text != nil {
		if t.line >= 0 {
			return at - d.text.unitOf(t.line)
		}
		return int(d.text.line[at])
	}
	k := 0
	for m := t.node + 1; m < d.tree.Nodes[t.node].Next; m = d.tree.Nodes[m].Next {
		if at < int(d.tree.Nodes[m].Next) {
			return k
		}
		k++
	}
	return k
}

// Find calls f with every line and every value that has a text in it, whatever its
// case, until f returns false.
func (p *Plan) Find(what string, f func(at Place, line bool, text []byte) bool) {
	for i := 0; i < len(p.docs); i++ {
		p.open(i, last)
	}
	want := bytes.ToLower([]byte(what))
	for _, n := range p.parts {
		if d := p.docs[n]; !d.part.Solid && !p.findIn(n, want, f) {
			return
		}
	}
}

func (p *Plan) findIn(doc int, want []byte, f func(Place, bool, []byte) bool) bool {
	d := p.docs[doc]
	for at := range d.ranks() {
		u := unit{uint32(doc), uint32(at)}
		if d.text != nil {
			if line := d.text.unit(at); bytes.Contains(bytes.ToLower(line), want) && !f(p.lineOf(u), true, bytes.TrimSpace(line)) {
				return false
			}
			continue
		}
		if sub, ok := d.tree.inner[uint32(at)]; ok {
			if !p.findIn(int(sub), want, f) {
				return false
			}
			continue
		}
		if d.tree.ranks[at] == none || d.tree.entries.has(at) {
			continue
		}
		if raw := d.tree.Raw(uint32(at)); bytes.Contains(bytes.ToLower(raw), want) {
			place := p.where(u)
			place.Path = append(place.Path, d.tree.step(uint32(at), place.From))
			if !f(place, false, raw[:min(len(raw), 4*piece)]) {
				return false
			}
		}
	}
	return true
}
