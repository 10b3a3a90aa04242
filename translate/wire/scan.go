package wire

import "math/bits"

// maxNodes is the maximum number of values that Scan records of one message.
const maxNodes = 4 << 20

// skipName skips a member's name. i is the index of the opening quote.
func skipName(b []byte, i int) int {
	if b[i] != '"' {
		return broken(i, faultSyntax)
	}
	return skipString(b, i+1)
}

// readName skips a member's name, as skipName does, and returns which name it is. It need not know that of names whose
// bit is in never.
func readName(b []byte, i int, never uint64) (int, Name) {
	if b[i] != '"' {
		return broken(i, faultSyntax), OtherName
	}
	from := i + 1
	if from+shortName < len(b) {
		n, first, last := 0, word(b, from), uint64(0)
		if c := care(first); c != 0 {
			bit := bits.TrailingZeros64(c) &^ 7
			n = bit >> 3
			first &= 1<<bit - 1
		} else if n = 8 + bits.TrailingZeros64(care(word(b, from+8)))>>3; n > 8 {
			last = word(b, from+n-8)
		}
		if b[from+n] == '"' {
			if likeness(b[from], n)&never != 0 { // of an empty name, that of the quote
				return from + n + 1, OtherName
			}
			return from + n + 1, names.find(n, first, last)
		}
	}
	if i = skipString(b, from); i < 0 {
		return i, OtherName
	}
	return i, nameOf(b[from : i-1])
}

// skipColon skips the colon and the blanks around it. The text must go on behind them.
func skipColon(b []byte, i int) int {
	if i+1 < len(b) && b[i] == ':' && b[i+1] > ' ' {
		return i + 1
	}
	if i = skipSpace(b, i); i >= len(b) {
		return broken(i, faultEnd)
	}
	if b[i] != ':' {
		return broken(i, faultSyntax)
	}
	if i = skipSpace(b, i+1); i >= len(b) {
		return broken(i, faultEnd)
	}
	return i
}

// skipValue skips the value at i, which lies in depth containers.
func skipValue(b []byte, i, depth int) int {
	if i >= len(b) {
		return broken(i, faultEnd)
	}
	switch b[i] {
	case '"':
		return skipString(b, i+1)
	case '{':
		return skipMembers(b, i, depth+1)
	case '[':
		return skipElements(b, i, depth+1)
	}
	return skipScalar(b, i)
}

// skipMembers skips the object at i. Its members lie in depth containers, it included.
func skipMembers(b []byte, i, depth int) int {
	if depth > MaxDepth {
		return broken(i, faultDepth)
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return brokenAt(b, i)
		}
		if i = skipString(b, i+1); i < 0 {
			return i
		}
		if i+1 < len(b) && b[i] == ':' && b[i+1] > ' ' {
			i++
		} else if i = skipColon(b, i); i < 0 {
			return i
		}
		switch b[i] { // as skipValue does, whose call would take as long as a short value
		case '"':
			i = skipString(b, i+1)
		case '{':
			i = skipMembers(b, i, depth+1)
		case '[':
			i = skipElements(b, i, depth+1)
		default:
			i = skipScalar(b, i)
		}
		if i < 0 {
			return i
		}
		if i+1 < len(b) {
			if b[i] == ',' && b[i+1] > ' ' {
				i++
				continue
			}
			if b[i] == '}' {
				return i + 1
			}
		}
		if i = behind(b, i, '}'); i < 0 || b[i-1] == '}' {
			return i
		}
	}
}

// skipElements skips the array at i, as skipMembers does.
func skipElements(b []byte, i, depth int) int {
	if depth > MaxDepth {
		return broken(i, faultDepth)
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = skipValue(b, i, depth); i < 0 {
			return i
		}
		if i+1 < len(b) {
			if b[i] == ',' && b[i+1] > ' ' {
				i++
				continue
			}
			if b[i] == ']' {
				return i + 1
			}
		}
		if i = behind(b, i, ']'); i < 0 || b[i-1] == ']' {
			return i
		}
	}
}

// record skips the value at i, the next child of the container node parent, and records it, and
// those of its members or elements that shape names. key is the index of its member.
func (m *Message) record(i, key int, name Name, parent uint32, shape *Shape, depth int, h *habits) int {
	b := m.Raw
	self := len(m.nodes)
	if self >= maxNodes {
		return broken(i, faultNodes)
	}
	at := m.newNode()
	at.key, at.pos, at.parent, at.shape, at.name, at.kind = uint32(key), uint32(i), parent, shape.Number, name, b[i]
	switch c := b[i]; {
	case c == '"':
		i = skipString(b, i+1)
	case c == '{' && !shape.shut:
		i = m.recordMembers(i, uint32(self), shape, depth+1, h)
	case c == '[' && shape.Elem != nil:
		i = m.recordElements(i, uint32(self), shape.Elem, depth+1, h)
	default:
		i = skipValue(b, i, depth)
	}
	at = &m.nodes[self]
	at.end = uint32(i)
	at.next = uint32(len(m.nodes))
	return i
}

func (m *Message) recordMembers(i int, self uint32, shape *Shape, depth int, h *habits) int {
	b := m.Raw
	if depth > MaxDepth {
		return broken(i, faultDepth)
	}
	m.nodes[self].open = true
	if shape.Any != nil {
		h = nil // the names are mostly data
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1
	}
	for next := i; ; {
		if next >= len(b) {
			return broken(next, faultEnd)
		}
		var (
			key   = next
			name  Name
			inner *Shape
			begin []byte // the text from key on, if it is compared with habits
		)
		if h != nil && key+longHabit < len(b) {
			begin = b[key : key+longHabit : key+longHabit]
			at := &h.seen[h.next%maxHabits]
			if at.of != shape || !at.is(begin) {
				at = h.find(begin, shape)
			}
			if at != nil {
				h.next++
				i, name, inner = key+at.size, at.name, at.inner
				if b[i] > ' ' {
					goto value
				}
				if i = skipSpace(b, i); i >= len(b) {
					return broken(i, faultEnd)
				}
				goto value
			}
			if h.vain == 0 {
				h = nil
			}
		}
		if i, name = readName(b, key, shape.never); i < 0 {
			return i
		}
		if i+1 < len(b) && b[i] == ':' && b[i+1] > ' ' {
			i++
		} else if i = skipColon(b, i); i < 0 {
			return i
		}
		inner = shape.member(name)
		if h != nil && begin != nil {
			h.add(begin, i-key, name, shape, inner)
		}
	value:
		switch {
		case inner != nil:
			i = m.record(i, key, name, self, inner, depth, h)
		case b[i] == '"':
			i = skipString(b, i+1)
		case b[i] >= 'f' && i+8 <= len(b) && literal(word(b, i)) != 0:
			i += literal(word(b, i))
		default:
			i = skipValue(b, i, depth)
		}
		if i < 0 {
			return i
		}
		if i+1 < len(b) {
			if b[i] == ',' && b[i+1] > ' ' {
				next = i + 1
				continue
			}
			if b[i] == '}' {
				return i + 1
			}
		}
		if i = behind(b, i, '}'); i < 0 || b[i-1] == '}' {
			return i
		}
		next = i
	}
}

// shortList is how many entries are recorded before habits of more are expected.
const shortList = 3

func (m *Message) recordElements(i int, self uint32, elem *Shape, depth int, h *habits) int {
	b := m.Raw
	if depth > MaxDepth {
		return broken(i, faultDepth)
	}
	m.nodes[self].open = true
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1
	}
	for n := 1; ; n++ {
		if i >= len(b) {
			return broken(i, faultEnd)
		}
		if i = m.record(i, i, OtherName, self, elem, depth, h); i < 0 {
			return i
		}
		if i = behind(b, i, ']'); i < 0 {
			return i
		}
		if b[i-1] == ']' {
			return i
		}
		if h == nil && n == shortList {
			return m.recordRest(i, self, elem, depth)
		}
	}
}

// recordRest is recordElements for what is behind the first elements.
func (m *Message) recordRest(i int, self uint32, elem *Shape, depth int) int {
	h := habits{vain: maxVain}
	b := m.Raw
	for {
		if i >= len(b) {
			return broken(i, faultEnd)
		}
		h.begin()
		if i = m.record(i, i, OtherName, self, elem, depth, &h); i < 0 {
			return i
		}
		if i = behind(b, i, ']'); i < 0 {
			return i
		}
		if b[i-1] == ']' {
			return i
		}
	}
}

// behind skips what follows a member or element: a comma and the blanks behind
// it, or the closing bracket.
func behind(b []byte, i int, closing byte) int {
	if i = skipSpace(b, i); i >= len(b) {
		return broken(i, faultEnd)
	}
	switch b[i] {
	case ',':
		// The byte before the returned index is not a bracket, by which callers tell the two cases apart.
		return skipSpace(b, i+1)
	case closing:
		return i + 1
	}
	return broken(i, faultSyntax)
}
