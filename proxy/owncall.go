package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// errand is a request of a client that is answered here. To the exchange it is one
// that the server answers on a stream of its own, in [translate.Latest]: so it goes
// the same roads, is counted, bounded and cancelled like any other.
type ownCall struct {
	id   []byte                // of the request, a clone
	down *translate.Translator // from our words to the client's
	run  func(ctx context.Context, q *question) (answer []byte)
	call *toolCall // that it is; nil for another request

	answers chan []byte // to the question that is open, with room for it
}

// claim makes x's request an errand when it is for a tool of ours, or for the tools
// of a server that has none.
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

// listHere answers tools/list by our tools alone.
func (x *exchange) listHere(now *setup, id []byte) {
	x.runHere(now, id, func(context.Context, *question) []byte {
		return appendToolsList(nil, id, now.own.listing[translate.Latest()])
	})
}

func (x *exchange) runHere(now *setup, id []byte, run func(context.Context, *question) []byte) {
	x.ownCall = &ownCall{id: id, down: now.table.Between(translate.Latest(), x.s.ClientRevision), run: run, answers: make(chan []byte, 1)}
	if x.stop == nil { // what a server on a pipe is asked has no end of its own
		x.ctx, x.stop = context.WithCancelCause(x.ctx)
	}
}

// ownCall is the call that the params of a tools/call ask for.
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

// callerOf stands for the sender of an Authorization, without telling it.
func callerOf(authorization string) string {
	if authorization == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(authorization))
	return hex.EncodeToString(sum[:])
}

// callOwn has a tool of ours called. A panic in it is an error of the tool.
func (srv *Server) callOwn(ctx context.Context, own *catalog, id []byte, c *toolCall) (answer []byte) {
	defer func() {
		if p := recover(); p != nil {
			srv.host.Report.Panicked(p)
			answer = mcp.AppendResult(nil, id, `{"content":[{"type":"text","text":"internal error"}],"isError":true}`)
		}
	}()
	return mcp.AppendResult(nil, id, wire.View(own.byName[c.Tool].Call(ctx, c)))
}

// listAlone puts our tools in the place of a list that the server cannot give
// because it is not there. It reports false where err says something else, and where
// the client is in the middle of the list.
func (x *exchange) listAlone(body []byte, err error) bool {
	now := x.srv.now()
	if now.own == nil || x.call == nil || x.call.Method != wire.ToolsList || !clienterror.Unreachable(err) {
		return false
	}
	if hasCursor([]byte(gjson.GetBytes(body, "params").Raw)) {
		return false
	}
	if x.s.piped && x.s.open.Unique && !x.s.open.End(x.call) {
		return false // it was answered with the end of the server
	}
	x.srv.host.Report.FailedAs("the server's tools are missing from the list", err, x.requestInfo())
	x.listHere(now, []byte(x.call.ID))
	return true
}

// start begins the errand, as far as anyone reads the stream.
func (e *ownCall) start(ctx context.Context, asked *calls) upstream.Stream {
	st := new(ownCallStream)
	st.ctx, st.cancel = context.WithCancelCause(ctx)
	st.next, st.stop = iter.Pull(func(yield func([]byte) bool) {
		yield(e.run(st.ctx, &question{e.answers, yield, asked}))
	})
	return st
}

// errandStream is what comes of an errand. It is run by those who read it.
type ownCallStream struct {
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu   sync.Mutex // held while it runs
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
