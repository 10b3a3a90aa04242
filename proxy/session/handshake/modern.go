package handshake

import (
	"context"
	"errors"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// bridge makes the session at a server that has no handshake, after it has refused
// one with the response refusal, or nil if it was not sent one: it gets server/discover,
// once, on the same connection. ok is false where it is no such server, or does not
// answer in time; then its refusal stands. A server whose refusal says that it has no
// handshake has as long as ctx. If ok is true and err is set, the server has none, and the session was refused. See https://modelcontextprotocol.io/specification/2026-07-28/server/discover.
func (h *Handshake) bridge(ctx context.Context, raw []byte, refusal *wire.Message) (s *session.Session, answer []byte, ok bool, err error) {
	modern := translate.Lookup(translate.Modern())
	if !h.Bridges {
		return nil, nil, false, nil
	}
	if h.Conn == nil && !h.Open(ctx) {
		return nil, nil, false, nil
	}
	if h.Web != nil {
		h.Web.SetSession("", modern.HeaderName())
	}
	if h.Standing != nil {
		h.lanes = h.Opener.lanesTo(h.Conn, h.Standing)
		h.Conn, h.reached = h.lanes, legacyclient.ByOwnProcess
	}
	c := h.Opener.Legacy.New(h.Conn, h.reached, h.vc, h.Facts)
	c.RunsFor(h.RunsFor)
	if h.Principal != "" {
		c.BelongTo(h.Principal)
	}
	h.Begun, h.bridged = upstream.Begun{Conn: c}, c
	asking, cancel := h.Opener.Eras.Asking(ctx, h.Header)
	defer cancel()
	if deniesHandshake(refusal) {
		asking = ctx
	}
	result, err := c.Introduce(asking, raw, h.Header)
	if refused(err) {
		return nil, nil, true, err
	}
	if err != nil {
		h.log().Debug("server does not answer server/discover either", zap.Error(err))
		return nil, nil, false, nil
	}
	if speaks, _, _ := era.Named(gjson.GetBytes(result, "supportedVersions")); speaks != modern {
		return nil, nil, false, nil
	}
	if answer, h.Facts, err = c.InitializeResult(h.ID, result, h.Header); err != nil {
		h.log().Warn("cannot build the initialize result from server/discover", zap.Error(err))
		return nil, nil, false, nil
	}
	h.Opener.Eras.Saw(h.Header, gjson.GetBytes(result, era.ServerInfo).Raw)
	h.named, h.Early = "", nil
	h.Seen.Note(observe.Note{By: observe.Bridge, What: "introduced", To: observe.ToClient, Detail: "the server has no handshake: dragoman answers initialize with what the server says of itself in server/discover"})
	return h.Opener.newSession(h, modern), answer, true, nil
}

// refused reports whether err says that dragoman can keep no session for the client.
func refused(err error) bool {
	f, ok := errors.AsType[*mcp.Failure](err)
	_, full := errors.AsType[*large.NoRoomError](err)
	return full || ok && f.Cause == mcp.InitializeBroken
}

// deniesHandshake reports whether a server's response to initialize, which may be nil, says that it speaks only revisions
// without a handshake.
func deniesHandshake(m *wire.Message) bool {
	if m == nil || m.Kind != wire.Error {
		return false
	}
	_, err := era.Rejected(m)
	return err != nil
}

// unbridge takes back what bridge has left of a server that is none without a
// handshake, so that initialize can be said to it. What it was asked before is void.
func (h *Handshake) unbridge() {
	if conn := h.Conn; conn != nil {
		h.Opener.Host.Spawn(func() { h.Opener.EndConn(conn) })
	}
	h.Begun, h.Early, h.named = upstream.Begun{}, nil, ""
	h.bridged, h.lanes, h.shared, h.reached = nil, nil, false, legacyclient.ByHTTP
}

// shakesFor reports whether the server has a handshake at all, which has just
// answered one with m without beginning a session: some that have none answer it, too, and
// refuse all that follows. A server of which nothing is proved yet is sent one ping.
func (h *Handshake) shakesFor(ctx context.Context, m *wire.Message) bool {
	if !h.Bridges || h.Standing != nil || h.named != "" {
		return true
	}
	e, err := h.Opener.Eras.Of(ctx, h.Header)
	if err != nil || !e.Modern() || e.Handshake == era.Accepted {
		return true
	}
	if e.Handshake == era.Untried {
		how := h.pinged(ctx, m)
		h.Opener.Eras.Prove(h.Header, how)
		if how != era.Refused {
			return true
		}
	}
	h.Opener.Host.Report.Quirk(report.IdleHandshake)
	return false
}

// pinged is [era.Pinged] for the server that has answered initialize with m.
func (h *Handshake) pinged(ctx context.Context, m *wire.Message) era.Handshake {
	vu, err := era.Agreed(m, h.ID)
	if err != nil {
		return era.Untried
	}
	if h.Web != nil {
		h.Web.SetSession("", vu.HeaderName())
	}
	asking, cancel := h.Opener.Eras.Asking(ctx, h.Header)
	defer cancel()
	how, err := era.Pinged(asking, &h.Opening, vu)
	if err != nil {
		h.log().Debug("server does not answer a ping", zap.Error(err))
	}
	return how
}
