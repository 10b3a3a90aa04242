package downstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	// keepBuffer is the largest buffer that is kept for the next request.
	keepBuffer = 64 << 10
	// copied is the largest body that is copied behind its head, to be written with it.
	copied = 2 << 10
	// gathered is the largest body that is written with its head without a copy. For larger ones the system takes longer
	// than for two writes.
	gathered = 128 << 10
	// piece is how many bytes of a response the client must take within WriteTimeout.
	piece = 1 << 20
)

// serve is fasthttp's handler.
func (h *HTTP) serve(ctx *fasthttp.RequestCtx) {
	if h.draining.Load() {
		ctx.SetConnectionClose()
	}
	c := ctx.Conn().(*conn) // Serve made it
	c.bodyRead = false
	defer finishBuffered(ctx, c)
	if r := h.route(ctx, c); r != nil {
		if r != drained {
			h.cfg.Refused(r.status, r.words)
		}
		switch path := ctx.Path(); {
		case h.cfg.PlainRefusal != nil && h.isPlain(path):
			say(ctx, r.status, h.cfg.PlainRefusal(r.status, r.words))
		case h.isMCP(path):
			refuse(ctx, r, h.cfg.WithoutID)
		default:
			sayPlainly(ctx, r)
		}
	}
	if !c.bodyRead {
		h.leaveBody(ctx, c)
	}
}

// finishBuffered makes fasthttp write out a response that no exchange writes, even if the client has pipelined another
// request behind it, whose exchange may write on the connection itself. A response without a body may still be held
// back.
func finishBuffered(ctx *fasthttp.RequestCtx, c *conn) {
	switch r := &ctx.Response; {
	case ctx.Hijacked():
	case !r.IsBodyStream():
		c.held = true
		if body := r.Body(); len(body) > 0 {
			r.SetBodyStream(&wholeBody{data: bytes.Clone(body)}, len(body))
		}
	default:
		if _, ours := r.BodyStream().(*exchange); !ours {
			ctx.SetConnectionClose()
		}
	}
}

// wholeBody is a body that is written out at once.
type wholeBody struct{ data []byte }

// SupportsBodyWriteTo makes fasthttp call WriteTo.
func (b *wholeBody) SupportsBodyWriteTo() bool { return true }

// Read is only there to implement io.Reader.
func (b *wholeBody) Read([]byte) (int, error) { return 0, errWritten }

// WriteTo writes the body, and all that was held back before it.
func (b *wholeBody) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b.data)
	if err == nil {
		err = flush(w)
	}
	return int64(n), err
}

// flush writes what w has buffered.
func flush(w io.Writer) error {
	if f, ok := w.(interface{ Flush() error }); ok {
		return f.Flush()
	}
	return nil
}

// route finds the code that answers a request, and calls it. It may return a refusal.
func (h *HTTP) route(ctx *fasthttp.RequestCtx, c *conn) *refusal {
	header := &ctx.Request.Header
	path := header.RequestURI()
	if string(path) != h.cfg.Path {
		path = ctx.Path() // fasthttp has to parse the URI for this
	}
	if h.handler == nil {
		return h.elsewhere(ctx)
	}
	if r := h.checkPeer(header, c); r != nil {
		return r
	}
	if r := checkFraming(ctx); r != nil {
		return r
	}
	if string(path) != h.cfg.Path && h.isBeside(ctx, path) {
		return h.beside(ctx, c)
	}
	if h.allowPages(ctx, path) {
		return nil
	}
	if h.cfg.Replicas != nil && string(path) == h.cfg.ReplicasPath {
		return h.forwarded(ctx, c)
	}
	if r := h.checkToken(ctx, c); r != nil {
		return r
	}
	if r := h.checkOnce(header); r != nil {
		return r
	}
	switch {
	case string(path) == h.cfg.Path:
		return h.endpoint(ctx, c)
	case h.cfg.Pipes != nil && string(path) == h.cfg.SSEPath:
		return h.openPipe(ctx, c)
	case h.cfg.Pipes != nil && string(path) == h.cfg.MessagesPath:
		return h.postMessage(ctx, c)
	}
	if h.isPlain(path) {
		return h.plain(ctx, c)
	}
	return h.elsewhere(ctx)
}

// endpoint serves the one path of Streamable HTTP.
func (h *HTTP) endpoint(ctx *fasthttp.RequestCtx, c *conn) *refusal {
	header := &ctx.Request.Header
	var call func(Handler, *Request, *Response)
	var r *refusal
	switch {
	case c.held:
		ctx.SetConnectionClose()
		r = pipelined
	case ctx.IsPost():
		call, r = postTrimmed, checkPost(header, c)
	case ctx.IsGet():
		call, r = Handler.Get, checkGet(header)
	case ctx.IsDelete():
		call = Handler.Delete
	default:
		ctx.Response.Header.Set(fasthttp.HeaderAllow, "POST, GET, DELETE")
		r = badMethod
	}
	if r != nil {
		return r
	}
	return h.exchange(ctx, c, reading(ctx.IsPost()), call)
}

// reading says whether an exchange reads the body of its request.
type reading bool

const withBody reading = true

// exchange serves a request by call. It returns a refusal if the body cannot be read.
func (h *HTTP) exchange(ctx *fasthttp.RequestCtx, c *conn, body reading, call func(Handler, *Request, *Response)) *refusal {
	x := h.exchanges.Get().(*exchange)
	if body {
		if r := x.take(ctx); r != nil {
			h.exchanges.Put(x)
			return r
		}
	}
	x.run(ctx, c, call)
	return nil
}

// postTrimmed passes on the message in the body without the white space around it.
func postTrimmed(h Handler, req *Request, resp *Response) {
	req.Body = wire.Trim(req.Body)
	h.Post(req, resp)
}

// elsewhere serves the paths other than the endpoint.
func (h *HTTP) elsewhere(ctx *fasthttp.RequestCtx) *refusal {
	serve, ok := h.routeOf(ctx.Path())
	switch {
	case !ok && h.handler == nil:
		return nothingHere
	case !ok:
		return elsewhere.with(h.cfg.Path)
	case h.hasRest(ctx):
		return noBody // the route would read the whole body
	case !h.guard(func() { serve(ctx) }):
		return panicked
	}
	return nil
}

// routeOf returns the handler of a path: its own, or that of the longest path ending in a slash that it is below.
func (h *HTTP) routeOf(path []byte) (serve fasthttp.RequestHandler, ok bool) {
	if serve, ok = h.cfg.Routes[string(path)]; ok {
		return serve, true
	}
	for i := len(path) - 1; i > 0; i-- { // not the root
		if path[i] == '/' {
			if serve, ok = h.cfg.Routes[string(path[:i+1])]; ok {
				return serve, true
			}
		}
	}
	return nil, false
}

// admit counts one more POST in hand. It returns false if there are too many.
func (h *HTTP) admit() bool {
	if h.requests.Add(1) > int64(h.cfg.MaxRequests) {
		h.requests.Add(-1)
		return false
	}
	return true
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

// exchange is one request and its response. To fasthttp it is the body stream of the
// response, even if the body is a slice: fasthttp writes after the handler has
// returned, and reports the end of the writing only by the Close of a body stream.
// Writing from the slice needs no copy, and the exchange no allocation, because it is
// pooled.
//
// If the handler sends events before it returns, the exchange writes the whole response
// itself, and the connection drops that of fasthttp.
type exchange struct {
	face   *HTTP
	header *fasthttp.RequestHeader // nil once the handler has returned
	out    *fasthttp.Response      // nil on the fast path, and once the handler has returned
	conn   *conn
	cancel context.CancelCauseFunc
	req    Request
	resp   Response
	in     body
	asked  *[]field
	posted bool // the request is counted as a POST
	events eventWriter
	failed error // why the events ended early
}

func newExchange(h *HTTP) *exchange {
	x := &exchange{face: h}
	x.req.Header, x.req.Headers = x.headerOf, x.headers // bound once
	x.req.Client = x
	x.events.init(h)
	return x
}

func (x *exchange) headerOf(name string) string {
	if x.header == nil {
		return ""
	}
	if x.asked != nil {
		for i := range *x.asked {
			if f := &(*x.asked)[i]; f.name == name {
				return f.value
			}
		}
	}
	if strings.EqualFold(name, tokenHeader) {
		return "" // it is for the listener only
	}
	value := x.conn.valueOf(name, x.header.Peek(name))
	if x.asked != nil && len(*x.asked) < maxOthers && !strings.EqualFold(name, fasthttp.HeaderContentLength) {
		*x.asked = append(*x.asked, field{name, value})
	}
	return value
}

func (x *exchange) headers(prefix string, do func(name, value string)) {
	if x.header == nil {
		return
	}
	for name, value := range x.header.All() {
		if len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix && !strings.EqualFold(string(name), tokenHeader) {
			do(x.conn.named(name, value))
		}
	}
}

// take reads the body of a POST.
func (x *exchange) take(ctx *fasthttp.RequestCtx) (r *refusal) {
	if !x.face.admit() {
		return tooManyPost
	}
	if r = x.face.readBody(ctx, &x.in); r != nil {
		x.dropBody()
		x.face.requests.Add(-1)
		return r
	}
	x.posted = true
	return nil
}

// dropBody releases the body. It keeps a small buffer for the next request.
func (x *exchange) dropBody() {
	x.in.data = x.in.data[:0]
	if cap(x.in.data) > keepBuffer {
		x.face.dropBuffer(x.in.data)
		x.in.data = nil
	}
	x.face.release(&x.in)
}

// run calls the handler and passes the response to fasthttp.
func (x *exchange) run(ctx *fasthttp.RequestCtx, c *conn, call func(Handler, *Request, *Response)) {
	header := &ctx.Request.Header
	x.call(header, &ctx.Response, c, c.calledBy(header), call)
	if c.bodyRead {
		ctx.Request.ResetBody()
	}
	x.respond(ctx)
}

// calledBy is what an exchange takes from the head of a request.
type calledBy struct {
	session, version string
	versionTwice     bool
	asked            *[]field // what handlers have asked for, except Content-Length; nil if no other request is expected to say the same
}

// field is a header. The value is "" if there is none of that name.
type field struct{ name, value string }

// calledBy reads what an exchange takes from a head.
func (c *conn) calledBy(header *fasthttp.RequestHeader) (by calledBy) {
	by.session = c.session.string(header.Peek(sessionHeader))
	by.version = c.version.string(header.Peek(versionHeader))
	by.versionTwice = by.version != "" && len(header.PeekAll(versionHeader)) > 1
	return by
}

// call calls the handler. out is nil on the fast path.
func (x *exchange) call(header *fasthttp.RequestHeader, out *fasthttp.Response, c *conn, by calledBy, call func(Handler, *Request, *Response)) {
	x.header, x.out, x.conn, x.asked = header, out, c, by.asked
	life := callctx.New()
	x.cancel = life.End
	x.req.Ctx, x.req.Cancel = life, x.cancel
	if x.req.Body = nil; x.posted {
		x.req.Body = x.in.data
	}
	x.req.Session, x.req.Version, x.req.VersionTwice = by.session, by.version, by.versionTwice
	x.req.LastEventID, x.req.Method, x.req.Path, x.req.Guest = "", "", "", ""
	x.req.Peer = c.peer
	x.req.Guest = c.guestName()
	if header.IsGet() {
		x.req.LastEventID = string(header.Peek("Last-Event-Id"))
	}
	c.begin(x.cancel)
	if !x.face.guard(func() { call(x.face.handler, &x.req, &x.resp) }) {
		x.fail()
	}
	x.header, x.out, x.asked = nil, nil, nil
	if x.resp.Listen != nil { // the stream may last for hours; the request's body is not needed for it
		x.req.Body = nil
		x.dropBody()
	}
}

// Send implements [mcp.Peer].
func (x *exchange) Send(e sse.Event) error {
	if !x.events.open {
		x.startEvents()
	}
	return x.events.send(e, false)
}

// startEvents makes the response an event stream. Its head goes out with the first event, in one packet.
func (x *exchange) startEvents() {
	x.req.Body = nil
	x.dropBody()
	x.conn.muted = true
	if x.out == nil {
		buf := x.face.buffer()
		*buf = x.appendHead(*buf, chunked)
		x.events.begin(x.conn, *buf, false)
		x.face.giveBack(buf)
		return
	}
	out := x.out
	x.fillHead(out)
	http11 := x.header.IsHTTP11()
	if http11 {
		out.Header.SetContentLength(-1) // chunks
	} else {
		out.Header.SetConnectionClose()
	}
	if x.header.ConnectionClose() {
		out.Header.SetConnectionClose()
	}
	x.events.begin(x.conn, out.Header.Header(), !http11)
}

// fillHead sets the status and the headers of the response, which is an event stream.
func (x *exchange) fillHead(out *fasthttp.Response) {
	if x.resp.Status != 0 {
		out.SetStatusCode(x.resp.Status)
	}
	streamHead(&out.Header)
	for _, h := range x.resp.Header {
		out.Header.Add(h.Name, h.Value)
	}
}

// fail replaces the response of a handler that panicked.
func (x *exchange) fail() {
	if x.events.open {
		x.failed = errPanicked
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
	switch {
	case x.events.open:
		x.endEvents()
		out.SetBodyStream(x, 0)
		return
	case r.Listen != nil && ctx.IsGet():
		x.fillHead(out)
		x.takeOver(ctx)
		return
	}
	if r.Status != 0 {
		out.SetStatusCode(r.Status)
	}
	if len(r.Body) > 0 {
		out.Header.SetContentType("application/json")
	}
	for _, h := range r.Header {
		out.Header.Add(h.Name, h.Value)
	}
	out.SetBodyStream(x, len(r.Body))
}

// endEvents writes the last event and the end of the body.
func (x *exchange) endEvents() {
	if x.failed == nil {
		x.failed = x.resp.Cut
	}
	if x.failed == nil {
		x.failed = x.events.end(&x.resp)
	}
	x.events.halt()
}

// takeOver continues the stream without fasthttp. A stream that clients listen to lasts
// for hours, most of the time without an event, and should not hold two buffers and a
// grown stack meanwhile.
func (x *exchange) takeOver(ctx *fasthttp.RequestCtx) {
	x.events.begin(x.conn, takeOver(ctx), !ctx.Request.Header.IsHTTP11())
	x.conn.takenOver = x.stand
}

// stand writes the response of a connection that was taken over, and closes it.
func (x *exchange) stand() {
	c := x.conn
	err := x.events.writeHead() // the client has nothing else to wait for
	if err == nil {
		err = errPanicked
		x.face.guard(func() { err = x.resp.Listen(x) })
	}
	if err == nil {
		err = x.events.end(new(Response))
	}
	x.events.halt()
	if err == nil {
		err = c.Conn.Close()
	}
	if err != nil {
		c.hangUp()
	}
	x.face.dropConn(c)
	_ = x.Close()
}

// SupportsBodyWriteTo makes fasthttp call WriteTo.
func (x *exchange) SupportsBodyWriteTo() bool { return true }

var (
	errWritten  = errors.New("downstream: a response is written, not read")
	errPanicked = errors.New("the response's stream panicked")
)

// Read is only there to implement io.Reader.
func (x *exchange) Read([]byte) (int, error) { return 0, errWritten }

// WriteTo writes the body. Events were written before; then it drops the head that fasthttp has buffered.
func (x *exchange) WriteTo(w io.Writer) (n int64, err error) {
	if !x.events.open {
		return x.writeBody(w)
	}
	if err := flush(w); err != nil {
		return 0, err
	}
	return 0, x.failed
}

// writeBody writes the body behind the head that w has buffered.
func (x *exchange) writeBody(w io.Writer) (n int64, err error) {
	body := x.resp.Body
	if len(body) > copied && len(body) <= gathered {
		m, err := x.conn.writeBehind(w, body)
		return int64(m), err
	}
	for len(body) > 0 {
		if n > 0 { // fasthttp has set the deadline of the first write
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
	// Done promises that the body was written, and not buffered behind a pipelined
	// request.
	return n, flush(w)
}

// Close is called by fasthttp when the response was written or abandoned.
func (x *exchange) Close() error {
	x.conn.finish()
	x.conn.muted = false
	x.events.finish()
	x.resp.Body, x.resp.Last, x.req.Body = nil, sse.Event{}, nil
	if x.resp.Done != nil {
		x.face.guard(x.resp.Done)
	}
	x.cancel(ErrOver) // not earlier, or the connection to the server would be lost
	x.dropBody()
	if x.posted {
		x.face.requests.Add(-1)
	}
	x.conn, x.cancel, x.req.Ctx, x.req.Cancel = nil, nil, nil, nil
	x.resp, x.posted, x.failed = Response{}, false, nil
	x.face.exchanges.Put(x)
	return nil
}
