package proxy

import (
	"context"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/modernclient"
	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// isDirect reports whether the server needs no session. The error is set only if the server took
// too long to answer. If the era cannot be found out for another reason, isDirect returns false,
// and the request through a session reports that reason.
func (srv *fronts) isDirect(ctx context.Context, from []upstream.Header) (bool, error) {
	known, err := srv.Eras.Of(ctx, from)
	if era.TookTooLong(err) {
		return false, err
	}
	return err == nil && known.Modern(), nil
}

// isOurs reports whether q calls one of dragoman's own tools. Such a call needs a session with any
// server, since the tool may ask the user something.
func (srv *fronts) isOurs(q *stateless.Request) bool {
	own := srv.Now().OwnFor(&q.Sender)
	return own != nil && q.Method == wire.ToolsCall && own.Named([]byte(gjson.GetBytes(q.Raw, "params").Raw)) != ""
}

// postDirect forwards one request to a modern server, with its bytes and headers unchanged, and
// returns the response.
func (srv *face) postDirect(req *downstream.Request, q *stateless.Request, who string, from []upstream.Header, resp *downstream.Response) error {
	opened, release, err := srv.modern.Direct(req.Ctx, q, who, from)
	var s *session.Session
	if err == nil {
		s = opened.(*openedSession).s
		list := func(ctx context.Context, params string) ([]byte, error) {
			return s.Inquire(ctx, wire.ToolsList, params, from)
		}
		if err = srv.checkCall(req.Ctx, s, list, q); err != nil {
			release()
		}
	}
	if err != nil {
		return clienterror.Of(err).About(q.ID)
	}
	ctx, stop := req.Ctx, req.Cancel
	if stop == nil {
		ctx, stop = context.WithCancelCause(ctx)
	}
	x := srv.New(ctx, stop)
	resp.Done = func() { x.Done(); release() }
	x.Session, x.Crossing, x.Tally = s, s.Direct.Crossing, q.Counts
	x.Tally.Hold()
	x.Session.Enter()
	x.From = append(append(x.From[:0], from...), q.Header...)
	x.AnswerTo(req.Client)
	x.Clock.Asked, x.MaxTokens, x.Peer, x.Sender = q.Timed, q.MaxTokens, q.Address, q.Sender
	if q.Method == wire.SubscriptionsListen { // it would never end by itself
		x.Free = context.AfterFunc(srv.Host.Draining, func() { stop(clienterror.ErrShutdown) })
	}
	err = x.Post(req.Body, resp)
	if !x.Streamed {
		resp.Header = x.Clock.AppendTo(resp.Header)
	}
	return err
}

// checkCall compares the headers of a tool call that repeat arguments with the arguments, by the
// tool's inputSchema in the server's list, of which list reads a page.
func (srv *fronts) checkCall(ctx context.Context, s *session.Session, list modernclient.ListTools, q *stateless.Request) error {
	if q.Method != wire.ToolsCall || q.Header == nil {
		return nil
	}
	if own := srv.Now().OwnFor(&q.Sender); own != nil && srv.isOurs(q) {
		t, _ := own.Find(gjson.ParseBytes(q.Target).String())
		return mcpheader.CheckParams(t.Arguments, q.Arguments, q.Header)
	}
	t, known := s.Tools.Find(gjson.ParseBytes(q.Target).String())
	unread := !known && (s.Direct != nil || q.HasParams())
	var wrong error
	if !unread {
		if wrong = mcpheader.CheckParams(t.Arguments, q.Arguments, q.Header); wrong == nil || clienterror.Of(wrong).Cause != mcp.HeaderMismatch {
			return wrong
		}
	}
	return checkAgain(ctx, s, list, q, wrong)
}

const (
	// listTime is how long a call waits for the list of tools.
	listTime = 5 * time.Second
	// listFreshness is how recently the list must have been read to refuse a call because of it.
	listFreshness = time.Second
)

// checkAgain is checkCall with a list that is read now: the tool was unknown, or the known list
// leads to the error wrong, and the client may have a newer list.
func checkAgain(client context.Context, s *session.Session, list modernclient.ListTools, q *stateless.Request, wrong error) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(client, listTime)
	defer cancel()
	tools, tool := &s.Tools, gjson.ParseBytes(q.Target).String()
	ask := func(params string) ([]byte, error) { return list(ctx, params) }
	if wrong == nil {
		t, err := tools.Look(ctx, tool, ask)
		if err != nil {
			return context.Cause(client) // the server will say what is wrong with the call
		}
		if wrong = mcpheader.CheckParams(t.Arguments, q.Arguments, q.Header); wrong == nil || clienterror.Of(wrong).Cause != mcp.HeaderMismatch {
			return wrong
		}
	}
	if tools.Refresh(ctx, began.Add(-listFreshness), ask) == nil {
		t, _ := tools.Find(tool)
		wrong = mcpheader.CheckParams(t.Arguments, q.Arguments, q.Header)
	}
	return wrong
}
