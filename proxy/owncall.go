package proxy

import (
	"bytes"
	"context"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/trace"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ownCall is a client's request that dragoman answers itself. For the exchange it looks like a
// request to a server of [translate.Latest] that answers with a stream, so that it is counted,
// limited and cancelled like any other.
type ownCall struct {
	id   []byte                // a clone of the request's id
	down *translate.Translator // from translate.Latest to the client's revision
	run  func(ctx context.Context, q *question) (answer []byte)
	call *toolCall // the tool call; nil for another request

	answers chan []byte // receives the answer to the open question; its buffer holds one
}

// claim makes x's request an ownCall if it calls one of dragoman's own tools, or if it is about
// tools and the server has none.
func (x *exchange) claim(m *wire.Message) {
	now := x.srv.now()
	if now.own == nil || m.Method != wire.ToolsCall && m.Method != wire.ToolsList {
		return
	}
	id := bytes.Clone(x.crossing.sent(m.ID()))
	switch {
	case m.Method == wire.ToolsCall:
		if name := now.own.named(m.Params()); name != "" {
			c := x.toolCall(name, m.Params())
			askable, personal := x.canAsk(), x.canSend()
			token := progressToken(m.Params())
			x.runHere(now, id, func(ctx context.Context, q *question) []byte {
				if askable {
					c.Ask = q.ask
				}
				if personal {
					c.Send = q.send
				}
				if token != nil {
					c.Progress = q.progress(token)
				}
				return x.srv.callOwn(ctx, now.own, id, c)
			})
			x.ownCall.call = c
		} else if !x.s.Facts.Has(wire.ServerTools) {
			x.refuseHere(now, id, "Unknown tool")
		}
	case !x.s.Facts.Has(wire.ServerTools):
		if hasCursor(m.Params()) {
			x.refuseHere(now, id, "Unknown cursor")
			break
		}
		x.listHere(now, id)
	}
}

func hasCursor(params []byte) bool {
	c := gjson.Get(wire.View(params), "cursor")
	return c.Exists() && c.Type != gjson.Null
}

func (x *exchange) refuseHere(now *setup, id []byte, why string) {
	x.runHere(now, id, func(context.Context, *question) []byte {
		return mcp.AppendError(nil, id, mcp.CodeInvalidParams, why, nil)
	})
}

// listHere answers tools/list with dragoman's own tools only.
func (x *exchange) listHere(now *setup, id []byte) {
	x.runHere(now, id, func(context.Context, *question) []byte {
		return appendToolsList(nil, id, now.own.listing[translate.Latest()])
	})
}

func (x *exchange) runHere(now *setup, id []byte, run func(context.Context, *question) []byte) {
	x.ownCall = &ownCall{id: id, down: now.table.Between(translate.Latest(), x.s.ClientRevision), run: run, answers: make(chan []byte, 1)}
	if x.stop == nil { // on a pipe to the server a request has no context of its own
		x.ctx, x.stop = context.WithCancelCause(x.ctx)
	}
}

// toolCall returns the call that the params of tools/call describe.
func (x *exchange) toolCall(tool string, params []byte) *toolCall {
	c := &toolCall{Tool: tool, Session: x.s.who(), Caller: x.caller()}
	if a := gjson.Get(wire.View(params), "arguments"); a.Exists() && a.Type != gjson.Null {
		c.Arguments = []byte(a.Raw)
	}
	for _, h := range x.from {
		if slices.ContainsFunc(trace.Headers[:], func(name string) bool { return strings.EqualFold(name, h.Name) }) {
			c.Header = append(c.Header, h)
		}
	}
	return c
}

// callOwn calls one of dragoman's own tools. A panic becomes an error result.
func (srv *Server) callOwn(ctx context.Context, own *catalog, id []byte, c *toolCall) (answer []byte) {
	defer func() {
		if p := recover(); p != nil {
			srv.host.Report.Panicked(p)
			answer = mcp.AppendResult(nil, id, `{"content":[{"type":"text","text":"internal error"}],"isError":true}`)
		}
	}()
	return mcp.AppendResult(nil, id, wire.View(own.byName[c.Tool].Call(ctx, c)))
}

// listAlone answers tools/list with dragoman's own tools only, if err says that the server cannot
// be reached. It returns false if err says something else, or if the request asks for a later page.
func (x *exchange) listAlone(body []byte, err error) bool {
	now := x.srv.now()
	if now.own == nil || x.call == nil || x.call.Method != wire.ToolsList || !clienterror.Unreachable(err) {
		return false
	}
	if hasCursor([]byte(gjson.GetBytes(body, "params").Raw)) {
		return false
	}
	if x.s.piped && x.s.open.Unique && !x.s.open.End(x.call) {
		return false // the failure of the pipe has already answered it
	}
	x.srv.host.Report.FailedAs("the server's tools are missing from the list", err, x.requestInfo())
	x.listHere(now, []byte(x.call.ID))
	return true
}

// start returns the stream of the call, which runs when the stream is read.
func (e *ownCall) start(ctx context.Context, asked *calls) upstream.Stream {
	st := new(ownCallStream)
	st.ctx, st.cancel = context.WithCancelCause(ctx)
	st.next, st.stop = iter.Pull(func(yield func([]byte) bool) {
		yield(e.run(st.ctx, &question{e.answers, yield, asked}))
	})
	return st
}

// ownCallStream is the stream of an ownCall. Next runs the call.
type ownCallStream struct {
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu   sync.Mutex // held while the call runs
	next func() ([]byte, bool)
	stop func()
}

// Next runs the call until it has its next message. It returns io.EOF after the last message, and the
// cause of the context's end.
func (st *ownCallStream) Next() (sse.Event, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ctx.Err() != nil {
		return sse.Event{}, context.Cause(st.ctx)
	}
	m, ok := st.next()
	switch {
	case st.ctx.Err() != nil:
		return sse.Event{}, context.Cause(st.ctx)
	case !ok:
		return sse.Event{}, io.EOF
	}
	return sse.Event{Data: m}, nil
}

// Close cancels the call and waits until its function has returned.
func (st *ownCallStream) Close() error {
	st.cancel(upstream.ErrClosed)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.stop()
	return nil
}
