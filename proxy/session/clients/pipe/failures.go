package pipe

import (
	"fmt"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/exchange"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The functions in this file fail the calls of a client on a pipe if the server is late or lost, or
// refuses the session.

// watch fails calls that a server on a pipe does not answer in time. Any message of the server for
// this client restarts the time, which stands still while one is written: until the client reads it, what the server says next waits
// unread. watch sleeps while no call is open.
func (p *pipe) watch() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-p.called:
		case <-p.ctx.Done():
			return
		}
		at := p.heard.Load()
		if at == deaf || at == deafSeen {
			if !p.heard.CompareAndSwap(at, deafSeen) {
				p.wake()
			}
			timer.Stop()
			continue // until hear
		}
		now, heard := time.Now(), time.Unix(0, at)
		late, next := p.s.Open.Overdue(func(c *session.Call) time.Duration {
			if c.More.Here || c.Method == wire.SubscriptionsListen {
				return time.Hour // the server does not process it, or may be silent about it
			}
			return p.proxy.Now().Silence.Left(c.Method, c.Began, heard, now)
		})
		for _, c := range late {
			p.proxy.GiveUpAs(p.s, c.ID, p.s.Authorization(), session.Overdue) // first, as the client may then use the id again
			f := mcp.Fail(mcp.UpstreamTimeout, "").About([]byte(c.ID))
			f.Err = pipes.SilentFor(now.Sub(c.Began), heard.After(c.Began))
			p.failCall(c, f)
		}
		if next > 0 {
			timer.Reset(next)
		} else {
			timer.Stop()
		}
	}
}

// What stands in heard while a message of the server is written to the client.
const (
	deaf     = -1 // nothing else of the server is read
	deafSeen = -2 // the same, and watch waits for it
)

// wake wakes watch.
func (p *pipe) wake() {
	select {
	case p.called <- struct{}{}:
	default: // it is already awake
	}
}

// serverLost answers every open call with an error, then ends the pipe.
func (p *pipe) serverLost(err error) {
	if p.ctx.Err() != nil {
		return // dragoman has stopped the server
	}
	f := report.FailureOf(err)
	if f.Cause == mcp.UpstreamSilent {
		f = mcp.Fail(mcp.UpstreamLost, "")
	}
	p.failOpen(f)
	p.fail(f)
}

// failOpen answers every open call with f, but for those that the server cannot have had if another takes its place.
func (p *pipe) failOpen(f *mcp.Failure) {
	restarts := pipes.Restarts(f)
	for _, c := range p.s.Open.List() {
		if restarts && c.Waits() && !c.More.Here {
			continue // at a gate, say
		}
		key := c.Key // of the id by which the server knows c, or ""
		if p.given != nil {
			key = p.given.GivenKey(c.Key)
		}
		if pipes.Spares(f, key) || !p.s.Open.End(c) || c.More.Here {
			continue // calls that dragoman answers itself also report their own failures
		}
		each := *f
		each.ID = []byte(c.ID)
		p.failCall(c, &each)
	}
}

// failCall sends the client f instead of a response to c.
func (p *pipe) failCall(c *session.Call, f *mcp.Failure) {
	f = p.proxy.Host.Report.Failed(f, p.requestInfo(c))
	body := f.Body()
	c.More.Seen.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: p.proxy.Observer.Keep(body), Method: c.Method.String()})
	p.deliver(c.More.Group, c.More.Slot, body)
	p.counts(c, metrics.Failed, report.FaultOf(f))
}

// counts counts a call that a server on a pipe has answered, or should have.
func (p *pipe) counts(c *session.Call, how metrics.Outcome, why metrics.Fault) {
	o := p.s.Operation(c, how, why)
	o.Waited = time.Since(c.Began)
	p.proxy.EndCall(c, &o)
}

// requestInfo returns what is known of the call c.
func (p *pipe) requestInfo(c *session.Call) report.At {
	return report.At{Method: c.Method.String(), Client: p.s.ClientRevision, Server: p.s.ServerRevision, Session: p.s.Named, Header: p.first}
}

// refuseAll answers every request in a message with an error because of why.
func (p *pipe) refuseAll(message []byte, why error) {
	if !wire.IsArray(message) {
		if id := exchange.IDOf(message); id != nil {
			p.refuse(report.FailureOf(why).WithID(id), message)
		}
		return
	}
	items, slots, err := p.proxy.Split(p.s, message)
	if err != nil {
		p.refuse(err, message)
		return
	}
	g := session.NewBatch(slots)
	g.Emit = p.write
	for _, it := range items {
		if it.Slot >= 0 && it.Refusal == nil {
			it.Refusal = p.refusal(report.FailureOf(why).WithID(exchange.IDOf(it.Raw)), it.Raw)
		}
		if it.Refusal != nil {
			g.Put(it.Slot, it.Refusal.Body())
		}
	}
}

// lostWith ends the pipe if a failure over HTTP means that the session has ended. For a server on a
// pipe bring does that, after it has answered the open calls.
func (p *pipe) lostWith(f *mcp.Failure) {
	if p.s.Piped || p.s.Direct != nil {
		return
	}
	if f.Cause == mcp.UpstreamLost || f.Cause == mcp.SessionUnknown || f.Status == 404 && f.Cause == mcp.UpstreamRefused {
		whole := f.WithoutID()
		whole.Reported = false // the session's end is reported again, with its effect
		p.fail(fmt.Errorf("%w: %w", ErrUpstreamGone, whole))
	}
}

// cutOff answers the open calls with an error that says that dragoman is shutting down.
func (p *pipe) cutOff() {
	switch s := p.begun.Load(); {
	case s == nil:
	case s.Piped:
		p.failOpen(mcp.Fail(mcp.ShuttingDown, ""))
	default: // each call has a goroutine that answers it
		for _, c := range s.Open.List() {
			if c.Stop != nil {
				c.Stop(report.ErrShutdown)
			}
		}
	}
}
