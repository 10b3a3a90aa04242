package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Edge is one side of dragoman.
type Edge struct {
	Revision string
	Session  string // a fingerprint: the id itself would grant access
	Address  string // host:port, or the host alone; "" on a pipe
}

// Message is a message whose span begins.
type Message struct {
	Method string
	ID     []byte // as it stands in the message; nil for a notification
	Params []byte // of the message as it came
	Began  time.Time
}

// Call is a message's span at the edge where it came in, and the one at the edge where it goes out, once it does. A
// request of dragoman's own has only the second. Its methods may be called on nil: that is a message without spans. It is safe for concurrent use, since a message may fail
// while it is being sent.
type Call struct {
	tracer *Tracer
	name   string
	common []attribute.KeyValue
	to     Edge

	mu  sync.Mutex
	ctx context.Context // with the newest span
	in  trace.Span      // nil for a request of dragoman's own
	out trace.Span      // nil before the message goes out

	code  int64  // of the error response
	wrong string // its message
	tool  bool   // the result says isError
	rules []string
	lost  int
}

// traceparent and tracestate are the names of a message's context, in _meta and among the headers. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic#meta and https://www.w3.org/TR/trace-context/.
const traceparent, tracestate = "traceparent", "tracestate"

// Parent is the context that a message names, if it names any.
type Parent struct {
	of   trace.SpanContext
	also trace.SpanContext // that of the HTTP headers, if _meta has another one
}

// Samples reports whether a message with these params and headers has spans, and returns its parent. during is the call
// that a question of the server belongs to, or nil.
func (t *Tracer) Samples(params []byte, header []upstream.Header, during *Call) (p Parent, yes bool) {
	if t == nil {
		return p, false
	}
	p = parentOf(params, header)
	if during != nil && !p.of.IsValid() {
		p.of = during.newest()
	}
	return p, t.sampler.takes(p.of)
}

// parentOf returns the context in _meta, else that in the HTTP headers.
func parentOf(params []byte, header []upstream.Header) Parent {
	var p Parent
	if bytes.Contains(params, []byte(traceparent)) {
		meta := gjson.GetManyBytes(params, "_meta."+traceparent, "_meta."+tracestate)
		p.of = spanContext(meta[0].String(), meta[1].String())
	}
	p.also = spanContext(upstream.HeaderValue(header, traceparent), upstream.HeaderValue(header, tracestate))
	switch {
	case !p.of.IsValid():
		return Parent{of: p.also}
	case p.also.Equal(p.of.WithRemote(true)):
		return Parent{of: p.of}
	}
	return p
}

// spanContext returns an invalid context for invalid values.
func spanContext(parent, state string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: parent, tracestate: state})
	return trace.SpanContextFromContext(ctx)
}

// Begin begins the spans of a message that Samples has chosen, at the edge from; it will go out at the edge to.
func (t *Tracer) Begin(p Parent, m Message, from, to Edge) *Call {
	c := &Call{tracer: t, to: to}
	c.describe(&m)
	opts := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(m.Began),
		trace.WithAttributes(c.common...), trace.WithAttributes(from.attributes(trace.SpanKindServer)...),
	}
	if p.also.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: p.also}))
	}
	c.ctx, c.in = t.tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), p.of), c.name, opts...)
	return c
}

// describe sets the name and the attributes that both spans have.
func (c *Call) describe(m *Message) {
	c.name = m.Method
	c.common = append(c.common, methodName.String(m.Method))
	if len(m.ID) > 0 {
		c.common = append(c.common, requestID.String(quoted(m.ID)))
	}
	target := func(name string) string { return limited(gjson.GetBytes(m.Params, name).String()) }
	switch wire.MethodOf([]byte(m.Method)) {
	case wire.ToolsCall:
		c.named(toolName, target("name"))
		c.common = append(c.common, operationName.String("execute_tool"))
	case wire.PromptsGet:
		c.named(promptName, target("name"))
	case wire.ResourcesRead, wire.ResourcesSubscribe, wire.ResourcesUnsubscribe:
		c.common = append(c.common, resourceURI.String(plainURI(target("uri"))))
	}
}

func (c *Call) named(key attribute.Key, name string) {
	if name != "" {
		c.name += " " + name
		c.common = append(c.common, key.String(name))
	}
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

func limited(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxValue)], "") }

// attributes returns those of one edge, where dragoman is what kind says.
func (e Edge) attributes(kind trace.SpanKind) []attribute.KeyValue {
	list := make([]attribute.KeyValue, 0, 6)
	if e.Revision != "" {
		list = append(list, protocolVersion.String(e.Revision))
	}
	if e.Session != "" {
		list = append(list, sessionID.String(e.Session))
	}
	if e.Address == "" {
		return append(list, transport.String("pipe"))
	}
	list = append(list, transport.String("tcp"), protocol.String("http"))
	host, port, err := net.SplitHostPort(e.Address)
	if err != nil {
		host = e.Address
	}
	if kind == trace.SpanKindServer {
		return append(list, clientAddress.String(host))
	}
	list = append(list, serverAddress.String(host))
	if n, err := strconv.Atoi(port); err == nil {
		list = append(list, serverPort.Int(n))
	}
	return list
}

// Sent begins the span at the edge where the message goes out, and returns the message and the headers with its
// context. It returns them as they are if the message has no spans.
func (c *Call) Sent(message []byte, header []upstream.Header) ([]byte, []upstream.Header) {
	if c == nil {
		return message, header
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sentLocked(message, header)
}

// sentLocked is Sent for a caller that holds c.mu.
func (c *Call) sentLocked(message []byte, header []upstream.Header, links ...trace.Link) ([]byte, []upstream.Header) {
	if c.out == nil {
		c.ctx, c.out = c.tracer.tracer.Start(c.ctx, c.name, trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(links...),
			trace.WithAttributes(c.common...), trace.WithAttributes(c.to.attributes(trace.SpanKindClient)...))
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(c.ctx, carrier)
	marked, err := sjson.SetBytes(message, "params._meta."+traceparent, carrier[traceparent])
	if state := carrier[tracestate]; err == nil && state != "" {
		marked, err = sjson.SetBytes(marked, "params._meta."+tracestate, state)
	}
	if err != nil {
		return message, header
	}
	set := make([]upstream.Header, 0, len(header)+2)
	for _, h := range header {
		if !strings.EqualFold(h.Name, traceparent) && !strings.EqualFold(h.Name, tracestate) {
			set = append(set, h)
		}
	}
	for name, value := range carrier {
		set = append(set, upstream.Header{Name: name, Value: value})
	}
	return marked, set
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tool = c.tool || m.ToolError
}

// refused notes the error object of an error response.
func (c *Call) refused(raw []byte) {
	e := gjson.GetManyBytes(raw, "code", "message")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.code, c.wrong = e[0].Int(), c.tracer.o.Quote(e[1].String())
}

// Lost notes what translation has lost.
func (c *Call) Lost(list []wire.Loss) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range list {
		if c.lost++; !slices.Contains(c.rules, l.Rule) {
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
	if c.lost > 0 && c.in != nil {
		c.in.SetAttributes(rules.StringSlice(c.rules), losses.Int(c.lost))
	}
	for _, s := range []trace.Span{c.out, c.in} {
		if s == nil {
			continue
		}
		switch {
		case c.code != 0:
			code := strconv.FormatInt(c.code, 10)
			s.SetAttributes(errorType.String(code), statusCode.String(code))
			s.SetStatus(codes.Error, c.wrong)
		case c.tool:
			s.SetAttributes(errorType.String("tool_error"))
			s.SetStatus(codes.Error, "")
		case how != ok && how != local:
			why := cmp.Or(cause, how)
			s.SetAttributes(errorType.String(why))
			s.SetStatus(codes.Error, why)
		}
		s.End()
	}
}

// newest returns the context of the newest span.
func (c *Call) newest() trace.SpanContext {
	c.mu.Lock()
	defer c.mu.Unlock()
	return trace.SpanContextFromContext(c.ctx)
}

// TraceID returns the id of the trace, or "" for a message without spans.
func (c *Call) TraceID() string {
	if c == nil {
		return ""
	}
	return c.newest().TraceID().String()
}
