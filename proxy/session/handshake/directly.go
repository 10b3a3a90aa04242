package handshake

import (
	"context"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Directly makes a session for modern clients at a modern server. discovered is the server's
// DiscoverResult, or nil if it was not asked. If h.pipe is set, the session serves only the one
// client on that pipe.
func (h *Handshake) Directly(ctx context.Context, q *stateless.Request, known *era.Era) (s *session.Session, err error) {
	opener := h.Opener
	if !known.Modern() {
		return nil, mcp.Fail(mcp.UpstreamLegacy, "")
	}
	h.vc = known.Revision
	d := &session.Direct{Meta: session.MetaOf(h.vc, q)}
	if err := h.reach(ctx); err != nil {
		return nil, err
	}
	h.ID = []byte(`"dragoman:0"`)
	h.Sent = d.Request(h.ID, wire.ServerDiscover, "")
	d.Web = h.Standing == nil
	discovered := known.Discovered
	if discovered == nil && opener.Now().Own != nil || h.Standing != nil {
		if discovered, err = h.discover(ctx, d); err != nil {
			opener.Host.Spawn(func() { opener.EndConn(h.Conn) })
			return nil, err
		}
	}
	if discovered == nil || mcp.Declares(gjson.GetBytes(discovered, "capabilities"), "tools") {
		h.Facts |= wire.ServerTools
	}
	cfg := opener.Now().Config.Bridge
	d.Crossing = &crossing.Crossing{Down: wire.Stamp{
		ServerInfo: session.ServerInfo(discovered), TTL: cfg.TTL.Milliseconds(),
	}}
	s = opener.newSession(h, h.vc)
	s.Direct = d
	s.ServerName = session.NameOf(session.ServerInfo(discovered))
	s.Open.Max = max(s.Open.Max, opener.Now().Config.Limits.Requests)
	return s, nil
}

// discover sends server/discover. The caller owns the result.
func (h *Handshake) discover(ctx context.Context, d *session.Direct) (result []byte, err error) {
	o := &upstream.Outgoing{Body: h.Sent, Request: true, Repeats: true, Header: d.Headers(h.Header, wire.ServerDiscover.String(), "")}
	span := telemetry.Ask(ctx, o, translate.Modern())
	defer func() { span.Done(err) }()
	st, err := h.Conn.Send(ctx, o)
	if err != nil {
		return nil, err
	}
	if st == nil {
		st = h.Standing
	} else {
		defer st.Close()
	}
	m, err := h.Await(ctx, st)
	switch {
	case err != nil:
		return nil, err
	case m.Kind != wire.Result:
		span.Answered(m)
		return nil, RefusedHandshake(m.Raw)
	}
	return slices.Clone(m.Result()), nil
}

// RefusedHandshake returns the error for the server's refusal of an initialize that dragoman made.
func RefusedHandshake(answer []byte) error {
	e := gjson.GetBytes(answer, "error")
	f := mcp.Fail(mcp.UpstreamRefused, "")
	f.Err = report.ErrHandshakeRefused
	if m := e.Get("message").String(); m != "" {
		f.Text += ": " + m
	}
	if d := e.Get("data"); d.Exists() {
		f.Data = []byte(d.Raw)
	}
	return f
}
