package fit

import (
	"bytes"
	"unicode/utf8"
)

// Read sets a plan to continue in the order of the document: from the place at,
// for up to count entries of the value at at.Path, or to the end if count is
// below 0. before is how many of the first units were shown earlier; these are
// left out. within is the place in those entries where reading continues, or
// nil for their beginning. Read returns false if there is no such place.
func (p *Plan) Read(before int, at Place, count int, within *Place) bool {
	p.mark(0)
	for _, n := range p.units[:min(before, len(p.units))] {
		p.at(n).is |= shown
	}
	target, ok := p.find(at.Path)
	all := p.entries(target)
	if !ok || at.From > all || all == 0 {
		return false
	}
	p.reading = reading{isReading: true, target: target, byCount: count >= 0, from: at.From, to: all}
	top, begin, stop := uint32(0), p.entry(target, at.From), uint32(0)
	if p.byCount {
		p.to = min(all, at.From+count)
		top, stop = target, p.entry(target, p.to)
	}
	if within != nil {
		in, ok := p.find(within.Path)
		if begin = p.entry(in, within.From); !ok || begin == p.end(in) {
			return false
		}
	} else if begin == p.end(target) && begin > 0 {
		begin = p.after(begin-1, top)
	}
	p.begin, p.units, p.size = begin, nil, []int{0}
	for n := begin; n > 0 && n != stop && len(p.units) <= p.Most; n = p.after(n, top) {
		p.leaves(n, func(n uint32) bool {
			if !p.is(n, shown) {
				p.unit(n, len(p.raw(n)))
			}
			return len(p.units) <= p.Most
		})
	}
	if len(p.units) > 0 {
		n := p.units[0]
		for k := p.at(n).kind; k == piece || k == line; k = p.at(n).kind {
			n = p.at(n).up
		}
		if p.at(n).kind == text && p.at(p.at(n).up).kind == quoted {
			p.apart = n
		}
	}
	return true
}

// entries returns how many entries a node has. A unit has one: itself.
func (p *Plan) entries(n uint32) int {
	switch {
	case p.is(n, unit):
		return 1
	case p.at(n).kind == text:
		return p.number(p.end(n)-1) + 1
	}
	return max(1, p.total(n))
}

// entry returns the k-th entry of a node, or the first one after that number.
// It returns p.end(n) if there is none.
func (p *Plan) entry(n uint32, k int) uint32 {
	m := p.at(n).first
	switch {
	case p.is(n, unit) && k == 0:
		return n
	case p.at(n).kind != text:
		return min(m+uint32(k), p.end(n))
	}
	for m < p.end(n) && p.number(m) < k {
		m++
	}
	return m
}

// after returns the node after n and its contents, or 0 if there is none in
// top.
func (p *Plan) after(n, top uint32) uint32 {
	for n != top {
		up := p.at(n).up
		if n+1 < p.end(up) {
			return n + 1
		}
		n = up
	}
	return 0
}

// leaves calls f with the units of a node in the order of the document, until it
// returns false.
func (p *Plan) leaves(n uint32, f func(n uint32) bool) bool {
	if p.at(n).up == 0 && n > 0 && p.parts[n-1].Solid {
		return true
	}
	if p.is(n, unit) {
		return f(n)
	}
	p.expand(n)
	for m := p.at(n).first; m < p.end(n); m++ {
		if !p.leaves(m, f) {
			return false
		}
	}
	return true
}

// InLine returns at which character of a long line reading begins, and how many that line has. If it does not begin
// within one, ok is false.
func (p *Plan) InLine() (at, all int, ok bool) {
	if len(p.units) == 0 || p.at(p.units[0]).kind != piece {
		return 0, 0, false
	}
	first := p.at(p.units[0])
	in, src := p.at(first.up), p.docOf(p.units[0]).src
	line := bytes.TrimRight(src[in.pos:in.end], "\r\n")
	return utf8.RuneCount(src[in.pos:first.pos]), utf8.RuneCount(line), first.pos > in.pos
}

// Left returns how many units there are after those that are kept, while
// reading.
func (p *Plan) Left() int { return len(p.units) - p.marked }

// Next returns where reading continues. If a number of entries is read and the
// first one is done, that is the next entry, and left is how many of the
// requested entries remain. Otherwise it is any place, and left is -1.
func (p *Plan) Next() (at Place, left int) {
	n := p.units[p.marked]
	if k := p.entryOf(n); p.byCount && k > p.from {
		return Place{p.path(p.target), k}, p.to - k
	}
	return p.place(n), -1
}

// Skip leaves out the unit where reading continues, because it does not fit
// even alone, and returns its place.
func (p *Plan) Skip() (at Place) {
	at = p.place(p.units[0])
	p.units = p.units[1:]
	return at
}

// wholeEntries returns how many of the first n units are left without those of
// the last entry, if that entry is incomplete. The first entry stays, even if
// it is incomplete.
func (p *Plan) wholeEntries(n int) int {
	k, most := p.entryOf(p.units[n]), n
	for n > 0 && p.entryOf(p.units[n-1]) == k {
		n--
	}
	if k <= p.from {
		return most
	}
	return n
}

// entryOf returns the number of the entry that a unit is in, of the node that
// is read.
func (p *Plan) entryOf(n uint32) int {
	for n > 0 && n != p.target {
		if p.at(n).up == p.target {
			return p.number(n)
		}
		n = p.at(n).up
	}
	return 0
}

// Find calls f with each line and each value that contains what, in upper or
// lower case, until f returns false. line reports whether text is a line, or a
// piece of a long one, and not a value.
func (p *Plan) Find(what string, f func(at Place, line bool, text []byte) bool) {
	want := bytes.ToLower([]byte(what))
	p.leaves(0, func(n uint32) bool {
		switch raw := p.raw(n); {
		case !bytes.Contains(bytes.ToLower(raw), want):
			return true
		case p.at(n).kind == piece:
			return f(p.place(p.at(n).up), true, bytes.TrimSpace(raw))
		case p.at(n).kind == line:
			return f(p.place(n), true, bytes.TrimSpace(raw))
		default:
			return f(Place{Path: p.path(n)}, false, raw[:min(len(raw), 4*pieceLength)])
		}
	})
}
