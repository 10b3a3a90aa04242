package proxy

import (
	"context"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// bridge makes the session at a server that has no handshake, after it has refused
// one: it gets server/discover, once, on the same connection. ok is false where it
// is no such server, or does not answer in time; then its refusal stands. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/discover.
func (h *handshake) bridge(ctx context.Context, raw []byte) (s *session.Session, answer []byte, ok bool) {
	modern := translate.Lookup(translate.Modern())
	if !h.bridges {
		return nil, nil, false
	}
	if h.Conn == nil && !h.open(ctx) {
		return nil, nil, false
	}
	if named, is := h.Conn.(interface{ SetSession(id, version string) }); is {
		named.SetSession("", modern.HeaderName())
	}
	if h.Standing != nil {
		h.Conn, h.Standing = h.srv.lanesTo(h.Conn, h.Standing), nil
	}
	c := h.srv.Legacy.New(h.Conn, h.vc, h.facts)
	if h.who != "" {
		c.BelongTo(h.who)
	}
	h.Conn = c
	asking, cancel := h.srv.Eras.Asking(ctx, h.Header)
	defer cancel()
	result, err := c.Introduce(asking, raw, h.Header)
	if err != nil {
		h.log().Debug("server does not answer server/discover either", zap.Error(err))
		return nil, nil, false
	}
	if speaks, _, _ := era.Named(gjson.GetBytes(result, "supportedVersions")); speaks != modern {
		return nil, nil, false
	}
	if answer, h.facts, err = c.InitializeResult(h.ID, result, h.Header); err != nil {
		h.log().Warn("cannot build the initialize result from server/discover", zap.Error(err))
		return nil, nil, false
	}
	h.named, h.Early = "", nil
	h.seen.Note(observe.Note{By: observe.Bridge, What: "introduced", To: observe.ToClient, Detail: "the server has no handshake: dragoman answers initialize with what the server says of itself in server/discover"})
	return h.srv.newSession(h, modern), answer, true
}

// lanesTo are the lanes of a server without a handshake on a pipe. One that is a
// process and ends by itself is started again; there is nothing that it has to be told.
func (srv *handshakes) lanesTo(conn upstream.Conn, standing upstream.Stream) *session.Lanes {
	if now := srv.Now(); now.Origin.Restarts && now.Config.Upstream.Restart.Max > 0 {
		o := &server.Opening{Of: srv.Host, Conn: conn, Standing: standing}
		era.Discover(o)
		r := srv.restarting(o, translate.Modern(), "")
		conn, standing = r, r.Stream()
	}
	return srv.OpenLanes(conn, standing)
}

// open opens a connection for a server without a handshake.
func (h *handshake) open(ctx context.Context) bool {
	if sh := h.srv.Now().Origin.Shared; sh != nil && h.bridges {
		g, err := sh.JoinModern(ctx, h.srv.sharing())
		if err != nil {
			h.log().Debug("no process to share", zap.Error(err))
			return false
		}
		h.Conn, h.Standing = g, nil
		return true
	}
	b := h.srv.Eras.TakeSpare(ctx)
	if b == nil && h.srv.Now().Origin.Open != nil {
		var err error
		if b, err = h.srv.Now().Origin.Open(ctx); err != nil {
			h.log().Debug("no connection without a handshake", zap.Error(err))
			return false
		}
	}
	if b == nil {
		return false
	}
	h.Conn, h.Standing = b.Conn, b.Standing
	return true
}

// unbridge takes back what bridge has left of a server that is none without a
// handshake, so that initialize can be said to it. What it was asked before is void.
func (h *handshake) unbridge() {
	if conn := h.Conn; conn != nil {
		h.srv.Host.Spawn(func() { h.srv.EndConn(conn) })
	}
	h.Conn, h.Standing, h.Early, h.named = nil, nil, nil, ""
}

// shakesFor reports whether the server has a handshake at all, which has just
// answered one without beginning a session: some that have none answer it, too, and
// refuse all that follows.
func (h *handshake) shakesFor(ctx context.Context) bool {
	if !h.bridges || h.Standing != nil || h.named != "" {
		return true
	}
	e, err := h.srv.Eras.Of(ctx, h.Header)
	if err != nil || !e.Modern() || e.Handshake {
		return true
	}
	h.srv.Host.Report.Quirk(report.IdleHandshake)
	return false
}
