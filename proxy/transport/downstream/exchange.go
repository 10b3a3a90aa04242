package downstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

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
	posted bool   // the request is counted as a POST
	owner  string // of this client
	events eventWriter
	failed error // why the events ended early

	streams bool   // the client says that it reads event streams
	awaited []byte // the id of the request whose response may begin before it is known; nil for none
}

func newExchange(h *HTTP) *exchange {
	x := &exchange{face: h}
	x.req.Header, x.req.Headers = x.headerOf, x.headers // bound once
	x.req.Client, x.req.Await, x.req.Settle = x, x.await, x.settle
	x.events.init(h)
	x.events.early = func() { x.beginEvents(&Response{}) }
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
	value := x.conn.valueOf(name, valueIn(x.header, name))
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
	x.owner = ctx.Conn().(*conn).owner(&ctx.Request.Header)
	if !x.face.admit(x.owner) {
		return tooManyPost
	}
	if r = x.face.readBody(ctx, &x.in, x.owner); r != nil {
		x.dropBody()
		x.face.dismiss(x.owner)
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
	x.in.share.Release()
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
	streams          bool
	asked            *[]field // what handlers have asked for, except Content-Length; nil if no other request is expected to say the same
}

// field is a header. The value is "" if there is none of that name.
type field struct{ name, value string }

// calledBy reads what an exchange takes from a head.
func (c *conn) calledBy(header *fasthttp.RequestHeader) (by calledBy) {
	by.session = c.session.string(header.Peek(sessionHeader))
	by.version = c.version.string(header.Peek(versionHeader))
	by.streams = header.IsPost() && names(header.PeekAll(fasthttp.HeaderAccept), "text", "event-stream")
	return by
}

// call calls the handler. out is nil on the fast path.
func (x *exchange) call(header *fasthttp.RequestHeader, out *fasthttp.Response, c *conn, by calledBy, call func(Handler, *Request, *Response)) {
	x.header, x.out, x.conn, x.asked, x.streams = header, out, c, by.asked, by.streams
	life := callctx.New()
	x.cancel = life.End
	x.req.Ctx, x.req.Cancel = life, x.cancel
	if x.req.Body = nil; x.posted {
		x.req.Body = x.in.data
	}
	x.req.Session, x.req.Version, x.req.Twice = by.session, by.version, c.twice
	x.req.LastEventID, x.req.Method, x.req.Path = "", "", ""
	x.req.Peer, x.req.Guest = c.peer, c.guestName()
	if header.IsGet() {
		x.req.LastEventID = string(header.Peek("Last-Event-Id"))
	}
	c.begin(x.cancel)
	returned := x.face.cfg.guard(func() { call(x.face.handler, &x.req, &x.resp) })
	x.settle()
	if !returned {
		x.fail()
	}
	x.header, x.out, x.asked = nil, nil, nil
}

// await is Await of the request.
func (x *exchange) await(id string) {
	if x.streams {
		x.awaited = append(x.awaited[:0], id...)
		x.events.await()
	}
}

// settle is Settle of the request.
func (x *exchange) settle() (id []byte, begun bool) {
	if len(x.awaited) == 0 {
		return nil, false
	}
	return x.awaited, x.events.settle()
}

// Send implements [mcp.Peer].
func (x *exchange) Send(e sse.Event) error {
	if x.req.Body != nil {
		x.req.Body = nil
		x.dropBody()
	}
	x.events.mu.Lock()
	if !x.events.open {
		x.beginEvents(&x.resp)
	}
	x.events.mu.Unlock()
	return x.events.send(e, false)
}

// beginEvents makes the response an event stream, with the status and headers of resp. Its head goes out with the first event, in
// one packet. Callers hold the lock of x.events.
func (x *exchange) beginEvents(resp *Response) {
	x.conn.muted = true
	if x.out == nil {
		buf := x.face.buffers.get()
		*buf = x.appendHead(*buf, resp, chunked)
		x.events.begin(x.conn, *buf, false)
		x.face.buffers.put(buf)
		return
	}
	out := x.out
	streamHead(&out.Header)
	resp.fill(out)
	http11 := x.header.IsHTTP11()
	if http11 {
		out.Header.SetContentLength(-1) // chunks
	} else {
		out.Header.SetConnectionClose()
	}
	if x.header.ConnectionClose() || x.face.draining.Load() {
		out.Header.SetConnectionClose()
	}
	x.events.begin(x.conn, out.Header.Header(), !http11)
}

// appendHead appends the head of a response on the fast path. During a shutdown, it says that the connection is closed.
func (x *exchange) appendHead(dst []byte, r *Response, length int) []byte {
	x.conn.closes = x.face.draining.Load()
	return appendHead(dst, r, length, x.conn.closes)
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
		streamHead(&out.Header)
		r.fill(out)
		s := &standing{listen: r.Listen, done: r.Done, cancel: x.cancel}
		s.init(x.face)
		s.begin(x.conn, takeOver(ctx), !ctx.Request.Header.IsHTTP11())
		x.conn.takenOver = s.start
		x.recycle()
		return
	}
	if len(r.Body) > 0 {
		out.Header.SetContentType("application/json")
	}
	r.fill(out)
	if x.face.draining.Load() {
		out.SetConnectionClose()
	}
	out.SetBodyStream(x, len(r.Body))
}

// endEvents writes the last event and the end of the body.
func (x *exchange) endEvents() {
	if x.failed == nil {
		x.failed = x.resp.Cut
	}
	if x.failed == nil {
		x.failed = x.events.endBody(&x.resp)
	}
	x.events.halt()
}

// SupportsBodyWriteTo makes fasthttp call WriteTo.
func (x *exchange) SupportsBodyWriteTo() bool { return true }

var errWritten = errors.New("downstream: a response is written, not read")

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
		x.face.cfg.guard(x.resp.Done)
	}
	x.cancel(ErrOver) // not earlier, or the connection to the server would be lost
	x.recycle()
	return nil
}

// recycle makes x ready for another request.
func (x *exchange) recycle() {
	x.dropBody()
	if x.posted {
		x.face.dismiss(x.owner)
	}
	x.conn, x.cancel, x.req.Ctx, x.req.Cancel = nil, nil, nil, nil
	x.resp, x.posted, x.failed, x.awaited = Response{}, false, nil, x.awaited[:0]
	x.face.exchanges.Put(x)
}
