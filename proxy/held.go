package proxy

import (
	"github.com/dragoman-proxy/dragoman/proxy/bridge/modernclient"
	"github.com/dragoman-proxy/dragoman/proxy/session"
)

// Held counts what a server holds at one moment for clients and for the MCP server. The zero value is that of a server at rest, which
// it is once its clients have left and their sessions have ended. What is bounded and may be dropped at any time is not counted:
// caches, and idle connections to the MCP server.
type Held struct {
	Connections int // of clients over HTTP
	Requests    int // POSTs of clients that are being answered
	Streams     int // event streams of clients over Streamable HTTP
	Exchanges   int // requests and streams under way in sessions

	Sessions  int // of clients, and those for requests without one
	Calls     int // requests of clients in sessions that have no answer yet
	Questions int // requests of the MCP server, or of dragoman, to clients that have no answer yet
	Waiting   int // messages of an MCP server on a pipe that wait until their client reads them

	Bridged       modernclient.Counts // for modern clients at a handshake server
	Subscriptions int                 // streams of a modern server, for handshake clients

	Sent      int // requests to an MCP server on a pipe that have no answer yet
	InUse     int // connections to an MCP server at a URL with an exchange or a stream under way
	Processes int // of the MCP server; one that sessions share stays until the end

	Bytes int64 // of messages in hand; those of a copy until the garbage collector finds that nothing refers to it
	Kept  int64 // bytes of messages that have passed, kept for sessions and for replay
}

// Held returns what srv holds now. The counts are not of exactly the same moment. It may be called at any time, also after the end.
func (srv *Server) Held() Held {
	now, memory := srv.Now(), srv.Host.Memory()
	h := Held{
		Streams: int(srv.Streams.Load()),
		Bridged: srv.Modern.Counts(), Subscriptions: srv.Legacy.Subscriptions(), Processes: srv.running.Running(),
		Bytes: memory.Budget.Taken(), Kept: memory.Kept() + srv.Kept.Load(),
	}
	count := func(s *session.Session) {
		h.Sessions++
		h.Calls += s.Open.Count()
		h.Questions += s.Asked.Count()
		h.Exchanges += int(s.Busy.Load())
		if l := s.Lanes; l != nil {
			h.Sent += l.Requests()
			h.Waiting += l.Waiting()
		}
	}
	srv.Table.Each(count)
	srv.Table.EachPipe(count)
	if d := now.Origin.Dialer; d != nil {
		h.InUse = d.HTTP().InUse()
	}
	srv.reloading.Lock()
	face := srv.face
	srv.reloading.Unlock()
	if face != nil {
		h.Connections, h.Requests = face.InHand()
	}
	return h
}
