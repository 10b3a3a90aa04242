package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// causeKey is the key of what requests of dragoman's own under a context belong to: a *Call, nil for one without spans, or
// a *Tracer if they belong to no message.
type causeKey struct{}

// Within returns a context in which dragoman's own requests belong to the message: they have a span only if it does.
func (c *Call) Within(ctx context.Context) context.Context {
	if c == nil && ctx.Value(causeKey{}) == nil {
		return ctx
	}
	return callctx.WithValue(ctx, causeKey{}, c)
}

// Alone returns a context in which dragoman's own requests belong to no message: the sampler decides about each.
func (t *Tracer) Alone(ctx context.Context) context.Context {
	if t == nil {
		return ctx
	}
	return callctx.WithValue(ctx, causeKey{}, t)
}

// In returns the message that dragoman's own requests in ctx belong to; nil for none, or for one without spans.
func In(ctx context.Context) *Call {
	c, _ := ctx.Value(causeKey{}).(*Call)
	return c
}

// Ask begins the span of o, a request of dragoman's own to a server of this revision, and puts its context into o. It
// returns nil, and leaves o as it is, if the request has no span. The caller ends the span with Done.
func Ask(ctx context.Context, o *upstream.Outgoing, revision string) *Call {
	by := ctx.Value(causeKey{})
	if by == nil {
		return nil
	}
	t, _ := by.(*Tracer)
	var parent spanContext
	if call, _ := by.(*Call); call != nil {
		t, parent = call.tracer, call.inContext()
	} else if _, yes := t.Samples(nil, nil, nil); !yes {
		return nil
	}
	c := &Call{tracer: t}
	c.out.parent = parent
	is := gjson.GetManyBytes(o.Body, "method", "id", "params")
	c.to = Edge{Revision: revision, Address: c.tracer.o.Address()}
	c.about = c.tracer.aboutOf(&Message{Method: is[0].String(), ID: []byte(is[1].Raw), Params: []byte(is[2].Raw)})
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
func (c *Call) inContext() spanContext {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.in.at
}

// Continues links c to before, whose request was answered with questions that c's has the answers to.
func (c *Call) Continues(before *Call) {
	if c == nil || before == nil {
		return
	}
	to := before.inContext()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.in.link(&to)
}

// Asked ends the span at the edge where the message came in: its sender has got questions instead of the response, and
// will send another message with the answers.
func (c *Call) Asked() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(time.Now(), new(failure), &c.in)
}

// InSession names the session that the message has begun, by a fingerprint.
func (c *Call) InSession(fingerprint string) {
	if c == nil || fingerprint == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from.Session = fingerprint
}

// To says which edge the message will go out at.
func (c *Call) To(edge Edge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = edge
}

// Again is Sent for a message that goes out once more: with another span, which is linked to the one before.
func (c *Call) Again(message []byte, header []mcp.Header) ([]byte, []mcp.Header) {
	if c == nil {
		return message, header
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.out.at
	c.endLocked(time.Now(), new(failure), &c.out)
	c.out = span{}
	c.out.link(&before)
	return c.sentLocked(message, header)
}
