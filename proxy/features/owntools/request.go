package owntools

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Client is the client of a request.
type Client interface {
	// Revision is the client's revision.
	Revision() *translate.Revision
	// Session is known only to the session's client.
	Session() string
	// Caller stands for the request's Authorization; "" for none.
	Caller() string
	// Sender says who sends the request.
	Sender() downstream.Sender
	// Header returns the headers of the request that go on to a server. The caller may keep it during the
	// request.
	Header() []mcp.Header
	// CanAsk reports whether the client can ask its user.
	CanAsk() bool
	// CanShow reports whether the client can show its user a page, and what the user does there
	// affects no other user.
	CanShow() bool
	// Memory is that of the answers.
	Memory() *large.Memory
	// Panicked reports that a source has panicked.
	Panicked(p any)
}

// Request is a client's request that dragoman answers itself. To an exchange it looks like a request
// to a server of [translate.Latest] that answers with a stream, so that it is counted, limited and
// cancelled like any other.
type Request struct {
	// Down translates from translate.Latest to the client's revision.
	Down *translate.Translator
	// Call is the tool call; nil for another request.
	Call *Call
	// Answers receives the answers to the request's questions. It has room for one; only one question is
	// open at a time.
	Answers chan []byte

	run func(ctx context.Context, q *question) (answer []byte, err error)
}

// Claim returns the Request for m if m calls one of dragoman's own tools or asks for a later page of
// them, or if it is a tools/list or tools/call and the server has no tools. Otherwise it returns nil, and m is for the server. theirs
// says that the server has tools. id is m's id at the server; it is cloned.
func (c *Catalog) Claim(m *wire.Message, id []byte, theirs bool, from Client) *Request {
	switch {
	case c == nil:
		return nil
	case m.Method == wire.ToolsCall:
		if name := c.Named(m.Params()); name != "" {
			return c.call(name, m.Params(), bytes.Clone(id), from)
		}
		if !theirs {
			return c.refuse(id, "Unknown tool", from)
		}
	case m.Method == wire.ToolsList:
		after, ours := strings.CutPrefix(gjson.Get(wire.View(m.Params()), "cursor").Str, cursorPrefix)
		switch {
		case ours:
			return c.listPage(id, strings.Clone(after), from)
		case theirs:
			return nil
		case from.Revision().HasCursor(gjson.Get(wire.View(m.Params()), "cursor").Raw):
			return c.refuse(id, unknownCursor, from)
		}
		return c.Alone(id, from)
	}
	return nil
}

// unknownCursor is the error for a page that is not there any more, or never was.
const unknownCursor = "Unknown cursor: the list has changed; ask for it again without a cursor"

// LeadsOn reports whether m asks for the page of the server that comes after an empty cursor, for which [Catalog.Extend] has
// given the client another one.
func LeadsOn(m *wire.Message) bool {
	return m.Method == wire.ToolsList && gjson.Get(wire.View(m.Params()), "cursor").Str == cursorPrefix
}

// LedOn returns such a request with the server's cursor.
func LedOn(request []byte) []byte {
	if out, err := sjson.SetBytes(bytes.Clone(request), "params.cursor", ""); err == nil {
		return out
	}
	return request
}

// Alone returns the Request that answers tools/list with dragoman's own tools only.
func (c *Catalog) Alone(id []byte, from Client) *Request { return c.listPage(id, "", from) }

// listPage returns the Request that answers tools/list with the own tools after the one called after.
func (c *Catalog) listPage(id []byte, after string, from Client) *Request {
	entries, cursor, ok := c.page(translate.Latest(), after)
	if !ok {
		return c.refuse(id, unknownCursor, from)
	}
	answer := appendToolsList(nil, id, entries, cursor)
	return c.request(from, func(context.Context, *question) ([]byte, error) { return answer, nil })
}

func (c *Catalog) refuse(id []byte, why string, from Client) *Request {
	answer := mcp.AppendError(nil, id, mcp.CodeInvalidParams, why, nil)
	return c.request(from, func(context.Context, *question) ([]byte, error) { return answer, nil })
}

func (c *Catalog) request(from Client, run func(context.Context, *question) ([]byte, error)) *Request {
	return &Request{Down: c.table.Between(translate.Latest(), from.Revision()), Answers: make(chan []byte, 1), run: run}
}

// call returns the Request for a call of the tool with the params of tools/call.
func (c *Catalog) call(tool string, params, id []byte, from Client) *Request {
	call := &Call{Tool: tool, Grant: c.grant, Sender: from.Sender(), Session: from.Session(), Caller: from.Caller()}
	if a := gjson.Get(wire.View(params), "arguments"); a.Exists() && a.Type != gjson.Null {
		call.Arguments = []byte(a.Raw)
	}
	for _, h := range from.Header() {
		if slices.ContainsFunc(trace.Headers[:], func(name string) bool { return strings.EqualFold(name, h.Name) }) {
			call.Header = append(call.Header, h)
		}
	}
	asks, shows, token := from.CanAsk(), from.CanShow(), progressToken(params)
	call.Begin = func(ctx context.Context, n int) ([]byte, error) {
		room, err := from.Memory().Alloc(ctx, large.AnswerWait, large.Copy, n+len(id)+64)
		return mcp.BeginResult(room, id), err
	}
	r := c.request(from, func(ctx context.Context, q *question) (answer []byte, err error) {
		if asks {
			call.Ask = q.ask
		}
		if shows {
			call.Send = q.send
		}
		if token != nil {
			call.Progress = q.progress(token)
		}
		defer func() {
			if p := recover(); p != nil {
				from.Panicked(p)
				answer, err = mcp.AppendResult(nil, id, `{"content":[{"type":"text","text":"internal error"}],"isError":true}`), nil
			}
		}()
		answer, err = c.byName[tool].Call(ctx, call)
		return append(answer, '}'), err
	})
	r.Call = call
	return r
}

// Start returns the stream of the request. The request runs within Events. forget is called
// with the key of a question's id ([wire.AppendIDKey]) when nothing waits for the answer any more.
func (r *Request) Start(ctx context.Context, forget func(key []byte)) upstream.Stream {
	st := new(stream)
	st.ctx, st.cancel = context.WithCancelCause(ctx)
	st.run = func(yield func([]byte) bool) ([]byte, error) {
		return r.run(st.ctx, &question{r.Answers, yield, forget})
	}
	return st
}

// stream is the stream of a Request.
type stream struct {
	upstream.Plain
	ctx    context.Context
	cancel context.CancelCauseFunc
	run    func(yield func([]byte) bool) (answer []byte, err error) // nil once it was called
}

// Events runs the call. If yield returns false, the call is cancelled. After the answer, the error is io.EOF, or else the
// cause of the context's end. In place of the answer, there may be an error, such as a *large.NoRoomError.
func (st *stream) Events(yield func(sse.Event, error) bool) {
	more := true
	give := func(m []byte) bool {
		if more = more && (st.ctx.Err() != nil || yield(sse.Event{Data: m}, nil)); !more {
			st.cancel(upstream.ErrClosed)
		}
		return st.ctx.Err() == nil
	}
	if run := st.run; run != nil && st.ctx.Err() == nil {
		st.run = nil
		answer, err := run(give)
		if err != nil && more && st.ctx.Err() == nil {
			yield(sse.Event{}, err)
			return
		}
		give(answer)
	}
	switch {
	case !more:
	case st.ctx.Err() != nil:
		yield(sse.Event{}, context.Cause(st.ctx))
	default:
		yield(sse.Event{}, io.EOF)
	}
}

// Close cancels the call.
func (st *stream) Close() error {
	st.cancel(upstream.ErrClosed)
	return nil
}
