package downstream

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// isPlain reports whether path is one of the plain endpoints.
func (h *HTTP) isPlain(path []byte) bool {
	if h.cfg.Plain == nil {
		return false
	}
	rest, ok := bytes.CutPrefix(path, []byte(h.cfg.PlainPrefix))
	return ok && (len(rest) == 0 || rest[0] == '/')
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
