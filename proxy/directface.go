package proxy

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// isDirect reports whether the server needs no session, as little as its client does.
// The error is that it took too long to say so; any other reason why that cannot be
// found out is for the road by a session to say.
func (srv *Server) isDirect(ctx context.Context, from []upstream.Header) (bool, error) {
	known, err := srv.eras.Of(ctx, from)
	if era.TookTooLong(err) {
		return false, err
	}
	return err == nil && known.Modern(), nil
}

// isOurs reports whether q calls a tool of ours. Whatever the server is, that takes
// the road by a session: the tool may have something to ask.
func (srv *Server) isOurs(q *modernRequest) bool {
	own := srv.now().own
	return own != nil && q.method == wire.ToolsCall && own.named([]byte(gjson.GetBytes(q.raw, "params").Raw)) != ""
}

// postDirect carries one request to a server that needs no session, as it is: its
// bytes, its headers, and what comes back.
func (srv *Server) postDirect(req *downstream.Request, q *modernRequest, who string, from []upstream.Header, resp *downstream.Response) error {
	b, err := srv.pool.getDirect(req.Ctx, q, who, from)
	if err == nil {
		if err = srv.checkCall(req.Ctx, b, q, from); err != nil {
			srv.pool.release(b)
		}
	}
	if err != nil {
		return clienterror.Of(err).About(q.id)
	}
	ctx, stop := req.Ctx, req.Cancel
	if stop == nil {
		ctx, stop = context.WithCancelCause(ctx)
	}
	x := srv.newExchange(ctx, stop)
	resp.Done = func() { x.done(); srv.pool.release(b) }
	x.s, x.crossing, x.tally = b.s, b.s.direct.crossing, q.counts
	x.tally.hold()
	x.s.enter()
	x.from = append(append(x.from[:0], from...), q.header...)
	x.clock.Asked, x.maxTokens = q.timed, q.maxTokens
	if q.method == wire.SubscriptionsListen { // which would never drain
		x.free = context.AfterFunc(srv.host.Draining, func() { stop(clienterror.ErrShutdown) })
	}
	err = x.post(req.Body, resp)
	resp.Header = x.clock.AppendTo(resp.Header)
	return err
}

// checkCall holds the headers of a call that repeat arguments against these, by what
// the server's list says of the tool.
func (srv *Server) checkCall(ctx context.Context, b *pooledSession, q *modernRequest, from []upstream.Header) error {
	if q.method != wire.ToolsCall || q.header == nil {
		return nil
	}
	if own := srv.now().own; own != nil && srv.isOurs(q) {
		t, _ := own.index.Find(gjson.ParseBytes(q.target).String())
		return mcpheader.CheckParams(t.Arguments, q.arguments, q.header)
	}
	t, known := b.s.tools.Find(gjson.ParseBytes(q.target).String())
	unread := !known && (b.s.direct != nil || q.hasParams())
	var wrong error
	if !unread {
		if wrong = mcpheader.CheckParams(t.Arguments, q.arguments, q.header); wrong == nil || clienterror.Of(wrong).Cause != mcp.HeaderMismatch {
			return wrong
		}
	}
	return srv.checkAgain(ctx, b, q, from, wrong)
}

const (
	// listTime bounds how long a call waits for the list of tools.
	listTime = 5 * time.Second
	// listFreshness is for how long a list that has just been read is good enough to refuse a call by it.
	listFreshness = time.Second
)

// checkAgain is checkCall by a list that is read now: nothing was known of the tool,
// or what was known finds this wrong, and the client may know better.
func (srv *Server) checkAgain(client context.Context, b *pooledSession, q *modernRequest, from []upstream.Header, wrong error) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(client, listTime)
	defer cancel()
	tools, tool := &b.s.tools, gjson.ParseBytes(q.target).String()
	ask := func(params string) ([]byte, error) { return b.list(ctx, srv, params, from) }
	if wrong == nil {
		t, err := tools.Look(ctx, tool, ask)
		if err != nil {
			return context.Cause(client) // the server will say itself what is wrong with it
		}
		if wrong = mcpheader.CheckParams(t.Arguments, q.arguments, q.header); wrong == nil || clienterror.Of(wrong).Cause != mcp.HeaderMismatch {
			return wrong
		}
	}
	if tools.Refresh(ctx, began.Add(-listFreshness), ask) == nil {
		t, _ := tools.Find(tool)
		wrong = mcpheader.CheckParams(t.Arguments, q.arguments, q.header)
	}
	return wrong
}

// hasParams reports whether headers repeat arguments of a tool.
func (q *modernRequest) hasParams() bool {
	for _, h := range q.header {
		if len(h.Name) > len(mcpheader.ParamPrefix) && strings.EqualFold(h.Name[:len(mcpheader.ParamPrefix)], mcpheader.ParamPrefix) {
			return true
		}
	}
	return false
}

// directStatus is the status of x's answer, 0 where the server's own stands.
func (x *exchange) directStatus(body []byte) int {
	if x.s.direct == nil || x.s.direct.web || x.msg.Kind != wire.Error {
		return 0
	}
	return mcp.StatusFor(gjson.GetBytes(body, "error.code").Int())
}

// asItCame makes f the server's own error, byte by byte, if it may be passed on so:
// its id is the request's, or the client knows by the transport what it is about.
func (x *exchange) asItCame(f *mcp.Failure, err error) {
	status, ok := errors.AsType[*upstream.StatusError](err)
	if !ok || x.call == nil {
		return
	}
	var m wire.Message
	if m.Scan(status.Body, nil) != nil || m.Kind != wire.Error {
		return
	}
	if string(wire.AppendIDKey(nil, m.ID())) == x.call.Key || !x.s.open.Unique {
		f.Verbatim = status.Body
	}
}
