package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// keepBuffer is the largest buffer that is kept for the next request.
	keepBuffer = 64 << 10
	// piece is how much of a response the client must take within WriteTimeout.
	piece = 256 << 10
)

// serve is fasthttp's handler.
func (h *HTTP) serve(ctx *fasthttp.RequestCtx) {
	if h.draining.Load() {
		ctx.SetConnectionClose()
	}
	c := ctx.Conn().(*conn) // Serve made it
	header := &ctx.Request.Header
	if r := h.checkPeer(header, c); r != nil {
		refuse(ctx, codeInvalidRequest, r)
		return
	}
	if string(ctx.Path()) != h.cfg.Path {
		h.elsewhere(ctx)
		return
	}
	var call func(Handler, *Request, *Response)
	var r *refusal
	switch {
	case ctx.IsPost():
		call, r = Handler.Post, checkPost(header, c)
	case ctx.IsGet():
		call, r = Handler.Get, checkGet(header)
	case ctx.IsDelete():
		call = Handler.Delete
	default:
		ctx.Response.Header.Set(fasthttp.HeaderAllow, "POST, GET, DELETE")
		r = badMethod
	}
	if r != nil {
		refuse(ctx, codeInvalidRequest, r)
		return
	}
	h.exchanges.Get().(*exchange).run(ctx, c, call)
}

// elsewhere serves the paths beside the endpoint.
func (h *HTTP) elsewhere(ctx *fasthttp.RequestCtx) {
	serve, ok := h.cfg.Routes[string(ctx.Path())]
	if !ok {
		refuse(ctx, codeInvalidRequest, &refusal{fasthttp.StatusNotFound, "there is nothing here; the MCP endpoint is " + h.cfg.Path})
		return
	}
	if !h.guard(func() { serve(ctx) }) {
		ctx.Response.Reset()
		refuse(ctx, codeInternal, &refusal{fasthttp.StatusInternalServerError, "internal error"})
	}
}

// guard calls f and reports whether it returned. A panic is logged.
func (h *HTTP) guard(f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			h.cfg.Log("panic", fmt.Errorf("%v\n%s", p, debug.Stack()))
		}
	}()
	f()
	return true
}

// exchange is one request and its response. To fasthttp it is the response's
// body stream, also where the body is a plain slice: fasthttp writes after the
// handler has returned, and the Close of a body stream is the only place where it
// tells that it has done so. Writing from the slice needs no copy, and the
// exchange no allocation, since it is pooled.
type exchange struct {
	face   *HTTP
	ctx    *fasthttp.RequestCtx // nil once the handler has returned
	conn   *conn
	cancel context.CancelCauseFunc
	req    Request
	resp   Response
	events eventWriter
}

func newExchange(h *HTTP) *exchange {
	x := &exchange{face: h}
	x.req.Header = x.header // bound once
	x.events.init(h)
	return x
}

func (x *exchange) header(name string) string {
	if x.ctx == nil {
		return ""
	}
	return string(x.ctx.Request.Header.Peek(name))
}

// run has the request handled and hands the response to fasthttp.
func (x *exchange) run(ctx *fasthttp.RequestCtx, c *conn, call func(Handler, *Request, *Response)) {
	header := &ctx.Request.Header
	x.ctx, x.conn = ctx, c
	x.req.Ctx, x.cancel = context.WithCancelCause(context.Background())
	x.req.Body = ctx.Request.Body()
	x.req.Session = c.session.string(header.Peek("Mcp-Session-Id"))
	x.req.Version = c.version.string(header.Peek("Mcp-Protocol-Version"))
	x.req.LastEventID = ""
	if ctx.IsGet() {
		x.req.LastEventID = string(header.Peek("Last-Event-Id"))
	}
	c.begin(x.cancel)
	if !x.face.guard(func() { call(x.face.handler, &x.req, &x.resp) }) {
		x.fail()
	}
	x.ctx = nil
	// A stream may go on for hours; the request behind it need not.
	x.req.Body = nil
	ctx.Request.ReleaseBody(keepBuffer)
	x.respond(ctx)
}

// fail replaces what a handler that panicked has left.
func (x *exchange) fail() {
	if s := x.resp.Stream; s != nil {
		x.face.guard(func() { _ = s.Close() })
	}
	x.resp = Response{
		Status: fasthttp.StatusInternalServerError,
		Body:   fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"internal error"}}`, codeInternal),
		Done:   x.resp.Done,
	}
}

func (x *exchange) respond(ctx *fasthttp.RequestCtx) {
	r := &x.resp
	out := &ctx.Response
	if r.Status != 0 {
		out.SetStatusCode(r.Status)
	}
	size := len(r.Body)
	switch {
	case r.Stream != nil:
		size = -1
		out.Header.SetContentType("text/event-stream")
		out.Header.Set(fasthttp.HeaderCacheControl, "no-cache")
		out.Header.Set("X-Accel-Buffering", "no") // nginx would collect events
		// A client that listens has nothing else to wait for. The head of the
		// answer to a call goes with its first event, in one packet.
		out.ImmediateHeaderFlush = ctx.IsGet()
		x.events.begin(x.conn, r.Stream, ctx.IsGet())
	case size > 0:
		out.Header.SetContentType("application/json")
	}
	for _, h := range r.Header {
		out.Header.Add(h.Name, h.Value)
	}
	out.SetBodyStream(x, size)
}

// SupportsBodyWriteTo makes fasthttp call WriteTo, whose every Write becomes a
// chunk of a streamed body and is flushed.
func (x *exchange) SupportsBodyWriteTo() bool { return true }

// Read is there for the sake of io.Reader alone.
func (x *exchange) Read([]byte) (int, error) {
	return 0, errors.New("downstream: a response is written, not read")
}

// WriteTo writes the body, from the slice or for as long as the stream goes on.
func (x *exchange) WriteTo(w io.Writer) (n int64, err error) {
	if x.resp.Stream == nil {
		return x.writeBody(w)
	}
	err = errPanicked
	x.face.guard(func() { err = x.events.run(x.req.Ctx, w) })
	return 0, err
}

var errPanicked = errors.New("the response's stream panicked")

func (x *exchange) writeBody(w io.Writer) (n int64, err error) {
	for body := x.resp.Body; len(body) > 0; {
		if n > 0 { // fasthttp has set the first deadline
			if err := x.conn.SetWriteDeadline(time.Now().Add(x.face.cfg.WriteTimeout)); err != nil {
				return n, err
			}
		}
		m, err := w.Write(body[:min(len(body), piece)])
		n, body = n+int64(m), body[m:]
		if err != nil {
			return n, err
		}
	}
	// Written is what Done promises, and not buffered behind a pipelined request.
	if f, ok := w.(interface{ Flush() error }); ok {
		err = f.Flush()
	}
	return n, err
}

// Close is called by fasthttp when the response was written or given up.
func (x *exchange) Close() error {
	x.conn.finish()
	x.cancel(ErrOver)
	if s := x.resp.Stream; s != nil {
		x.face.guard(func() { _ = s.Close() })
		x.events.finish()
	}
	if x.resp.Done != nil {
		x.face.guard(x.resp.Done)
	}
	x.conn, x.cancel, x.req.Ctx, x.resp = nil, nil, nil, Response{}
	x.face.exchanges.Put(x)
	return nil
}
