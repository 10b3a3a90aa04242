package downstream

import (
	"net"
	"slices"

	"github.com/valyala/fasthttp"
)

// NewAdmin returns the server of probes and metrics, which has these routes only. It
// checks no Host, Origin or token, because probes use any name or address that they are
// configured with; see also [GuardFromPages]. Of cfg, it uses the limits, times, TLS and Log.
func NewAdmin(routes map[string]fasthttp.RequestHandler, cfg HTTPConfig) *HTTP {
	cfg.Routes, cfg.Tokens, cfg.Pipes = routes, nil, nil
	return NewHTTP(nil, cfg)
}

// HostCheck returns the check of Host that a listener for clients makes, for a route that needs it: it allows loopback
// names, the address that the connection came in at, and allowed, which is as in [HTTPConfig].AllowedHosts.
func HostCheck(allowed []string) func(host string, local net.Addr) bool {
	list := newHostList(allowed)
	return list.allowsHost
}

// GuardFromPages returns h with a check against pages in browsers of this machine or network: it refuses requests of other
// sites, and those of browsers whose Host allowsHost does not know, since a page can give its own name this machine's
// address (DNS rebinding). Programs that read metrics are no browsers, and may use any name.
func GuardFromPages(h fasthttp.RequestHandler, allowsHost func(host string, local net.Addr) bool) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		header := &ctx.Request.Header
		site, browser, why := string(header.Peek("Sec-Fetch-Site")), isBrowser(header), ""
		switch hosts := header.PeekAll(fasthttp.HeaderHost); {
		case site != "" && site != "same-origin" && site != "none":
			why = "pages of other origins may not read this"
		case browser && (len(hosts) != 1 || !allowsHost(string(hosts[0]), ctx.LocalAddr())):
			why = "a browser may not use this Host: open an address of this machine, or add the name to allowed_hosts"
		default:
			h(ctx)
			return
		}
		ctx.SetStatusCode(fasthttp.StatusForbidden)
		ctx.SetContentType("text/plain; charset=utf-8")
		ctx.SetBodyString(why + "\n")
	}
}

// isBrowser reports whether a request has a header that a script in a page cannot leave out, and programs do not send. A browser
// sends Accept-Language with every request, and Sec-Fetch-Site only to addresses that it trusts; a page whose name was rebound
// sends no Origin, since the request is to its own origin.
//
// See https://fetch.spec.whatwg.org/#http-network-or-cache-fetch.
func isBrowser(header *fasthttp.RequestHeader) bool {
	names := []string{fasthttp.HeaderAcceptLanguage, fasthttp.HeaderOrigin, "Sec-Fetch-Site", "Sec-Fetch-Mode"}
	return slices.ContainsFunc(names, func(name string) bool { return len(header.PeekAll(name)) > 0 })
}
