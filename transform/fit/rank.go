package fit

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A row says how far a node ranks behind the node it is in.
type row struct {
	first rank   // in sixteenths of a bit: one bit is as much as half of a list
	fall  rank   // in sixteenths: how fast the k-th of them falls behind the first
	names string // of members, in lower case, without _ and -; *at is a name that ends in At or _at
}

// These rows say what ranks before what. If a node is in several rows, the
// earliest counts.
var (
	members = []row{
		// which thing it is
		{0, 0, "id name title key path number identifier fullname summary subject symbol filename sku shortid"},
		// what state it is in, and how many there are
		{4, 0, "status state type kind count total totalcount error errors message reason code conclusion success exitcode severity level result iserror version login label priority failuremessages *error *status *count"},
		// where a list continues
		{4, 0, "fields attributes properties node metadata"},
		{4, 0, "nextcursor endcursor hasmore hasnextpage pageinfo pagination"},
		// what is in it, and who has it
		{24, 0, "description body text content stdout stderr output data value url htmlurl uri href user author assignee owner labels plaintext richtext lines matches results items nodes children entries"},
		// addresses for programs
		{48, 0, "nodeid avatarurl gravatarid etag links performedviagithubapp *url *href"},
		// times, and who wrote it when
		{56, 0, "date time timestamp created updated createdby lasteditedby updatedby parent *at *date *time *timestamp"},
		// what only programs read
		{128, 0, "sha hash integrity checksum signature digest verification resolved requestid traceid *hash *signature *token *sha256"},
	}
	scalarMember = row{first: 14}           // a scalar with a name that is not in these rows
	valueMember  = row{first: 24}           // an object or list with such a name
	falseMember  = row{first: 16}           // added for false and 0
	sameAgain    = row{first: 48}           // added for an object that was ranked before, byte for byte
	otherName    = row{first: 16}           // added for a long id beside a number, an address for programs beside one for people
	usual        = row{first: 32}           // added for a value that the item before and the first item have, too
	hollow       = row{first: 160}          // an empty member
	telling      = row{first: 4}            // at most, for a member that says that an item failed
	dropped      = row{first: 192}          // a member that the configuration drops
	nested       = row{first: 36}           // the members of an object in an object: shallow before deep
	ofEntry      = row{first: 32}           // the contents of an entry of a map: names before contents
	large        = row{fall: 8}             // a value of k times 64 bytes
	longText     = row{first: 36}           // a text over 200 characters, for its first line
	part         = row{fall: 8}             // a part of the answer: three from the head and one from the tail, in turns
	item         = row{fall: 14}            // an item of a list, entry of a map, piece of a line: in the same turns
	failedItem   = row{first: 4, fall: 16}  // an item that says it failed
	fromHead     = row{first: 4, fall: 20}  // a line from the head
	fromTail     = row{first: 4, fall: 20}  // a line from the tail
	cause        = row{first: 1, fall: 6}   // a line that says what was thrown, what will be lost
	behindCause  = row{first: 8}            // the line after it, if it ends with a colon
	inState      = row{first: 4, fall: 8}   // a line with a state in which things do not work
	oddRow       = row{first: 12, fall: 24} // a row that stands out in a table
	oddItem      = row{first: 24, fall: 24} // an item that differs from nearly all others
	failure      = row{first: 4, fall: 4}   // a line that names what failed
	anError      = row{first: 4, fall: 16}  // a line that looks like an error, the last one first
	behindError  = row{first: 15}           // each of the two lines after it
	section      = row{first: 5, fall: 2}   // a heading, a signature, the first hit in a file
	ofCommit     = row{first: 3}            // the subject of a commit
	behindHead   = row{first: 20}           // the first line below a heading
	level        = row{first: 5}            // each level of it: the outermost first
	inSource     = row{first: 48}           // added for errors in a program or in prose with headings
	rare         = row{first: 30, fall: 16} // a line unlike all others, the last one first
	anywhere     = row{first: 56, fall: 16} // an even spread
	restOf64     = row{first: 255 * bit}    // base64 after its first characters: it is last of all
	inHead       = row{first: 64}           // added for what a browser does not show
)

const (
	longID       = 20 // bytes
	mostCompared = 64 // members that are compared with those of other items
	linesBehind  = 2
	linesOfTags  = 4  // at most, between the beginning of a heading and its text
	ofRow        = 16 // lines of a row of HTML
	ofConflict   = 12 // lines between the marks of a conflict
	aloneFor     = 16 // so many lines of an even spread stand alone; the others are in runs
	runLength    = 8
)

// at returns how far the k-th node of a row ranks behind the node it is in.
func (r row) at(k int) rank { return r.first + lg(k)*r.fall/16 }

// lg returns about log₂(1+n), in sixteenths of a bit.
func lg(n int) rank {
	x := uint64(n) + 1
	whole := bits.Len64(x) - 1
	return rank(whole*bit + int(x<<4>>whole) - bit)
}

// turn returns the position of the i-th of n entries when three are taken from
// the head and one from the tail, in turns.
func turn(i, n int) int { return min(i+i/3, 3+4*(n-1-i)) }

// names holds the rank of each name in members.
var names = func() map[string]rank {
	m := make(map[string]rank)
	for _, r := range members {
		for _, n := range strings.Fields(r.names) {
			m[n] = r.first
		}
	}
	return m
}()

// rank ranks the children of a node, and queues them.
func (p *Plan) rank(n uint32) {
	at, kids, isMap := p.at(n), p.kids(n), p.isMap(n)
	switch {
	case at.kind == object && !isMap:
		p.rankMembers(n, kids)
	case at.kind == text:
		p.rankLines(n, kids)
	default:
		p.rankItems(kids)
	}
	base := at.rank
	if at.kind == object && p.at(at.up).kind == object && !holdsMembers[string(plainName(p.name(n)))] {
		base += nested.first
	}
	if p.is(n, entry) {
		base += ofEntry.first
	}
	for i := range kids {
		k := &kids[i]
		switch {
		case k.kind == quoted && k.is&unit == 0:
			k.rank += longText.first
		case k.is&unit != 0 && k.kind != piece && k.kind != line && k.kind != text:
			k.rank += large.at(int(k.end-k.pos) / 64)
		case isMap:
			k.is |= entry
		}
		if k.rank = min(base+k.rank, last); at.kind == object && p.docs[k.doc].telling[k.at] {
			k.rank = min(k.rank, at.rank+telling.first)
		}
		q, n := &p.queue[k.rank], at.first+uint32(i)
		if q.last > 0 {
			p.at(q.last).kept = n
		} else {
			q.first = n
		}
		q.last = n
	}
}

func (p *Plan) rankMembers(n uint32, kids []node) {
	var before [2]uint32 // the items to compare with: the first one and the one before
	if up := p.at(n).up; p.at(up).kind == list && n > p.at(up).first && len(kids) <= mostCompared {
		before = [2]uint32{p.at(p.at(up).first).at, p.at(n - 1).at}
	}
	named, page := false, false // it has a shorter name than its id, an address for people
	for i := range kids {
		switch string(plainName(p.docs[kids[i].doc].Name(kids[i].at))) {
		case "number", "identifier", "key":
			named = true
		case "htmlurl", "weburl":
			page = true
		}
	}
	for i := range kids {
		d, k := &p.docs[kids[i].doc], &kids[i]
		value := d.Raw(k.at)
		if wire.Hollow(value) && !p.KeepEmpty {
			k.rank = hollow.first
			continue
		}
		k.rank = p.member(d.Name(k.at), value)
		if string(value) == "false" || string(value) == "0" {
			k.rank += falseMember.first
		}
		switch name := string(d.Name(k.at)); {
		case name == "id" && named && len(value) > longID, name == "url" && page:
			k.rank += otherName.first
		case before[0] > 0 && tree.Scalar(value) && d.same(before[0], name, value) && d.same(before[1], name, value):
			k.rank += usual.first
		}
		if p.again(value) {
			k.rank += sameAgain.first
		}
	}
}

// same reports whether an object has a member of that name and value.
func (d *doc) same(at uint32, name string, value []byte) bool {
	for m := at + 1; m < d.Nodes[at].Next; m = d.Nodes[m].Next {
		if string(d.Name(m)) == name {
			return bytes.Equal(d.Raw(m), value)
		}
	}
	return false
}

// member returns how far a member ranks behind its object, by its name.
func (p *Plan) member(name, value []byte) rank {
	switch {
	case slices.Contains(p.Keep, string(name)):
		return 0
	case slices.Contains(p.Drop, string(name)):
		return dropped.first
	}
	var room [64]byte
	plain, word := room[:0], 1 // where its last word begins: created_at, but not format
	for i, c := range name[:min(len(name), len(room)-1)] {
		switch {
		case c == '_' || c == '-':
			word = len(plain) + 1
			continue
		case i > 0 && c >= 'A' && c <= 'Z' && name[i-1] >= 'a':
			word = len(plain) + 1
		}
		plain = append(plain, c|0x20)
	}
	if first, ok := names[string(plain)]; ok {
		return first
	}
	if word > 1 && word <= len(plain) {
		plain[word-2] = '*'
		if first, ok := names[string(plain[word-2:])]; ok {
			return first
		}
	}
	if tree.Scalar(value) {
		return scalarMember.first
	}
	return valueMember.first
}

var seed = maphash.MakeSeed()

// again reports whether the same object, byte for byte, was ranked before. For
// example, each issue of a list has the same repository.
func (p *Plan) again(raw []byte) bool {
	if raw[0] != '{' || len(raw) < 64 || len(raw) > 1<<14 {
		return false
	}
	sum := maphash.Bytes(seed, raw)
	if !p.seen[sum] && len(p.seen) < maxSeen {
		p.seen[sum] = true
		return false
	}
	return p.seen[sum]
}

// isMap reports whether a node is an object that is a map: it has many members,
// and most of them are of one kind.
func (p *Plan) isMap(n uint32) bool {
	if p.at(n).kind != object {
		return false
	}
	d, at := p.docOf(n), p.at(n).at
	if d.Nodes[at].Count < mapLength {
		return false
	}
	same, looked := 0, 0
	for m := at + 1; m < d.Nodes[at].Next && looked < 32; m = d.Nodes[m].Next {
		if looked++; d.src[d.Nodes[m].Pos] == d.src[d.Nodes[at+1].Pos] {
			same++
		}
	}
	return same*4 >= looked*3
}

// rankItems ranks items, entries of a map, pieces of a line, and parts.
func (p *Plan) rankItems(kids []node) {
	var failed []int
	var hidden spans
	if len(kids) > 0 && kids[0].kind == piece {
		hidden = p.docs[kids[0].doc].hidden()
	}
	links, passed := rank(0), 0
	for i := range kids {
		k, d := &kids[i], &p.docs[kids[i].doc]
		switch k.rank = item.at(turn(i, len(kids))); {
		case k.up == 0 && d.part.Solid: // the last ones are dropped first
			links = max(links, lg(i)+lg(len(d.src)/64))
			k.rank = links
		case k.up == 0:
			k.rank = part.at(turn(i, p.open))
		case k.kind == object && d.failed(k.at, 0):
			failed = append(failed, i)
		case k.is&dull != 0:
			k.rank = restOf64.first
		case len(hidden) > 0 && hidden.has(k.pos, k.end) && !bytes.Contains(d.src[k.pos:k.end], []byte("<title")):
			k.rank += inHead.first
			passed++
		case passed > 0:
			k.rank = item.at(turn(i-passed, len(kids)-passed))
		}
	}
	if len(kids) > 0 && kids[0].kind == piece {
		p.rankOddRows(kids)
		return
	}
	if len(kids) < 5 {
		return
	}
	if len(failed) > len(kids)/4 { // that is the usual case here
		failed = nil
	}
	for k, i := range failed {
		kids[i].rank = min(kids[i].rank, failedItem.at(k))
	}
	for k, i := range p.oddItems(kids) {
		kids[i].rank = min(kids[i].rank, oddItem.at(k))
	}
}

// oddItems returns the items of a list of objects or of lists that stand out.
func (p *Plan) oddItems(kids []node) []int {
	if len(kids) < 2*fewestRows {
		return nil
	}
	g := new(grid)
	var all []int
	for i := range kids {
		if len(g.sums) == mostRows {
			all, g = append(all, moved(g.odd(0, 0, 2*oddShare), i-mostRows)...), new(grid)
		}
		g.row()
		k, d := &kids[i], &p.docs[kids[i].doc]
		if k.kind != object && k.kind != list || len(d.Nodes) == 0 {
			return nil
		}
		if k.kind == object {
			p.addMembers(g, d, k.at, 0, 0)
			continue
		}
		column := 0
		for m := k.at + 1; m < d.Nodes[k.at].Next && column < maxCells; m = d.Nodes[m].Next {
			g.cell(column, d.cell(m))
			column++
		}
	}
	return append(all, moved(g.odd(0, 0, 2*oddShare), len(kids)-len(g.sums))...)
}

// cell returns what is compared of a value.
func (d *doc) cell(at uint32) []byte {
	text := d.Raw(at)
	switch {
	case d.Nodes[at].Count > 0, text[0] == '{', text[0] == '[':
		return text[:1]
	case text[0] == '"':
		return text[1 : len(text)-1]
	}
	return text
}

// addMembers adds the members of an object to the last row of a grid, and those of objects in it. in is the hash of the
// names that lead to the object.
func (p *Plan) addMembers(g *grid, d *doc, at, in uint32, depth int) {
	for m := at + 1; m < d.Nodes[at].Next; m = d.Nodes[m].Next {
		name, value := d.Name(m), d.Raw(m)
		if value[0] == '{' && d.Nodes[m].Count > 0 && depth < maxStates {
			p.addMembers(g, d, m, in*31+sumOf(name), depth+1)
			continue
		}
		if p.member(name, value) > scalarMember.first {
			continue // a description, a time, an address
		}
		if c := g.named(in*31 + sumOf(name)); c >= 0 {
			g.cell(c, d.cell(m))
		}
	}
}

func moved(rows []int, by int) []int {
	for i := range rows {
		rows[i] += by
	}
	return rows
}

// rankLines ranks the lines of a text. If a line is in several rows, the
// earliest rank counts.
func (p *Plan) rankLines(n uint32, kids []node) {
	count := len(kids)
	earlier := func(i int, r rank) { kids[i].rank = min(kids[i].rank, r) }
	hidden := p.docOf(n).hidden()
	for i, seen, unseen := 0, 0, 0; i < count; i++ {
		if len(hidden) > 0 && hidden.has(kids[i].pos, kids[i].end) {
			kids[i].rank = fromHead.at(unseen)
			unseen++
			continue
		}
		kids[i].rank = min(fromHead.at(seen), fromTail.at(count-1-i))
		seen++
	}
	for j := range min(count, 1<<13) {
		point, next := j, 0
		if j >= aloneFor { // runs of lines, because each gap costs a line
			point, next = aloneFor+(j-aloneFor)/runLength, (j-aloneFor)%runLength
		}
		if i := int(uint64(bits.Reverse32(uint32(point)))*uint64(count)>>32) + next; i < count { // van der Corput
			earlier(i, anywhere.at(j))
		}
	}
	s := p.survey(n)
	for k, m := range s.sections {
		r := section.at(k) + level.first*rank(max(m.level, 0))
		earlier(m.line, r)
		if i := p.subject(n, m.line); i > 0 {
			earlier(i, r+ofCommit.first)
		}
		if s.prose {
			says := func(i int) bool { // and is no line of tags
				return i < count && len(textIn(p.raw(p.at(n).first+uint32(i)))) > 0
			}
			i := m.line
			for i < m.line+linesOfTags && !says(i) {
				i++
			}
			if says(i) {
				earlier(i, r) // <h2> may stand alone
			}
			for i++; i < m.line+2*linesOfTags && !says(i); {
				i++
			}
			if says(i) && FenceOf(p.raw(p.at(n).first+uint32(i))) == "" {
				earlier(i, r+behindHead.first)
			}
		}
	}
	late := rank(0)
	if s.source {
		late = inSource.first
	}
	for k, i := range s.causes {
		r := late + cause.at(min(2*k, 2*(len(s.causes)-k)-1))
		earlier(i, r)
		if text := bytes.TrimRight(p.raw(p.at(n).first+uint32(i)), " \r\n"); i+1 < count && (bytes.HasSuffix(text, []byte(":")) || bytes.HasSuffix(text, []byte("*"))) {
			earlier(i+1, r+behindCause.first)
		}
	}
	for k, i := range s.states {
		earlier(i, late+inState.at(k))
		if raw := func(d int) []byte { return p.raw(p.at(n).first + uint32(i+d)) }; bytes.HasPrefix(raw(0), []byte(conflictBegins)) {
			for d := 1; d <= ofConflict && i+d < count && !bytes.HasPrefix(raw(d), []byte(conflictEnds)); d++ {
				earlier(i+d, late+inState.at(k)+behindCause.first)
			}
		}
	}
	for k, i := range s.odd {
		earlier(i, oddRow.at(k))
	}
	p.rankOddRows(kids)
	for k, i := range s.failures {
		earlier(i, late+failure.at(turn((k+1)%len(s.failures), len(s.failures)))) // the last one first: it sums up
	}
	for _, lines := range [][]int{s.failures, s.errors} {
		for k, i := range lines {
			for d := range min(1+linesBehind, count-i) {
				earlier(i+d, late+anError.at(k)+rank(d)*behindError.first)
			}
		}
	}
	for k, i := range s.rare {
		earlier(i, rare.at(k))
	}
	for i := range kids {
		if len(hidden) > 0 && hidden.has(kids[i].pos, kids[i].end) && !bytes.Contains(p.docOf(n).src[kids[i].pos:kids[i].end], []byte("<title")) {
			kids[i].rank += inHead.first
		}
	}
	p.rankWrapped64(n, kids)
	for _, b := range s.code { // the fences of a block are kept as long as any line of it is
		first := last
		for i := b.open; i <= b.shut; i++ {
			first = min(first, kids[i].rank)
		}
		kids[b.open].rank, kids[b.shut].rank = first, first
	}
}

// subject returns the line with the subject of a commit in a log of git, or 0 if the line is not the beginning of one.
func (p *Plan) subject(n uint32, line int) int {
	raw := func(i int) []byte { return p.raw(p.at(n).first + uint32(i)) }
	if !bytes.HasPrefix(raw(line), []byte("commit ")) {
		return 0
	}
	for i := line + 1; i < min(line+longHeader, int(p.at(n).count)); i++ {
		if text := raw(i); bytes.HasPrefix(text, []byte("    ")) {
			return i
		} else if bytes.IndexByte(text, ':') < 0 { // no Author: …
			break
		}
	}
	return 0
}

// longHeader is how many lines there may be from a commit to its subject.
const longHeader = 10

// least64 is how many lines of base64 there are at least in one that is wrapped.
const least64 = 4

// rankWrapped64 ranks the lines of base64 that is wrapped last, but for its first line.
func (p *Plan) rankWrapped64(n uint32, kids []node) {
	src, first, width := p.docOf(n).src, 0, 0 // all lines but the last one are of one length
	for i := range len(kids) + 1 {
		var line []byte
		if i < len(kids) && kids[i].is&unit != 0 {
			if line = bytes.TrimLeft(lineOf(src, &kids[i]), " \t"); wrapped64(line) && (first == i || len(line) == width) {
				width = len(line)
				continue
			}
		}
		if i-first >= least64 {
			end := i
			if len(line) > 0 && onlyBase64(line) { // the last line is shorter
				end++
			}
			for k := first + 1; k < end; k++ {
				kids[k].rank, kids[k].is = restOf64.first, kids[k].is|dull
			}
		}
		first = i + 1
	}
}

// hidden returns the places in a text that a browser does not show.
func (d *doc) hidden() spans {
	d.read()
	return d.unseen
}

// read looks at a text as HTML, once.
func (d *doc) read() {
	if !d.looked {
		d.looked, d.unseen, d.oddRows = true, notShown(d.src), oddRowsOf(d.src)
	}
}

// rankOddRows ranks what is in the rows of HTML that stand out: lines, or pieces of a line.
func (p *Plan) rankOddRows(kids []node) {
	if len(kids) == 0 || len(p.docs[kids[0].doc].oddRows) == 0 {
		return
	}
	d := &p.docs[kids[0].doc]
	for k, row := range d.oddRows {
		i, _ := slices.BinarySearchFunc(kids, row.from, func(n node, from uint32) int { return cmp.Compare(n.end, from+1) })
		for n := 0; i < len(kids) && kids[i].pos < row.to && n < ofRow; i++ {
			if text := d.src[max(kids[i].pos, row.from):min(kids[i].end, row.to)]; len(textIn(text)) > 0 {
				kids[i].rank = min(kids[i].rank, oddRow.at(k))
				n++
			}
		}
	}
}
