package wire

import (
	"fmt"
	"math"
)

// Scan checks that raw is one JSON-RPC message, finds its parts and records what
// shape names. raw stays the caller's and must not change while m is in use.
// The error is an *EnvelopeError; m must then not be used.
//
// Scan refuses a message in which a member of the envelope occurs twice, since the next parser may
// take the other one. For the same reason it refuses a request or notification in which one of certain
// members of params occurs twice (see params.go). Names are compared unescaped.
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
		m.nodes = append(m.nodes, node{key: uint32(i), pos: uint32(i), shape: shape.Number, kind: '{', open: true})
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
			inner := shape.member(name)
			if inner == nil {
				inner = &noShape
			}
			i = m.record(i, key, name, 0, inner, 1, nil)
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
	twice := e.params.about
	if m.Kind = Notification; id != nil {
		m.Kind, twice = Request, e.params.twice
	}
	if twice != OtherName {
		return m.invalid(e, "Invalid Request: params."+twice.String()+" occurs twice")
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
