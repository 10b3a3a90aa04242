package transform

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A look is how much of a document is shown. The zero look shows all of it.
type look struct {
	hollow   bool // empty members go
	drop     bool // and those that the configuration names
	chars    int  // code points that a string may have; 0 for any number
	arrays   bool // arrays are shortened,
	array    int  // each to this many bytes, but never to nothing
	depth    int  // objects deeper than this show what they are called; 0 for all
	outline  bool // each member of the root is put into words
	outlined int  // and there are so many of them
}

// A pen writes a document as a look shows it.
type pen struct {
	*fitter
	*tape
	look
	out   []byte
	limit int // where to give up
	full  bool
	cuts  cuts
	path  []uint32 // the nodes above, while tracing
	trace bool
}

// cuts is what a pen has left out.
type cuts struct {
	arrays  []ArrayCut
	strings int
	dropped []string
}

// write writes the document; false when it is longer than limit.
func (p *pen) write(g guards) bool {
	limit := p.limit
	defer func() { p.limit = limit }()
	p.out, p.full, p.cuts, p.path = p.out[:0], false, cuts{}, p.path[:0]
	if p.outline {
		p.writeOutline()
	} else {
		p.value(0, g, 0)
	}
	return !p.full
}

// value writes a node. depth is how many objects are around it. After the limit
// is passed, nothing that was written counts.
func (p *pen) value(n uint32, g guards, depth int) {
	at := &p.nodes[n]
	if p.full = p.full || len(p.out) > p.limit; p.full {
		return
	}
	switch c := p.doc[at.pos]; {
	case g.frozen():
		if p.has(n) {
			p.out = wire.AppendCompact(p.out, p.raw(n))
		}
	case c == '{':
		p.object(n, g, depth+1)
	case c == '[':
		p.arrayOf(n, g, depth)
	case c == '"' && p.chars > 0 && int(at.end-at.pos)-2 > p.chars && !g.fixed():
		p.string(n, g)
	case p.has(n):
		p.out = append(p.out, p.doc[at.pos:at.end]...)
	}
	p.full = p.full || len(p.out) > p.limit
}

// has reports whether there is room for a value as it is, give or take blanks.
func (p *pen) has(n uint32) bool {
	at := &p.nodes[n]
	p.full = p.full || int(at.end-at.pos) > p.limit-len(p.out) && scalar(p.raw(n))
	return !p.full
}

// string writes a string, shortened if need be.
func (p *pen) string(n uint32, g guards) {
	raw := p.raw(n)
	raw = raw[1 : len(raw)-1]
	most := max(p.chars, g.minLength())
	if p.protected(n, raw) || codePoints(raw, most) <= most {
		if !p.has(n) {
			return
		}
		p.out = append(append(append(p.out, '"'), raw...), '"')
		return
	}
	s := shortening{max: most, marker: p.marker}
	total := 0
	if strings.Contains(p.marker, "%d") {
		total = codePoints(raw, len(raw))
	} else {
		raw = raw[:someCodePoints(raw, most+graphemeRoom)]
	}
	text := wire.AppendUnescaped(nil, raw)
	short := s.text(text, total)
	if least := g.minLength(); least > 0 && utf8.RuneCount(short) < least { // cut at a good place, and so too short
		if p.has(n) {
			p.out = append(p.out, p.raw(n)...)
		}
		return
	}
	p.out = appendQuoted(p.out, short)
	p.cuts.strings++
}

// graphemeRoom is how many code points behind a cut are looked at to find out
// whether it goes through a grapheme.
const graphemeRoom = 16

// someCodePoints is how many bytes the first n code points take.
func someCodePoints(raw []byte, n int) int {
	i := 0
	for ; n > 0 && i < len(raw); n-- {
		i += codePoint(raw[i:])
	}
	return min(i, len(raw))
}

func (p *pen) object(n uint32, g guards, depth int) {
	at := &p.nodes[n]
	closed := p.look.depth > 0 && depth > p.look.depth
	p.out = append(p.out, '{')
	first, seen := true, 0
	for m := n + 1; m < at.next && !p.full; m = p.nodes[m].next {
		value := p.raw(m)
		seen++
		switch {
		case p.hollow && wire.Hollow(value) && g.mayDrop(p.name(m)) && !paging(p.label(m)),
			p.drop && p.dropKeys[p.label(m)] && g.mayDrop(p.name(m)):
			p.note(m)
			continue
		case closed && !p.telling(m):
			p.note(m)
			continue
		}
		if !first {
			p.out = append(p.out, ',')
		}
		first = false
		p.member(m)
		p.enter(m)
		p.value(m, g.member(p.tape, m), depth)
		p.leave()
	}
	if seen < int(at.count) && (!p.arrays || g != nil) { // the tape ends
		p.full = true
	}
	p.out = append(p.out, '}')
}

// member writes a member's name and the colon.
func (p *pen) member(m uint32) {
	p.out = append(append(p.out, '"'), p.name(m)...)
	p.out = append(p.out, '"', ':')
}

func (p *pen) arrayOf(n uint32, g guards, depth int) {
	at := &p.nodes[n]
	p.out = append(p.out, '[')
	start, kept := len(p.out), 0
	least := max(1, g.minItems())
	limit := p.limit
	for m := n + 1; m < at.next; m = p.nodes[m].next {
		mark, before := len(p.out), p.cuts
		if p.arrays && kept >= least {
			if len(p.out)-start > p.array {
				break
			}
			p.limit = min(limit, start+p.array)
		}
		if kept > 0 {
			p.out = append(p.out, ',')
		}
		p.enter(m)
		p.value(m, g.element(p.tape, m, kept), depth)
		p.leave()
		if p.arrays && kept >= least && (p.full || len(p.out)-start > p.array) {
			p.full = false
			p.out, p.cuts = p.out[:mark], before
			break
		}
		if p.full {
			return
		}
		kept++
	}
	p.limit = limit
	p.out = append(p.out, ']')
	if kept < int(at.count) {
		if !p.arrays || kept < least { // the tape ends
			p.full = true
			return
		}
		if p.trace && len(p.cuts.arrays) < maxNoted {
			p.cuts.arrays = append(p.cuts.arrays, ArrayCut{p.where(), kept, int(at.count)})
		}
	}
}

// maxNoted is how many arrays, and names of members, a report has.
const maxNoted = 20

func (p *pen) enter(m uint32) {
	if p.trace {
		p.path = append(p.path, m)
	}
}

func (p *pen) leave() {
	if p.trace {
		p.path = p.path[:len(p.path)-1]
	}
}

// where is the dotted path of the members that lead here.
func (p *pen) where() string {
	var path []string
	size := 0
	for _, n := range p.path {
		if p.name(n) != nil && size < 100 {
			name := clip(p.label(n), 40)
			path = append(path, name)
			size += len(name)
		}
	}
	if len(path) == 0 {
		return "."
	}
	return strings.Join(path, ".")
}

// clip shortens a name for a notice.
func clip(name string, n int) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == 0x7F {
			return -1
		}
		return r
	}, name)
	if len(name) > n {
		name = name[:floorGrapheme([]byte(name), n)] + "…"
	}
	return name
}

// note remembers that a member went.
func (p *pen) note(m uint32) {
	if !p.trace || len(p.cuts.dropped) >= maxNoted {
		return
	}
	name := clip(p.label(m), 40)
	for _, have := range p.cuts.dropped {
		if have == name {
			return
		}
	}
	p.cuts.dropped = append(p.cuts.dropped, name)
}

// telling reports whether a member of an object that is shown in short says what
// it is, or where a list goes on.
func (p *pen) telling(m uint32) bool {
	value, name := p.raw(m), p.label(m)
	return scalar(value) && (isKey(name) || summary(name)) || len(value) <= maxOutlined && paging(name)
}

// paging reports whether members of that name say where a list goes on.
func paging(name string) bool {
	switch name {
	case "pageInfo", "has_more", "hasNextPage", "next_cursor", "nextCursor", "endCursor", "pagination", "_pagination":
		return true
	}
	return false
}

func scalar(value []byte) bool { return value[0] != '{' && value[0] != '[' }

// protected reports whether a string stays whole: a name for something, an
// address, a cursor, a date, base64.
func (p *pen) protected(n uint32, raw []byte) bool {
	if p.name(n) == nil {
		return false
	}
	name := p.label(n)
	return isKey(name) || (name == "data" || name == "blob") && base64Like(raw) || dateLike(raw)
}

// isKey reports whether members of that name say which thing is meant, or where
// it is.
func isKey(name string) bool {
	switch name {
	case "id", "identifier", "key", "uuid", "url", "uri", "href", "email", "cursor", "next_cursor", "nextCursor", "endCursor":
		return true
	}
	return strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "Id") ||
		strings.HasSuffix(name, "_url") || strings.HasSuffix(name, "Url")
}

// summary reports whether members of that name say in a word what an object is.
func summary(name string) bool {
	switch name {
	case "name", "title", "status", "state", "type", "count", "total":
		return true
	}
	return false
}

func base64Like(raw []byte) bool {
	for _, c := range raw[:min(len(raw), 256)] {
		switch {
		case c|0x20-'a' <= 25, c-'0' <= 9, strings.IndexByte("+/=-_", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// dateLike reports whether a string begins like 2025-01-31 and is not long.
func dateLike(raw []byte) bool {
	return len(raw) >= 10 && len(raw) <= 40 && raw[4] == '-' && raw[7] == '-' &&
		raw[0]-'0' <= 9 && raw[3]-'0' <= 9 && raw[5]-'0' <= 9 && raw[8]-'0' <= 9 && raw[9]-'0' <= 9
}

// writeOutline puts each member of the root into words, and keeps of each
// element of a root array what names it.
func (p *pen) writeOutline() {
	root := &p.nodes[0]
	c := p.doc[root.pos]
	p.out = append(p.out, c)
	count := 0
	for m := uint32(1); m < root.next && count < p.outlined; m = p.nodes[m].next {
		if len(p.name(m)) > maxOutlined {
			continue
		}
		if count > 0 {
			p.out = append(p.out, ',')
		}
		count++
		switch {
		case c == '{':
			p.member(m)
			p.words(m)
		case p.doc[p.nodes[m].pos] == '{':
			p.keys(m)
		default:
			p.words(m)
		}
		if p.full = len(p.out) > p.limit; p.full {
			return
		}
	}
	rest := int(root.count) - count
	if c == '{' && rest > 0 && count > 0 {
		p.out = fmt.Appendf(p.out, `,"…":"%d more members"`, rest)
	}
	if p.trace && rest > 0 && c == '[' {
		p.cuts.arrays = append(p.cuts.arrays, ArrayCut{".", count, int(root.count)})
	}
	p.out = append(p.out, c+2)
}

// maxOutlined is how many bytes a value may have that an outline shows as it is.
const maxOutlined = 200

// words says what a value is and how much of it there is.
func (p *pen) words(m uint32) {
	at := &p.nodes[m]
	if value := p.raw(m); len(value) <= maxOutlined && p.name(m) != nil && paging(p.label(m)) {
		p.out = wire.AppendCompact(p.out, value)
		return
	}
	switch value := p.raw(m); value[0] {
	case '[':
		p.out = append(p.out, `"array of `...)
		p.out = strconv.AppendInt(p.out, int64(at.count), 10)
		p.firstKeys(m)
		p.out = append(p.out, '"')
	case '{':
		p.out = fmt.Appendf(p.out, `"object of %d"`, at.count)
	case '"':
		if len(value) > maxOutlined {
			p.out = fmt.Appendf(p.out, `"text of %d characters"`, codePoints(value[1:len(value)-1], len(value)))
			return
		}
		p.out = append(p.out, value...)
	default:
		if len(value) > maxOutlined { // a number of so many digits
			value = []byte("null")
		}
		p.out = append(p.out, value...)
	}
}

// firstKeys appends what names the first elements of an array, for the inside
// of a string.
func (p *pen) firstKeys(n uint32) {
	const some = 5
	before := ": "
	count := 0
	for m := n + 1; m < p.nodes[n].next && count < some; m = p.nodes[m].next {
		for k := m + 1; k < p.nodes[m].next; k = p.nodes[k].next {
			name, value := p.name(k), p.raw(k)
			if name == nil || len(value) > 80 || !scalar(value) || !isKey(p.label(k)) {
				continue
			}
			p.out = append(p.out, before...)
			if value[0] == '"' {
				value = value[1 : len(value)-1]
			}
			p.out = append(p.out, value...)
			before = ", "
			break
		}
		count++
	}
}

// keys writes an object with no more than what names it.
func (p *pen) keys(n uint32) {
	p.out = append(p.out, '{')
	first := true
	for m := n + 1; m < p.nodes[n].next; m = p.nodes[m].next {
		value := p.raw(m)
		if name := p.label(m); len(value) > maxOutlined || !scalar(value) || !isKey(name) && !summary(name) {
			continue
		}
		if !first {
			p.out = append(p.out, ',')
		}
		first = false
		p.member(m)
		p.out = append(p.out, value...)
	}
	p.out = append(p.out, '}')
}
