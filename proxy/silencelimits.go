package proxy

import (
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/session"
)

// giveUp sends the server notifications/cancelled for x's request. It does not wait.
func (x *exchange) giveUp(reason string) {
	if l, ok := x.s.Conn.(*session.Lanes); ok { // several requests may have the same id
		if st, ok := x.stream.(*server.Stream); ok {
			x.srv.Host.SendCancelled(l.Beneath(), st.Given(), x.from, reason)
		}
		return
	}
	x.srv.GiveUpAs(x.s, x.call.ID, x.from, reason)
}
