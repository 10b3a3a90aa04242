package downstream

import (
	"net"

	"github.com/valyala/fasthttp"
)

// NewAdmin returns the server of probes and metrics, which has these routes only. It
// checks no Host, Origin or token, because probes use any name or address that they are
// configured with. Of cfg, it uses the limits, times, TLS and Log.
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
