package downstream

import "github.com/valyala/fasthttp"

// NewAdmin returns the server of probes and metrics, with these routes alone. It checks
// no Host, Origin or token, since probes use whatever name or address they are given. Of
// cfg, it uses the limits, times, TLS and Log.
func NewAdmin(routes map[string]fasthttp.RequestHandler, cfg HTTPConfig) *HTTP {
	cfg.Routes, cfg.Tokens, cfg.Pipes = routes, nil, nil
	return NewHTTP(nil, cfg)
}
