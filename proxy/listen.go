package proxy

import (
	"crypto/tls"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/principal"
	"github.com/dragoman-proxy/dragoman/proxy/session/setup"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// httpFace makes the HTTP server for clients.
func (srv *Server) httpFace(at net.Addr) *downstream.HTTP {
	l := srv.Now().Config.Limits
	cfg := downstream.HTTPConfig{
		WithoutID: func(version string) bool {
			r := translate.Lookup(version)
			return r != nil && r.ErrorWithoutID
		},
		Principal:    func() string { return principal.Header(srv.Now().Config.Bridge.Principal) },
		Path:         srv.Now().Config.Path,
		SSEPath:      srv.Now().Config.SSEPath,
		MessagesPath: config.MessagesPath,
		MessagesURI:  func() string { return srv.Now().Config.MessagesURI() },
		Health:       srv.Now().Config.Health(),
		Pipes:        srv.sse,
		MaxBody:      int(l.ClientMessage),
		MaxHeader:    int(l.Header),
		MaxConns:     l.OpenConnections(),
		MaxRequests:  l.Requests,
		Memory:       srv.Host.Memory(),
		Beside:       oauthClients{srv},
		Replicas:     srv.Replicas.Inbox(),
		ReplicasPath: config.ReplicasPath,
		Log:          srv.logHTTP,
		Refused:      srv.Host.Report.Refused,
		Held:         srv.Modern.AwaitParked,
	}
	if a := srv.Adapters; a != nil && srv.Now().Config.Adapters.HTTPPrefix != "" {
		cfg.PlainPrefix, cfg.Plain, cfg.PlainRefusal = srv.Now().Config.Adapters.HTTPPrefix, srv.servePlain, a.Refusal
	}
	if srv.Now().Guard.Cert != nil {
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: srv.certificate}
	}
	if cfg.Exposed = !setup.IsLoopback(at); !cfg.Exposed {
		cfg.Routes = srv.routes()
	}
	face := downstream.NewHTTP(srv.Handler(), cfg)
	face.Renew(srv.Now().Renewable())
	return face
}

func (srv *Server) logHTTP(what string, err error) {
	level := zap.WarnLevel
	switch log := srv.Host.Log; what {
	case "panic":
		srv.Host.Report.Panicked(err)
	case downstream.PlainHTTP:
		srv.plainHTTP.do(func() {
			log.Warn("a client uses http:// at a port for TLS: it must use https://", zap.Error(err))
		})
	case downstream.TLSAtPlain:
		srv.tlsAtPlain.do(func() {
			log.Warn("a client uses https:// at a port without TLS: it must use http://, or tls.cert and tls.key must be set", zap.Error(err))
		})
	case downstream.SSEAtStreamable:
		srv.sseAtStreamable.do(func() {
			log.Warn(what+": it must use "+srv.Now().Config.SSEPath, zap.Error(err))
		})
	case downstream.StreamableAtSSE:
		srv.streamableAtSSE.do(func() {
			log.Info(what+": it must use "+srv.Now().Config.Path+" unless it goes on with HTTP+SSE", zap.Error(err))
		})
	case "connection": // clients may close connections at any time
		level = zap.DebugLevel
		fallthrough
	default:
		log.Log(level, "problem on an HTTP connection", zap.String("what", what), zap.Error(err))
	}
}

// adminFace makes the HTTP server for probes and metrics only.
func (srv *Server) adminFace() *downstream.HTTP {
	routes := srv.routes()
	routes["/metrics"] = downstream.GuardFromPages(routes["/metrics"], srv.allowsHost)
	maps.Copy(routes, srv.pageRoutes())
	return downstream.NewAdmin(routes, downstream.HTTPConfig{MaxConns: 100, Log: srv.logHTTP})
}

// routes returns the handlers for operators: /livez says that the process runs, /readyz whether it
// could serve a client now, /metrics the metrics.
func (srv *Server) routes() map[string]fasthttp.RequestHandler {
	return map[string]fasthttp.RequestHandler{
		"/livez": func(c *fasthttp.RequestCtx) { c.SetBodyString("ok\n") },
		"/readyz": func(c *fasthttp.RequestCtx) {
			if err := srv.Ready(); err != nil {
				c.SetStatusCode(fasthttp.StatusServiceUnavailable)
				c.SetBodyString(report.Reason(err) + "\n")
				return
			}
			c.SetBodyString("ok\n")
		},
		"/metrics": fasthttpadaptor.NewFastHTTPHandler(
			promhttp.HandlerFor(srv.Metrics.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true})),
	}
}

// Ready returns an error if no client could be served now. The result of a look at the server counts for two seconds.
func (srv *Server) Ready() error {
	if srv.Host.Draining.Err() != nil {
		return report.ErrShutdown
	}
	if srv.Now().Origin.Ready == nil {
		return nil
	}
	return srv.lookout.ask(srv.Host.Draining, srv.Now().Origin.Ready)
}

// Handler returns what answers the requests of clients over HTTP, for a program with a listener of its own. What [Server.Serve] does
// besides, such as checking hosts and tokens, ending idle sessions and limiting connections, is then left to that program.
func (srv *Server) Handler() downstream.Handler { return srv.handler }

// servePlain answers a request to the plain endpoints of adapters.
func (srv *Server) servePlain(req *downstream.Request, resp *downstream.Response) {
	grant := srv.Now().GrantOf(&downstream.Sender{Guest: req.Guest})
	srv.Adapters.ServeHTTP(req, grant, resp)
}

// warnOfOpenFiles says, when clients begin to be served, which files with secrets are open to others.
func (srv *Server) warnOfOpenFiles() {
	for _, f := range srv.Now().Config.SecretFiles() {
		if what, do := secret.OpenToOthers(f.Path); what != "" {
			srv.Host.Log.Warn(f.Setting+": "+what, zap.String("advice", do))
		}
	}
}

// maxCommand bounds the command in the line about the start.
const maxCommand = 80

// tellServing says when clients begin to be served at an address: where, and what.
func (srv *Server) tellServing(at net.Addr) {
	now := srv.Now()
	fields := []zap.Field{zap.String("url", srv.Endpoint(at))}
	name := now.Server
	if command := now.Config.Upstream.Command; len(command) > 0 {
		name = strings.Join(config.SafeCommand(now.Config.Upstream.WrittenCommand()), " ")
		if shown := []rune(name); len(shown) > maxCommand {
			name = string(shown[:maxCommand-1]) + "…"
		}
	}
	if name != "" {
		fields = append(fields, zap.String("server", name))
	}
	if srv.admin != nil && srv.admin.Addr().String() != now.Config.Admin.Listen {
		fields = append(fields, zap.Stringer("admin", srv.admin.Addr()))
	}
	srv.Host.Log.Info("serving", fields...)
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() && !srv.needsNoToken() {
		srv.Host.Log.Info("other machines reach this listener by this machine's address", srv.listens(at))
	}
}

// listens returns the address of the listener with the host that was asked for: the system writes 0.0.0.0 as [::].
func (srv *Server) listens(at net.Addr) zap.Field {
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		if host, _, err := net.SplitHostPort(srv.Now().Config.Listen); err == nil {
			return zap.String("listen", net.JoinHostPort(host, strconv.Itoa(tcp.Port)))
		}
	}
	return zap.Stringer("listen", at)
}

// needsNoToken reports whether clients need no token, without it being said that the network keeps others out: a warning says so, and
// where they reach the listener.
func (srv *Server) needsNoToken() bool {
	now := srv.Now()
	return len(now.Renewable().Tokens) == 0 && !now.Config.Auth.TrustNetwork
}

// warnOfOthers says, when clients begin to be served, what foreign web pages may do there, and at an address that other machines can
// reach, what those may do and what not.
func (srv *Server) warnOfOthers(at net.Addr) {
	now := srv.Now()
	if len(now.Renewable().Tokens) == 0 && slices.Contains(now.Config.CORS.Origins, "*") {
		srv.Host.Log.Warn("any web page in a browser that reaches this listener can use the server",
			zap.String("setting", "cors.origins"), zap.String("advice", "name the origins of the pages, or set auth.tokens"))
	}
	if setup.IsLoopback(at) {
		return
	}
	if srv.needsNoToken() {
		srv.Host.Log.Warn("this listener "+config.NoTokens+": every client that reaches it can use the server",
			srv.listens(at), zap.String("setting", "auth.tokens"), zap.String("advice", config.SetTokens+config.OrTrust))
	}
	if len(now.Config.AllowedHosts) == 0 {
		srv.Host.Log.Warn(config.NoHosts, srv.listens(at), zap.String("setting", "allowed_hosts"), zap.String("advice", config.SetHosts))
	}
}
