package downstream

import "github.com/valyala/fasthttp"

// NewAdmin returns a server of routes and nothing else, for those who run the
// proxy: probes and metrics. Nobody's Host or Origin is looked at, and no token
// asked for, since probes come with whatever name or address they were given. Of
// cfg, the limits, times, TLS and Log count.
func NewAdmin(routes map[string]fasthttp.RequestHandler, cfg HTTPConfig) *HTTP {
	cfg.Routes, cfg.Tokens, cfg.Pipes = routes, nil, nil
	return NewHTTP(nil, cfg)
}
