package proxy

import (
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// silenceLimits holds how long to wait for the server, by method.
type silenceLimits [wire.NumMethods]config.TimeLimit

func newSilenceLimits(cfg config.Config) *silenceLimits {
	p := new(silenceLimits)
	for m := range p {
		p[m] = config.TimeLimit{FirstByte: cfg.Upstream.SilenceTimeout, Silence: cfg.Upstream.SilenceTimeout}
	}
	for name, limit := range cfg.Limits.Time {
		at := &p[wire.MethodOf([]byte(name))]
		if limit.FirstByte > 0 {
			at.FirstByte = limit.FirstByte
		}
		if limit.Silence > 0 {
			at.Silence = limit.Silence
		}
	}
	return p
}

// left returns how much longer to wait for the response to c. heard is when the last message of the server
// was received.
func (p *silenceLimits) left(c *call, heard, now time.Time) time.Duration {
	limit := p[c.Method]
	if heard.After(c.Began) {
		return limit.Silence - now.Sub(heard)
	}
	return limit.FirstByte - now.Sub(c.Began)
}

// overdueCall is the reason in the cancellation of a call that took too long. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#timeouts.
const overdueCall = "timed out"

// giveUpAs sends the server notifications/cancelled for the request with this id. It does not wait.
func (srv *Server) giveUpAs(s *session, id string, header []upstream.Header, reason string) {
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
