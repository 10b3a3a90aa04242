package pipe

import (
	"fmt"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The functions in this file fail the calls of a client on a pipe if the server is late or lost, or
// refuses the session.

// watch fails calls that a server on a pipe does not answer in time. Any message of the server for
// this client restarts the time. watch sleeps while no call is open.
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
		now, heard := time.Now(), time.Unix(0, p.heard.Load())
		late, next := p.s.Open.Overdue(func(c *session.Call) time.Duration {
			if c.More.Here || c.Method == wire.SubscriptionsListen {
				return time.Hour // the server does not process it, or may be silent about it
			}
			return p.proxy.Now().Silence.Left(c.Method, c.Began, heard, now)
		})
		for _, c := range late {
			p.proxy.GiveUpAs(p.s, c.ID, nil, session.Overdue) // first, as the client may then use the id again
			f := mcp.Fail(mcp.UpstreamTimeout, "").About([]byte(c.ID))
			f.Err = server.SilentFor(now.Sub(c.Began), heard.After(c.Began))
			p.observe(c, f.Body())
			p.deliver(c.More.Group, c.More.Slot, f.Body())
			p.counts(c, metrics.Failed, report.FaultOf(p.proxy.Host.Report.Failed(f, p.requestInfo(c))))
		}
		if next > 0 {
			timer.Reset(next)
		} else {
			timer.Stop()
		}
	}
}

// serverLost answers every open call with an error, then ends the pipe.
func (p *pipe) serverLost(err error) {
	if p.ctx.Err() != nil {
		return // dragoman has stopped the server
	}
	f := clienterror.Of(err)
	if f.Cause == mcp.UpstreamSilent {
		f = mcp.Fail(mcp.UpstreamLost, "")
	}
	p.failOpen(f)
	p.fail(f)
}

// failOpen answers every open call with f.
func (p *pipe) failOpen(f *mcp.Failure) {
	for _, c := range p.s.Open.List() {
		if server.Spares(f, p.givenKey(c)) || !p.s.Open.End(c) || c.More.Here {
			continue // calls that dragoman answers itself also report their own failures
		}
		each := *f
		each.ID = []byte(c.ID)
		p.observe(c, each.Body())
		p.deliver(c.More.Group, c.More.Slot, each.Body())
		p.counts(c, metrics.Failed, report.FaultOf(p.proxy.Host.Report.Failed(&each, p.requestInfo(c))))
	}
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

// givenKey returns the key of the id by which the server knows c, or "".
func (p *pipe) givenKey(c *session.Call) string {
	if p.given != nil {
		return p.given.GivenKey(c.Key)
	}
	return c.Key
}

// observe adds the error that the client gets instead of a response to c.
func (p *pipe) observe(c *session.Call, body []byte) {
	c.More.Seen.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: p.proxy.Observer.Keep(body), Method: c.Method.String()})
}

// onPipe adapts f for a client on a pipe: a modern request gets "Method not found", so that the
// client may try initialize.
func onPipe(f *mcp.Failure) *mcp.Failure {
	if f.Cause == mcp.ModernRefused {
		f.Code = mcp.CodeMethodNotFound
	}
	return f
}
