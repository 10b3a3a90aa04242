package oauthtest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// New starts a server.
func New(tb testing.TB, o Options) *Server {
	s := &Server{
		opt: o.clone(), asPath: o.IssuerPath, done: make(chan struct{}),
		clients: map[string]client{}, codes: map[string]*grant{},
		access: map[string]accessToken{}, refresh: map[string]*refreshToken{}, proofs: map[string]bool{}, devices: map[string]*deviceCode{},
	}
	packed := o.Packed
	if packed == nil {
		packed = func(h http.Handler) http.Handler { return h }
	}
	mcp := httptest.NewUnstartedServer(packed(s.serve(true, o.ASAtOrigin)))
	as := httptest.NewUnstartedServer(packed(s.serve(false, !o.ASAtOrigin)))
	s.origin = "http://" + mcp.Listener.Addr().String()
	s.URL = s.origin + mcpPath
	issuer := "http://" + as.Listener.Addr().String()
	s.another = s.origin
	if o.ASAtOrigin {
		issuer, s.another = s.another, issuer
	}
	s.Issuer = issuer + s.asPath
	mcp.Start()
	as.Start()
	tb.Cleanup(func() {
		close(s.done)
		for _, one := range []*httptest.Server{mcp, as} {
			one.CloseClientConnections()
			one.Close()
		}
	})
	return s
}

// serve returns the handler of one port.
func (s *Server) serve(isMCP, isAS bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 4<<20)
		path := r.URL.Path
		own, below := strings.CutPrefix(path, s.asPath)
		switch {
		case s.opt.Instead[path] != nil:
			s.opt.Instead[path](w, r)
		case isMCP && path == mcpPath:
			s.mcp(w, r)
		case path == prmPath || strings.HasPrefix(path, prmPath+"/"):
			s.prm(w, r, isMCP)
		case strings.HasPrefix(path, asmPath) || strings.Contains(path, oidcPath):
			s.asm(w, r, isAS)
		case path == elsewhere:
			s.token(w, r)
		case !isAS || !below:
			http.NotFound(w, r)
		case own == "/authorize" && r.Method == http.MethodGet:
			s.authorize(w, r)
		case own == "/token" && r.Method == http.MethodPost:
			s.token(w, r)
		case own == "/register" && r.Method == http.MethodPost:
			s.register(w, r)
		case own == "/device" && r.Method == http.MethodPost:
			s.device(w, r)
		case own == "/revoke" && r.Method == http.MethodPost:
			s.revoke(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}
