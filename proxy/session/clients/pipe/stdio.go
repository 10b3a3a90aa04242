package pipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients"
	"github.com/dragoman-proxy/dragoman/proxy/session/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A stdioPipe is a pipe whose client may also send requests of 2026-07-28, which belong to no session.
type stdioPipe struct {
	*pipe
	straight *pipe // the pipe to a modern server; nil before the first request for it
	calls    sync.WaitGroup
	mu       sync.Mutex
	running  map[string]context.CancelCauseFunc // by the key of the request id
	silent   atomic.Bool                        // the client sends no more, or nothing reads it
}

// Serve serves one client on stdin and stdout as [Server.ServePipe] says. The cause of ctx is [downstream.ErrClientLeft] if nothing that is
// written to out is read any more.
func Serve(ctx context.Context, proxy *clients.Proxy, in io.Reader, out io.Writer) error {
	p := &pipe{proxy: proxy}
	client := downstream.NewStdio(downstream.StdioConfig{
		In: in, Out: out, MaxMessage: int(proxy.Now().Config.Limits.ClientMessage),
		TooLong: p.tooLong, Refuse: p.late,
	})
	m := &stdioPipe{pipe: p, running: map[string]context.CancelCauseFunc{}}
	p.client, p.modern, p.sender.Local = client, m, true
	own := new(callctx.Context) // all that is under it has ended, with its cause, before the session ends
	own.BeginApart(ctx)
	p.ctx, p.fail = own, own.End
	reading, read := context.WithCancel(ctx)
	defer read()
	over := make(chan struct{})
	defer close(over)
	endWriting := func(drain time.Duration) { // or it would never end, if the client reads nothing
		go func() {
			select {
			case <-time.After(drain + pipes.LeaveTime):
				if client.GiveUp() {
					proxy.Host.Log.Warn("the client does not read dragoman's stdout: what is written there is given up")
				}
			case <-over:
			}
		}()
	}
	context.AfterFunc(p.ctx, read)
	context.AfterFunc(ctx, func() {
		if left := context.Cause(ctx); left == downstream.ErrClientLeft {
			p.fail(left)
			return
		}
		overdue := time.AfterFunc(proxy.Now().Config.Shutdown.Drain, func() { p.fail(report.ErrShutdown) })
		context.AfterFunc(p.ctx, func() { overdue.Stop() })
		endWriting(proxy.Now().Config.Shutdown.Drain)
	})
	err := client.Run(reading, p.handle)
	if err == nil { // the client has closed stdin: when it asks for the end as well, it waits no more
		defer context.AfterFunc(ctx, func() {
			p.fail(report.ErrShutdown)
			endWriting(0)
		})()
	}
	lost := context.Cause(p.ctx)
	overdue := errors.Is(lost, report.ErrShutdown) // Run returned after the drain time
	if (lost == nil || overdue) && (err == nil || ctx.Err() != nil) {
		m.silent.Store(true)
		p.hangUp()
		m.finish()
		p.cutOff()
		if m.straight != nil {
			m.straight.cutOff()
		}
		lost = context.Cause(p.ctx)
	}
	if err != nil {
		client.Stop()
	}
	why := cmp.Or(lost, downstream.ErrClientLeft)
	if lost == nil && ctx.Err() != nil {
		why = report.ErrShutdown
	}
	p.fail(report.ErrShutdown)
	if p.s != nil {
		limit := pipes.EndTimeout
		if !p.s.Piped {
			limit = pipes.LeaveTime
		}
		proxy.EndWithin(limit, p.s, why)
	}
	if half := m.straight; half != nil {
		proxy.End(half.s, why)
	}
	m.await(client.GivenUp())
	switch {
	case ctx.Err() != nil || err == nil && lost == nil:
		return nil
	case lost != nil:
		return lost
	}
	return fmt.Errorf("client: %w", err)
}

// late refuses a message that was not read before the pipe or the process was to end, as another one had to wait.
func (p *pipe) late(message []byte) {
	if why := cmp.Or(context.Cause(p.ctx), report.ErrShutdown); why != downstream.ErrClientLeft {
		p.refuseAll(message, why)
	}
}

// await waits until all tasks have ended. One that writes to a client that reads nothing is left behind.
func (p *stdioPipe) await(givenUp <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if p.straight != nil {
			p.straight.tasks.Wait()
		}
		p.tasks.Wait()
	}()
	select {
	case <-ended:
	case <-givenUp:
	}
}

// finish waits, within the drain time, until open calls are answered after the client's last
// message.
func (p *stdioPipe) finish() {
	overdue := time.After(p.proxy.Now().Config.Shutdown.Drain)
	answered := make(chan struct{})
	p.spawn(func() {
		p.calls.Wait()
		close(answered)
	})
	if half := p.straight; half != nil {
		for _, c := range half.s.Open.List() {
			if c.Method == wire.SubscriptionsListen { // it would not end by itself
				half.s.Open.Cancel([]byte(c.Key))
			}
		}
		if !half.untilAnswered(overdue) {
			return
		}
	}
	if !p.untilAnswered(overdue) {
		return
	}
	select {
	case <-answered:
	case <-overdue:
	case <-p.ctx.Done():
	}
}

// failed reports that a request has failed, and returns the failure that the client gets.
func (p *stdioPipe) failed(q *stateless.Request, err error, from []mcp.Header) *mcp.Failure {
	known := clients.IsReported(err)
	f := p.proxy.Host.Report.Failed(err, q.At(from)).WithID(q.ID)
	if !known {
		p.proxy.ObserveRefusal(q.Raw, translate.Lookup(translate.Modern()), p.proxy.PipeTransport(), f)
	}
	q.Counts.Fail(f)
	return f
}

// serve implements [sessionless].
func (p *stdioPipe) serve(m *wire.Message) {
	q, err := stateless.Read(m, "")
	if err == nil {
		q.Sender, q.Silent = p.sender, &p.silent
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
	direct := false
	if !p.proxy.NeedsSession(q, "") {
		if direct = p.straight != nil; !direct {
			direct, err = p.proxy.NeedsNoSession(p.ctx, p.from, q)
		}
		if err != nil {
			p.refuse(p.failed(q, err, p.from), nil)
			return
		}
	}
	if direct {
		if p.straight == nil {
			p.straight, err = p.openDirect(q)
		}
		switch {
		case err == nil:
			p.straight.forward(m.Raw, nil, 0)
			return
		case report.FailureOf(err).Cause != mcp.UpstreamLegacy:
			p.refuse(p.failed(q, err, p.from), nil)
			return
		}
	}
	span := p.proxy.SpanWithout(m, p.from, "")
	counts.Trace(span)
	if err = q.Own(p.ctx, p.proxy.Host.Memory()); err != nil {
		p.refuse(p.failed(q, err, p.from), nil)
		return
	}
	ctx, stop := context.WithCancelCause(span.Within(p.ctx))
	key := string(wire.AppendIDKey(nil, q.ID))
	p.mu.Lock()
	switch {
	case len(p.running) >= p.proxy.Now().Config.Limits.OpenRequests:
		err = mcp.Fail(mcp.TooManyOpen, "")
	case p.running[key] != nil:
		err = mcp.Fail(mcp.DuplicateID, "")
	default:
		p.running[key] = stop
	}
	p.mu.Unlock()
	if err != nil {
		stop(nil)
		p.refuse(p.failed(q, err, p.from), nil)
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
		p.run(ctx, q, free)
	})
}

// run answers a modern request. It calls free before the client receives the response, since
// the client may then use the id again.
func (p *stdioPipe) run(ctx context.Context, q *stateless.Request, free func()) {
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
		f := p.failed(q, err, nil)
		free()
		p.refuse(f, nil)
		return
	}
	defer r.End()
	answer, err := r.Answer(until{ctx, p.pipe})
	switch {
	case context.Cause(ctx) == report.ErrShutdown && q.Method != wire.SubscriptionsListen:
		free()
		p.refuse(p.failed(q, report.ErrShutdown, nil), nil)
		return
	case err != nil || ctx.Err() != nil:
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

// takes implements [sessionless]: a notification is for p if it cancels a request here or on the pipe to a modern server, or if
// the client has no session.
func (p *stdioPipe) takes(m *wire.Message) bool {
	cancels := m.Method == wire.Cancelled
	key := exchange.AppendCancelled(nil, m)
	p.mu.Lock()
	stop := p.running[string(key)]
	p.mu.Unlock()
	switch {
	case stop != nil:
		stop(downstream.ErrClientLeft)
	case p.straight == nil, cancels && !p.straight.s.Open.Knows(key):
		return false
	default:
		p.straight.forward(m.Raw, nil, 0)
	}
	return true
}
