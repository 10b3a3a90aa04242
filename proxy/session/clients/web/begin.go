package web

import (
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/session/handshake"
)

// reserve keeps a place for a new session of x's client.
func (f *Face) reserve(x *exchange.Exchange) *mcp.Failure {
	switch {
	case f.Host.Draining.Err() != nil: // the session would end with the process
		return mcp.Fail(mcp.ShuttingDown, "")
	case !f.Table.Reserve(x.Owner):
		return mcp.Fail(mcp.TooManySessions, "")
	}
	return nil
}

// add adds s, which has begun with x, in a reserved place.
func (f *Face) add(x *exchange.Exchange, s *session.Session) {
	f.Table.Add(s)
	x.Span.InSession(session.Fingerprint(s.ID))
	s.ObserveSession(x.Seen)
	if p := s.Process(); p != nil {
		p.WhenLost(func() {
			f.Host.Report.ServerFailed("session lost", report.CauseOfLoss(&f.Now().Config, report.FailureOf(p.Reason())), p.Reason(), nil)
			f.Forget(s, p.Reason())
		})
	}
}

// begin sends initialize on a new connection. If no session begins, s is nil and answer is the
// server's response. told are its headers that the client gets.
func (f *Face) begin(x *exchange.Exchange, raw []byte) (s *session.Session, answer []byte, early [][]byte, told []mcp.Header, err error) {
	id := x.Msg.ID()
	h := &handshake.Handshake{Opener: f.Opener, Sender: x.Sender, Principal: x.Principal, Owner: x.Owner, RunsFor: x.RunsFor, Peer: x.Peer, Heard: x.Heard, Bridges: true, Opening: pipes.Opening{Of: f.Host, Header: x.From}}
	s, answer, err = h.Negotiate(x.Ctx, raw)
	switch {
	case s == nil && h.Conn != nil:
		f.Host.Spawn(func() { f.EndConn(h.Conn) })
	case s != nil && s.Piped:
		s.OverLanes(f.OpenLanes(h.Conn, h.Standing, h.ID))
	}
	err = h.Conclude(s, answer, err)
	h.End(s, err)
	x.Seen, x.Span = h.Seen, h.Span
	switch {
	case err != nil:
		err = report.FailureOf(err).About(id)
	case s == nil || s.Bridge == nil: // else the answer is dragoman's
		told = h.Told
	}
	return s, answer, h.Early, told, err
}
