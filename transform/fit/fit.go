package fit

import (
	"bytes"
	"sort"
)

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

// count adds to the units that are kept of all that a unit is in.
func (p *Plan) count(n, more uint32) {
	for p.nodes[n].kept += more; n > 0 && n != p.apart; {
		n = p.nodes[n].up
		p.nodes[n].kept += more
	}
}

// Kept is how many units are kept.
func (p *Plan) Kept() int { return p.marked }

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
		target := p.size[low] + int(min(float64(room-cost)/perByte, 1<<40))
		n := sort.SearchInts(p.size, target+1) - 1
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
	switch {
	case low == len(p.units):
	case p.byCount:
		if whole := p.wholeEntries(low); whole < low {
			low = whole
			parts, cost = try(low)
		}
	case room-cost > max(3, room/64) && !p.isReading && p.clips(p.units[low]):
		p.clip.node = p.units[low]
		for few, many := 0, len(p.raw(p.clip.node)); few+3 < many; {
			p.clip.bytes = (few + many) / 2
			if now, c := try(low + 1); c <= room {
				few, parts, cost = p.clip.bytes, now, c
			} else {
				many = p.clip.bytes
			}
		}
		p.clip = clip{}
	}
	p.mark(low)
	return parts, cost
}

// A clip is the unit behind the last one that is kept: as much of it as there is room
// for.
type clip struct {
	node  uint32
	bytes int
}

// longAddress is of how many bytes an address may be cut, if there is no room for all.
const longAddress = 100

// clips reports whether the beginning of a unit may stand for it.
func (p *Plan) clips(n uint32) bool {
	raw, k := p.raw(n), p.nodes[n].kind
	switch {
	case len(raw) > 4*pieceLength:
		return false
	case k == line, k == piece:
		return len(raw) > 8 && FenceOf(bytes.TrimSpace(raw)) == "" && !base64Like(p.raw(p.nodes[n].up))
	case k != quoted, len(raw) <= 16, p.docOf(n).part.Guards != nil:
		return false
	}
	return len(raw) > longAddress || !Protected(string(p.name(n)), raw[1:len(raw)-1])
}
