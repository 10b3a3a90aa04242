package telemetry

import (
	"context"
	"errors"
	"strings"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/trace"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// cause is what requests of dragoman's own under a context belong to.
type cause struct {
	tracer *Tracer // nil if they have no spans
	call   *Call   // the message that has caused them; nil for none
}

type causeKey struct{}

// Within returns a context in which dragoman's own requests belong to the message: they have a span only if it does.
func (c *Call) Within(ctx context.Context) context.Context {
	switch {
	case c != nil:
		return context.WithValue(ctx, causeKey{}, cause{c.tracer, c})
	case ctx.Value(causeKey{}) != nil:
		return context.WithValue(ctx, causeKey{}, cause{})
	}
	return ctx
}

// Alone returns a context in which dragoman's own requests belong to no message: the sampler decides about each.
func (t *Tracer) Alone(ctx context.Context) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, causeKey{}, cause{tracer: t})
}

// In returns the message that dragoman's own requests in ctx belong to; nil for none, or for one without spans.
func In(ctx context.Context) *Call {
	of, _ := ctx.Value(causeKey{}).(cause)
	return of.call
}

// Ask begins the span of o, a request of dragoman's own to a server of this revision, and puts its context into o. It
// returns nil, and leaves o as it is, if the request has no span. The caller ends the span with Done.
func Ask(ctx context.Context, o *upstream.Outgoing, revision string) *Call {
	of, _ := ctx.Value(causeKey{}).(cause)
	var p Parent
	switch {
	case of.tracer == nil:
		return nil
	case of.call != nil:
		p.of = of.call.inContext()
	default:
		var yes bool
		if p, yes = of.tracer.Samples(nil, nil, nil); !yes {
			return nil
		}
	}
	is := gjson.GetManyBytes(o.Body, "method", "id", "params")
	c := &Call{tracer: of.tracer, to: Edge{Revision: revision, Address: of.tracer.o.Address()}}
	c.ctx = trace.ContextWithSpanContext(context.Background(), p.of)
	c.describe(&Message{Method: is[0].String(), ID: []byte(is[1].Raw), Params: []byte(is[2].Raw)})
	o.Body, o.Header = c.Sent(o.Body, o.Header)
	return c
}

// Done ends the span of a request of dragoman's own. err is why it has failed; nil if it has not.
func (c *Call) Done(err error) {
	if c == nil {
		return
	}
	if refused, ok := errors.AsType[*mcp.ServerError](err); ok {
		c.refused(refused.Raw)
	}
	switch {
	case err == nil:
		c.End(ok, "")
	case errors.Is(err, context.Canceled):
		c.End("cancelled", "")
	default:
		c.End("failed", c.tracer.o.Cause(err))
	}
}

// inContext returns the context of the span at the edge where the message came in.
func (c *Call) inContext() trace.SpanContext {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in == nil {
		return trace.SpanContext{}
	}
	return c.in.SpanContext()
}

// Continues links c to before, whose request was answered with questions that c's has the answers to.
func (c *Call) Continues(before *Call) {
	if c == nil || before == nil {
		return
	}
	to := before.inContext()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in != nil && to.IsValid() {
		c.in.AddLink(trace.Link{SpanContext: to})
	}
}

// Asked ends the span at the edge where the message came in: its sender has got questions instead of the response, and
// will send another message with the answers.
func (c *Call) Asked() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in != nil {
		c.in.End()
	}
}

// InSession names the session that the message has begun, by a fingerprint.
func (c *Call) InSession(fingerprint string) {
	if c == nil || fingerprint == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in.SetAttributes(sessionID.String(fingerprint))
}

// To says which edge the message will go out at.
func (c *Call) To(edge Edge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = edge
}

// Again is Sent for a message that goes out once more: with another span, which is linked to the one before.
func (c *Call) Again(message []byte, header []upstream.Header) ([]byte, []upstream.Header) {
	if c == nil {
		return message, header
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var links []trace.Link
	if c.out != nil {
		links = append(links, trace.Link{SpanContext: c.out.SpanContext()})
		c.out.End()
		c.out = nil
	}
	if c.in != nil {
		c.ctx = trace.ContextWithSpan(c.ctx, c.in)
	}
	return c.sentLocked(message, header, links...)
}

// quoted returns a text without quotation marks at its ends.
func quoted(id []byte) string { return limited(strings.Trim(string(id), `"`)) }
