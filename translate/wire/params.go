package wire

import "bytes"

// once has a bit for each member of params on which routing, policies, budgets, headers or translation depend.
// Some parsers take the first of two members with one name, others the last. A request with two of them could
// therefore be checked by one value and served by the other. All other members may occur more than once.
var once = func() (bits [NumNames]uint32) {
	for i, name := range [...]Name{
		NameKey, Arguments, URI, Ref, Cursor, LevelKey, Meta, Task, TaskID, // what is asked for
		RequestState, InputResponses, NotificationsKey, // 2026-07-28
		Mode, URL, ElicitationID, RequestedSchema, MessageKey, // elicitation
		ProtocolVersion, Capabilities, ClientInfo, // initialize
		RequestID, ProgressTokenKey, // notifications
	} {
		bits[name] = 1 << i
	}
	return bits
}()

// isAbout reports whether a notification says with this member of params which request, task or resource it is about. Notifications
// are refused for no other one, since their sender gets no response.
func isAbout(name Name) bool {
	switch name {
	case RequestID, ProgressTokenKey, TaskID, ElicitationID, URI:
		return true
	}
	return false
}

func (p *paramsSeen) note(name Name) {
	bit := once[name]
	if p.bits&bit != 0 {
		p.twice = name
		if isAbout(name) {
			p.about = name
		}
	}
	p.bits |= bit
}

// scanNoted scans the object at i, which is the value of the envelope's params or result. It notes repeated members
// of params and the kind of a result, and records what outer, the shape of the envelope, names in the object. key
// is the index of its member. It returns as the functions skip… do.
func (m *Message) scanNoted(i, key int, of Name, outer *Shape, e *envelope) int {
	var shape *Shape
	self := uint32(len(m.nodes))
	if outer != nil {
		number := uint16(0)
		if shape = outer.member(of); shape != nil {
			if number = shape.Number; shape.shut {
				shape = nil
			}
		}
		m.nodes = append(m.nodes, node{key: uint32(key), pos: uint32(i), shape: number, name: of, kind: '{', open: shape != nil})
	}
	i = m.scanMembers(i, self, of, shape, e)
	if outer != nil && i >= 0 {
		m.nodes[self].end, m.nodes[self].next = uint32(i), uint32(len(m.nodes))
	}
	return i
}

var inputRequired = []byte(`"input_required"`)

func (m *Message) scanMembers(i int, self uint32, of Name, shape *Shape, e *envelope) int {
	const depth = 2
	b := m.Raw
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1
	}
	for next := i; ; {
		if next >= len(b) {
			return broken(next, faultEnd)
		}
		key := next
		i, name := readName(b, key, 0)
		if i < 0 {
			return i
		}
		if i = skipColon(b, i); i < 0 {
			return i
		}
		switch {
		case of == Params:
			e.params.note(name)
		case name == IsError:
			m.ToolError = i < len(b) && b[i] == 't'
		case name == ResultType:
			m.InputRequired = bytes.HasPrefix(b[i:], inputRequired)
		}
		var inner *Shape
		if shape != nil {
			inner = shape.member(name)
		}
		from := i
		if inner != nil {
			i = m.record(i, key, name, self, inner, depth, nil)
		} else {
			i = skipValue(b, i, depth)
		}
		if i < 0 {
			return i
		}
		if of == Params && name == NameKey {
			m.name = span{uint32(from), uint32(i)}
		}
		if i = behind(b, i, '}'); i < 0 || b[i-1] == '}' {
			return i
		}
		next = i
	}
}
