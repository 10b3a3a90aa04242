package judge

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/dragoman-proxy/dragoman/bench/simulate/cut"
	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// received are the events by which peers write down a message that dragoman gave them; sent those of a message that they gave to it.
var (
	received = map[trace.Kind]bool{
		trace.Answered: true, trace.Progressed: true, trace.Logged: true, trace.Asked: true, trace.Revoked: true, trace.Completed: true, trace.Updated: true,
		trace.Changed: true, trace.Tasked: true, trace.Pinged: true, trace.Began: true, trace.Opened: true,
		trace.Received: true, trace.Told: true, trace.Stopped: true, trace.Initialized: true, trace.Ponged: true,
	}
	sent = map[trace.Kind]bool{
		trace.Begins: true, trace.Calls: true, trace.Requests: true, trace.Polls: true, trace.Replies: true, trace.Cancels: true, trace.Subscribes: true, trace.Unsubscribe: true,
		trace.Answers: true, trace.Progresses: true, trace.Logs: true, trace.Asks: true, trace.Withdraws: true, trace.Completes: true, trace.Pings: true,
		trace.Updates: true, trace.Changes: true,
	}
)

// validity: each message that dragoman gave a peer is valid by the schema of the peer's revision, if what it was made from was valid by
// that of its sender's.
func validity(s *script.Script, all []trace.Event) []Violation {
	const law = "validity"
	rev, methods := revisionsOf(s), methodsAsked{}
	var found []Violation
	for i := range all {
		e := &all[i]
		rev.read(e)
		switch {
		case len(e.Raw) == 0:
		case sent[e.Kind]:
			methods.read(e)
		case received[e.Kind]:
			of, method := rev.of(e), methods.of(e)
			if err := fits(of, method, e.Raw); err != nil && !madeFromInvalid(s, all[:i], e) {
				found = append(found, Violation{law, e.At, fmt.Sprintf("%s %s %s %s of %s: %v: %.600s", e.Who, e.Kind, e.Mark, method, of, err, e.Raw)})
			}
		}
	}
	return found
}

// methodsAsked are the methods of requests, by the peer that waits for the answer, its session and their ids.
type methodsAsked map[string]string

// read reads an event whose message may be a request.
func (m methodsAsked) read(e *trace.Event) {
	id, method := headOf(e.Raw)
	if id == "" || method == "" {
		return
	}
	m[e.Who+" "+e.Session+" "+id] = method
	if e.Kind == trace.Calls {
		m[e.Mark] = method
	}
}

// of is the method of the request whose answer is the message of e; that of the message if it is none.
func (m methodsAsked) of(e *trace.Event) string {
	id, method := headOf(e.Raw)
	if method == "" && (e.Kind == trace.Answered && e.Method != "tasks/get" || e.Kind == trace.Asked) {
		method = m[e.Mark]
	}
	if method == "" {
		method = m[e.Who+" "+e.Session+" "+id]
	}
	if method == "" {
		method = e.Method
	}
	return method
}

// headOf returns the id and the method of a message; "" for what it does not have.
func headOf(raw []byte) (id, method string) {
	for name, value := range cut.Members(raw) {
		switch string(name) {
		case "id":
			id = string(value)
		case "method":
			method = string(bytes.Trim(value, `"`))
		}
	}
	return id, method
}

// madeFromInvalid reports whether the message of e may come from one before it that its sender's revision does not allow: one of the same
// mark and, without a mark, of the same method.
func madeFromInvalid(s *script.Script, before []trace.Event, e *trace.Event) bool {
	if bytes.Contains(e.Raw, forged) { // what a client made up fits no question
		return true
	}
	rev, methods := revisionsOf(s), methodsAsked{}
	toClient := isClient(e.Who)
	for i := range before {
		f := &before[i]
		rev.read(f)
		switch {
		case len(f.Raw) == 0:
		case f.Kind == trace.Received || f.Kind == trace.Asked:
			methods.read(f)
		case sent[f.Kind] && isClient(f.Who) != toClient && f.Mark == e.Mark && (e.Mark != "" || f.Method == e.Method):
			if fits(rev.of(f), methods.of(f), mended(f.Raw, methods.of(f), rev.of(f), rev.of(e))) != nil {
				return true
			}
		}
	}
	return false
}

// mends are what a sender may do that its revision does not allow, and dragoman mends for some receivers, so that it is no excuse for what these
// get: from one revision to another, a message of a method is as if the sender had written it otherwise.
var mends = []func(raw []byte, method, from, to string) []byte{withoutNull, withContent}

// mended is a message as dragoman takes it.
func mended(raw []byte, method, from, to string) []byte {
	for _, mend := range mends {
		raw = mend(raw, method, from, to)
	}
	return raw
}

// withoutNull takes out a null error beside a result, for any receiver.
func withoutNull(raw []byte, _, _, _ string) []byte {
	for _, null := range []string{`"error":null,`, `,"error":null`} {
		raw = bytes.Replace(raw, []byte(null), nil, 1)
	}
	return raw
}

// withContent gives the result of a tool content: an empty one for a client of 2026-07-28 (C29), and for one before 2025-06-18 a text, which is
// what structuredContent becomes (C04).
func withContent(raw []byte, method, from, to string) []byte {
	result := cut.Member(raw, "result")
	if method != "tools/call" || result == nil || cut.Member(result, "content") != nil || cut.Member(result, "task") != nil {
		return raw
	}
	if from < modern && to >= modern || from >= "2025-06-18" && to < "2025-06-18" && cut.Member(result, "structuredContent") != nil {
		at := cap(raw) - cap(result) + 1 // result is a part of raw, and begins with {
		return slices.Concat(raw[:at], []byte(`"content":[],`), raw[at:])
	}
	return raw
}
