// Package stateless reads the requests of modern clients, which have no session: each request says
// who sends it, in which revision, and what the client can do. It checks that the HTTP headers
// agree with the message, and counts a call, however many requests to the server it takes.
package stateless

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Request is a request of a modern client. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic#meta. The result of [Read] points
// into the message; after [Request.Own] it owns its memory, as does what [Request.WithoutMessage] returns.
type Request struct {
	Raw     []byte        // the message as it was sent
	Scanned *wire.Message // the message, while the request is begun; nil for none
	spare   []byte        // memory for the message to the server, if it is large; nil for none
	ID      []byte
	Method  wire.Method
	Name    string // the name of the method
	Target  []byte // what the method is applied to: params.name or params.uri as JSON; nil if there is neither

	Arguments []byte // arguments of a tool call; nil for none
	PlainName bool   // Mcp-Name should have been encoded, but was not

	ClientInfo    []byte // clientInfo; nil for none
	Capabilities  []byte
	Facts         wire.Facts   // the facts in capabilities
	LogLevel      mcp.LogLevel // the level of log messages that the client wants; mcp.NoLogLevel for none
	ProgressToken []byte       // the progressToken; nil for none

	State  []byte // requestState, a JSON string; nil for none
	Inputs []byte // inputResponses; nil for none

	Owner     [16]byte     // the sealed.Owner; zero on a pipe, and if nothing identifies the client
	User      string       // the user that may answer the server's questions
	Address   string       // the peer's address; "" on a pipe, and if another replica forwarded the request
	Unknown   bool         // nothing but the client's own claim identifies it
	Header    []mcp.Header // the HTTP headers that describe the message, as they came; nil on a pipe
	Heard     []mcp.Header // the HTTP headers that the observer keeps; nil if nothing observes
	MaxTokens int          // the budget that a header asks for; 0 for none
	Timed     bool         // a header asks for the timing
	Sender    downstream.Sender
	Counts    *Tally       // counts the call; nil if the call is not counted
	Silent    *atomic.Bool // becomes true when the client sends no more; nil where that is not known

	room *room // nil in a copy
}

// room is a request and the memory of what nearly every request needs.
type room struct {
	request Request
	tally   Tally
	header  [4]mcp.Header
	text    []byte // of a small message that the request owns
}

// rooms has the memory of requests that nothing knows any more, see [Request.Free].
var rooms = sync.Pool{New: func() any { return new(room) }}

// keepText is the greatest size of a message whose memory is used again.
const keepText = 4 << 10

// reuse implements [reusable].
func (r *room) reuse() {
	*r = room{text: r.text}
	rooms.Put(r)
}

// Free lets other requests use the memory of q after the last [Tally.Release]. Then nothing may know q or a part of it, or
// read the text of the message.
func (q *Request) Free() {
	if q.room != nil {
		q.room.tally.free(q.room)
	}
}

// Read reads a scanned request. The result points into m, and has only the facts that the
// client has declared. header is the value of MCP-Protocol-Version, or "" if there are no headers.
// The error is for the client, about its _meta or its revision.
func Read(m *wire.Message, header string) (*Request, error) {
	q, err := readMeta(m.Params(), TargetOf(m.Method), header)
	if err != nil {
		return nil, report.FailureOf(err).About(m.ID())
	}
	q.Raw, q.ID = m.Raw, m.ID()
	name := m.MethodName()
	if bytes.IndexByte(name, '\\') >= 0 { // some writers escape each slash
		name = wire.AppendUnescaped(nil, name)
	}
	q.Method, q.Name = m.Method, wire.View(name)
	return q, nil
}

// Own copies the message of q, so that q owns its memory: a large message with as much again for the message to the
// server.
func (q *Request) Own(ctx context.Context, memory *large.Memory) error {
	size := len(q.Raw)
	if size > large.Size {
		size *= 2
	}
	text := q.room.text[:0]
	if size > cap(text) {
		var err error
		if text, err = memory.Alloc(ctx, large.RequestWait, large.RequestCopy, size); err != nil {
			return report.FailureOf(err).About(q.ID)
		}
		if size <= keepText {
			q.room.text = text
		}
	}
	from := q.Raw
	text = append(text, from...)
	q.Scanned = nil
	q.Raw, q.spare = text[:len(text):len(text)], text[len(text):]
	for _, part := range q.parts() {
		*part = wire.Moved(*part, from, q.Raw)
	}
	for _, part := range [...]*[]byte{&q.Arguments, &q.State, &q.Inputs} {
		*part = wire.Moved(*part, from, q.Raw)
	}
	q.Name = wire.View(wire.Moved(wire.Bytes(q.Name), from, q.Raw))
	q.Facts = mcp.ClientFacts(gjson.Parse(wire.View(q.Capabilities)))
	return nil
}

// parts returns the parts of the message that q keeps without it.
func (q *Request) parts() [5]*[]byte {
	return [5]*[]byte{&q.ID, &q.Target, &q.ClientInfo, &q.Capabilities, &q.ProgressToken}
}

// WithoutMessage returns a copy of q without the message.
func (q *Request) WithoutMessage() *Request {
	o := *q
	o.room = nil
	o.Raw, o.spare, o.Arguments, o.State, o.Inputs = nil, nil, nil, nil, nil
	o.Name = strings.Clone(q.Name)
	for _, part := range o.parts() {
		*part = bytes.Clone(*part)
	}
	o.Facts = mcp.ClientFacts(gjson.ParseBytes(o.Capabilities))
	return &o
}

// Spare returns memory for the message to the server, or nil if the message is not large. Only one message at a time may
// be in it.
func (q *Request) Spare() []byte {
	if len(q.Raw) <= large.Size || cap(q.spare) < len(q.Raw) {
		return nil
	}
	return q.spare[:0]
}

// TargetOf returns the member of params that names what a method is applied to, or "" if there is
// none.
func TargetOf(method wire.Method) string {
	switch method {
	case wire.ToolsCall, wire.PromptsGet:
		return "name"
	case wire.ResourcesRead:
		return "uri"
	case wire.TasksGet, wire.TasksUpdate, wire.TasksCancel:
		return "taskId"
	}
	return ""
}

// readMeta reads the members of params, which the scan has checked; target is the member that Mcp-Name repeats. Clients may
// rely on the order of its checks: the required members of _meta, the revision in the header,
// whether dragoman supports the revision.
func readMeta(params []byte, target, header string) (*Request, error) {
	whole := rooms.Get().(*room)
	q := &whole.request
	q.LogLevel, q.room = mcp.NoLogLevel, whole
	version := ""
	var broken string // the first member with an invalid value
	if len(params) == 0 || params[0] != '{' {
		params = []byte("{}")
	}
	wire.EachIn(params, "_meta", func(name, v []byte) bool {
		good := true // a member that occurs twice is invalid: the server may read the other one
		switch kind := wire.KindOf(v); string(name) {
		case mcp.MetaVersion:
			good = kind == wire.String && version == ""
			version = textOf(v)
		case mcp.MetaCapabilities:
			good = kind == wire.Object && q.Capabilities == nil
			q.Capabilities = v
		case mcp.MetaClient:
			good = kind == wire.Object && q.ClientInfo == nil
			q.ClientInfo = v
		case mcp.MetaLogLevel:
			good = q.LogLevel == mcp.NoLogLevel
			q.LogLevel = mcp.LogLevelOf(textOf(v))
			good = good && q.LogLevel != mcp.NoLogLevel
		case "progressToken":
			good = (kind == wire.String || kind == wire.Number) && q.ProgressToken == nil
			q.ProgressToken = v
		}
		if !good && broken == "" {
			broken = wire.View(name)
		}
		return true
	}, func(name, v []byte) bool {
		switch string(name) {
		case target:
			q.Target = v
		case "requestState":
			q.State = v
		case "inputResponses":
			q.Inputs = v
		case "arguments":
			q.Arguments = v
		}
		return true
	})
	switch {
	case version == "" && broken == "":
		broken = mcp.MetaVersion
	case broken == "" && q.Capabilities == nil:
		broken = mcp.MetaCapabilities
	}
	if broken != "" {
		f := mcp.Fail(mcp.MetaInvalid, "")
		f.Text += ": " + broken
		return nil, f
	}
	if header != "" && header != version {
		return nil, mcpheader.Mismatch("MCP-Protocol-Version", "_meta")
	}
	if r := translate.Lookup(version); r == nil || !r.Modern {
		return nil, unsupported(version)
	}
	return q, nil
}

// textOf returns the text of a JSON string, which may be a part of v, or "" for any other value.
func textOf(v []byte) string {
	if wire.KindOf(v) != wire.String {
		return ""
	}
	return wire.View(wire.Unquoted(v))
}

// unsupported returns the error for a modern revision that dragoman does not support. It lists the
// supported ones.
func unsupported(requested string) *mcp.Failure {
	f := mcp.Fail(mcp.RevisionUnsupported, "")
	data := append(wire.AppendStrings([]byte(`{"supported":`), translate.Names()), `,"requested":`...)
	f.Data = append(wire.AppendQuoted(data, fmt.Sprintf("%.64s", requested)), '}')
	return f
}

// MayAsk reports whether the server may ask the client something before it answers: the method
// allows it, and the client has declared a capability for it.
func (q *Request) MayAsk() bool {
	switch q.Method {
	case wire.ToolsCall, wire.PromptsGet, wire.ResourcesRead:
		return q.CanBeAsked()
	}
	return false
}

// Holder returns the client whose share of the common limits the request uses.
func (q *Request) Holder(who string) quota.Holder {
	if !q.Unknown {
		return quota.Holder{Principal: who}
	}
	return quota.Holder{Principal: who, Address: q.Address}
}

// CanBeAsked reports whether the client can answer any kind of question.
func (q *Request) CanBeAsked() bool {
	return q.Facts.Has(wire.ClientElicitation) || q.Facts.Has(wire.ClientSampling) || q.Facts.Has(wire.ClientRoots)
}

// Digest returns a hash of what a retry must have in common with the original request: everything
// except the answers to the server's questions.
func (q *Request) Digest() [sha256.Size]byte {
	return results.Digest(q.Name, gjson.GetBytes(q.Raw, "params").Raw)
}

// NoteHeaders notes the headers that describe the message, except Mcp-Session-Id, since there is no
// session, and MCP-Protocol-Version, which the connection to the server sets.
func (q *Request) NoteHeaders(req *downstream.Request) {
	q.Header = q.room.header[:0]
	if req.Headers == nil {
		return
	}
	n := noters.Get().(*noter)
	n.q = q
	req.Headers(mcpheader.Prefix, n.note)
	n.q = nil
	noters.Put(n)
}

// A noter notes headers. Its method is bound once, as requests give it to a function that lets it escape.
type noter struct {
	q    *Request
	note func(name, value string)
}

var noters = sync.Pool{New: func() any {
	n := new(noter)
	n.note = n.add
	return n
}}

func (n *noter) add(name, value string) {
	if !strings.EqualFold(name, "Mcp-Session-Id") && !strings.EqualFold(name, "MCP-Protocol-Version") {
		n.q.Header = append(n.q.Header, mcp.Header{Name: name, Value: value})
	}
}

// IsHandshakeOnly reports whether only handshake revisions have the method.
func IsHandshakeOnly(m wire.Method) bool {
	switch m {
	case wire.Initialize, wire.Ping, wire.LoggingSetLevel, wire.ResourcesSubscribe, wire.ResourcesUnsubscribe:
		return true
	}
	return false
}

// UnknownMethod returns the failure for a request with an unknown method. It quotes at most 100 bytes of name.
func UnknownMethod(name string) *mcp.Failure {
	return mcp.Fail(mcp.MethodUnknown, fmt.Sprintf("%.100s", name))
}

// CheckHeaders compares the headers of a modern request with its body. Proxies may decide by the
// headers without reading the body, so a request whose headers differ is refused. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#standard-request-headers.
func (q *Request) CheckHeaders(header func(name string) string) error {
	if method := header("Mcp-Method"); method != q.Name {
		return mcpheader.Mismatch("Mcp-Method", "the method")
	}
	what := TargetOf(q.Method)
	if what == "" {
		return nil
	}
	value := header("Mcp-Name")
	if target := gjson.ParseBytes(q.Target); target.Type == gjson.String {
		ok, plain := mcpheader.IsName(value, target.String())
		q.PlainName = plain
		if !ok {
			return mcpheader.Mismatch("Mcp-Name", "params."+what)
		}
	} else if _, ok := mcpheader.Decode(value); !ok {
		return mcpheader.Mismatch("Mcp-Name", "params."+what)
	}
	return nil
}

// MissingVersion returns the error for a request without MCP-Protocol-Version.
func MissingVersion() *mcp.Failure {
	f := mcp.Fail(mcp.HeaderMismatch, "")
	f.Text = "Missing required header: MCP-Protocol-Version"
	return f
}

// At returns what reports say about q. from has the headers that are passed to the server.
func (q *Request) At(from []mcp.Header) report.At {
	return report.At{Method: q.Name, Client: translate.Lookup(translate.Modern()), Header: from}
}

// RunsFor returns the client that a process for the request is counted for, as clients.Proxy.RunsFor does. It is "" on a
// pipe.
func (q *Request) RunsFor() string {
	switch {
	case q.Owner != [16]byte{}:
		return string(q.Owner[:])
	case q.Header == nil:
		return ""
	}
	return "peer " + q.Address
}

// HasParams reports whether headers repeat arguments of the tool.
func (q *Request) HasParams() bool {
	for _, h := range q.Header {
		if len(h.Name) > len(mcpheader.ParamPrefix) && strings.EqualFold(h.Name[:len(mcpheader.ParamPrefix)], mcpheader.ParamPrefix) {
			return true
		}
	}
	return false
}

// HasTasks reports whether q's client has declared the tasks extension.
func (q *Request) HasTasks() bool {
	return mcp.DeclaresTasks(gjson.ParseBytes(q.Capabilities))
}

// Count makes and returns q's tally, which counts in m. The caller is its first user, and calls Release.
func (q *Request) Count(m *metrics.Metrics) *Tally {
	q.Counts = &q.room.tally
	q.Counts.metrics, q.Counts.users = m, 1
	q.Counts.counts = metrics.Operation{Client: translate.Lookup(translate.Modern()), Method: q.Method, Began: time.Now()}
	if q.Method == wire.ToolsCall {
		q.Counts.counts.Tool = m.Tools.Of(q.Target)
	}
	return q.Counts
}
