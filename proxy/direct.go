package proxy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// directSession is the part of a session that exists only between a modern client and a modern
// server. It holds what is known of the server for one principal. Messages pass unchanged, by
// ordinary exchanges. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports.
type directSession struct {
	web      bool             // the server is reached over HTTP
	meta     []byte           // the members of _meta in dragoman's own requests, from the first client
	crossing *bridge.Crossing // shared by all exchanges, and immutable
	realm    string           // separates cached results from those of other sessions
	last     atomic.Int64     // the number of dragoman's last own request
}

// directly makes a session for modern clients at a modern server. discovered is the server's
// DiscoverResult, or nil if it was not asked. If h.pipe is set, the session serves only the one
// client on that pipe.
func (h *handshake) directly(ctx context.Context, q *stateless.Request, known *era.Era) (s *session, err error) {
	srv := h.srv
	if !known.Modern() {
		return nil, mcp.Fail(mcp.UpstreamLegacy, "")
	}
	h.vc = known.Revision
	d := &directSession{meta: metaOf(h.vc, q)}
	if err := h.reach(ctx, d); err != nil {
		return nil, err
	}
	d.web = h.Standing == nil
	discovered := known.Discovered
	if discovered == nil && srv.now().Own != nil || h.Standing != nil {
		if discovered, err = h.discover(ctx, d); err != nil {
			srv.host.Spawn(func() { srv.endConn(h.Conn) })
			return nil, err
		}
	}
	if discovered == nil || mcp.Declares(gjson.GetBytes(discovered, "capabilities"), "tools") {
		h.facts |= wire.ServerTools
	}
	cfg := srv.now().Config.Bridge
	d.crossing = &bridge.Crossing{Down: wire.Stamp{
		ServerInfo: serverInfo(discovered), TTL: cfg.TTL.Milliseconds(),
	}}
	s = srv.newSession(h, h.vc)
	s.direct = d
	s.serverName = nameOf(serverInfo(discovered))
	s.open.Max = max(s.open.Max, srv.now().Config.Limits.Requests)
	return s, nil
}

// reach opens the connection to the server.
func (h *handshake) reach(ctx context.Context, d *directSession) error {
	b := h.srv.eras.TakeSpare(ctx)
	if b == nil {
		var err error
		if b, err = h.srv.now().Origin.Open(ctx); err != nil {
			return err
		}
	}
	h.Conn, h.Standing = b.Conn, b.Standing
	h.ID = []byte(`"dragoman:0"`)
	h.Sent = d.request(h.ID, wire.ServerDiscover, "")
	return nil
}

// discover sends server/discover. The caller owns the result.
func (h *handshake) discover(ctx context.Context, d *directSession) (result []byte, err error) {
	o := &upstream.Outgoing{Body: h.Sent, Request: true, Header: d.headers(h.Header, wire.ServerDiscover.String(), "")}
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
		return nil, refusedHandshake(m.Raw)
	}
	return slices.Clone(m.Result()), nil
}

// metaOf returns the members of _meta for dragoman's own requests, without the braces.
func metaOf(v *translate.Revision, q *stateless.Request) []byte {
	meta := fmt.Appendf(nil, `%q:%q,%q:`, mcp.MetaVersion, v.Name, mcp.MetaCapabilities)
	meta = append(meta, q.Capabilities...)
	if q.ClientInfo != nil {
		meta = append(fmt.Appendf(meta, `,%q:`, mcp.MetaClient), q.ClientInfo...)
	}
	return meta
}

// serverInfo returns the serverInfo in a result, or nil if there is none.
func serverInfo(result []byte) (is []byte) {
	mcp.Members(gjson.GetBytes(result, "_meta").Raw, func(name string, v gjson.Result) {
		if name == mcp.MetaServer && v.IsObject() {
			is = []byte(v.Raw)
		}
	})
	return is
}

// request returns one of dragoman's own requests. params are its members besides _meta, without the
// braces.
func (d *directSession) request(id []byte, method wire.Method, params string) []byte {
	if params != "" {
		params += ","
	}
	return mcp.Request(id, method, fmt.Sprintf(`{%s"_meta":{%s}}`, params, d.meta))
}

// headers returns the headers of one of dragoman's own requests, after those that the client's
// request passes on. It returns nil on a pipe.
func (d *directSession) headers(from []upstream.Header, method, target string) []upstream.Header {
	if !d.web {
		return nil
	}
	h := make([]upstream.Header, 0, len(from)+2)
	for _, f := range from {
		if len(f.Name) < len(mcpheader.Prefix) || !strings.EqualFold(f.Name[:len(mcpheader.Prefix)], mcpheader.Prefix) {
			h = append(h, f)
		}
	}
	h = append(h, upstream.Header{Name: "Mcp-Method", Value: mcpheader.Encode(method)})
	if target != "" {
		h = append(h, upstream.Header{Name: "Mcp-Name", Value: mcpheader.Encode(target)})
	}
	return h
}

// inquire sends the server one of dragoman's own requests, on a connection that returns a stream
// for each request. The caller owns the result.
func (s *session) inquire(ctx context.Context, method wire.Method, params string, from []upstream.Header) (result []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.of.now().Config.Upstream.HandshakeTimeout)
	defer cancel()
	d := s.direct
	id := append(strconv.AppendInt([]byte(`"dragoman:`), d.last.Add(1), 10), '"')
	o := &upstream.Outgoing{Body: d.request(id, method, params), Request: true, Header: d.headers(from, method.String(), "")}
	span := telemetry.Ask(ctx, o, s.ServerRevision.Name)
	defer func() { span.Done(err) }()
	conn := s.conn
	if c, ok := conn.(*headerConn); ok {
		conn = c.Conn // headerConn adds headers that d.headers has already made
	}
	st, err := conn.Send(ctx, o)
	if err != nil {
		return nil, err
	}
	return server.Answer(ctx, st, id)
}

// introduced adds dragoman's own tools to the server's response to server/discover.
func (x *exchange) introduced(out []byte) []byte {
	own := x.srv.now().OwnFor(&x.sender)
	if own == nil || x.s.direct == nil {
		return out
	}
	tells := gjson.GetBytes(out, "result.capabilities.tools.listChanged").Bool()
	with, err := own.Introduce(out)
	if err == nil && !tells { // subscriptions go to the server, which does not know of changes of dragoman's own tools
		with, err = sjson.DeleteBytes(with, "result.capabilities.tools.listChanged")
	}
	if err != nil {
		return out
	}
	return x.own(with, out)
}

// callable removes the tools that cannot be called over HTTP from the server's list, and learns
// which headers calls of the others need.
func (x *exchange) callable(page []byte) []byte {
	d := x.s.direct
	if d == nil || x.ownCall != nil {
		return page
	}
	out, changed := x.s.tools.Learn(page, x.srv.host.Log)
	if !changed || !d.web {
		return page
	}
	return x.own(out, page)
}
