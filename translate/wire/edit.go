package wire

// Node is a recorded value of a message. The zero Node stands for no value: it can be read, has
// no members and no siblings, and cannot be edited. A Node is valid until the next Scan.
type Node struct {
	m *Message
	i uint32
}

// Root returns the message itself, as an object. It returns the zero Node if the message was
// scanned without a shape.
func (m *Message) Root() Node {
	if len(m.nodes) == 0 {
		return Node{}
	}
	return Node{m, 0}
}

// OK reports whether n is a value, and not the zero Node.
func (n Node) OK() bool { return n.m != nil }

func (n Node) node() *node { return &n.m.nodes[n.i] }

// Raw returns the value as it is in the message, without the edits.
func (n Node) Raw() []byte {
	if n.m == nil {
		return nil
	}
	at := n.node()
	return n.m.Raw[at.pos:at.end:at.end]
}

// Kind returns the value's first byte: { [ " t f n, a digit or a minus; 0 for no value.
func (n Node) Kind() byte {
	if n.m == nil {
		return 0
	}
	return n.node().kind
}

// Name returns the name of the value's member, as a small number.
func (n Node) Name() Name {
	if n.m == nil {
		return 0
	}
	return n.node().name
}

// Key returns the name of the value's member as it is in the message, without quotes but with escapes. It returns
// nil for an element.
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

// Text returns a string value as it is in the message, without its quotes but with escapes. ok is false for any
// other value.
func (n Node) Text() (raw []byte, ok bool) {
	if n.Kind() != '"' {
		return nil, false
	}
	at := n.node()
	return n.m.Raw[at.pos+1 : at.end-1 : at.end-1], true
}

// Is reports whether the value is a string with this text.
func (n Node) Is(text string) bool {
	raw, ok := n.Text()
	return ok && IsText(raw, text)
}

// Hollow reports whether the value holds nothing: null, "", [] or {}.
func (n Node) Hollow() bool { return !n.First().OK() && Hollow(n.Raw()) }

// Element reports whether the value is an element of an array.
func (n Node) Element() bool {
	if n.m == nil {
		return false
	}
	at := n.node()
	return at.key == at.pos
}

// Parent returns the object or array that contains the value, or the zero Node for the root.
func (n Node) Parent() Node {
	if n.i == 0 {
		return Node{}
	}
	return Node{n.m, n.node().parent}
}

// First returns the first recorded member or element.
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

// Next returns the next recorded sibling.
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

// Shape returns the number of the shape with which the value was recorded, or 0 if it was recorded with none. n must not
// be the zero Node.
func (n Node) Shape() uint16 { return n.node().shape }

// Inside returns the value behind the beginning of n in the order of the text, and Behind the one behind the end of n. It
// need not be a value of the message: the last ones are followed by a node that can only be compared.
func (n Node) Inside() Node { return Node{n.m, n.i + 1} }

// Behind is described at Inside.
func (n Node) Behind() Node { return Node{n.m, n.node().next} }

// Get returns the last member of that name, because most parsers take the last one.
func (n Node) Get(name Name) (found Node) {
	if n.m == nil {
		return found
	}
	nodes := n.m.nodes
	at := &nodes[n.i]
	if !at.open {
		return found
	}
	for i := n.i + 1; i < at.next; i = nodes[i].next {
		if nodes[i].name == name {
			found = Node{n.m, i}
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

// mark adds an edit to the node's list. An edit that removes or replaces the node goes to the front; one that adds
// text or renames goes to the end.
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

// Remove removes the member or element, with its comma.
func (n Node) Remove() { n.mark(remove, span{}) }

// Writer returns an empty slice at the end of the message's buffer for new text. The caller appends to it and passes
// the result to Put, Swap, Add or Before, which then need not copy the text.
func (m *Message) Writer() []byte { return m.text[len(m.text):] }

// keep takes over text that was appended to Writer, or copies it.
func (m *Message) keep(text []byte) span {
	from := len(m.text)
	m.text = append(m.text, text...) // copies the text onto itself if it was appended to Writer
	return span{uint32(from), uint32(len(m.text))}
}

// Put replaces the value with text. The message copies text.
func (n Node) Put(text []byte) {
	at := n.node()
	if len(text) > int(at.end-at.pos) {
		n.m.grows = true
	}
	n.mark(replace, n.m.keep(text))
}

// Swap replaces the member, its name included, or the element with text. text holds one or several members or
// elements, with commas between them. The message copies text.
func (n Node) Swap(text []byte) {
	at := n.node()
	if len(text) > int(at.end-at.key) {
		n.m.grows = true
	}
	n.mark(swap, n.m.keep(text))
}

// Add adds text, a member or an element without a comma, at the end of a recorded object or array. The message copies
// text.
func (n Node) Add(text []byte) {
	n.m.grows = true
	n.mark(add, n.m.keep(text))
}

// Before inserts text, a member without a comma, in front of this one. The message copies text.
func (n Node) Before(text []byte) {
	n.m.grows = true
	n.mark(before, n.m.keep(text))
}

// Rename changes the name of a member. name must need no escapes.
func (n Node) Rename(name string) {
	if len(name) > len(n.Key()) {
		n.m.grows = true
	}
	n.mark(rename, n.m.keep(append(n.m.Writer(), name...)))
}

// Edited reports whether the message has edits.
func (m *Message) Edited() bool { return len(m.edits) > 0 }

// AppendTo appends the edited message to dst, which may be Raw[:0] if no edit makes the message longer.
func (m *Message) AppendTo(dst []byte) []byte {
	if len(m.nodes) == 0 {
		return append(dst, m.Raw...)
	}
	w := writer{m: m, dst: dst, start: len(dst)}
	if m.Follow {
		w.follow(m)
	}
	w.container(0)
	w.cut(uint32(len(m.Raw)), uint32(len(m.Raw)))
	if m.Follow {
		m.becomes(w.dst[len(dst):], &w)
	}
	return w.dst
}

// becomes makes m the text that w has written.
func (m *Message) becomes(out []byte, w *writer) {
	m.Raw, m.shape, m.scanned = out, nil, w.passed == len(w.marks)
	m.nodes, m.edits, m.text, m.grows = m.nodes[:0], m.edits[:0], m.text[:0], false
	at := func(mark uint32) uint32 {
		for i, old := range w.marks {
			if old == mark {
				return w.at[i]
			}
		}
		return 0
	}
	for _, part := range [...]*span{&m.id, &m.result, &m.err} {
		if part.end != 0 {
			*part = span{at(part.pos), at(part.end)}
		}
	}
}

// Growth returns how many bytes longer than Raw the edited message is at most.
func (m *Message) Growth() int {
	if !m.grows {
		return 0
	}
	return len(m.text) + len(m.edits) // an edit adds at most its text and a comma
}

// InPlace writes the edited message into the memory of Raw and Room, and returns it. m is then no longer valid.
// It returns nil, and changes nothing, if the message may not fit, or if Room is negative.
func (m *Message) InPlace() []byte {
	at, grown := m.Raw, m.Growth()
	if grown > m.Room {
		return nil
	}
	if grown > 0 { // so that the writer never overwrites text that it still has to read
		m.Raw = at[grown : len(at)+grown]
		copy(m.Raw, at)
	}
	return m.AppendTo(at[:0])
}

// AppendNode appends one edited value to dst.
func (n Node) AppendNode(dst []byte) []byte {
	at := n.node()
	w := writer{m: n.m, dst: dst, from: at.pos}
	w.value(n.i)
	return append(w.dst, n.m.Raw[w.from:at.end]...)
}

// writer copies a message and applies the edits on the way.
type writer struct {
	m    *Message
	dst  []byte
	from uint32 // the text before it is written or left out

	// If the message is followed: the bounds of its parts, in order, and where those that were passed are written.
	marks, at [4]uint32
	passed    int
	start     int // of the message in dst
}

// follow sets the marks for the parts of a response.
func (w *writer) follow(m *Message) {
	first, second := m.id, m.result
	if m.Kind == Error {
		second = m.err
	}
	if first.pos > second.pos {
		first, second = second, first
	}
	w.marks = [...]uint32{first.pos, first.end, second.pos, second.end}
}

// cut writes the text up to pos and leaves out the text from pos to end.
func (w *writer) cut(pos, end uint32) {
	if w.m.Follow {
		w.pass(pos)
	}
	w.dst = append(w.dst, w.m.Raw[w.from:pos]...)
	w.from = end
}

// pass notes where the marks up to pos, which follow w.from, are written.
func (w *writer) pass(pos uint32) {
	for ; w.passed < len(w.marks) && w.from <= w.marks[w.passed] && w.marks[w.passed] <= pos; w.passed++ {
		w.at[w.passed] = uint32(len(w.dst)-w.start) + w.marks[w.passed] - w.from
	}
}

func (w *writer) put(text span) { w.dst = append(w.dst, w.m.text[text.pos:text.end]...) }

// value writes a value that has edits, or whose contents have edits.
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

// container writes an object or array. With a removed member it removes the comma before it, or, if no member before
// it was kept, the comma behind it.
func (w *writer) container(i uint32) {
	nodes, edits := w.m.nodes, w.m.edits
	at := &nodes[i]
	gone := at.pos + 1 // everything from the opening bracket to here was removed
	for c, end := i+1, at.next; c < end; {
		self, child := c, &nodes[c]
		c = child.next
		switch e := child.edit; {
		case !child.touched:
		case e == 0:
			w.container(self)
		case edits[e-1].op != remove:
			w.value(self)
		default:
			if before, first := w.before(child.key); !first && before != gone {
				w.cut(before, child.end)
			} else {
				w.cut(child.key, w.behind(child.end))
				gone = child.end
			}
		}
	}
	if at.edit != 0 {
		w.added(at, gone)
	}
}

// added writes the members or elements that Add has added to a container.
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
		if w.from <= last {
			w.cut(last, last)
		}
		if !empty {
			w.dst = append(w.dst, ',')
		}
		empty = false
		w.put(w.m.edits[e-1].text)
	}
}

// before returns the end of the sibling before pos, which is the offset of a member, an element or the closing
// bracket. first reports that there is no such sibling.
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

// behind returns the offset of the sibling behind a value that ends at end. It returns end if there is none.
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
