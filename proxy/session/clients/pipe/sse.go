package pipe

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// SSE is the server's face for clients on HTTP+SSE.
type SSE struct {
	*clients.Proxy

	mu       sync.Mutex
	open     map[*ssePipe]struct{}
	draining bool
}

// OpenPipe begins the session of a client whose HTTP+SSE stream is about to open. If there are too
// many sessions it fills resp with the error and returns nil.
func (f *SSE) OpenPipe(client downstream.Pipe, req *downstream.Request, resp *downstream.Response) downstream.PipeSession {
	proxy := f.Proxy
	owner := proxy.OwnerOf(req)
	if !proxy.Table.Reserve(owner) {
		proxy.Refuse(req, resp, mcp.Fail(mcp.TooManySessions, ""))
		return nil
	}
	t := &ssePipe{face: f, owner: owner}
	t.pipe = pipe{proxy: proxy, client: client, runsFor: proxy.RunsFor(req), ctx: &t.own, fail: t.own.End}
	t.sender.Guest = req.Guest
	t.own.Begin(req.Ctx)
	t.own.Await(t)
	f.add(t)
	return t
}

// add notes that t is open.
func (f *SSE) add(t *ssePipe) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = make(map[*ssePipe]struct{})
		context.AfterFunc(f.Host.Draining, f.drain)
	}
	f.open[t] = struct{}{}
	if f.draining {
		t.tasks.Go(t.drain)
	}
}

// drop notes that t has ended or is about to, and reports whether it was open.
func (f *SSE) drop(t *ssePipe) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, here := f.open[t]
	delete(f.open, t)
	return here
}

// drain drains all pipes.
func (f *SSE) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.draining = true
	for t := range f.open {
		t.tasks.Go(t.drain)
	}
}

// drain ends a pipe when its calls in flight are answered.
func (p *pipe) drain() {
	p.untilAnswered(time.After(p.proxy.Now().Config.Shutdown.Drain))
	p.cutOff()
	p.fail(report.ErrShutdown)
}

// An ssePipe is a pipe whose client sends each message in an HTTP request of its own.
type ssePipe struct {
	pipe
	own   callctx.Context // ctx of the pipe
	face  *SSE
	owner sealed.Owner
}

// ContextEnded implements [callctx.Waiter]: the client has left, or the pipe ends. Its messages that wait are still taken.
func (t *ssePipe) ContextEnded() { t.client.(downstream.Pipe).Close() }

// Owns reports whether the sender of a message is the client that opened the stream.
func (t *ssePipe) Owns(guest string, header func(name string) string) bool {
	return t.owner.Is(t.proxy.Now().OwnerOf(guest, header))
}

// Take handles one message of the client.
func (t *ssePipe) Take(message []byte, header func(name string) string) {
	t.from, t.shown = t.proxy.AppendPassed(t.from[:0], header), nil
	if t.proxy.Observer.Watched() {
		t.shown = session.Heard(t.from, &downstream.Request{Header: header})
	}
	t.sender = downstream.SenderOf(t.sender.Guest, header, t.proxy.Adapters.CallerHeaders())
	if t.own.Err() != nil {
		t.refuseAll(message, context.Cause(&t.own))
		return
	}
	t.handle(message)
}

// Ending answers the calls that are still open with the reason why t ends.
func (t *ssePipe) Ending() {
	t.calls.Wait()
	if t.s != nil {
		t.failOpen(report.FailureOf(context.Cause(&t.own)))
	}
}

// Left ends the session of a client that has left.
func (t *ssePipe) Left(why error) {
	// A server that is lost ends the stream, too.
	why = cmp.Or(context.Cause(&t.own), why, report.ErrShutdown)
	t.face.drop(t) // from here on, drain begins no task
	t.fail(report.ErrShutdown)
	if t.s != nil {
		t.proxy.End(t.s, why)
	}
	t.tasks.Wait()
	t.proxy.Table.Release(t.owner)
}

// EachIdle calls do with the pipes without open calls of the clients for which the function of returns true: how long each is
// unused, and a function that ends it, and returns false if it has ended.
func (f *SSE) EachIdle(of func(client string) bool, do func(since time.Time, end func(why error) bool)) {
	f.mu.Lock()
	all := slices.Collect(maps.Keys(f.open))
	f.mu.Unlock()
	for _, t := range all {
		if s := t.begun.Load(); s != nil && of(s.RunsFor) && s.Open.None() {
			do(time.Unix(0, s.Used.Load()), func(why error) bool {
				if !f.drop(t) {
					return false
				}
				t.fail(why)
				return true
			})
		}
	}
}
