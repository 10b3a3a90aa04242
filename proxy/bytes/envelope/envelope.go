// Package envelope finds the id of a message that is too large to be kept, and so the
// request that the message answers.
package envelope

import (
	"encoding/json"
	"slices"
)

// maxText is the length in bytes up to which a member's name or an id is read.
const maxText = 1 << 10

// Finder reads a JSON-RPC message in pieces, and remembers the id and whether there is a
// method. It does not check whether the JSON is well-formed. The zero value is ready for
// use.
type Finder struct {
	depth   int
	text    bool // within a string
	escaped bool
	broken  bool // the message is not one object, or its id cannot be used
	value   bool // the colon of a member of the envelope was read
	token   []byte
	name    string // name of that member
	id      []byte
	method  bool
	jsonrpc bool
	answer  bool // there is a result or an error
	logs    int  // how many members are of those of loggers
	whole   bool // the end of the object was read
}

// Write reads the next piece. It never fails.
func (f *Finder) Write(p []byte) (int, error) {
	for _, c := range p {
		f.next(c)
	}
	return len(p), nil
}

// ID returns the id as it stands in the message, or nil if there is no valid id or more
// than one.
func (f *Finder) ID() []byte {
	if f.broken || !json.Valid(f.id) || f.id[0] == '{' || f.id[0] == '[' {
		return nil
	}
	return f.id
}

// Method reports whether the message is a request or a notification.
func (f *Finder) Method() bool { return f.method && !f.broken }

// JSONRPC reports whether the message has a member jsonrpc.
func (f *Finder) JSONRPC() bool { return f.jsonrpc && !f.broken }

// Whole reports whether the message was read to its end.
func (f *Finder) Whole() bool { return f.whole }

// LogMembers are the members by which loggers such as pino, bunyan, Elastic's and slog are known. An object without jsonrpc that
// has two of them is a line of a log.
var LogMembers = []string{"level", "severity", "msg", "message", "time", "ts", "timestamp", "@timestamp", "logger", "pid"}

// BrokenAnswer finds out whether a text that is not a message was meant as the answer to a request. id is nil if the text names
// none, or more than one. Without an id, only an object with a result or an error was plainly meant as an answer, and a line of a
// log never was.
func BrokenAnswer(text []byte) (id []byte, meant bool) {
	var f Finder
	f.Write(text) //nolint:errcheck // it never fails
	if f.logs >= 2 && !f.jsonrpc {
		return nil, false
	}
	id = f.ID()
	if id != nil && (f.answer || f.jsonrpc && !f.method) && string(id) != "null" {
		return id, true
	}
	return nil, f.answer
}

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
			f.whole = true
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

// keep stores a byte of a name or of an id.
func (f *Finder) keep(c byte) {
	if f.depth == 1 && (!f.value || f.name == "id") && len(f.token) <= maxText {
		f.token = append(f.token, c)
	}
}

// begin stores the name of a member, whose value comes next.
func (f *Finder) begin() {
	f.name = ""
	if json.Unmarshal(f.token, &f.name) == nil {
		f.method = f.method || f.name == "method"
		f.jsonrpc = f.jsonrpc || f.name == "jsonrpc"
		f.answer = f.answer || f.name == "result" || f.name == "error"
		if slices.Contains(LogMembers, f.name) {
			f.logs++
		}
	}
	f.token, f.value = f.token[:0], true
}

// member ends a member.
func (f *Finder) member() {
	if f.value && f.name == "id" {
		f.broken = f.broken || f.id != nil || len(f.token) > maxText
		f.id = append([]byte{}, f.token...)
	}
	f.token, f.value = f.token[:0], false
}
