package pipe

import (
	"context"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/clients"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
)

// SSE is the server's face for clients on HTTP+SSE.
type SSE struct {
	*clients.Proxy
	open sync.Map // keys: *ssePipe
}

// OpenPipe begins the session of a client whose HTTP+SSE stream is about to open. If there are too
// many sessions it fills resp with the error and returns nil.
func (f *SSE) OpenPipe(client downstream.Pipe, req *downstream.Request, resp *downstream.Response) downstream.PipeSession {
	proxy := f.Proxy
	if !proxy.Table.Reserve() {
		proxy.Refuse(req, resp, mcp.Fail(mcp.TooManySessions, ""))
		return nil
	}
	p := newPipe(proxy)
	p.client, p.runsFor, p.sender.Guest = client, proxy.RunsFor(req), req.Guest
	p.ctx, p.fail = context.WithCancelCause(req.Ctx)
	context.AfterFunc(p.ctx, client.Close) // the client has left, or the pipe ends: messages already written are still sent
	p.tasks.Add(1)                         // for drain, which may begin while the client leaves
	t := &ssePipe{p, f, proxy.OwnerOf(req), context.AfterFunc(proxy.Host.Draining, p.drain)}
	f.open.Store(t, nil)
	return t
}

// drain ends a pipe when its calls in flight are answered.
func (p *pipe) drain() {
	defer p.tasks.Done()
	p.untilAnswered(time.After(p.proxy.Now().Config.Shutdown.Drain))
	p.cutOff()
	if s := p.begun.Load(); s != nil && !s.Piped {
		p.untilAnswered(time.After(time.Second)) // the client's side is closed with p
	}
	p.fail(clienterror.ErrShutdown)
}

// An ssePipe is a pipe whose client sends each message in an HTTP request of its own.
type ssePipe struct {
	*pipe
	face    *SSE
	owner   sealed.Owner
	undrain func() bool
}

// Owns reports whether the sender of a message is the client that opened the stream.
func (t *ssePipe) Owns(guest string, header func(name string) string) bool {
	return t.owner.Is(t.proxy.Now().OwnerOf(guest, header))
}

// Take handles one message of the client.
func (t *ssePipe) Take(message []byte, header func(name string) string) {
	t.from = t.proxy.AppendPassed(t.from[:0], header)
	t.sender = downstream.SenderOf(t.sender.Guest, header, t.proxy.Adapters.CallerHeaders())
	t.handle(message)
}

// Left ends the session of a client that has left.
func (t *ssePipe) Left(error) {
	t.face.open.Delete(t)
	if t.undrain() {
		t.tasks.Done()
	}
	t.fail(clienterror.ErrShutdown)
	if t.s != nil {
		t.proxy.End(t.s, clienterror.ErrShutdown)
	}
	t.tasks.Wait()
	t.proxy.Table.Release()
}

// EachIdle calls do with the pipes without open calls of the clients for which the function of returns true: how long each is
// unused, and a function that ends it, and returns false if it has ended.
func (f *SSE) EachIdle(of func(client string) bool, do func(since time.Time, end func(why error) bool)) {
	f.open.Range(func(key, _ any) bool {
		t := key.(*ssePipe)
		if s := t.begun.Load(); s != nil && of(s.RunsFor) && s.Open.None() {
			do(time.Unix(0, s.Used.Load()), func(why error) bool {
				if _, here := f.open.LoadAndDelete(t); !here {
					return false
				}
				t.fail(why)
				return true
			})
		}
		return true
	})
}
