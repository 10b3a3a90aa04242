// Package wire reads and edits one JSON-RPC message without decoding it.
//
// [Message.Scan] checks the whole text once (grammar, UTF-8, depth), finds the
// parts of the envelope and records the positions of the values that a [Shape] names.
// Rules then mark recorded values as to be removed, replaced or extended.
// [Message.AppendTo] writes the message with all these edits in one pass; it copies
// everything else byte for byte.
//
// scan.go has the checker, token.go its part for strings, numbers and literals, and blocks_amd64.go a faster one for long
// strings; shape.go describes what is recorded, habit.go has what a scan expects in the entries of a list, edit.go the
// edits, and name.go and method.go the member names and methods of the protocol as small numbers.
package wire

// Kind is the kind of a message.
type Kind uint8

// The kinds of message. A result and an error are the two kinds of response.
const (
	Request Kind = iota + 1
	Notification
	Result
	Error
)

// String returns the kind in lower case.
func (k Kind) String() string {
	return [...]string{"message", "request", "notification", "result", "error"}[k]
}

// Response reports whether a message of this kind answers a request.
func (k Kind) Response() bool { return k == Result || k == Error }

// Verdict says what the caller of a rewrite must do with the message.
type Verdict uint8

const (
	// Forward sends the message on to its receiver.
	Forward Verdict = iota
	// Drop sends nothing: the receiver does not get the notification.
	Drop
	// Answer sends the output back to the message's sender, as the reply.
	Answer
	// Local leaves the message to the caller, which needs the state of the session to translate it.
	Local
)

// String returns the verdict in lower case.
func (v Verdict) String() string { return [...]string{"forward", "drop", "answer", "local"}[v] }

// Message is one scanned message. Its parts point into Raw and are valid as long as Raw is. The
// zero value is ready for use; another Scan reuses the memory of the last one.
// Only one goroutine at a time may use a Message.
type Message struct {
	// Raw is the text that was scanned. The caller owns it; a rewrite that only
	// removes works inside it.
	Raw []byte
	// Room is the number of bytes behind Raw that a rewrite may write to, so that it can
	// extend a message in place; Scan sets it to 0. If it is negative, a rewrite leaves Raw as it is.
	Room int
	// Follow makes AppendTo find the parts of a response in what it writes. The message is then that text, and has no
	// nodes any more. Scan sets it to false.
	Follow bool
	Kind   Kind
	// Method is the message's method or, for a response, that of the request that it
	// answers. Scan does not know the method of a response; the caller sets it.
	Method Method
	// Facts is what the caller knows of the session.
	Facts Facts
	// Stamp is what the caller knows of client and server and what a revision without a
	// handshake has in each message; nil if the caller knows nothing. A rewrite only reads it.
	Stamp *Stamp
	// Note is what must be remembered between a request and its response. A rewrite
	// of a request sets it to at most MaxNote bytes, which are valid as long as the message; the
	// caller keeps a copy and sets it on the response before that is rewritten.
	Note []byte
	// Unfit reports that the answer to an elicitation did not meet the form's limits. The
	// rewritten answer declines; the caller may ask the client again instead.
	Unfit bool
	// ToolError reports that the message is a result with isError true, and InputRequired
	// that its resultType is input_required.
	ToolError, InputRequired bool
	// Losses is what the rewrite removed or changed: one entry for each What of a rule.
	Losses []Loss
	// Trace makes a rewrite fill Places with every place of each loss. A place has the member
	// names of the message, and costs memory.
	Trace  bool
	Places []Place

	id, method, params, result, err span
	name                            span // of params

	nodes []node
	edits []edit
	text  []byte // the new text of the edits
	grows bool   // some edit is longer than what it replaces

	counted map[uint32]counted // by the array's node: how far indexOf has counted its elements

	shape   *Shape // of the scan
	scanned bool   // without an error
}

// MaxNote is the maximum size of a Note in bytes.
const MaxNote = 4 << 10

type span struct{ pos, end uint32 }

func (m *Message) part(s span) []byte {
	if s.end == 0 {
		return nil
	}
	return m.Raw[s.pos:s.end:s.end]
}

// ID returns the id as it is in Raw, or nil if the message has none.
func (m *Message) ID() []byte { return m.part(m.id) }

// IDAt returns the offsets in Raw at which the id begins and ends, or 0 and 0 if the message has none.
func (m *Message) IDAt() (from, to int) { return int(m.id.pos), int(m.id.end) }

// MethodName returns the method as it is in Raw, without its quotes but with escapes. It is nil for a
// response.
func (m *Message) MethodName() []byte {
	name, _ := Inner(m.part(m.method))
	return name
}

// Params returns the value of params as it is in Raw, or nil if there is none.
func (m *Message) Params() []byte { return m.part(m.params) }

// Name returns the value of params.name as it is in Raw, or nil if there is none. It is what a call names: a tool or
// a prompt.
func (m *Message) Name() []byte { return m.part(m.name) }

// Result returns the value of result as it is in Raw, or nil if there is none.
func (m *Message) Result() []byte { return m.part(m.result) }

// Error returns the value of error as it is in Raw, or nil if there is none.
func (m *Message) Error() []byte { return m.part(m.err) }

// EnvelopeError says why a text is not a JSON-RPC message, and has the code and the id of the error response.
type EnvelopeError struct {
	Code int    // ParseError or InvalidRequest
	ID   []byte // a copy of the id for the response, as it was sent; nil means null
	Why  string
}

// JSON-RPC's error codes for a text that is not a message
// (https://www.jsonrpc.org/specification#error_object).
const (
	ParseError     = -32700
	InvalidRequest = -32600
)

func (e *EnvelopeError) Error() string { return e.Why }

// envelope holds what a scan finds out about the envelope's members.
type envelope struct {
	jsonrpc span
	twice   Name // a member that occurred twice
	params  paramsSeen
}

// Trim releases Raw and Note, and buffers that a large message has made large, so that m can be pooled.
func (m *Message) Trim() {
	const nodes, edits, text = 4 << 10, 1 << 10, 64 << 10
	if cap(m.nodes) > nodes {
		m.nodes = nil
	}
	if cap(m.edits) > edits {
		m.edits = nil
	}
	if cap(m.text) > text {
		m.text = nil
	}
	m.Raw, m.Note = nil, nil
}

// Rest releases all memory that m holds, for a pause of unknown length. What the caller has set for all its messages stays.
func (m *Message) Rest() { *m = Message{Facts: m.Facts, Stamp: m.Stamp, Trace: m.Trace} }

// node is one recorded value. The nodes are in the order of the text, a container
// before its contents.
type node struct {
	key, pos, end uint32 // offsets: its member begins (for an element the same as pos), the value begins, it ends
	next          uint32 // the first node behind its contents
	parent        uint32
	edit          uint32 // 1 + index of its first edit, 0 for none
	shape         uint16 // the number of the shape with which it was recorded
	name          Name
	kind          byte // the value's first byte
	open          bool // the members or elements that its shape names are recorded
	touched       bool // it or something in it has an edit
}

// newNode appends a node for the caller to fill in: as an argument of append it would first be put together elsewhere and
// then copied.
func (m *Message) newNode() *node {
	n := len(m.nodes)
	if n == cap(m.nodes) {
		m.nodes = append(m.nodes, node{})
	} else {
		m.nodes = m.nodes[:n+1]
		m.nodes[n] = node{}
	}
	return &m.nodes[n]
}

// edit is one edit of a node. The comments call it a mark.
type edit struct {
	op       op
	text     span   // in Message.text
	nextEdit uint32 // 1 + index of the next one on the same node
}

type op uint8

// The first three replace or remove the node.
const (
	remove  op = iota + 1
	replace    // the value
	swap       // the member with its name, or the element, for one or several others
	add        // behind the last member or element
	before     // in front of the member
	rename     // the member's name
)

// paramsSeen holds what a scan finds out about the members of params.
type paramsSeen struct {
	bits  uint32
	twice Name // a member of once that occurred twice
	about Name // the same, if isAbout
}

// Level says what a loss means to the receiver.
type Level uint8

// The levels of the logging contract: Warn for the loss of a value, Info for that of an empty value, Debug for
// changes that only the protocol itself needs, Assumed for a value that the receiver assumes without it. A loss of the level
// Assumed is logged for debugging, and neither counted nor reported.
const (
	Debug Level = iota
	Assumed
	Info
	Warn
)

// String returns the level in capitals.
func (l Level) String() string { return [...]string{"DEBUG", "ASSUMED", "INFO", "WARN"}[l] }

// Loss is what one rule removed from one message, or changed in it. The receiver misses something at Lost of the places. At
// the others, the rule added or moved something, or removed what holds nothing.
type Loss struct {
	Rule    string // the rule's number: "C01"
	What    string // the member or thing: "title"
	Level   Level  // the highest level of all its places
	Count   int    // the number of places
	Lost    int    // the places of level Warn without a replacement
	Standin bool   // the rule put a replacement with the same meaning into the message, at one place at least
	Path    Path   // the first place
}

// Add adds a place of this level.
func (l *Loss) Add(level Level) {
	l.Count++
	if level == Warn {
		l.Lost++
	}
	l.Level = max(l.Level, level)
}

// Changed returns at how many places the receiver misses nothing.
func (l *Loss) Changed() int { return l.Count - l.Lost }

// Place is one place of a loss.
type Place struct {
	Rule, What string
	Level      Level
	Standin    bool   // the rule put a replacement with the same meaning into the message
	Path       string // result.tools[3].title, result["a key"].x
}

// Lost reports whether the receiver misses what was at the place.
func (p *Place) Lost() bool { return p.Level == Warn && !p.Standin }

// counted is an element, and the number of elements before it.
type counted struct{ node, index uint32 }

// Path is the path from a message to one value in it. It owns its memory and stays valid when the message is
// scanned again. Of a path longer than 10 steps it has the first 10.
type Path struct {
	n    uint8
	step [maxPath]pathStep
}

type pathStep struct {
	name  Name
	elem  bool
	index uint32
}

const maxPath = 10
