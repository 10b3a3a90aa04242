package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/principal"
	"github.com/dragoman-proxy/dragoman/translate"
)

// listener holds the settings of the listener: which clients may connect, and the certificate.
type listener struct {
	tokens []string
	names  map[string]string // of tokens, by downstream.Request.Guest
	cert   *tls.Certificate  // nil for none

	peerRoots *x509.CertPool // verify the certificates of other replicas; nil for the system's roots
}

// newListener reads the files of the listener's settings that cfg names.
func newListener(cfg config.Config) (l listener, err error) {
	l.tokens = append(l.tokens, cfg.Auth.Tokens...)
	l.names = map[string]string{}
	for name, token := range cfg.Auth.NamedTokens {
		l.tokens = append(l.tokens, token)
		l.names[downstream.GuestOf(token)] = name
	}
	if file := cfg.Auth.TokenFile; file != "" {
		text, err := config.ReadSmall(file)
		if err != nil {
			return l, fmt.Errorf("auth.token_file: %w", err)
		}
		found := strings.Fields(string(text))
		if len(found) == 0 {
			return l, fmt.Errorf("auth.token_file: %s holds no token", file)
		}
		l.tokens = append(l.tokens, found...)
	}
	if cfg.TLS.Cert != "" {
		pair, err := tls.LoadX509KeyPair(cfg.TLS.Cert, cfg.TLS.Key)
		if err != nil {
			return l, fmt.Errorf("tls: %w", err)
		}
		l.cert = &pair
	}
	if file := cfg.Bridge.PeerCAFile; file != "" {
		if l.peerRoots, err = config.Certificates(file); err != nil {
			return l, fmt.Errorf("bridge.peer_ca_file: %w", err)
		}
	}
	return l, nil
}

var errLends = errors.New("listen: this address is not a loopback address, and any client that reaches it would use the credentials of upstream and of adapters: " +
	"set auth.tokens, or auth.trust_network where the network keeps others out")

// mayServe returns an error for an address at which others could use dragoman's credentials.
func (s *setup) mayServe(at net.Addr) error {
	u := s.cfg.Upstream
	lends := len(u.Headers) > 0 || u.ClientCert != "" || u.Auth.Lends() || len(s.cfg.Adapters.Sources) > 0
	if lends && !isLoopback(at) && len(s.guard.tokens) == 0 && !s.cfg.Auth.TrustNetwork {
		return errLends
	}
	return nil
}

// Endpoint returns the URL of the Streamable HTTP endpoint at an address.
func (srv *Server) Endpoint(at net.Addr) string {
	s := srv.now()
	scheme := "http://"
	if s.guard.cert != nil {
		scheme = "https://"
	}
	return scheme + at.String() + s.cfg.Path
}

// isLoopback reports whether an address can be reached only from this machine.
func isLoopback(at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// httpFace makes the HTTP server for clients.
func (srv *Server) httpFace(at net.Addr) *downstream.HTTP {
	l := srv.now().cfg.Limits
	cfg := downstream.HTTPConfig{
		WithoutID: func(version string) bool {
			r := translate.Lookup(version)
			return r != nil && r.ErrorWithoutID
		},
		Once:         func() string { return principal.Header(srv.now().cfg.Bridge.Principal) },
		Path:         srv.now().cfg.Path,
		SSEPath:      config.SSEPath,
		MessagesPath: config.MessagesPath,
		Pipes:        (*sseFace)(srv),
		MaxBody:      int(l.ClientMessage),
		MaxHeader:    int(l.Header),
		MaxConns:     l.Connections,
		MaxRequests:  l.Requests,
		Memory:       srv.host.Memory(),
		Heartbeat:    srv.now().renewable().Heartbeat,
		AllowedHosts: srv.now().renewable().AllowedHosts,
		Tokens:       srv.now().renewable().Tokens,
		Pages:        srv.now().renewable().Pages,
		PageHeaders:  srv.now().renewable().PageHeaders,
		Beside:       oauthClients{srv},
		Replicas:     srv.replicas.Inbox(),
		ReplicasPath: config.ReplicasPath,
		Log:          srv.logHTTP,
		Refused:      srv.host.Report.Refused,
	}
	if a := srv.adapters; a != nil && srv.now().cfg.Adapters.HTTPPrefix != "" {
		cfg.PlainPrefix, cfg.Plain, cfg.PlainRefusal = srv.now().cfg.Adapters.HTTPPrefix, srv.servePlain, a.Refusal
	}
	if srv.now().guard.cert != nil {
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: srv.certificate}
	}
	if isLoopback(at) {
		cfg.Routes = srv.routes()
	}
	return downstream.NewHTTP(srv.handler, cfg)
}

// renewable returns the listener's settings that can change while it is open.
func (s *setup) renewable() downstream.Renewable {
	return downstream.Renewable{AllowedHosts: s.cfg.AllowedHosts, Tokens: s.guard.tokens, Pages: s.cfg.CORS.Origins, PageHeaders: s.cfg.Adapters.CallerHeaders(), Heartbeat: s.cfg.Heartbeat}
}

func (srv *Server) logHTTP(what string, err error) {
	if what == "panic" {
		srv.host.Report.Panicked(err)
		return
	}
	level := zap.WarnLevel
	if what == "connection" { // clients may close connections at any time
		level = zap.DebugLevel
	}
	srv.host.Log.Log(level, "problem on an HTTP connection", zap.String("what", what), zap.Error(err))
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
			if err := srv.ready(); err != nil {
				c.SetStatusCode(fasthttp.StatusServiceUnavailable)
				c.SetBodyString(clienterror.Reason(err) + "\n")
				return
			}
			c.SetBodyString("ok\n")
		},
		"/metrics": fasthttpadaptor.NewFastHTTPHandler(
			promhttp.HandlerFor(srv.metrics.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true})),
	}
}

// ready returns an error if no client could be served now.
func (srv *Server) ready() error {
	if srv.host.Draining.Err() != nil {
		return clienterror.ErrShutdown
	}
	if srv.now().origin.Ready == nil {
		return nil
	}
	return srv.lookout.ask(srv.host.Draining, srv.now().origin.Ready)
}

// These constants bound how the server's reachability is checked.
const (
	probeTimeout = time.Second
	probeAge     = 2 * time.Second // how long a result is used, however many callers ask
)

// reachability holds the result of the last check of the server.
type reachability struct {
	mu   sync.Mutex
	at   time.Time
	last error
}

func (p *reachability) ask(ctx context.Context, look func(context.Context) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) > probeAge {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		p.last = look(ctx)
		p.at = time.Now()
	}
	return p.last
}

// servePlain answers a request to the plain endpoints of adapters.
func (srv *Server) servePlain(req *downstream.Request, resp *downstream.Response) {
	grant := srv.now().grantOf(&downstream.Sender{Guest: req.Guest})
	srv.adapters.ServeHTTP(req, grant, resp)
}
