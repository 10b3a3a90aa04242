package wire

// once are the members of params by which a request is routed, gated, capped, given
// headers, or carried between revisions. One parser reads the first of two, another
// the last, so that a request which has one of them twice would be judged by one value
// and served by the other. All other members may occur as often as they like.
var once = func() (bits [NumNames]uint32) {
	for i, name := range [...]Name{
		NameKey, Arguments, URI, Ref, Cursor, LevelKey, Meta, Task, TaskID, // what is asked for
		RequestState, InputResponses, NotificationsKey, // 2026-07-28
		Mode, URL, ElicitationID, RequestedSchema, MessageKey, // elicitation
	} {
		bits[name] = 1 << i
	}
	return bits
}()

// paramsSeen is what a scan learns of the members of params.
type paramsSeen struct {
	bits  uint32
	twice Name // a member of once that occurred before
}

func (p *paramsSeen) note(name Name) {
	bit := once[name]
	if p.bits&bit != 0 {
		p.twice = name
	}
	p.bits |= bit
}

// scanParams takes the object at i, which is the value of the envelope's params, and
// records in it what outer, the shape of the envelope, names there. key is where its member
// begins.
func (m *Message) scanParams(i, key int, outer *Shape, e *envelope) int {
	var shape *Shape
	self := uint32(len(m.nodes))
	if outer != nil {
		if shape = outer.member(Params); shape != nil && shape.shut {
			shape = nil
		}
		m.nodes = append(m.nodes, node{key: uint32(key), pos: uint32(i), name: Params, open: shape != nil})
	}
	i = m.scanParamMembers(i, self, shape, e)
	if outer != nil && i >= 0 {
		m.nodes[self].end, m.nodes[self].next = uint32(i), uint32(len(m.nodes))
	}
	return i
}

func (m *Message) scanParamMembers(i int, self uint32, shape *Shape, e *envelope) int {
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
		i, name := readName(b, key)
		if i < 0 {
			return i
		}
		if i = skipColon(b, i); i < 0 {
			return i
		}
		e.params.note(name)
		var inner *Shape
		if shape != nil {
			inner = shape.member(name)
		}
		if inner != nil {
			i = m.record(i, key, name, self, inner, depth)
		} else {
			i = skipValue(b, i, depth)
		}
		if i < 0 {
			return i
		}
		if i = behind(b, i, '}'); i < 0 || b[i-1] == '}' {
			return i
		}
		next = i
	}
}
