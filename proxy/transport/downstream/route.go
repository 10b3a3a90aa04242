package downstream

import (
	"bytes"
	"fmt"
	"io"

	"github.com/valyala/fasthttp"
)

// serve is fasthttp's handler.
func (h *HTTP) serve(ctx *fasthttp.RequestCtx) {
	if h.draining.Load() {
		ctx.SetConnectionClose()
	}
	c := ctx.Conn().(*conn) // Serve made it
	c.bodyRead = false
	c.whole.Store(true)
	defer finishBuffered(ctx, c)
	if r := h.route(ctx, c); r != nil {
		if r != drained {
			h.cfg.Refused(r.status, r.why())
		}
		switch path := h.meant(ctx.Path()); {
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

// route finds the code that answers a request, and calls it. It may return a refusal.
func (h *HTTP) route(ctx *fasthttp.RequestCtx, c *conn) *refusal {
	header := &ctx.Request.Header
	if r := h.readTarget(ctx); r != nil {
		return r
	}
	path := header.RequestURI()
	if string(path) != h.cfg.Path {
		path = h.meant(ctx.Path()) // fasthttp has to parse the URI for this
	}
	if c.probe {
		ctx.SetConnectionClose()
		if _, is := h.routeOf(ctx.Path()); !is && !h.isHealth(ctx) {
			return crowded
		}
	}
	if h.handler == nil {
		return h.elsewhere(ctx)
	}
	if string(path) != h.cfg.Path && h.isHealth(ctx) {
		r := checkFraming(ctx)
		if r == nil {
			ctx.SetBodyString("ok")
		}
		return r
	}
	if r := h.checkPeer(header, c); r != nil {
		return r
	}
	if r := checkFraming(ctx); r != nil {
		return r
	}
	if r := h.checkOnce(ctx, c, path); r != nil {
		return r
	}
	if string(path) != h.cfg.Path && h.isBeside(ctx, path) {
		return h.beside(ctx, c)
	}
	if h.allowPages(ctx, path) {
		return nil
	}
	if h.isPreflight(ctx, path) { // of a page on this machine: other origins were refused
		return noPage.naming(header.Peek(fasthttp.HeaderOrigin))
	}
	if h.cfg.Replicas != nil && string(path) == h.cfg.ReplicasPath {
		return h.forwarded(ctx, c)
	}
	if r := h.checkToken(ctx, c); r != nil {
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

// readTarget makes the target of a request one that begins with its path. Some clients send the whole URL; its host then stands in the
// place of the Host header: https://www.rfc-editor.org/rfc/rfc9112#section-3.2.2. All else is refused.
func (h *HTTP) readTarget(ctx *fasthttp.RequestCtx) *refusal {
	header := &ctx.Request.Header
	target := header.RequestURI()
	if len(target) == 0 || target[0] != '/' {
		scheme, rest, ok := bytes.Cut(target, []byte("://"))
		if !ok || !bytes.EqualFold(scheme, []byte("http")) && !bytes.EqualFold(scheme, []byte("https")) {
			return badTarget.with(h.cfg.Path)
		}
		host := rest
		target = []byte{'/'}
		if at := bytes.IndexAny(rest, "/?#"); at >= 0 {
			host, target = rest[:at], append(target, bytes.TrimPrefix(rest[at:], target)...)
		}
		if len(host) == 0 || bytes.IndexByte(host, '@') >= 0 {
			return badTarget.with(h.cfg.Path)
		}
		if len(header.Host()) > 0 || !header.IsHTTP11() {
			header.SetHostBytes(host)
		}
		ctx.Request.SetRequestURIBytes(target)
	}
	if bytes.HasPrefix(target, []byte("//")) && bytes.Contains(target, []byte("://")) {
		return badTarget.with(h.cfg.Path) // fasthttp would find another host in it
	}
	return nil
}

// query returns the question mark of a request's target and what follows it, or "" if nothing does.
func query(ctx *fasthttp.RequestCtx) string {
	if q := ctx.URI().QueryString(); len(q) > 0 {
		return "?" + string(q)
	}
	return ""
}

// elsewhere serves the paths other than the endpoint.
func (h *HTTP) elsewhere(ctx *fasthttp.RequestCtx) *refusal {
	serve, ok := h.routeOf(ctx.Path())
	switch {
	case !ok && h.handler == nil:
		return nothingHere
	case !ok:
		return elsewhere.with(h.endpoints())
	case h.hasRest(ctx):
		return noBody // the route would read the whole body
	case !h.cfg.guard(func() { serve(ctx) }):
		return panicked
	}
	return nil
}

// endpoints says where clients send messages.
func (h *HTTP) endpoints() string {
	if h.cfg.Pipes == nil {
		return h.cfg.Path
	}
	return h.cfg.Path + ", for HTTP+SSE " + h.cfg.SSEPath
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
		if r == nil && h.cfg.Pipes != nil && len(header.Peek(sessionHeader)) == 0 && len(header.Peek("Mcp-Protocol-Version")) == 0 {
			h.cfg.Log(SSEAtStreamable, fmt.Errorf("a client at %s has sent a GET without a session to %s", c.peer, h.cfg.Path))
		}
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

// plain serves the plain endpoints. It bounds the body as for the MCP endpoint; Plain
// checks its content.
func (h *HTTP) plain(ctx *fasthttp.RequestCtx, c *conn) *refusal {
	if encoding := ctx.Request.Header.ContentEncoding(); len(encoding) > 0 && string(encoding) != "identity" {
		return badEncoding
	}
	return h.exchange(ctx, c, withBody, func(_ Handler, req *Request, resp *Response) {
		req.Method, req.Path = string(ctx.Method()), string(ctx.URI().PathOriginal())
		h.cfg.Plain(req, resp)
	})
}

// forwarded serves a request at ReplicasPath.
func (h *HTTP) forwarded(ctx *fasthttp.RequestCtx, c *conn) *refusal {
	header := &ctx.Request.Header
	method := string(ctx.Method())
	switch {
	case !h.cfg.Replicas.Open() || !ctx.IsPost() && !ctx.IsGet():
		return elsewhere.with(h.endpoints())
	case !h.cfg.Replicas.Admits(method, func(name string) string { return string(header.Peek(name)) }):
		return misdirected
	}
	c.known = false // the forwarded request itself says which guest the other replica has admitted
	return h.exchange(ctx, c, reading(ctx.IsPost()), func(_ Handler, req *Request, resp *Response) {
		req.Method = method
		h.cfg.Replicas.Serve(req, resp)
	})
}

// isBeside reports whether the request is for [Beside].
func (h *HTTP) isBeside(ctx *fasthttp.RequestCtx, path []byte) bool {
	return h.cfg.Beside != nil && !h.isOurs(path) && h.cfg.Beside.Serves(ctx, h.base(ctx), string(ctx.URI().PathOriginal()))
}

// beside serves a request for [Beside].
func (h *HTTP) beside(ctx *fasthttp.RequestCtx, c *conn) *refusal {
	h.dropToken(&ctx.Request.Header)
	return h.exchange(ctx, c, withBody, func(_ Handler, req *Request, resp *Response) {
		req.Method, req.Path, req.Base = string(ctx.Method()), string(ctx.URI().PathOriginal())+query(ctx), h.base(ctx)
		h.cfg.Beside.Serve(req, resp)
		req.Base = ""
	})
}
