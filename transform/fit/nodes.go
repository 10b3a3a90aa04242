package fit

import (
	"github.com/dragoman-proxy/dragoman/transform/schema"
	"github.com/dragoman-proxy/dragoman/transform/tree"
)

// nodes holds the nodes of a plan by their numbers. Siblings lie side by side, and no node
// ever moves, so a pointer to one stays valid.
type nodes struct {
	pages [][]node // pageNodes numbers each; a page reaches to the end of the memory it is in
	next  uint32   // the number of the next node
}

const pageNodes = 512

// at returns the node with number n.
func (s *nodes) at(n uint32) *node { return &s.pages[n/pageNodes][n%pageNodes] }

// makeRoom makes room for the children of a node, which are at most count, to lie side by side.
func (s *nodes) makeRoom(up uint32, count int) {
	if room := len(s.pages) * pageNodes; int(s.next)+count > room {
		s.next = uint32(room)
		memory := make([]node, (count+pageNodes-1)/pageNodes*pageNodes)
		for ; len(memory) > 0; memory = memory[pageNodes:] {
			s.pages = append(s.pages, memory)
		}
	}
	s.at(up).first = s.next
}

// add adds a child to a node, for which makeRoom has made room.
func (s *nodes) add(up uint32, n node) {
	n.up = up
	*s.at(s.next) = n
	s.next++
	s.at(up).count++
}

// kids returns the children of a node.
func (s *nodes) kids(n uint32) []node {
	first, count := s.at(n).first, s.at(n).count
	if count == 0 {
		return nil
	}
	return s.pages[first/pageNodes][first%pageNodes:][:count]
}

// clearKept sets kept of all nodes to 0.
func (s *nodes) clearKept() {
	for _, page := range s.pages {
		for i := range page[:pageNodes] {
			page[i].kept = 0
		}
	}
}

// A node is a part of an answer, or of another node. Its children stand side by
// side in Plan.nodes; expand makes them when they are needed.
type node struct {
	up, first, count uint32 // the node it is in, its first child, and the number of its children
	doc, pos, end    uint32 // its document, and where it begins and ends there
	at               uint32 // its node in the document, or its number as a line
	kept             uint32 // units in it that are marked; while nodes are ranked, the next node of its rank
	rank             rank
	kind             kind
	is               trait
}

// A kind is the first byte of a JSON value, or one of these.
type kind byte

type trait byte

// A clip is the beginning of the unit after the last one that is kept: as many
// bytes of it as there is room for.
type clip struct {
	node  uint32
	bytes int
}

// A rank says how early a unit is kept. It is the number of bits by which the
// unit is worth less than the answer as a whole, in sixteenths of a bit. The
// rank of a node is that of the node it is in, or more, so that no unit is kept
// before the nodes it is in. It does not depend on the budget.
type rank = uint16

const (
	bit       = 16
	last rank = 255 * bit // no rank is higher
)

const (
	object kind = '{'
	list   kind = '['
	quoted kind = '"' // a string; if it is long, its content is its one child
	text   kind = 't' // lines
	line   kind = 'l' // a line; if it is long, its pieces are its children
	piece  kind = 'p'
)

const (
	unit     trait = 1 << iota // it is kept as a whole or not at all
	demanded                   // a schema demands it as long as the node it is in is kept
	ordered                    // a list in which the place of an item determines what a schema asks of it
	entry                      // of a map: its name is a unit, before its contents
	dull                       // the rest of base64: it is kept whole or not at all
	shown                      // it was in an earlier part of an answer that is now read further
)

const (
	longString  = 200 // bytes: a longer string is a text
	rowLength   = 100 // bytes of a short flat object or list, which is a unit
	pieceLength = 160 // about how many bytes of a long line are a unit
	firstOf64   = 24  // bytes at the beginning of base64 that are a unit
	mapLength   = 24  // an object with fewer members is not a map
	maxInner    = 3   // how deep JSON in strings is parsed
)

// A doc is the text that nodes stand in: a part, or a string inside a part.
type doc struct {
	*tree.Document // empty if it is not JSON
	src            []byte
	part           *Part
	depth          int
	unseen         spans // what a browser does not show, once looked is set
	oddRows        spans // of tables of HTML, once looked is set
	looked         bool
	telling        map[uint32]bool // members that say that something went wrong, and those they are in
}

// noDocument is that of all texts that are not JSON.
var noDocument = new(tree.Document)

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
	Marker     string   // stands at the end of a JSON string that is cut, in place of "…"; a %d in it becomes the number of characters left out

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

func (p *Plan) docOf(n uint32) *doc { return &p.docs[p.at(n).doc] }

func (p *Plan) is(n uint32, t trait) bool { return p.at(n).is&t != 0 }

func (p *Plan) raw(n uint32) []byte { return p.docOf(n).src[p.at(n).pos:p.at(n).end] }

// name returns the name of a member, or nil if the node is not a member.
func (p *Plan) name(n uint32) []byte {
	if d := p.docOf(n); len(d.Nodes) > 0 && n > 0 {
		return d.Name(p.at(n).at)
	}
	return nil
}

// end returns the index after the last child of a node.
func (p *Plan) end(n uint32) uint32 { return p.at(n).first + p.at(n).count }

// A queue holds the nodes of each rank, in the order in which they were added.
type queue [last + 1]struct{ first, last uint32 }

// A reading is the state of a plan that continues in the order of the document.
type reading struct {
	isReading bool
	apart     uint32 // the text inside a document in which reading begins: it is written as a text of its own
	target    uint32 // the node that is read
	begin     uint32 // the node where reading begins
	byCount   bool   // a number of entries is read, not all up to the end
	from, to  int    // the first of these entries, and the one after the last
}
