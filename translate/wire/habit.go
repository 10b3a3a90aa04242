package wire

// habits are the members that the entries of a list had so far. The entries of a list are mostly written by one program: they
// have the same members in the same order. So a scan need not look for the end of every name, and for what the shape says of
// that name: it compares the text with the member that came next in the entries before.
type habits struct {
	seen [maxHabits]habit
	n    int  // how many of seen are in use
	next uint // the index of the member that is expected
	vain int  // how many more members may be looked for in vain
}

const (
	maxHabits = 16 // a power of two
	longHabit = 24 // the maximum length of a habit's text

	// maxVain is how many members of a list may be looked for in vain. A search takes as long as reading a few names, which
	// entries must not pay that have nothing in common.
	maxVain  = 64
	moreVain = 2 // for each entry
)

// habit is how a member of an object begins: its name with its quotes, the colon, and the blanks behind that. Where this
// text occurs again in an object of the same shape, it is the same member.
type habit struct {
	text, mask [longHabit / 8]uint64 // the mask leaves out what is behind the text
	size       int
	of         *Shape // of the object
	inner      *Shape // of the member's value, or nil
	name       Name
}

// is reports whether b begins with the text. b must have longHabit bytes.
func (h *habit) is(b []byte) bool {
	return (word(b, 0)^h.text[0])&h.mask[0]|(word(b, 8)^h.text[1])&h.mask[1]|(word(b, 16)^h.text[2])&h.mask[2] == 0
}

// begin expects the first member of an entry.
func (h *habits) begin() { h.next, h.vain = 0, min(h.vain+moreVain, maxVain) }

// find looks for a member that was not expected next.
func (h *habits) find(b []byte, of *Shape) *habit {
	if h.vain == 0 {
		return nil
	}
	for i := range h.n {
		if at := &h.seen[i]; at.of == of && at.is(b) {
			h.next = uint(i)
			return at
		}
	}
	h.vain--
	return nil
}

// add adds a member of which b, which has longHabit bytes, begins with size bytes of text.
func (h *habits) add(b []byte, size int, name Name, of, inner *Shape) {
	if h.n == maxHabits || size > longHabit {
		return
	}
	at := &h.seen[h.n]
	h.n++
	at.size, at.name, at.of, at.inner = size, name, of, inner
	for i := range at.text {
		if rest := size - 8*i; rest > 0 {
			at.mask[i] = ^uint64(0) >> (64 - 8*min(rest, 8))
			at.text[i] = word(b, 8*i) & at.mask[i]
		}
	}
}
