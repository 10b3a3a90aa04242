// Package envelope finds out which request a message answers that is too large to be
// kept.
package envelope

import "encoding/json"

// maxText is the longest member name or id that is looked at, in bytes.
const maxText = 1 << 10

// Finder looks at a JSON-RPC message while it goes by in pieces, and remembers the id and
// whether there is a method. It does not judge whether the JSON is well-formed. The zero
// value is ready for use.
type Finder struct {
	depth   int
	text    bool // within a string
	escaped bool
	broken  bool // not one object, or without an id that can be used
	value   bool // behind the colon of a member of the envelope
	token   []byte
	name    string // of that member
	id      []byte
	method  bool
}

// Write looks at the next piece. It never fails.
func (f *Finder) Write(p []byte) (int, error) {
	for _, c := range p {
		f.next(c)
	}
	return len(p), nil
}

// ID returns the id as it stands in the message, nil where there is none, or not one.
func (f *Finder) ID() []byte {
	if f.broken || !json.Valid(f.id) || f.id[0] == '{' || f.id[0] == '[' {
		return nil
	}
	return f.id
}

// Method reports whether the message is a request or a notification.
func (f *Finder) Method() bool { return f.method && !f.broken }

func (f *Finder) next(c byte) {
	if f.text {
		f.keep(c)
		switch {
		case f.escaped:
			f.escaped = false
		case c == '\\':
			f.escaped = true
		case c == '"':
			f.text = false
		}
		return
	}
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '"':
		f.text = true
		f.keep(c)
	case '{', '[':
		f.keep(c)
		f.broken = f.broken || f.depth == 0 && c == '['
		f.depth++
	case '}', ']':
		f.depth--
		if f.depth == 0 {
			f.member()
			return
		}
		f.keep(c)
	case ':':
		if f.depth == 1 && !f.value {
			f.begin()
			return
		}
		f.keep(c)
	case ',':
		if f.depth == 1 {
			f.member()
			return
		}
		f.keep(c)
	default:
		f.broken = f.broken || f.depth == 0
		f.keep(c)
	}
}

// keep notes a byte of a name, or of an id.
func (f *Finder) keep(c byte) {
	if f.depth == 1 && (!f.value || f.name == "id") && len(f.token) <= maxText {
		f.token = append(f.token, c)
	}
}

// begin notes the name of a member, whose value comes next.
func (f *Finder) begin() {
	f.name = ""
	if json.Unmarshal(f.token, &f.name) != nil || f.name == "method" {
		f.method = f.method || f.name == "method"
	}
	f.token, f.value = f.token[:0], true
}

// member ends one.
func (f *Finder) member() {
	if f.value && f.name == "id" {
		f.broken = f.broken || f.id != nil || len(f.token) > maxText
		f.id = append([]byte{}, f.token...)
	}
	f.token, f.value = f.token[:0], false
}
