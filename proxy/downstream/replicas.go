package downstream

import "github.com/valyala/fasthttp"

// ReplicasHandler takes in what other replicas of the proxy forward. Their requests
// show by a header that they are from one, which is judged before a body is read;
// no token is asked for.
type ReplicasHandler interface {
	// Open reports whether there are other replicas. Without any there is nothing here.
	Open() bool
	// Admits judges the headers of a request by this method, POST or GET.
	Admits(method string, header func(name string) string) bool
	// Serve answers an admitted request, whose Method says which it is. It is
	// called as a Handler's methods are.
	Serve(*Request, *Response)
}

// forwarded serves a request at ReplicasPath.
func (h *HTTP) forwarded(ctx *fasthttp.RequestCtx, c *conn) *refusal {
	header := &ctx.Request.Header
	method := string(ctx.Method())
	switch {
	case !h.cfg.Replicas.Open() || !ctx.IsPost() && !ctx.IsGet():
		return elsewhere.with(h.cfg.Path)
	case !h.cfg.Replicas.Admits(method, func(name string) string { return string(header.Peek(name)) }):
		return misdirected
	}
	c.known = false // whom the other replica has let in is said in the request
	x := h.exchanges.Get().(*exchange)
	if ctx.IsPost() {
		if r := x.take(ctx); r != nil {
			h.exchanges.Put(x)
			return r
		}
	}
	x.run(ctx, c, func(_ Handler, req *Request, resp *Response) {
		req.Method = method
		h.cfg.Replicas.Serve(req, resp)
	})
	return nil
}
