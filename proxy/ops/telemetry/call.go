package telemetry

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Edge is one side of dragoman.
type Edge struct {
	Revision string
	Session  string // a fingerprint: the id itself would grant access
	Address  string // host:port, the host alone, a user or unix:PATH of a unix socket; "" on a pipe
}

// Message is a message whose span begins.
type Message struct {
	Method string
	ID     []byte // as it stands in the message; nil for a notification
	Params []byte // of the message as it came
	Began  time.Time
}

// Call is a message's span at the edge where it came in, and the one at the edge where it goes out, once it does. A
// request of dragoman's own has only the second. Its methods may be called on nil: that is a message without spans. It is
// safe for concurrent use, since a message may fail while it is being sent.
type Call struct {
	tracer *Tracer
	about  about

	mu       sync.Mutex
	from, to Edge
	in, out  span

	number        int64  // on the live page; 0 for none
	before, after int    // tokens of the result; 0 if they were not counted
	arguments     string // of the tool; "" if they are not shown
	result        string

	code  int64  // of the error response
	wrong string // its message
	tool  bool   // the result says isError
	rules []string
	lost  int
}

// about is what both spans of a message have.
type about struct {
	method, id string
	tool       string // the tool that is called; "" for none
	prompt     string
	uri        string // without query and password
}

// span is one span. The zero value has not begun.
type span struct {
	kind         uint64
	at, parent   spanContext
	links        []spanContext
	began, ended int64 // nanoseconds since 1970; ended is 0 for a span that goes on
}

func (s *span) goesOn() bool { return s.at.valid() && s.ended == 0 }

// link adds a link, unless to names no span.
func (s *span) link(to *spanContext) {
	if to.valid() {
		s.links = append(s.links, *to)
	}
}

// Parent is the context that a message names, if it names any.
type Parent struct {
	of   spanContext
	also spanContext // that of the HTTP headers, if _meta has another one
}

// Samples reports whether a message with these params and headers has spans, and returns its parent. during is the call
// that a question of the server belongs to, or nil.
func (t *Tracer) Samples(params []byte, header []mcp.Header, during *Call) (p Parent, yes bool) {
	if t == nil {
		return p, false
	}
	p = parentOf(params, header)
	if during != nil && !p.of.valid() {
		p.of = during.newest()
	}
	return p, t.sampler.takes(&p.of)
}

// parentOf returns the context in _meta, else that in the HTTP headers.
func parentOf(params []byte, header []mcp.Header) (p Parent) {
	if bytes.Contains(params, []byte(traceparent)) {
		meta := gjson.Get(wire.View(params), "_meta")
		p.of = parseContext(meta.Get(traceparent).String(), meta.Get(tracestate).String())
	}
	also := parseContext(mcp.HeaderValue(header, traceparent), mcp.HeaderValue(header, tracestate))
	switch {
	case !p.of.valid():
		return Parent{of: also}
	case !also.same(&p.of):
		p.also = also
	}
	return p
}

// Begin begins the spans of a message that Samples has chosen, at the edge from; it will go out at the edge to.
func (t *Tracer) Begin(p Parent, m Message, from, to Edge) *Call {
	c := &Call{tracer: t, about: t.aboutOf(&m), from: from, to: to}
	c.in = span{kind: kindServer, at: below(&p.of), parent: p.of, began: m.Began.UnixNano()}
	c.in.link(&p.also)
	if c.about.tool != "" && t.o.Payload != nil {
		c.arguments = c.payload(wire.Bytes(gjson.Get(wire.View(m.Params), "arguments").Raw))
	}
	return c
}

// maxPayload is how many bytes a payload has at most that a span shows.
const maxPayload = 16 << 10

// payload returns what a span shows of arguments or of a result.
func (c *Call) payload(raw []byte) string {
	if len(raw) > maxPayload {
		raw = fmt.Appendf(nil, `"[%d bytes]"`, len(raw))
	}
	return string(c.tracer.o.Payload(c.about.method, c.about.tool, raw))
}

func (t *Tracer) aboutOf(m *Message) about {
	a := about{method: m.Method, id: quoted(m.ID)}
	if len(m.ID) > 0 && m.ID[0] == '"' {
		a.id = t.named(a.id)
	}
	target := func(name string) string { return t.named(limited(gjson.Get(wire.View(m.Params), name).String())) }
	switch wire.MethodOf(wire.Bytes(m.Method)) {
	case wire.OtherMethod:
		a.method = t.named(m.Method)
	case wire.ToolsCall:
		a.tool = target("name")
	case wire.PromptsGet:
		a.prompt = target("name")
	case wire.ResourcesRead, wire.ResourcesSubscribe, wire.ResourcesUnsubscribe:
		a.uri = plainURI(target("uri"))
	}
	return a
}

// named returns a name that a peer has chosen without secrets.
func (t *Tracer) named(name string) string {
	if t.o.Named == nil || name == "" {
		return name
	}
	return t.o.Named(name)
}

// plainURI returns a URI without its query and without a user's name and password.
func plainURI(uri string) string {
	uri, _, _ = strings.Cut(uri, "?")
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return uri
	}
	host, path, slash := strings.Cut(rest, "/")
	host = host[strings.LastIndexByte(host, '@')+1:]
	if slash {
		path = "/" + path
	}
	return scheme + "://" + host + path
}

// maxValue is how many bytes of a text of a peer an attribute has at most.
const maxValue = 256

// limited returns the beginning of s, in memory of its own.
func limited(s string) string {
	if len(s) <= maxValue {
		return strings.ToValidUTF8(strings.Clone(s), "")
	}
	return strings.ToValidUTF8(s[:maxValue], "") + "…"
}

// quoted returns an id without quotation marks at its ends.
func quoted(id []byte) string { return limited(strings.Trim(wire.View(id), `"`)) }

// Sent begins the span at the edge where the message goes out, and returns the message and the headers with its
// context. It returns them as they are if the message has no spans.
func (c *Call) Sent(message []byte, header []mcp.Header) ([]byte, []mcp.Header) {
	if c == nil {
		return message, header
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sentLocked(message, header)
}

// sentLocked is Sent for a caller that holds c.mu.
func (c *Call) sentLocked(message []byte, header []mcp.Header) ([]byte, []mcp.Header) {
	if !c.out.at.valid() {
		parent := &c.in.at
		if !parent.valid() {
			parent = &c.out.parent
		}
		c.out.kind, c.out.parent, c.out.at, c.out.began = kindClient, *parent, below(parent), time.Now().UnixNano()
	}
	return marked(message, header, &c.out.at)
}

// Answered notes what the response says; m may be nil.
func (c *Call) Answered(m *wire.Message) {
	if c == nil || m == nil {
		return
	}
	if m.Kind == wire.Error {
		c.refused(m.Error())
		return
	}
	shown := ""
	if c.about.tool != "" && c.tracer.o.Payload != nil {
		shown = c.payload(m.Result())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tool, c.result = c.tool || m.ToolError, shown
}

// Numbered notes the number that the message has on the live page; 0 for none.
func (c *Call) Numbered(n uint64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number = int64(n)
}

// Counted notes how many tokens the result has before it is shaped and after.
func (c *Call) Counted(before, after int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.after = before, after
}

// refused notes the error object of an error response.
func (c *Call) refused(raw []byte) {
	e := gjson.GetManyBytes(raw, "code", "message")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.code, c.wrong = e[0].Int(), c.tracer.o.Quote(e[1].String())
}

// Lost notes what translation has changed and lost.
func (c *Call) Lost(list []wire.Loss) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range list {
		l := &list[i]
		c.lost += l.Lost
		if l.Level != wire.Assumed && !slices.Contains(c.rules, l.Rule) {
			c.rules = append(c.rules, l.Rule)
		}
	}
}

// These outcomes are no failures.
const (
	ok    = "ok"
	local = "local"
)

// End ends the spans. how is the outcome of the message, such as "ok" or "cancelled"; cause is why there was no
// response, "" if that is not known.
func (c *Call) End(how, cause string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var why failure
	switch {
	case c.code != 0:
		code := strconv.FormatInt(c.code, 10)
		why = failure{kind: code, code: code, text: c.wrong}
	case c.tool:
		why = failure{kind: "tool_error"}
	case how != ok && how != local:
		why.kind = cmp.Or(cause, how)
		why.text = why.kind
	}
	c.endLocked(time.Now(), &why, &c.out, &c.in)
}

// failure is why a span has failed. The zero value is for one that has not.
type failure struct {
	kind string // error.type
	code string // of an error response
	text string // for people
}

// encoded has the memory in which spans are encoded until they are put into the queue.
var encoded = sync.Pool{New: func() any { return new([2 << 10]byte) }}

// endLocked ends those of c's spans that go on, and sends them. c.mu must be held.
func (c *Call) endLocked(now time.Time, why *failure, spans ...*span) {
	memory := encoded.Get().(*[2 << 10]byte)
	defer encoded.Put(memory)
	b, at := memory[:0], make([]int, 0, 2)
	for _, s := range spans {
		if s.goesOn() {
			s.ended = now.UnixNano()
			b = c.appendSpan(b, s, why)
			at = append(at, len(b))
		}
	}
	c.tracer.queue.put(b, at...)
}

// appendSpan appends one of c's spans, which has ended.
func (c *Call) appendSpan(dst []byte, s *span, why *failure) []byte {
	return aSpan(dst, func(b []byte) []byte {
		a := attributes{s.head(c.appendName(b)), spanAttributes}
		c.describe(&a, s)
		a.text(errorType, why.kind)
		a.text(statusCodeName, why.code)
		if why.kind == "" {
			return a.to
		}
		return nested(a.to, spanStatus, func(b []byte) []byte {
			return varint(text(b, statusMessage, why.text), statusCode, statusError)
		})
	})
}

// appendName appends the name of c's spans.
func (c *Call) appendName(dst []byte) []byte {
	dst = protowire.AppendTag(dst, spanName, protowire.BytesType)
	size, target := len(c.about.method), cmp.Or(c.about.tool, c.about.prompt)
	if target != "" {
		size += 1 + len(target)
	}
	dst = append(protowire.AppendVarint(dst, uint64(size)), c.about.method...)
	if target != "" {
		dst = append(append(dst, ' '), target...)
	}
	return dst
}

// describe appends the attributes of s but for those of a failure.
func (c *Call) describe(a *attributes, s *span) {
	a.text(methodName, c.about.method)
	a.text(requestID, c.about.id)
	a.text(toolName, c.about.tool)
	a.text(promptName, c.about.prompt)
	a.text(resourceURI, c.about.uri)
	if c.about.tool != "" {
		a.text(operationName, "execute_tool")
	}
	if s == &c.in {
		c.from.describe(a, kindServer)
		a.list(rules, c.rules)
		a.number(losses, int64(c.lost))
		a.number(number, c.number)
		a.number(before, int64(c.before))
		a.number(after, int64(c.after))
		a.text(toolArguments, c.arguments)
		a.text(toolResult, c.result)
	} else {
		c.to.describe(a, kindClient)
	}
}

// describe appends the attributes of one edge, where dragoman is what kind says.
func (e *Edge) describe(a *attributes, kind uint64) {
	a.text(protocolVersion, e.Revision)
	a.text(sessionID, e.Session)
	if e.Address == "" {
		a.text(transport, "pipe")
		return
	}
	network, host, port := "tcp", e.Address, ""
	if unixsocket.Is(host) || strings.HasPrefix(host, unixsocket.User) {
		network, host = "unix", strings.TrimPrefix(host, unixsocket.Scheme)
	} else {
		host, port = hostAndPort(host)
	}
	a.text(transport, network)
	a.text(protocol, "http")
	if kind == kindServer {
		a.text(clientAddress, host)
		return
	}
	a.text(serverAddress, host)
	n, _ := strconv.ParseInt(port, 10, 32)
	a.number(serverPort, n)
}

// hostAndPort splits an address, which may have no port.
func hostAndPort(address string) (host, port string) {
	host = address
	if i := strings.LastIndexByte(host, ':'); i >= 0 && (host[0] == '[' && host[i-1] == ']' || strings.IndexByte(host, ':') == i) {
		host, port = host[:i], host[i+1:]
	}
	return strings.Trim(host, "[]"), port
}

// newest returns the context of the newest span.
func (c *Call) newest() spanContext {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.at.valid() {
		return c.out.at
	}
	return c.in.at
}

// TraceID returns the id of the trace, or "" for a message without spans.
func (c *Call) TraceID() string {
	if c == nil {
		return ""
	}
	at := c.newest()
	return hex.EncodeToString(at.trace[:])
}

// MessageOf returns the message m, which began then.
func MessageOf(m *wire.Message, began time.Time) Message {
	method := m.Method.String()
	if m.Method == wire.OtherMethod {
		method = string(m.MethodName())
	}
	return Message{Method: method, ID: m.ID(), Params: m.Params(), Began: began}
}
