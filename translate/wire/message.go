// Package wire reads and edits one JSON-RPC message without decoding it.
//
// [Message.Scan] checks the whole text once (grammar, UTF-8, depth), finds the
// parts of the envelope and records the positions of the values that a [Shape] names.
// Rules then mark recorded values as to be removed, replaced or extended.
// [Message.AppendTo] writes the message with all these edits in one pass; it copies
// everything else byte for byte.
//
// scan.go has the checker, shape.go the description of what it records, edit.go the edits, and
// name.go and method.go the member names and methods of the protocol as small numbers.
package wire

import (
	"fmt"
	"math"
)

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

// Scan checks that raw is one JSON-RPC message, finds its parts and records what
// shape names. raw stays the caller's and must not change while m is in use.
// The error is an *EnvelopeError; m must then not be used.
//
// Scan refuses a message in which a member of the envelope occurs twice, since the next parser may
// take the other one. For the same reason it refuses a request in which one of certain members of
// params occurs twice (see params.go). Names are compared unescaped.
func (m *Message) Scan(raw []byte, shape *Shape) error {
	*m = Message{
		Raw: raw, Facts: m.Facts, Stamp: m.Stamp, Trace: m.Trace,
		nodes: m.nodes[:0], edits: m.edits[:0], text: m.text[:0], Losses: m.Losses[:0],
	}
	if len(raw) > math.MaxUint32/2 {
		return &EnvelopeError{Code: InvalidRequest, Why: "message larger than 2 GiB"}
	}
	countScan()
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
	end := m.scanEnvelope(i, shape, &e)
	if i = whole(raw, end); i < 0 {
		if _, why := unbroken(i); why == faultNodes {
			return m.invalid(&e, "Invalid Request: "+faultTexts[why])
		}
		return parseError(i)
	}
	if shape != nil {
		m.nodes[0].end, m.nodes[0].next = uint32(end), uint32(len(m.nodes))
	}
	err := m.classify(&e)
	m.shape, m.scanned = shape, err == nil
	return err
}

// ScanLike is Scan of raw, a copy of the text of seen. What the scan of seen has found is not looked for again, if that
// had the same shape. A nil seen has found nothing.
func (m *Message) ScanLike(seen *Message, raw []byte, shape *Shape) error {
	if seen == nil || !seen.scanned || seen.shape != shape || len(seen.Raw) != len(raw) || seen.Edited() {
		return m.Scan(raw, shape)
	}
	own := *m
	*m = *seen
	m.Raw, m.Room, m.Follow, m.Facts, m.Stamp, m.Trace = raw, 0, false, own.Facts, own.Stamp, own.Trace
	if m.Kind.Response() {
		m.Method = 0
	}
	m.nodes, m.edits, m.text = append(own.nodes[:0], seen.nodes...), own.edits[:0], own.text[:0]
	m.Note, m.Unfit, m.Losses, m.Places, m.counted = nil, false, own.Losses[:0], nil, nil
	return nil
}

// whole checks that only blanks follow at i.
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

// notAnObject returns InvalidRequest for a JSON value that is not an object, ParseError for a text that is not JSON.
func (m *Message) notAnObject(i int) error {
	if i = whole(m.Raw, skipValue(m.Raw, i, 0)); i < 0 {
		return parseError(i)
	}
	return &EnvelopeError{Code: InvalidRequest, Why: "Invalid Request: not a JSON object"}
}

// envelope holds what a scan finds out about the envelope's members.
type envelope struct {
	jsonrpc span
	twice   Name // a member that occurred twice
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
		if i, name = readName(b, i, 0); i < 0 {
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

// classify sets the kind of the message, or returns why it is not a message.
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

// invalid returns an InvalidRequest error, with the message's id if that is valid.
func (m *Message) invalid(e *envelope, why string) error {
	fault := &EnvelopeError{Code: InvalidRequest, Why: why}
	if id := m.ID(); id != nil && e.twice != ID && validID(id) {
		fault.ID = append([]byte(nil), id...)
	}
	return fault
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
