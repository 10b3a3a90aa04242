package proxy

import (
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// overdueCall is the reason in the cancellation of a call that took too long. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#timeouts.
const overdueCall = "timed out"

// giveUpAs sends the server notifications/cancelled for the request with this id. It does not wait.
func (srv *sessions) giveUpAs(s *session, id string, header []upstream.Header, reason string) {
	conn := s.conn
	if c, ok := conn.(server.Renames); ok { // translated now, as the id may later be that of another request
		given, open := c.Known(id)
		if !open {
			return
		}
		id, conn = given, c.Beneath()
	}
	srv.host.SendCancelled(conn, id, header, reason)
}

// giveUp sends the server notifications/cancelled for x's request. It does not wait.
func (x *exchange) giveUp(reason string) {
	if l, ok := x.s.conn.(*lanes); ok { // several requests may have the same id
		if st, ok := x.stream.(*server.Stream); ok {
			x.srv.host.SendCancelled(l.Beneath(), st.Given(), x.from, reason)
		}
		return
	}
	x.srv.giveUpAs(x.s, x.call.ID, x.from, reason)
}
