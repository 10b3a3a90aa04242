package openapi

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The limits of documents.
const (
	MaxDocument = 64 << 20  // bytes of a JSON document
	maxYAML     = 16 << 20  // bytes of a YAML document, whose parser needs more memory
	maxNodes    = 2_500_000 // values in all documents together
	maxNesting  = 500       // levels
)

// node is one value of a document. A nil node is an absent value: its methods return what
// they return for a value of another kind.
type node struct {
	kind wire.ValueKind
	file uint16 // index in Document.sources
	line int32
	text string   // of a scalar; of a number as it is written
	keys []string // of an object, in the order of the document
	kids []*node  // of an object or array
}

func (n *node) is(k wire.ValueKind) bool { return n != nil && n.kind == k }

// get returns the member of an object, or nil.
func (n *node) get(key string) *node {
	if n == nil || n.kind != wire.Object {
		return nil
	}
	if i := slices.Index(n.keys, key); i >= 0 {
		return n.kids[i]
	}
	return nil
}

// str returns the text of a string member, or "".
func (n *node) str(key string) string {
	if v := n.get(key); v.is(wire.String) {
		return v.text
	}
	return ""
}

// word returns the text of a scalar member, or "".
func (n *node) word(key string) string {
	if v := n.get(key); v != nil && v.kind < wire.Array && v.kind != wire.Null {
		return v.text
	}
	return ""
}

// flag reports whether a member is true.
func (n *node) flag(key string) bool {
	v := n.get(key)
	return v.is(wire.Boolean) && v.text == "true"
}

// list returns the elements of an array member.
func (n *node) list(key string) []*node {
	if v := n.get(key); v.is(wire.Array) {
		return v.kids
	}
	return nil
}

// elements returns the elements of an array.
func (n *node) elements() []*node {
	if n.is(wire.Array) {
		return n.kids
	}
	return nil
}

// strs returns the texts in a member that is a list of strings.
func (n *node) strs(key string) (out []string) {
	for _, v := range n.list(key) {
		if v.kind == wire.String {
			out = append(out, v.text)
		}
	}
	return out
}

// object returns a new object with these members: keys and values in turn. Its place is
// that of at.
func object(at *node, members ...any) *node {
	n := &node{kind: wire.Object}
	if at != nil {
		n.file, n.line = at.file, at.line
	}
	for i := 0; i+1 < len(members); i += 2 {
		v, _ := members[i+1].(*node)
		if v != nil {
			n.keys, n.kids = append(n.keys, members[i].(string)), append(n.kids, v)
		}
	}
	return n
}

func text(s string) *node       { return &node{kind: wire.String, text: s} }
func array(list ...*node) *node { return &node{kind: wire.Array, kids: list} }
func boolean(b bool) *node      { return &node{kind: wire.Boolean, text: strconv.FormatBool(b)} }
func (n *node) scalar() bool    { return n != nil && n.kind < wire.Array && n.kind != wire.Null }
func (n *node) size() int       { return len(n.JSON(nil)) }
func (n *node) equal(o *node) bool {
	return n != nil && o != nil && n.kind == o.kind && string(n.JSON(nil)) == string(o.JSON(nil))
}

// maxJSON is the largest size of a value that is written as JSON, such as an example.
const maxJSON = 1 << 20

// JSON appends the value to dst as JSON. It writes null in place of what exceeds maxJSON or
// is nested too deep, which is only possible with aliases of YAML.
func (n *node) JSON(dst []byte) []byte { return n.json(dst, 0) }

func (n *node) json(dst []byte, depth int) []byte {
	if n == nil || len(dst) > maxJSON || depth > maxNesting {
		return append(dst, "null"...)
	}
	switch n.kind {
	case wire.Boolean, wire.Number:
		return append(dst, n.text...)
	case wire.String:
		return wire.AppendQuoted(dst, n.text)
	case wire.Array:
		dst = append(dst, '[')
		for _, v := range n.kids {
			dst = wire.Comma(dst)
			dst = v.json(dst, depth+1)
		}
		return append(dst, ']')
	case wire.Object:
		dst = append(dst, '{')
		for i, v := range n.kids {
			dst = wire.AppendName(dst, n.keys[i])
			dst = v.json(dst, depth+1)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// Error is a reason why a document cannot be read.
type Error struct {
	File    string
	Line    int // 0 if it is not known
	Message string
}

func (e *Error) Error() string {
	s := e.File
	if e.Line > 0 {
		s += ":" + strconv.Itoa(e.Line)
	}
	return s + ": " + e.Message
}

// quoted returns a name of a document for a message: short, on one line, in quotes.
func quoted(s string) string { return strconv.Quote(short(s)) }

// short returns a text of a document for a message.
func short(s string) string {
	if t := clean.Text(s, 80); t == s {
		return t
	}
	return clean.Text(s, 79) + "…"
}

// builder makes the nodes of one source and counts those of all sources.
type builder struct {
	name  string
	file  uint16
	count *int
	notes []string // what is odd, but no reason to refuse the document

	exceeded bool // a limit is reached
}

func (b *builder) add(kind wire.ValueKind, line int) (*node, error) {
	if *b.count++; *b.count > maxNodes {
		b.exceeded = true
		return nil, b.fail(line, fmt.Sprintf("more than %d values", maxNodes))
	}
	return &node{kind: kind, file: b.file, line: int32(line)}, nil
}

func (b *builder) fail(line int, msg string) error { return &Error{b.name, line, msg} }

// twice notes that an object has a key twice.
func (b *builder) twice(key string, line int) {
	if len(b.notes) < 20 {
		b.notes = append(b.notes, fmt.Sprintf("%s:%d: %s is given twice; the last one counts", b.name, line, quoted(key)))
	}
}

// member adds a member to n. seen has the indexes of its keys; it is nil for few keys.
func (b *builder) member(n *node, key string, v *node, line int, seen map[string]int) {
	if i := n.find(key, seen); i >= 0 {
		b.twice(key, line)
		n.kids[i] = v
		return
	}
	if seen != nil {
		seen[key] = len(n.keys)
	}
	n.keys, n.kids = append(n.keys, key), append(n.kids, v)
}

// find returns the index of a key, or -1.
func (n *node) find(key string, seen map[string]int) int {
	if seen == nil {
		return slices.Index(n.keys, key)
	}
	if i, ok := seen[key]; ok {
		return i
	}
	return -1
}

// manyKeys is the number of keys from which on they are looked up in a map.
const manyKeys = 16

// index returns a map of the keys of n once there are many of them.
func index(n *node, seen map[string]int) map[string]int {
	if seen != nil || len(n.keys) < manyKeys {
		return seen
	}
	seen = make(map[string]int, 2*len(n.keys))
	for i, k := range n.keys {
		seen[k] = i
	}
	return seen
}
