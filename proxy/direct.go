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

	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// direct is what a session has beside others when neither its client nor its server
// knows of sessions: then it is only what we know of such a server, as one principal
// reaches it. Messages go through as they came, by exchanges like any other. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports.
type directSession struct {
	web      bool         // the server is reached over HTTP
	meta     []byte       // members of _meta of our own requests, which are its first client's
	crossing *crossing    // of all exchanges; it does not change
	realm    string       // of what is kept of its results
	last     atomic.Int64 // id of ours
}

// directly makes a session for clients without one at a server that has none, either.
// discovered is its DiscoverResult, nil where it was not asked. The client is on a
// pipe and has the session for itself if h says so.
func (h *handshake) directly(ctx context.Context, q *modernRequest, known *era.Era) (s *session, err error) {
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
	if discovered == nil && srv.now().own != nil || h.Standing != nil {
		if discovered, err = h.discover(ctx, d); err != nil {
			srv.host.Spawn(func() { srv.endConn(h.Conn) })
			return nil, err
		}
	}
	if discovered == nil || mcp.Declares(gjson.GetBytes(discovered, "capabilities"), "tools") {
		h.facts |= wire.ServerTools
	}
	cfg := srv.now().cfg.Bridge
	d.crossing = &crossing{down: wire.Stamp{
		ServerInfo: serverInfo(discovered), TTL: cfg.TTL.Milliseconds(),
	}}
	s = srv.newSession(h, h.vc)
	s.direct = d
	s.open.Max = max(s.open.Max, srv.now().cfg.Limits.Requests)
	return s, nil
}

// reach opens the connection.
func (h *handshake) reach(ctx context.Context, d *directSession) error {
	b := h.srv.eras.TakeSpare(ctx)
	if b == nil {
		var err error
		if b, err = h.srv.now().origin.open(ctx); err != nil {
			return err
		}
	}
	h.Conn, h.Standing = b.Conn, b.Standing
	h.ID = []byte(`"dragoman:0"`)
	h.Sent = d.request(h.ID, wire.ServerDiscover, "")
	return nil
}

// discover asks the server who it is. The result is the caller's.
func (h *handshake) discover(ctx context.Context, d *directSession) ([]byte, error) {
	st, err := h.Conn.Send(ctx, &upstream.Outgoing{Body: h.Sent, Request: true, Header: d.headers(h.Header, wire.ServerDiscover.String(), "")})
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
		return nil, refusedHandshake(m.Raw)
	}
	return slices.Clone(m.Result()), nil
}

// metaOf is what requests of our own say of their sender, between the braces.
func metaOf(v *translate.Revision, q *modernRequest) []byte {
	meta := fmt.Appendf(nil, `%q:%q,%q:`, mcp.MetaVersion, v.Name, mcp.MetaCapabilities)
	meta = append(meta, q.capabilities...)
	if q.client != nil {
		meta = append(fmt.Appendf(meta, `,%q:`, mcp.MetaClient), q.client...)
	}
	return meta
}

// serverInfo is who a server says it is, nil where it does not.
func serverInfo(result []byte) (is []byte) {
	mcp.Members(gjson.GetBytes(result, "_meta").Raw, func(name string, v gjson.Result) {
		if name == mcp.MetaServer && v.IsObject() {
			is = []byte(v.Raw)
		}
	})
	return is
}

// mcpPrefix is what the names of headers begin with that say what a message is.
const mcpPrefix = "Mcp-"

// request is one of our own. params is what is within the braces, beside _meta.
func (d *directSession) request(id []byte, method wire.Method, params string) []byte {
	if params != "" {
		params += ","
	}
	return mcp.Request(id, method, fmt.Sprintf(`{%s"_meta":{%s}}`, params, d.meta))
}

// headers are those of a request of our own, behind those that the client sent along.
// On a pipe there are none.
func (d *directSession) headers(from []upstream.Header, method, target string) []upstream.Header {
	if !d.web {
		return nil
	}
	h := make([]upstream.Header, 0, len(from)+2)
	for _, f := range from {
		if len(f.Name) < len(mcpPrefix) || !strings.EqualFold(f.Name[:len(mcpPrefix)], mcpPrefix) {
			h = append(h, f)
		}
	}
	h = append(h, upstream.Header{Name: "Mcp-Method", Value: mcpheader.Encode(method)})
	if target != "" {
		h = append(h, upstream.Header{Name: "Mcp-Name", Value: mcpheader.Encode(target)})
	}
	return h
}

// inquire asks the server something for ourselves, on a session whose requests have
// streams of their own. The result is the caller's.
func (s *session) inquire(ctx context.Context, srv *Server, method wire.Method, params string, from []upstream.Header) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, srv.now().cfg.Upstream.HandshakeTimeout)
	defer cancel()
	d := s.direct
	id := append(strconv.AppendInt([]byte(`"dragoman:`), d.last.Add(1), 10), '"')
	o := &upstream.Outgoing{Body: d.request(id, method, params), Request: true, Header: d.headers(from, method.String(), "")}
	conn := s.conn
	if c, ok := conn.(*headerConn); ok {
		conn = c.Conn // the headers are there
	}
	st, err := conn.Send(ctx, o)
	if err != nil {
		return nil, err
	}
	return server.Answer(ctx, st, id)
}

// introduced is the server's answer to server/discover, with our tools in it.
func (x *exchange) introduced(out []byte) []byte {
	own := x.srv.now().own
	if own == nil || x.s.direct == nil {
		return out
	}
	tells := gjson.GetBytes(out, "result.capabilities.tools.listChanged").Bool()
	with, err := own.introduce(out)
	if err == nil && !tells { // subscriptions go to the server, which has no news of ours
		with, err = sjson.DeleteBytes(with, "result.capabilities.tools.listChanged")
	}
	if err != nil {
		return out
	}
	return x.own(with, out)
}

// callable is the server's list of tools without those that cannot be called over HTTP,
// from which we learn what headers the others want.
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
