// Package wire looks at one JSON-RPC message without decoding it.
//
// [Message.Scan] checks the whole text once (grammar, UTF-8, depth), finds the
// parts of the envelope and records where the values stand that a [Shape] names.
// Rules then mark what is recorded: remove this, put that in its place, add here.
// [Message.AppendTo] writes all marks out in one pass. Unmarked bytes keep
// its bytes.
//
// scan.go is the checker, shape.go what it records, edit.go the marks,
// name.go and method.go the words of the protocol as small numbers.
package wire

import (
	"fmt"
	"math"
)

// Kind says what a message is.
type Kind uint8

// The kinds of message. A result and an error are the two kinds of response.
const (
	Request Kind = iota + 1
	Notification
	Result
	Error
)

// String is the kind in lower case.
func (k Kind) String() string {
	return [...]string{"message", "request", "notification", "result", "error"}[k]
}

// Response reports whether a message of this kind answers a request.
func (k Kind) Response() bool { return k == Result || k == Error }

// Verdict says what becomes of a message.
type Verdict uint8

const (
	// Forward sends the message on to its receiver.
	Forward Verdict = iota
	// Drop ends a notification here.
	Drop
	// Answer sends what was written back to the sender, as the reply.
	Answer
	// Local hands the message to the caller, who must remember something to go on.
	Local
)

// String is the verdict in lower case.
func (v Verdict) String() string { return [...]string{"forward", "drop", "answer", "local"}[v] }

// Message is one message, scanned. Its parts point into Raw and die with it. The
// zero value is ready for use; scanning again reuses the memory of the last scan.
// A Message is for one goroutine at a time.
type Message struct {
	// Raw is the text that was scanned. The caller owns it; a rewrite that only
	// removes works inside it.
	Raw []byte
	// Room is how many bytes behind Raw may be written to, so that a rewrite that adds
	// works inside Raw, too; Scan sets it to 0.
	Room int
	Kind Kind
	// Method is the message's own, or, for a response, that of the request it
	// answers: Scan cannot know that one, the caller sets it.
	Method Method
	// Facts is what the caller knows of the session.
	Facts Facts
	// Stamp is what the caller knows of both ends that a revision without a
	// handshake says in each message; nil for nothing. It is only read.
	Stamp *Stamp
	// Note is what must be remembered between a request and its answer. A rewrite
	// of a request sets it to at most MaxNote bytes, which die with the message; the
	// caller keeps a copy and sets it on the answer before that one is rewritten.
	Note []byte
	// Unfit says of the answer to a question that it was not what was asked for.
	// What is written declines the question; the caller may ask again instead.
	Unfit bool
	// ToolError says that it is a result with isError true, and InputRequired that its
	// resultType is input_required.
	ToolError, InputRequired bool
	// Losses is what the rewrite took or changed, one entry a rule.
	Losses []Loss
	// Trace asks for Places, which have every place of each loss, by the names that
	// the message gives. That takes memory for each.
	Trace  bool
	Places []Place

	id, method, params, result, err span

	nodes []node
	edits []edit
	text  []byte // what edits put in
	grows bool   // some edit is longer than what it replaces

	counted map[uint32]counted // by the array: how far its elements were counted, for Places
}

// MaxNote bounds a Note.
const MaxNote = 4 << 10

type span struct{ pos, end uint32 }

func (m *Message) part(s span) []byte {
	if s.end == 0 {
		return nil
	}
	return m.Raw[s.pos:s.end:s.end]
}

// ID is the id as it stands in Raw, nil when the message has none.
func (m *Message) ID() []byte { return m.part(m.id) }

// IDAt returns where in Raw the id stands, 0 and 0 when the message has none.
func (m *Message) IDAt() (from, to int) { return int(m.id.pos), int(m.id.end) }

// MethodName is the inside of the method's string as it stands in Raw, nil on a
// response.
func (m *Message) MethodName() []byte {
	name, _ := Inner(m.part(m.method))
	return name
}

// Params is the value of params as it stands in Raw, nil when there is none.
func (m *Message) Params() []byte { return m.part(m.params) }

// Result is the value of result as it stands in Raw, nil when there is none.
func (m *Message) Result() []byte { return m.part(m.result) }

// Error is the value of error as it stands in Raw, nil when there is none.
func (m *Message) Error() []byte { return m.part(m.err) }

// EnvelopeError says why a text is no message, and with what to answer it.
type EnvelopeError struct {
	Code int    // ParseError or InvalidRequest
	ID   []byte // the id to answer under as it was sent, a copy; nil means null
	Why  string
}

// JSON-RPC's codes for a text that is no message
// (https://www.jsonrpc.org/specification#error_object).
const (
	ParseError     = -32700
	InvalidRequest = -32600
)

func (e *EnvelopeError) Error() string { return e.Why }

// Scan checks that raw is one JSON-RPC message, finds its parts and records what
// shape names. raw stays the caller's and must not change while m is in use.
// The error is an *EnvelopeError; m is then of no use.
//
// An envelope member that occurs twice is refused, since the next parser may
// pick the other one; so is a request with a member of params that occurs twice and
// decides what becomes of it (see params.go). Names are compared unescaped.
func (m *Message) Scan(raw []byte, shape *Shape) error {
	*m = Message{
		Raw: raw, Facts: m.Facts, Stamp: m.Stamp, Trace: m.Trace,
		nodes: m.nodes[:0], edits: m.edits[:0], text: m.text[:0], Losses: m.Losses[:0],
	}
	if len(raw) > math.MaxUint32/2 {
		return &EnvelopeError{Code: InvalidRequest, Why: "message larger than 2 GiB"}
	}
	i := skipSpace(raw, 0)
	if i == len(raw) {
		return parseError(broken(i, faultEnd))
	}
	if raw[i] != '{' {
		return m.notAnObject(i)
	}
	if shape != nil {
		m.nodes = append(m.nodes, node{key: uint32(i), pos: uint32(i), open: true})
	}
	var e envelope
	if i = whole(raw, m.scanEnvelope(i, shape, &e)); i < 0 {
		if _, why := unbroken(i); why == faultNodes {
			return m.invalid(&e, "Invalid Request: "+faultTexts[why])
		}
		return parseError(i)
	}
	if shape != nil {
		m.nodes[0].end, m.nodes[0].next = uint32(i), uint32(len(m.nodes))
	}
	return m.classify(&e)
}

// whole checks that nothing but blanks follows at i.
func whole(raw []byte, i int) int {
	if i < 0 {
		return i
	}
	if end := skipSpace(raw, i); end != len(raw) {
		return broken(end, faultTrail)
	}
	return len(raw)
}

func parseError(i int) *EnvelopeError {
	at, why := unbroken(i)
	return &EnvelopeError{Code: ParseError, Why: fmt.Sprintf("Parse error: %s at byte %d", faultTexts[why], at)}
}

// notAnObject tells a JSON value that is no message from a text that is no JSON.
func (m *Message) notAnObject(i int) error {
	if i = whole(m.Raw, skipValue(m.Raw, i, 0)); i < 0 {
		return parseError(i)
	}
	return &EnvelopeError{Code: InvalidRequest, Why: "Invalid Request: not a JSON object"}
}

// envelope is what a scan learns of the envelope's own members.
type envelope struct {
	jsonrpc span
	twice   Name // a member that occurred before
	params  paramsSeen
}

func (m *Message) scanEnvelope(i int, shape *Shape, e *envelope) int {
	b := m.Raw
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(b) {
			return broken(i, faultEnd)
		}
		key := i
		var name Name
		if i, name = readName(b, i); i < 0 {
			return i
		}
		if i = skipColon(b, i); i < 0 {
			return i
		}
		pos := i
		switch {
		case (name == Params || name == ResultKey) && i < len(b) && b[i] == '{':
			i = m.scanNoted(i, key, name, shape, e)
		case shape == nil:
			i = skipValue(b, i, 1)
		default:
			i = m.record(i, key, name, 0, shape.member(name), 1)
		}
		if i < 0 {
			return i
		}
		m.note(e, name, span{uint32(pos), uint32(i)})
		if i = behind(b, i, '}'); i < 0 {
			return i
		}
		if b[i-1] == '}' {
			return i
		}
	}
}

func (m *Message) note(e *envelope, name Name, s span) {
	var at *span
	switch name {
	case JSONRPC:
		at = &e.jsonrpc
	case ID:
		at = &m.id
	case MethodKey:
		at = &m.method
	case Params:
		at = &m.params
	case ResultKey:
		at = &m.result
	case ErrorKey:
		at = &m.err
	default:
		return
	}
	if at.end != 0 {
		e.twice = name
	}
	*at = s
}

// classify decides what kind of message it is, or why it is none.
func (m *Message) classify(e *envelope) error {
	if e.twice != OtherName {
		if e.twice == ID {
			m.id = span{}
		}
		return m.invalid(e, "Invalid Request: "+e.twice.String()+" occurs twice")
	}
	if version, ok := Inner(m.part(e.jsonrpc)); !ok || !IsText(version, "2.0") {
		return m.invalid(e, `Invalid Request: jsonrpc must be "2.0"`)
	}
	id := m.ID()
	if m.method.end != 0 {
		return m.classifyCall(e, id)
	}
	switch {
	case m.result.end != 0 && m.err.end != 0:
		return m.invalid(e, "Invalid Request: both result and error")
	case m.result.end != 0:
		m.Kind = Result
	case m.err.end != 0:
		m.Kind = Error
		if id == nil || string(id) == "null" {
			return nil
		}
	default:
		return m.invalid(e, "Invalid Request: no method, result or error")
	}
	if id == nil || !validID(id) {
		return m.invalid(e, "Invalid Request: id must be a string or an integer")
	}
	return nil
}

func (m *Message) classifyCall(e *envelope, id []byte) error {
	name, ok := Inner(m.part(m.method))
	switch {
	case !ok:
		return m.invalid(e, "Invalid Request: method must be a string")
	case m.result.end != 0 || m.err.end != 0:
		return m.invalid(e, "Invalid Request: both a method and an answer")
	case id != nil && !validID(id):
		return m.invalid(e, "Invalid Request: id must be a string or an integer")
	case m.params.end != 0 && m.Raw[m.params.pos] != '{':
		return m.invalid(e, "Invalid Request: params must be an object")
	}
	m.Kind = Notification
	if id != nil {
		m.Kind = Request
		if e.params.twice != OtherName {
			return m.invalid(e, "Invalid Request: params."+e.params.twice.String()+" occurs twice")
		}
	}
	m.Method = methodOf(name)
	return nil
}

// invalid answers under the id where there is one to answer under.
func (m *Message) invalid(e *envelope, why string) error {
	fault := &EnvelopeError{Code: InvalidRequest, Why: why}
	if id := m.ID(); id != nil && e.twice != ID && validID(id) {
		fault.ID = append([]byte(nil), id...)
	}
	return fault
}

// Trim lets go of what a giant message made the Message grow, so that it can be
// pooled.
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
