package pipe

import (
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/clients"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// modern handles a modern request on a pipe. It does not wait for the response.
func (p *pipe) modern(m *wire.Message) {
	q, err := stateless.Read(m, "")
	if err == nil {
		q.Sender = p.sender
	}
	if err == nil && stateless.IsHandshakeOnly(q.Method) {
		err = stateless.UnknownMethod(q.Name).About(q.ID)
	}
	if err != nil {
		p.proxy.Metrics.Unserved(translate.Lookup(translate.Modern()), m.Method, metrics.Refused)
		p.refuse(p.proxy.Listing(err, p.from), m.Raw)
		return
	}
	counts := q.Count(p.proxy.Metrics)
	defer counts.Release()
	refuse := func(err error) {
		known := clients.IsReported(err)
		f := p.proxy.Host.Report.Failed(err, q.At(p.from)).About(q.ID)
		if !known {
			p.proxy.ObserveRefusal(m.Raw, translate.Lookup(translate.Modern()), p.proxy.PipeTransport(), f)
		}
		counts.Fail(f)
		p.refuse(f, nil)
	}
	direct := false
	if !p.proxy.IsOurs(q) {
		if direct = p.straight != nil; !direct {
			direct, err = p.proxy.IsDirect(p.ctx, p.from)
		}
		if err != nil {
			refuse(err)
			return
		}
	}
	if direct {
		if p.straight == nil {
			err = p.openDirect(q)
		}
		switch {
		case err == nil:
			p.straight.forward(m.Raw, nil, 0)
			return
		case clienterror.Of(err).Cause != mcp.UpstreamLegacy:
			refuse(err)
			return
		}
	}
	span := p.proxy.SpanWithout(m, p.from, "")
	counts.Trace(span)
	if err = q.Own(p.ctx, p.proxy.Host.Memory()); err != nil {
		refuse(err)
		return
	}
	ctx, stop := context.WithCancelCause(span.Within(p.ctx))
	key := string(wire.AppendIDKey(nil, q.ID))
	p.mu.Lock()
	if p.running == nil {
		p.running = map[string]context.CancelCauseFunc{}
	}
	taken := p.running[key] != nil
	full := len(p.running) >= p.proxy.Now().Config.Limits.OpenRequests
	if !taken && !full {
		p.running[key] = stop
	}
	p.mu.Unlock()
	if taken || full {
		stop(nil)
		c := mcp.DuplicateID
		if full {
			c = mcp.TooManyOpen
		}
		refuse(mcp.Fail(c, ""))
		return
	}
	if q.Method != wire.SubscriptionsListen { // a subscription does not end by itself
		p.calls.Add(1)
	}
	free := sync.OnceFunc(func() {
		p.mu.Lock()
		delete(p.running, key)
		p.mu.Unlock()
	})
	counts.Hold()
	p.spawn(func() {
		defer counts.Release()
		defer func() {
			if q.Method != wire.SubscriptionsListen {
				p.calls.Done()
			}
			stop(nil)
			free()
		}()
		p.runModern(ctx, q, free)
	})
}

// runModern answers a modern request. It calls free before the client receives the response, since
// the client may then use the id again.
func (p *pipe) runModern(ctx context.Context, q *stateless.Request, free func()) {
	defer func() {
		if r := recover(); r != nil {
			p.proxy.Host.Report.Panicked(r)
			free()
			p.refuse(mcp.Fail(mcp.Panicked, "").About(q.ID), q.Raw)
		}
	}()
	r, err := p.proxy.Modern.Begin(ctx, q, "", nil)
	if err != nil && context.Cause(ctx) == downstream.ErrClientLeft {
		q.Counts.Settle(metrics.Left)
		return // cancelled: no response is owed
	}
	if err != nil {
		known := clients.IsReported(err)
		f := p.proxy.Host.Report.Failed(err, q.At(nil)).WithID(q.ID)
		if !known {
			p.proxy.ObserveRefusal(q.Raw, translate.Lookup(translate.Modern()), p.proxy.PipeTransport(), f)
		}
		q.Counts.Fail(f)
		free()
		p.refuse(f, nil)
		return
	}
	defer r.End()
	answer, err := r.Answer(until{ctx, p})
	if err != nil || ctx.Err() != nil {
		return // cancelled: no response is owed
	}
	free()
	p.write(answer)
	if r.Cut() { // see https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
		p.write(mcp.Cancelled(q.ID, ""))
	}
}

// until is the client of a pipe until a request is cancelled: it gets no further message about the request.
type until struct {
	ctx context.Context
	p   *pipe
}

// Send implements [mcp.Peer].
func (u until) Send(e sse.Event) error {
	if u.ctx.Err() != nil {
		return context.Cause(u.ctx)
	}
	u.p.write(e.Data)
	return nil
}

// cancelModern cancels the request that a notifications/cancelled names, if it is a modern one. It
// reports whether it is.
func (p *pipe) cancelModern(m *wire.Message) bool {
	key := string(exchange.AppendCancelled(nil, m, true))
	p.mu.Lock()
	stop := p.running[key]
	p.mu.Unlock()
	if stop == nil {
		return false
	}
	stop(downstream.ErrClientLeft)
	return true
}
