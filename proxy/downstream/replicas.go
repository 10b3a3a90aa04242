package downstream

import "github.com/valyala/fasthttp"

// ReplicasHandler serves the requests that other replicas of the proxy forward. A
// header proves that such a request is from a replica. It is checked before the body is
// read, and no token is needed.
type ReplicasHandler interface {
	// Open reports whether there are other replicas. If there are none, the path does
	// not exist.
	Open() bool
	// Admits checks the headers of a request with this method, POST or GET.
	Admits(method string, header func(name string) string) bool
	// Serve answers an admitted request, whose Method is POST or GET. It is called as a
	// Handler's methods are.
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
	c.known = false // the forwarded request itself says which guest the other replica has admitted
	return h.exchange(ctx, c, reading(ctx.IsPost()), func(_ Handler, req *Request, resp *Response) {
		req.Method = method
		h.cfg.Replicas.Serve(req, resp)
	})
}
