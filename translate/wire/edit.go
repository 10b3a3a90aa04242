package wire

// node is one recorded value. Nodes stand in the order of the text, a container
// before what is in it.
type node struct {
	key, pos, end uint32 // its member (or itself) begins, it begins, it ends
	next          uint32 // the node behind everything in it
	parent        uint32
	edit          uint32 // 1 + index of its first edit, 0 for none
	name          Name
	open          bool // those of its members or elements that rules speak of are recorded
	touched       bool // it or something in it has an edit
}

// edit is one mark on a node.
type edit struct {
	op       op
	text     span   // in Message.text
	nextEdit uint32 // 1 + index of the next one on the same node
}

type op uint8

// The first three decide what becomes of the node.
const (
	remove  op = iota + 1
	replace    // the value
	swap       // the member with its name, or the element; several may come
	add        // behind the last member or element
	before     // in front of the member
	rename     // the member's name
)

// Node is a recorded value of a message; the zero Node is none, and can be read: it
// has nothing in it and nothing behind it. It cannot be edited. A Node is valid until
// the next Scan.
type Node struct {
	m *Message
	i uint32
}

// Root is the message itself, as an object. It is no Node when the message was
// scanned without a shape.
func (m *Message) Root() Node {
	if len(m.nodes) == 0 {
		return Node{}
	}
	return Node{m, 0}
}

// OK reports whether there is such a value.
func (n Node) OK() bool { return n.m != nil }

func (n Node) node() *node { return &n.m.nodes[n.i] }

// Raw is the value as it stands in the message, without the marks on it.
func (n Node) Raw() []byte {
	if n.m == nil {
		return nil
	}
	at := n.node()
	return n.m.Raw[at.pos:at.end:at.end]
}

// Kind is the value's first byte: { [ " t f n, a digit or a minus; 0 for no value.
func (n Node) Kind() byte {
	if n.m == nil {
		return 0
	}
	return n.m.Raw[n.node().pos]
}

// Name is the name of the member that the value belongs to, as a small number.
func (n Node) Name() Name {
	if n.m == nil {
		return 0
	}
	return n.node().name
}

// Key is the name of the member that the value belongs to, as it stands in the
// message, without quotes; nil for an element.
func (n Node) Key() []byte {
	if n.m == nil {
		return nil
	}
	at := n.node()
	if at.key == at.pos {
		return nil
	}
	end := skipString(n.m.Raw, int(at.key)+1)
	return n.m.Raw[at.key+1 : end-1]
}

// Text is the inside of a string value; ok is false for any other value.
func (n Node) Text() (raw []byte, ok bool) {
	if !n.OK() {
		return nil, false
	}
	return Inner(n.Raw())
}

// Is reports whether the value is a string of this text.
func (n Node) Is(text string) bool {
	raw, ok := n.Text()
	return ok && IsText(raw, text)
}

// Hollow reports whether the value holds nothing: null, "", [] or {}.
func (n Node) Hollow() bool { return Hollow(n.Raw()) }

// Element reports whether the value is an element of an array.
func (n Node) Element() bool {
	if n.m == nil {
		return false
	}
	at := n.node()
	return at.key == at.pos
}

// Parent is the object or array that the value stands in, no Node for the root.
func (n Node) Parent() Node {
	if n.i == 0 {
		return Node{}
	}
	return Node{n.m, n.node().parent}
}

// First is the first recorded member or element.
func (n Node) First() Node {
	if n.m == nil {
		return Node{}
	}
	at := n.node()
	if !at.open || n.i+1 == at.next {
		return Node{}
	}
	return Node{n.m, n.i + 1}
}

// Next is the sibling behind.
func (n Node) Next() Node {
	if n.i == 0 {
		return Node{}
	}
	at := n.node()
	if at.next == n.m.nodes[at.parent].next {
		return Node{}
	}
	return Node{n.m, at.next}
}

// Get is the last member of that name, as most parsers pick it.
func (n Node) Get(name Name) (found Node) {
	for c := n.First(); c.OK(); c = c.Next() {
		if c.node().name == name {
			found = c
		}
	}
	return found
}

// Removed reports whether the value is marked for removal.
func (n Node) Removed() bool {
	if n.m == nil {
		return false
	}
	e := n.node().edit
	return e != 0 && n.m.edits[e-1].op == remove
}

// Changed reports whether the value was removed or replaced.
func (n Node) Changed() bool {
	if n.m == nil {
		return false
	}
	e := n.node().edit
	return e != 0 && n.m.edits[e-1].op <= swap
}

// Path leads from the message to the value.
func (n Node) Path() Path {
	var chain [maxPath]uint32
	depth := 0
	for i := n.i; i != 0; i = n.m.nodes[i].parent {
		if depth == maxPath { // keep the outer part
			copy(chain[:], chain[1:])
			depth--
		}
		chain[depth] = i
		depth++
	}
	p := Path{n: uint8(depth)}
	for k := range depth {
		i := chain[depth-1-k]
		at := &n.m.nodes[i]
		step := pathStep{name: at.name, elem: at.key == at.pos}
		if step.elem {
			for c := (Node{n.m, at.parent}).First(); c.i != i; c = c.Next() {
				step.index++
			}
		}
		p.step[k] = step
	}
	return p
}

// mark puts an edit on the node: in front of the others one that decides what
// becomes of it, behind them one that adds something, in the order of adding.
func (n Node) mark(o op, text span) {
	m := n.m
	at := n.node()
	m.edits = append(m.edits, edit{op: o, text: text})
	self := uint32(len(m.edits))
	switch tail := at.edit; {
	case o <= swap:
		m.edits[self-1].nextEdit, at.edit = at.edit, self
	case tail == 0:
		at.edit = self
	default:
		for m.edits[tail-1].nextEdit != 0 {
			tail = m.edits[tail-1].nextEdit
		}
		m.edits[tail-1].nextEdit = self
	}
	for i := n.i; !m.nodes[i].touched; i = m.nodes[i].parent {
		m.nodes[i].touched = true
	}
}

// Remove takes the member or element out, with its comma.
func (n Node) Remove() { n.mark(remove, span{}) }

// Writer returns the message's store of new text. What is appended to it and
// handed to Put, Swap, Add or Before must be the very slice, grown by append.
func (m *Message) Writer() []byte { return m.text[len(m.text):] }

// keep takes over text that was appended to Writer, or copies it.
func (m *Message) keep(text []byte) span {
	from := len(m.text)
	m.text = append(m.text, text...) // no move when text was written in place
	return span{uint32(from), uint32(len(m.text))}
}

// Put puts text in the place of the value.
func (n Node) Put(text []byte) {
	at := n.node()
	if len(text) > int(at.end-at.pos) {
		n.m.grows = true
	}
	n.mark(replace, n.m.keep(text))
}

// Swap puts text in the place of the member, its name included, or of the
// element. text may hold several, with commas between them, but at least one.
func (n Node) Swap(text []byte) {
	at := n.node()
	if len(text) > int(at.end-at.key) {
		n.m.grows = true
	}
	n.mark(swap, n.m.keep(text))
}

// Add puts a member or an element behind the last one of a recorded object or
// array.
func (n Node) Add(text []byte) {
	n.m.grows = true
	n.mark(add, n.m.keep(text))
}

// Before puts a member in front of this one.
func (n Node) Before(text []byte) {
	n.m.grows = true
	n.mark(before, n.m.keep(text))
}

// Rename gives a member another name, which needs no escapes.
func (n Node) Rename(name string) {
	if len(name) > len(n.Key()) {
		n.m.grows = true
	}
	n.mark(rename, n.m.keep(append(n.m.Writer(), name...)))
}

// Edited reports whether anything is marked.
func (m *Message) Edited() bool { return len(m.edits) > 0 }

// Grows reports whether the marks may need more room than the message has.
func (m *Message) Grows() bool { return m.grows }

// AppendTo writes the message with its marks behind dst. When nothing grows, dst
// may be Raw[:0].
func (m *Message) AppendTo(dst []byte) []byte {
	if len(m.nodes) == 0 {
		return append(dst, m.Raw...)
	}
	w := writer{m: m, dst: dst}
	w.container(0)
	return append(w.dst, m.Raw[w.from:]...)
}

// Growth is how much longer than Raw the message becomes at most by its marks.
func (m *Message) Growth() int {
	if !m.grows {
		return 0
	}
	return len(m.text) + len(m.edits) // no mark adds more than its text and a comma
}

// InPlace writes the message with its marks where it stands, if there is room for it.
// The message is gone then. Otherwise it returns nil.
func (m *Message) InPlace() []byte {
	at, grown := m.Raw, m.Growth()
	if grown > m.Room {
		return nil
	}
	if grown > 0 { // what is read stays ahead of what is written
		m.Raw = at[grown : len(at)+grown]
		copy(m.Raw, at)
	}
	return m.AppendTo(at[:0])
}

// AppendNode writes one value with its marks behind dst.
func (n Node) AppendNode(dst []byte) []byte {
	at := n.node()
	w := writer{m: n.m, dst: dst, from: at.pos}
	w.value(n.i)
	return append(w.dst, n.m.Raw[w.from:at.end]...)
}

// writer copies a message from one mark to the next.
type writer struct {
	m    *Message
	dst  []byte
	from uint32 // what is before is written, or left out
}

// cut writes everything up to pos and leaves out what is between pos and end.
func (w *writer) cut(pos, end uint32) {
	w.dst = append(w.dst, w.m.Raw[w.from:pos]...)
	w.from = end
}

func (w *writer) put(text span) { w.dst = append(w.dst, w.m.text[text.pos:text.end]...) }

// value writes a value that has marks on it or in it.
func (w *writer) value(i uint32) {
	at := &w.m.nodes[i]
	var name span
	for e := at.edit; e != 0; e = w.m.edits[e-1].nextEdit {
		switch w.m.edits[e-1].op {
		case before:
			w.cut(at.key, at.key)
			w.put(w.m.edits[e-1].text)
			w.dst = append(w.dst, ',')
		case rename:
			name = w.m.edits[e-1].text
		}
	}
	if name.end != 0 {
		w.cut(at.key+1, uint32(skipString(w.m.Raw, int(at.key)+1)-1))
		w.put(name)
	}
	if at.edit != 0 {
		switch e := &w.m.edits[at.edit-1]; e.op {
		case replace:
			w.cut(at.pos, at.end)
			w.put(e.text)
			return
		case swap:
			w.cut(at.key, at.end)
			w.put(e.text)
			return
		}
	}
	if at.open {
		w.container(i)
	}
}

// container writes an object or array. A removed member takes the comma before
// it along; as long as none was kept, the one behind.
func (w *writer) container(i uint32) {
	at := &w.m.nodes[i]
	gone := at.pos + 1 // all from the opening bracket to here was removed
	for c := i + 1; c < at.next; c = w.m.nodes[c].next {
		child := &w.m.nodes[c]
		if child.edit == 0 || w.m.edits[child.edit-1].op != remove {
			if child.touched {
				w.value(c)
			}
			continue
		}
		if before, first := w.before(child.key); !first && before != gone {
			w.cut(before, child.end)
		} else {
			w.cut(child.key, w.behind(child.end))
			gone = child.end
		}
	}
	if at.edit != 0 {
		w.added(at, gone)
	}
}

// added writes what was put behind the last member or element of a container.
func (w *writer) added(at *node, gone uint32) {
	last, empty := w.before(at.end - 1)
	if empty {
		last = at.pos + 1
	}
	empty = empty || last == gone
	for e := at.edit; e != 0; e = w.m.edits[e-1].nextEdit {
		if w.m.edits[e-1].op != add {
			continue
		}
		if w.from < last {
			w.cut(last, last)
		}
		if !empty {
			w.dst = append(w.dst, ',')
		}
		empty = false
		w.put(w.m.edits[e-1].text)
	}
}

// before is where the sibling ends that stands before pos, which is that of a
// member, an element or the closing bracket; first says that there is none.
func (w *writer) before(pos uint32) (end uint32, first bool) {
	raw := w.m.Raw
	end = backOverSpace(raw, pos)
	switch raw[end-1] {
	case '{', '[':
		return end, true
	case ',':
		return backOverSpace(raw, end-1), false
	}
	return end, false
}

// behind is where the sibling begins that stands behind a value's end, or that
// end when there is none.
func (w *writer) behind(end uint32) uint32 {
	raw := w.m.Raw
	if i := skipSpace(raw, int(end)); raw[i] == ',' {
		return uint32(skipSpace(raw, i+1))
	}
	return end
}

func backOverSpace(b []byte, i uint32) uint32 {
	for b[i-1] <= ' ' {
		i--
	}
	return i
}
