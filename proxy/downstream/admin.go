package downstream

import "github.com/valyala/fasthttp"

// NewAdmin returns the server of probes and metrics, which has these routes only. It
// checks no Host, Origin or token, because probes use any name or address that they are
// configured with. Of cfg, it uses the limits, times, TLS and Log.
func NewAdmin(routes map[string]fasthttp.RequestHandler, cfg HTTPConfig) *HTTP {
	cfg.Routes, cfg.Tokens, cfg.Pipes = routes, nil, nil
	return NewHTTP(nil, cfg)
}
