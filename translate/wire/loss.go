package wire

import "strconv"

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

// Path returns the path from the message to the value.
func (n Node) Path() (p Path) {
	if n.OK() {
		n.path(&p)
	}
	return p
}

func (n Node) path(p *Path) {
	nodes := n.m.nodes
	depth := 0
	for i := n.i; i != 0; i = nodes[i].parent {
		depth++
	}
	p.n = uint8(min(depth, maxPath))
	for i := n.i; i != 0; i = nodes[i].parent {
		if depth--; depth >= maxPath {
			continue
		}
		at, step := &nodes[i], &p.step[depth]
		step.name, step.elem = at.name, at.key == at.pos
		if step.elem {
			for c := at.parent + 1; c != i; c = nodes[c].next {
				step.index++
			}
		}
	}
}

// Lose adds a loss to Losses, with n as its first place.
func (m *Message) Lose(rule, what string, level Level, n Node) {
	m.Losses = append(m.Losses, Loss{})
	l := &m.Losses[len(m.Losses)-1] // filled in place, since a Path is large
	l.Rule, l.What, l.Level, l.Count = rule, what, level, 1
	if level == Warn {
		l.Lost = 1
	}
	if n.OK() {
		n.path(&l.Path)
	}
}
