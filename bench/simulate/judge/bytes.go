package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/bench/simulate/cut"
	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// passes are the messages that go through dragoman: how the peer that sends one writes it down, by how the other does that gets it.
var passes = map[trace.Kind]trace.Kind{
	trace.Received:   trace.Calls,
	trace.Told:       trace.Replies,
	trace.Answered:   trace.Answers,
	trace.Progressed: trace.Progresses,
	trace.Logged:     trace.Logs,
	trace.Asked:      trace.Asks,
	trace.Completed:  trace.Completes,
	trace.Updated:    trace.Updates,
}

// ofServer are methods without a mark whose results are the server's own, so that each that a client gets is one that the server gave.
var ofServer = []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list", "prompts/get", "resources/read", "completion/complete"}

// shaping are the settings by which dragoman has a say in what passes.
var shaping = []string{"transform", "footprint", "adapters", "gates"}

// passage is which message it is, at both ends.
type passage struct {
	kind trace.Kind // of its sender
	mark string
	n    int
	what string // the method of a message without a mark, or the URI of an update
}

// sentOnce is a message that a peer sent.
type sentOnce struct {
	revision string
	raw      []byte
}

// bytesPass: between a client and a server of one revision, what one sends is what the other gets, byte for byte. The envelope is not
// compared, since ids are dragoman's on a pipe; nor are progress tokens there (docs/revisions-and-losses.md).
func bytesPass(s *script.Script, all []trace.Event) []Violation {
	const law = "bytes"
	for _, line := range s.Settings {
		if slices.ContainsFunc(shaping, func(name string) bool { return strings.HasPrefix(line, name) }) {
			return nil
		}
	}
	rev := revisionsOf(s)
	pipe := s.Server.Transport != "http"
	given := map[passage][]sentOnce{}
	var found []Violation
	for i := range all {
		e := &all[i]
		rev.read(e)
		if len(e.Raw) == 0 {
			continue
		}
		if p, ok := passageOf(e, e.Kind); ok && isSent(e.Kind) {
			given[p] = append(given[p], sentOnce{rev.of(e), e.Raw})
			if _, method := headOf(e.Raw); e.Kind == trace.Replies && method != "" { // the call is sent again with the answer
				p = passage{kind: trace.Calls, mark: e.Mark}
				given[p] = append(given[p], sentOnce{rev.of(e), e.Raw})
			}
			continue
		}
		p, ok := passageOf(e, passes[e.Kind])
		if !ok || e.Kind == trace.Updated && missed(e) {
			continue
		}
		if text := differs(given[p], sentOnce{rev.of(e), e.Raw}, pipe); text != "" {
			found = append(found, Violation{law, e.At, fmt.Sprintf("%s, %s %s %s: %s", e.Who, e.Kind, e.Mark, e.Method, text)})
		}
	}
	return found
}

// missed reports whether e says of a resource nothing but its URI: dragoman says so of all that a client has subscribed to when it has
// begun a session with the server again, since updates may have been missed meanwhile. Those of the simulated server say more.
func missed(e *trace.Event) bool {
	n := 0
	for range cut.Members(cut.Member(e.Raw, "params")) {
		n++
	}
	return n == 1
}

func isSent(k trace.Kind) bool {
	for _, sent := range passes {
		if k == sent {
			return true
		}
	}
	return false
}

// passageOf is which message e is about; kind is how its sender writes it down.
func passageOf(e *trace.Event, kind trace.Kind) (passage, bool) {
	p := passage{kind: kind, mark: e.Mark}
	if !isClient(p.mark) { // a log message that is about no call
		p.mark = ""
	}
	switch kind {
	case "":
		return p, false
	case trace.Calls:
		return p, p.mark != ""
	case trace.Answers:
		if p.mark == "" {
			p.what = e.Method
			return p, slices.Contains(ofServer, e.Method)
		}
		return p, true
	case trace.Updates:
		p.what = e.Text
		return p, true
	}
	p.n = e.N
	return p, true
}

// differs says where got is none of the messages that were sent, of which one is enough; "" if it is one, or if none was sent in its
// revision. What dragoman answers by itself, an error, is none of the server's.
func differs(all []sentOnce, got sentOnce, pipe bool) string {
	for _, one := range all { // first, as most are the same in the envelope, too
		if one.revision != got.revision || bytes.Equal(one.raw, got.raw) {
			return ""
		}
	}
	params, result, failure := parts(got.raw, pipe)
	differ := func() string { return "" }
	for _, one := range all {
		p, r, f := parts(one.raw, pipe)
		switch {
		case bytes.Equal(p, params) && bytes.Equal(r, result) && bytes.Equal(f, failure):
			return ""
		case failure != nil && (f == nil || code(f) != code(failure)):
		case p != nil || params != nil:
			differ = func() string { return difference(p, params) }
		case failure != nil:
			differ = func() string { return difference(f, failure) }
		default:
			differ = func() string { return difference(r, result) }
		}
	}
	return differ()
}

func code(failure []byte) (c int) {
	var f struct{ Code int }
	_ = json.Unmarshal(failure, &f)
	return f.Code
}

// parts cuts a message apart. Where ids and progress tokens are dragoman's, those in params are left out, also of requests that subscribe.
func parts(raw []byte, pipe bool) (params, result, failure []byte) {
	if bytes.IndexByte(raw, '\n') >= 0 { // over several lines, which are one where a line is a message
		raw = bytes.ReplaceAll(raw, []byte{'\n'}, []byte{' '})
	}
	for name, value := range cut.Members(raw) {
		switch {
		case string(value) == "null":
		case string(name) == "params":
			params = value
		case string(name) == "result":
			result = value
		case string(name) == "error":
			failure = value
		}
	}
	if pipe {
		params = without(params, "progressToken")
		params = without(params, "requestId")
		params = without(params, "_meta", "progressToken")
		params = without(params, "_meta", "io.modelcontextprotocol/subscriptionId")
		params = without(params, "_meta", "io.modelcontextprotocol/subscriptionId")
	}
	return params, result, failure
}

// without returns object without the value at a path of members.
func without(object []byte, path ...string) []byte {
	if !bytes.Contains(object, []byte(path[len(path)-1])) {
		return object
	}
	value := object
	for _, name := range path {
		if value = cut.Member(value, name); value == nil {
			return object
		}
	}
	from := cap(object) - cap(value) // value is a part of object
	return slices.Concat(object[:from], object[from+len(value):])
}

// difference shows where two texts part.
func difference(want, got []byte) string {
	at := 0
	for at < len(want) && at < len(got) && want[at] == got[at] {
		at++
	}
	show := func(b []byte) string {
		return fmt.Sprintf("%.120q", b[max(0, min(at, len(b))-20):])
	}
	return fmt.Sprintf("%d bytes were sent and %d came, which differ at %d: %s became %s", len(want), len(got), at, show(want), show(got))
}
