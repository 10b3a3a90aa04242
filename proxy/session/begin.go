package session

import (
	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/features/replay"
	"github.com/dragoman-proxy/dragoman/proxy/origin/restart"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// ResumeSession makes the session from what its id holds. The session began in another process, or
// this process has dropped it.
func (table *Table) ResumeSession(t sealed.Session, by *downstream.Sender) *Session {
	named := t.Named
	if t.ServerRevision.Modern {
		named = ""
	}
	b := table.Now().Origin.Resume(named, t.ServerRevision.HeaderName())
	if b.Web != nil {
		b.Web.AddCookies(t.Cookies)
	}
	t.Cookies = "" // the connection has them
	if t.ServerRevision.Modern {
		return table.MakeBridged(t, table.Legacy.Resume(t, b.Conn), by)
	}
	s := table.Make(t, b, by)
	if s.Renewing != nil {
		s.Renewing.Bind(s, false)
	}
	return s
}

// MakeBridged makes the session t of a handshake client with a modern server, over c.
func (table *Table) MakeBridged(t sealed.Session, c *legacyclient.Conn, by *downstream.Sender) *Session {
	s := table.Make(t, &upstream.Begun{Conn: c}, by)
	s.Bridge = c
	s.Web, _ = c.Beneath().(*upstream.HTTPSession)
	s.Up, s.Down = c.Translators()
	s.observeNews()
	forget := s.Ended
	s.Ended = func() {
		c.End()
		if forget != nil {
			forget()
		}
	}
	return s
}

// Make makes the session t over the connection b, for the client that sent by.
func (table *Table) Make(t sealed.Session, b *upstream.Begun, by *downstream.Sender) *Session {
	s := &Session{
		Table: table, Session: t,
		Conn: b.Conn, Web: b.Web, Transport: b.Transport,
		Up:    table.Now().Table.Between(t.ClientRevision, t.ServerRevision),
		Down:  table.Now().Table.Between(t.ServerRevision, t.ClientRevision),
		Open:  NewCalls(table.Now().Config.Limits.OpenRequests),
		Asked: NewCalls(table.Now().Config.Limits.OpenRequests),

		closed: make(chan struct{}),
	}
	s.Asked.Keeps = true
	if !t.ClientRevision.Modern && !t.ServerRevision.Modern {
		s.Renewing = restart.OverHTTP(table.Host, t, b.Web, func() func(id, version string) *upstream.Begun { return table.Now().Origin.Resume })
	}
	if s.Renewing != nil {
		s.Conn = s.Renewing
		s.Renewing.Bind(s, true)
	}
	s.counted = func(why error) { table.countSession(s, why) }
	s.sender.Guest, s.sender.Local = by.Guest, by.Local
	own := table.Now().OwnFor(by)
	if own != nil {
		s.Ended = func() { table.Now().Own.EndSession(s.Who()) }
		s.Told.Store(own.Edition())
	}
	return s
}

// OpenLanes reads st, the stream of all messages of the server behind conn, on which an initialize with the id begun was sent; nil for
// none.
func (t *Table) OpenLanes(conn upstream.Conn, st upstream.Stream, begun []byte) *Lanes {
	cfg := t.Now().Config.Limits
	return &Lanes{
		Streams: pipes.Open(conn, st, begun, cfg, t.Host),
		Trails: replay.New[*ResumableCall](replay.Limits{
			Events: cfg.Replay, Bytes: int(cfg.ReplayBytes), Age: cfg.ReplayTime,
			Total: &t.Kept, Most: t.Host.Memory().Budget.Size() / replayShare,
		}),
	}
}

// replayShare divides limits.in_hand: the bytes that are kept for replay in the whole process, in
// addition to in_hand.
const replayShare = 8
