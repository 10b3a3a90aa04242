package session

import (
	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/restart"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// ResumeSession makes the session from what its id holds. The session began in another process, or
// this process has dropped it.
func (srv *Table) ResumeSession(t sealed.Session, by *downstream.Sender) *Session {
	if t.ServerRevision.Modern {
		return srv.Make(t, srv.Legacy.Resume(t, srv.Now().Origin.Resume("", t.ServerRevision.HeaderName())), by)
	}
	s := srv.Make(t, srv.Now().Origin.Resume(t.Named, t.ServerRevision.HeaderName()), by)
	if c, ok := s.Conn.(*restart.HTTP); ok {
		c.Bind(s, false)
	}
	return s
}

func (srv *Table) Make(t sealed.Session, conn upstream.Conn, by *downstream.Sender) *Session {
	s := &Session{
		Table: srv, Session: t,
		Conn:  restart.OverHTTP(srv.Host, t, conn, func() func(id, version string) upstream.Conn { return srv.Now().Origin.Resume }),
		Up:    srv.Now().Table.Between(t.ClientRevision, t.ServerRevision),
		Down:  srv.Now().Table.Between(t.ServerRevision, t.ClientRevision),
		Open:  NewCalls(srv.Now().Config.Limits.OpenRequests),
		Asked: NewCalls(srv.Now().Config.Limits.OpenRequests),
	}
	if c, ok := s.Conn.(*restart.HTTP); ok {
		c.Bind(s, true)
	}
	s.counted = func(why error) { srv.countSession(s, why) }
	s.sender.Guest, s.sender.Local = by.Guest, by.Local
	own := srv.Now().OwnFor(by)
	if own != nil {
		s.Ended = func() { srv.forgetOwn(s) }
		s.Told.Store(own.Edition())
	}
	if c, ok := conn.(*legacyclient.Conn); ok {
		s.Up, s.Down = c.Translators()
		s.observeNews()
		s.Ended = func() {
			c.End()
			if own != nil {
				srv.forgetOwn(s)
			}
		}
	}
	return s
}
