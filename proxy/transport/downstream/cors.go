package downstream

import (
	"bytes"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// The headers that pages may send. "*" would not cover Authorization.
var (
	pageHeaders = [...]string{"Authorization", "Content-Type", "Accept", "Last-Event-ID", "Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name",
		"DPoP", tokenHeader, "traceparent", "tracestate", "baggage"}
	pageHeaderPrefix = "mcp-param-"
)

const pageMaxAge = "600"

// allowPages allows the page that sent the request to read the answer, whatever its status
// is: otherwise a browser hides a 401, and no login begins. It reports whether the request
// was a CORS preflight, which it has answered.
func (h *HTTP) allowPages(ctx *fasthttp.RequestCtx, path []byte) (answered bool) {
	in, out := &ctx.Request.Header, &ctx.Response.Header
	origin := in.Peek(fasthttp.HeaderOrigin)
	if len(origin) == 0 || !h.guests.Load().pages.has(origin) {
		return false
	}
	out.SetBytesV(fasthttp.HeaderAccessControlAllowOrigin, origin)
	out.Set(fasthttp.HeaderVary, fasthttp.HeaderOrigin)
	out.Set(fasthttp.HeaderAccessControlExposeHeaders, h.guests.Load().pageReads)
	if !h.isPreflight(ctx, path) {
		return false
	}
	out.Set(fasthttp.HeaderAccessControlAllowMethods, "POST, GET, DELETE")
	out.Set(fasthttp.HeaderAccessControlMaxAge, pageMaxAge)
	if allowed := allowedHeaders(in.Peek(fasthttp.HeaderAccessControlRequestHeaders), h.guests.Load().pageHeaders); allowed != "" {
		out.Set(fasthttp.HeaderAccessControlAllowHeaders, allowed)
	}
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	return true
}

// isPreflight reports whether a browser asks whether a page may send a request to a path of MCP.
func (h *HTTP) isPreflight(ctx *fasthttp.RequestCtx, path []byte) bool {
	return ctx.IsOptions() && h.isMCP(path) && len(ctx.Request.Header.Peek(fasthttp.HeaderAccessControlRequestMethod)) > 0
}

// allowedHeaders returns those headers of a list that pages may send, with those in further.
func allowedHeaders(asked []byte, further []string) string {
	var allowed []string
	for name := range bytes.SplitSeq(asked, []byte{','}) {
		name := string(bytes.TrimSpace(name))
		if len(name) > len(pageHeaderPrefix) && strings.EqualFold(name[:len(pageHeaderPrefix)], pageHeaderPrefix) ||
			slices.ContainsFunc(pageHeaders[:], func(s string) bool { return strings.EqualFold(s, name) }) ||
			slices.ContainsFunc(further, func(s string) bool { return strings.EqualFold(s, name) }) {
			allowed = append(allowed, name)
		}
	}
	return strings.Join(allowed, ", ")
}
