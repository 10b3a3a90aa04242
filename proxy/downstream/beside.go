package downstream

import (
	"context"

	"github.com/valyala/fasthttp"
)

// Beside serves paths other than those of MCP to clients that have no token yet, after
// the checks of Host and Origin.
type Beside interface {
	// Serves reports whether it serves a path, escaped and without the query, to clients
	// that use base as the proxy's address; see [Request.Base].
	Serves(ctx context.Context, base, path string) bool
	// Serve serves the request. Its headers do not contain a token of the listener.
	Serve(*Request, *Response)
}

// base returns the scheme and host of the URL that the client requests.
func (h *HTTP) base(ctx *fasthttp.RequestCtx) string {
	if h.cfg.TLS != nil {
		return "https://" + string(ctx.Host())
	}
	return "http://" + string(ctx.Host())
}

// isOurs reports whether the listener itself serves a path.
func (h *HTTP) isOurs(path []byte) bool {
	_, route := h.routeOf(path)
	return route || h.isMCP(path) || h.isPlain(path) || h.cfg.Replicas != nil && string(path) == h.cfg.ReplicasPath
}

// isMCP reports whether clients send messages to a path.
func (h *HTTP) isMCP(path []byte) bool {
	return string(path) == h.cfg.Path || h.cfg.Pipes != nil && (string(path) == h.cfg.SSEPath || string(path) == h.cfg.MessagesPath)
}

// isBeside reports whether the request is for [Beside].
func (h *HTTP) isBeside(ctx *fasthttp.RequestCtx, path []byte) bool {
	return h.cfg.Beside != nil && !h.isOurs(path) && h.cfg.Beside.Serves(ctx, h.base(ctx), string(ctx.URI().PathOriginal()))
}

// beside serves a request for [Beside].
func (h *HTTP) beside(ctx *fasthttp.RequestCtx, c *conn) *refusal {
	h.dropToken(&ctx.Request.Header)
	return h.exchange(ctx, c, withBody, func(_ Handler, req *Request, resp *Response) {
		req.Method, req.Path, req.Base = string(ctx.Method()), string(ctx.Request.Header.RequestURI()), h.base(ctx)
		h.cfg.Beside.Serve(req, resp)
		req.Base = ""
	})
}
