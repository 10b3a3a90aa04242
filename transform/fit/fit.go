package fit

import (
	"bytes"
	"math"
	"slices"
	"sort"
)

// Fit keeps as many units as there is room for, and returns the parts that are
// then left and their cost. count returns the cost of parts and of all that
// comes with them; if the cost exceeds room, it may return any number above room.
// perByte estimates the cost of a byte, rather too high than too low. If nothing
// fits, Fit returns the parts without any unit, and cost exceeds room.
func (p *Plan) Fit(room int, perByte float64, count func(parts [][]byte) int) (parts [][]byte, cost int) {
	best, spare := &writer{Plan: p}, &writer{Plan: p}
	fits := func(n int) bool { // if so, or if it is the first one, this is the best so far
		p.mark(n)
		spare.out = slices.Grow(spare.out[:0], len(best.out))
		spare.write()
		c := count(spare.texts)
		if c <= room || best.texts == nil {
			best, spare, cost = spare, best, c
		}
		return c <= room
	}
	if !fits(0) {
		return best.texts, cost
	}
	low, high := 0, len(p.units)+1
	base, margin := cost, .1
	for low+1 < high {
		if len(best.texts) > 0 && len(best.texts[0])/48 > room && high-low <= low/16 {
			break // a run of one letter, whose cost takes long to count
		}
		// Try the place where the sizes say that the room ends, but not too
		// near to either side, so that the range shrinks each time.
		target := p.size[low] + int(min(float64(room-cost)/perByte, math.MaxInt/4))
		n := sort.SearchInts(p.size, target+1) - 1
		n = min(max(n, low+1+(high-low)/64), high-1-(high-low)/64)
		if fits(n) {
			low, margin = n, .1
			if d := cost - base; d > 0 && p.size[n] > 0 {
				perByte = float64(d) / float64(p.size[n])
			}
		} else { // it is not known how much too long the parts are
			high = n
			if d := p.size[n] - p.size[low]; d > 0 {
				perByte = max(perByte, (1+margin)*float64(room-cost)/float64(d))
			}
			margin *= 2
		}
	}
	if n := p.withoutDull(low); n < low && fits(n) {
		low = n
	}
	switch {
	case low == len(p.units):
	case p.byCount:
		if whole := p.wholeEntries(low); whole < low && fits(whole) {
			low = whole
		}
	case room-cost > max(3, room/64) && !p.isReading && p.clips(low):
		p.clip.node = p.units[low]
		for few, many := 0, len(p.raw(p.clip.node)); few+3 < many; {
			p.clip.bytes = (few + many) / 2
			if fits(low + 1) {
				few = p.clip.bytes
			} else {
				many = p.clip.bytes
			}
		}
		p.clip = clip{}
	}
	p.mark(low)
	return best.texts, cost
}

// withoutDull returns how many of the first n units are left without base64, if most of it is missing: a part of it
// says nothing.
func (p *Plan) withoutDull(n int) int {
	all, kept := 0, n
	for all < len(p.units) && p.is(p.units[len(p.units)-1-all], dull) {
		all++
	}
	for kept > 0 && p.is(p.units[kept-1], dull) {
		kept--
	}
	if p.isReading || (n-kept)*4 > all*3 {
		return n
	}
	return kept
}

// longAddress is the number of bytes above which an address may be cut, if
// there is no room for all of it.
const longAddress = 100

// clips reports whether the unit at a place may be cut to its beginning.
func (p *Plan) clips(next int) bool {
	n := p.units[next]
	if p.is(n, dull) && (next == 0 || !p.is(p.units[next-1], dull)) {
		return false
	}
	raw, k := p.raw(n), p.at(n).kind
	switch {
	case len(raw) > 4*pieceLength:
		return false
	case k == line, k == piece:
		return len(raw) > 8 && FenceOf(bytes.TrimSpace(raw)) == ""
	case k != quoted, len(raw) <= 16, p.docOf(n).part.Guards != nil:
		return false
	}
	return len(raw) > longAddress || !Protected(string(p.name(n)), raw[1:len(raw)-1])
}
