package fit

import (
	"bytes"
	"math"
	"math/bits"
)

// A rank says how early a unit is kept: it is the number of bits by which the
// unit is less worth than the answer as a whole, in sixteenths. The rank of a
// member or line is that of what it is in and more, so whatever is kept has its
// place; and it does not depend on the budget.
type rank = uint16

const (
	bit  = 16
	last = 255 * bit // no unit ranks behind it
)

func add(base rank, more int) rank { return rank(min(int(base)+max(0, more), last)) }

// lg is log₂(1+n) in sixteenths of a bit, about: what the n-th of many is behind
// the first.
func lg(n int) int {
	x := uint64(n) + 1
	whole := bits.Len64(x) - 1
	return whole*bit + int(x<<4>>whole) - bit
}

// What ranks before what. All numbers are sixteenths of a bit: one bit (16) is as
// much as half of a list, two are three quarters of it.
const (
	deeper      = 36       // an object in an object: shallow before deep
	ofEntry     = 32       // what is in an entry of a map: names before contents
	perItem     = 16       // of sixteen: how fast the items of a list fall behind one another
	failedItem  = 4        // an item that says it failed, before all but the first ones
	longText    = 36       // a text over 200 characters, for its first line
	otherBlock  = 8        // a block behind the first
	restOfLine  = 24       // the rest of a line that is longer than a piece
	restOfCode  = 12 * bit // base64 behind its first characters
	kindOfHead  = 4        // lines from the head
	kindOfTail  = 4        // lines from the tail
	kindOfError = 4        // lines that name what failed, and lines that look like errors, the last one first
	kindOfTitle = 5        // headings and signatures, the outermost first, and the first hit in each file
	kindOfAny   = 56       // an even spread
	linesBehind = 2        // how many lines behind an error rank by it
	behindError = 15       // each line behind an error
	errorInText = 48       // errors in source code, and in prose with headings
	perFailed   = 4        // of sixteen: how fast lines that name what failed fall behind one another
	perLevel    = 7        // each level of a heading or signature
	perTitle    = 4        // of sixteen: how fast headings fall behind one another
	repeated    = 48       // an object that was there before, as it is
)

// memberKinds is what members are behind the first, by their names: in lower case,
// without _ and -. A name counts by its whole, then by its end.
var memberKinds = []struct {
	bits  int
	names []string
	ends  []string
}{
	// which thing it is
	{0, []string{"id", "name", "title", "key", "path", "number", "identifier", "fullname", "summary", "subject", "symbol", "filename", "sku"}, nil},
	// what state it is in, and how many there are
	{4, []string{"status", "state", "type", "kind", "count", "total", "totalcount", "error", "errors", "message", "reason", "code", "conclusion", "success", "exitcode", "severity", "level", "result", "isError", "version", "login", "label", "priority", "failuremessages"}, []string{"error", "status", "count"}},
	// where a list goes on
	{4, []string{"nextcursor", "endcursor", "hasmore", "hasnextpage", "pageinfo", "pagination"}, nil},
	// what it is in, and who has it
	{24, []string{"description", "body", "text", "content", "stdout", "stderr", "output", "data", "value", "url", "htmlurl", "uri", "href", "user", "author", "assignee", "owner", "labels", "plaintext", "richtext", "lines", "matches", "results", "items", "nodes", "children", "entries"}, nil},
	// times, and who wrote it when
	{56, []string{"date", "time", "timestamp", "created", "updated", "createdby", "lasteditedby", "updatedby", "parent"}, []string{"at", "date", "time", "timestamp"}},
	// addresses for programs
	{48, []string{"nodeid", "avatarurl", "gravatarid", "etag", "links", "performedviagithubapp"}, []string{"url", "href"}},
	// what only programs read
	{128, []string{"sha", "hash", "integrity", "checksum", "signature", "digest", "verification", "resolved", "requestid", "traceid"}, []string{"hash", "signature", "token", "sha256"}},
}

const (
	otherMember = 14  // a name that is not in the table
	otherObject = 24  // and an object or list under such a name
	falseMember = 16  // false, and 0, behind what else would have that name
	hollow      = 160 // an empty member
	dropped     = 192 // a member that the configuration drops
)

// names gives what a member is behind the first by its name as it is written.
type names struct {
	known map[string]int
	keep  map[string]bool
	drop  map[string]bool
	empty bool // empty members are like others
}

func newNames(o Options) *names {
	return &names{known: make(map[string]int), keep: set(o.Keep), drop: set(o.Drop), empty: o.KeepEmpty}
}

func set(names []string) map[string]bool {
	m := make(map[string]bool)
	for _, n := range names {
		m[n] = true
	}
	return m
}

// maxKnown bounds how many names are remembered.
const maxKnown = 4096

func (n *names) bits(name []byte) int {
	if b, ok := n.known[string(name)]; ok {
		return b
	}
	b := n.look(name)
	if len(n.known) < maxKnown {
		n.known[string(name)] = b
	}
	return b
}

func (n *names) look(name []byte) int {
	if n.keep[string(name)] {
		return 0
	}
	if n.drop[string(name)] {
		return dropped
	}
	if len(name) > 64 {
		return otherMember + lg(len(name))
	}
	plain := make([]byte, 0, len(name))
	for _, c := range name {
		if c != '_' && c != '-' {
			plain = append(plain, c)
		}
	}
	plain = bytes.ToLower(plain)
	for _, k := range memberKinds {
		for _, whole := range k.names {
			if string(plain) == whole {
				return k.bits
			}
		}
	}
	for _, k := range memberKinds {
		for _, end := range k.ends {
			// created_at, but not format
			if bytes.HasSuffix(plain, []byte(end)) && boundary(name, len(end)) {
				return k.bits
			}
		}
	}
	return otherMember
}

// boundary reports whether the last n letters of a name are a word of it.
func boundary(name []byte, n int) bool {
	i := len(name) - n
	return i > 0 && (name[i-1] == '_' || name[i-1] == '-' || name[i] >= 'A' && name[i] <= 'Z')
}

// turn is when the i-th of n items has its turn: three from the head, one from
// the tail.
func turn(i, n int) int {
	head, tail := i+i/3, 3+4*(n-1-i)
	return min(head, tail)
}

// unspread is how many places of an even spread are looked at.
const unspread = 1 << 13

// spread calls f with places in n, in an order that covers it evenly from the
// first few on.
func spread(n int, f func(j, at int)) {
	for j := range min(n, unspread) {
		x := bits.Reverse32(uint32(j)) // van der Corput
		f(j, int(uint64(x)*uint64(n)>>32))
	}
}

const none = math.MaxUint16 // the rank of what is no unit
