package wire

import "strconv"

// Level is the log level of a loss.
type Level uint8

// The levels of the logging contract: Warn for the loss of a value, Info for that of an empty value, Debug for
// changes that only the protocol itself needs.
const (
	Debug Level = iota
	Info
	Warn
)

// String returns the level in capitals.
func (l Level) String() string { return [...]string{"DEBUG", "INFO", "WARN"}[l] }

// Loss is what one rule removed from one message, or changed in it.
type Loss struct {
	Rule    string // the rule's number: "C01"
	What    string // the member or thing: "title"
	Level   Level  // the highest level of all its places
	Count   int    // the number of places
	Standin bool   // the rule put a replacement with the same meaning into the message
	Path    Path   // the first place
}

// Place is one place of a loss.
type Place struct {
	Rule, What string
	Level      Level
	Path       string // result.tools[3].title, result["a key"].x
}

// counted is an element, and the number of elements before it.
type counted struct{ node, index uint32 }

// AppendPath appends the path from the message to the value, with the names as they are in the message.
func (n Node) AppendPath(dst []byte) []byte {
	if n.i == 0 {
		return dst
	}
	at := n.node()
	dst = Node{n.m, at.parent}.AppendPath(dst)
	if n.Element() {
		return append(strconv.AppendUint(append(dst, '['), uint64(n.m.indexOf(n.i, at.parent)), 10), ']')
	}
	return appendName(dst, n.Key(), at.parent == 0)
}

// appendName appends a member's name, given as it is in the message, to a path. first says that it is the first step.
func appendName(dst, key []byte, first bool) []byte {
	name := AppendUnescaped(nil, key)
	if !isPlain(name) {
		return append(append(append(dst, `["`...), key...), `"]`...)
	}
	if !first {
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

// indexOf returns the number of elements before i. It goes on counting where the last call for the same array ended,
// because rules visit arrays from the front.
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

// Path is the path from a message to one value in it. It owns its memory and stays valid when the message is
// scanned again. Of a path longer than 10 steps it has the first 10.
type Path struct {
	n    uint8
	step [maxPath]pathStep
}

type pathStep struct {
	name  Name
	elem  bool
	index uint32
}

// String returns a path such as "result.tools[0].title". A member whose name is no [Name] is "*".
func (p Path) String() string { return string(p.Append(nil)) }

// Append appends the path, as String returns it, to dst.
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
