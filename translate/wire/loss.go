package wire

import "strconv"

// Level is how loudly a loss is reported.
type Level uint8

// The levels of the logging contract: what held nothing is Info, what held
// something is Warn; what belongs to the protocol's own envelope is Debug.
const (
	Debug Level = iota
	Info
	Warn
)

// String is the level in capitals.
func (l Level) String() string { return [...]string{"DEBUG", "INFO", "WARN"}[l] }

// Loss is what one rule took from one message, or changed in it.
type Loss struct {
	Rule    string // the rule's number: "C01"
	What    string // the member or thing: "title"
	Level   Level  // the loudest of all its places
	Count   int    // in how many places
	Standin bool   // a stand-in keeps the meaning
	Path    Path   // the first place
}

// Place is one place of a loss.
type Place struct {
	Rule, What string
	Level      Level
	Path       string // result.tools[3].title, result["a key"].x
}

// counted is an element, and how many are before it.
type counted struct{ node, index uint32 }

// AppendPath writes the way to the value behind dst, each member by the name that
// it has.
func (n Node) AppendPath(dst []byte) []byte {
	if n.i == 0 {
		return dst
	}
	at := n.node()
	dst = Node{n.m, at.parent}.AppendPath(dst)
	if n.Element() {
		return append(strconv.AppendUint(append(dst, '['), uint64(n.m.indexOf(n.i, at.parent)), 10), ']')
	}
	name := AppendUnescaped(nil, n.Key())
	if !isPlain(name) {
		return append(append(append(dst, `["`...), n.Key()...), `"]`...)
	}
	if at.parent != 0 {
		dst = append(dst, '.')
	}
	return append(dst, name...)
}

// isPlain reports whether a name can stand in a path as it is.
func isPlain(name []byte) bool {
	for _, c := range name {
		if !(c == '_' || c == '$' || c == '-' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z') {
			return false
		}
	}
	return len(name) > 0
}

// indexOf counts the elements before i, from where it was last counted to: rules go
// through arrays from the front.
func (m *Message) indexOf(i, array uint32) uint32 {
	if m.counted == nil {
		m.counted = make(map[uint32]counted)
	}
	at, ok := m.counted[array]
	if !ok || at.node > i {
		at = counted{node: array + 1}
	}
	for at.node != i {
		at.node, at.index = m.nodes[at.node].next, at.index+1
	}
	m.counted[array] = at
	return at.index
}

const maxPath = 10

// Path leads from a message to one value in it. It owns its memory and stays
// valid when the message is gone.
type Path struct {
	n    uint8
	step [maxPath]pathStep
}

type pathStep struct {
	name  Name
	elem  bool
	index uint32
}

// String reads "result.tools[0].title". A member whose name no rule knows
// reads "*".
func (p Path) String() string { return string(p.Append(nil)) }

// Append writes the path behind dst.
func (p Path) Append(dst []byte) []byte {
	for i, s := range p.step[:p.n] {
		switch {
		case s.elem:
			dst = append(dst, '[')
			dst = strconv.AppendUint(dst, uint64(s.index), 10)
			dst = append(dst, ']')
			continue
		case i > 0:
			dst = append(dst, '.')
		}
		dst = append(dst, s.name.String()...)
	}
	return dst
}
