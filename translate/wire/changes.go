package wire

import "strconv"

// ChangeKind says what a change did to a value.
type ChangeKind string

// What edits do to a value.
const (
	Removed  ChangeKind = "removed"
	Added    ChangeKind = "added"
	Replaced ChangeKind = "replaced"
	Renamed  ChangeKind = "renamed"
)

// Change is one difference that the edits of a message make. The paths are like those of a [Place].
type Change struct {
	Kind ChangeKind
	// Before is the path of the value in the message without the edits; it is nil if Kind is Added. After is its path
	// in the message with the edits. It is nil if the value is not there, and if the value is within one that is
	// removed or replaced.
	Before, After []byte
	Edit          int // the number of the edit, in the order in which edits were made
	Within        int // the number of the edit that removes or replaces a value around this one, or -1
}

// Edits returns how many edits the message has.
func (m *Message) Edits() int { return len(m.edits) }

// EachChange calls f for every difference that the edits make, in the order of the text. An edit that replaces a
// value by an equal one makes none. The paths are valid until f returns. It must be called before the edited message
// is written.
func (m *Message) EachChange(f func(Change)) {
	if len(m.nodes) == 0 || !m.nodes[0].touched {
		return
	}
	w := changeWalk{m: m, f: f}
	w.container(0, noEdit)
}

// changeWalk is the state of an EachChange.
type changeWalk struct {
	m             *Message
	f             func(Change)
	before, after []byte // the paths of the value that is visited
}

const noEdit = -1

// container visits the children of node i. within is the edit that removes or replaces a value around them.
func (w *changeWalk) container(i uint32, within int) {
	m, at := w.m, &w.m.nodes[i]
	if !at.open {
		return
	}
	before, after := len(w.before), len(w.after)
	was, is := 0, 0 // how many elements are in front of the child, before and after
	for c := i + 1; c < at.next; c = m.nodes[c].next {
		kept := 1
		if m.nodes[c].touched {
			kept = w.child(c, was, is, within)
			w.before, w.after = w.before[:before], w.after[:after]
		}
		was, is = was+1, is+kept
	}
	for e := at.edit; e != 0; e = m.edits[e-1].nextEdit {
		if m.edits[e-1].op == add {
			is += w.added(e, m.Raw[at.pos] == '[', is, within)
		}
	}
}

// child visits node c, the element number was of its array, which becomes the number is. It returns how many elements
// come of it.
func (w *changeWalk) child(c uint32, was, is, within int) (kept int) {
	m, at := w.m, &w.m.nodes[c]
	elem, key := at.key == at.pos, Node{m, c}.Key()
	front, do, name, renamed := at.edit, op(0), key, uint32(0)
	if front != 0 {
		do = m.edits[front-1].op
	}
	for e := front; e != 0 && do != remove; e = m.edits[e-1].nextEdit {
		switch m.edits[e-1].op {
		case before:
			kept += w.added(e, elem, is+kept, within)
		case rename:
			name, renamed = m.textOf(e), e
		}
	}
	w.before = w.step(w.before, key, elem, was)
	switch do {
	case remove:
		w.change(Removed, front, within)
		w.container(c, int(front)-1)
		return kept
	case swap:
		return kept + w.swapped(c, elem, is+kept, within)
	}
	w.after = w.step(w.after, name, elem, is+kept)
	inner := within
	switch {
	case do == replace && !Equal(Node{m, c}.Raw(), m.textOf(front)):
		w.change(Replaced, front, within)
		inner = int(front) - 1
	case renamed != 0:
		w.change(Renamed, renamed, within)
	}
	if do != replace || inner != within {
		w.container(c, inner)
	}
	return kept + 1
}

// swapped visits a node that is swapped for members or elements, and returns how many they are.
func (w *changeWalk) swapped(c uint32, elem bool, is, within int) (n int) {
	m, e := w.m, w.m.nodes[c].edit
	switch name, value, one := onlyItem(m.textOf(e), elem); {
	case within != noEdit:
		w.change(Replaced, e, within)
	case one && !elem && string(value) == string(Node{m, c}.Raw()):
		outer := len(w.after)
		w.after = w.step(w.after, name, false, 0)
		w.change(Renamed, e, within)
		w.after = w.after[:outer]
		return 1
	default:
		w.change(Removed, e, within)
		n = w.added(e, elem, is, within)
	}
	w.container(c, int(e)-1)
	return n
}

// added visits the members or elements in the text of an edit, and returns how many they are. is is the number of
// elements in front of them.
func (w *changeWalk) added(e uint32, elem bool, is, within int) (n int) {
	if within != noEdit {
		return 0
	}
	outer, old := len(w.after), w.before
	w.before = nil
	eachItem(w.m.textOf(e), elem, func(name, _ []byte) {
		w.after = w.step(w.after[:outer], name, elem, is+n)
		w.change(Added, e, within)
		n++
	})
	w.before, w.after = old, w.after[:outer]
	return n
}

func (w *changeWalk) change(kind ChangeKind, edit uint32, within int) {
	c := Change{Kind: kind, Before: w.before, After: w.after, Edit: int(edit) - 1, Within: within}
	if kind == Removed || within != noEdit {
		c.After = nil
	}
	w.f(c)
}

// step appends one step to a path.
func (w *changeWalk) step(path, name []byte, elem bool, index int) []byte {
	if elem {
		return append(strconv.AppendInt(append(path, '['), int64(index), 10), ']')
	}
	return appendName(path, name, len(path) == 0)
}

func (m *Message) textOf(edit uint32) []byte {
	at := m.edits[edit-1].text
	return m.text[at.pos:at.end:at.end]
}

// eachItem calls f for each member, with its name as it is in the text, or for each element of a text that has several
// of them with commas between them. It calls f for none if the text is not JSON.
func eachItem(text []byte, elem bool, f func(name, value []byte)) {
	open, end := byte('{'), byte('}')
	if elem {
		open, end = '[', ']'
	}
	text = append(append(append(make([]byte, 0, len(text)+2), open), text...), end)
	if !Valid(text) {
		return
	}
	for i := skipSpace(text, 1); text[i] != end; {
		if !elem {
			var m member
			m, i = nextMember(text, i)
			f(m.name, m.value)
			continue
		}
		from := i
		i = skipValue(text, i, 0)
		f(nil, text[from:i])
		i = nextItem(text, i)
	}
}

// onlyItem returns the only member or element of such a text. one is false if there are several.
func onlyItem(text []byte, elem bool) (name, value []byte, one bool) {
	n := 0
	eachItem(text, elem, func(k, v []byte) { name, value, n = k, v, n+1 })
	return name, value, n == 1
}
