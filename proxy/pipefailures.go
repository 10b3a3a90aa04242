package proxy

import (
	"fmt"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// How the calls of a client on a pipe fail: the server is late, lost, or refuses the session.

// watch gives up calls for which a server on a pipe takes too long. Whatever it
// says to this client is a sign of life. It sleeps while no call is open.
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
		late, next := p.s.open.Overdue(func(c *call) time.Duration {
			if c.More.here || c.Method == wire.SubscriptionsListen {
				return time.Hour // the server has nothing to do with it, or nothing to say
			}
			return p.srv.now().silence.left(c, heard, now)
		})
		for _, c := range late {
			p.srv.giveUpAs(p.s, c.ID, nil, overdueCall) // before the client may use the id again
			f := mcp.Fail(mcp.UpstreamTimeout, "").About([]byte(c.ID))
			f.Err = server.SilentFor(now.Sub(c.Began), heard.After(c.Began))
			p.deliver(c.More.group, c.More.slot, f.Body())
			p.srv.metrics.Request(p.s.ClientRevision, p.s.ServerRevision, c.Method, metrics.Failed, c.Began)
			p.srv.host.Report.Failed(f, p.requestInfo(c))
		}
		if next > 0 {
			timer.Reset(next)
		} else {
			timer.Stop()
		}
	}
}

// serverLost answers every call in flight, then ends us.
func (p *pipe) serverLost(err error) {
	if p.ctx.Err() != nil {
		return // we have stopped it
	}
	f := clienterror.Of(err)
	if f.Cause == mcp.UpstreamSilent {
		f = mcp.Fail(mcp.UpstreamLost, "")
	}
	p.failOpen(f)
	p.fail(f)
}

// failOpen answers every call in flight with f.
func (p *pipe) failOpen(f *mcp.Failure) {
	for _, c := range p.s.open.List() {
		if server.Spares(f, p.givenKey(c)) || !p.s.open.End(c) || c.More.here {
			continue // what is served here ends with us, and says so itself
		}
		each := *f
		each.ID = []byte(c.ID)
		p.deliver(c.More.group, c.More.slot, each.Body())
		p.srv.metrics.Request(p.s.ClientRevision, p.s.ServerRevision, c.Method, metrics.Failed, c.Began)
		p.srv.host.Report.Failed(&each, p.requestInfo(c))
	}
}

// requestInfo is what is known of the call c.
func (p *pipe) requestInfo(c *call) report.At {
	return report.At{Method: c.Method.String(), Client: p.s.ClientRevision, Server: p.s.ServerRevision, Session: p.s.Named, Header: p.first}
}

// lostWith ends us when a failure over HTTP means that the session is over. That
// a server on a pipe is lost is for bring to see, which has calls to answer.
func (p *pipe) lostWith(f *mcp.Failure) {
	if p.s.piped || p.s.direct != nil {
		return
	}
	if f.Cause == mcp.UpstreamLost || f.Cause == mcp.SessionUnknown || f.Status == 404 && f.Cause == mcp.UpstreamRefused {
		whole := f.WithoutID()
		whole.Reported = false // it is why others fail
		p.fail(fmt.Errorf("%w: %w", errUpstreamGone, whole))
	}
}

// givenKey is the key of the id by which the server knows c, "" for none.
func (p *pipe) givenKey(c *call) string {
	if conn, ok := p.s.conn.(*server.Renumbered); ok {
		return conn.GivenKey(c.Key)
	}
	return c.Key
}
