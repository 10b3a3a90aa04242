package tests

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/session/setup"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// secured is a proxy in front of a server over TLS with a certificate that the system does not trust.
type secured struct {
	server *httptest.Server
	srv    *proxy.Server
	cfg    config.Config
	logs   *observer.ObservedLogs
	get    func(method, path string) (int, string)
}

func beforeTLS(t *testing.T, change func(*config.Config, *x509.Certificate)) *secured {
	t.Helper()
	s := &secured{cfg: config.Default()}
	script := peertest.NewServer(t, peertest.HTTP, initializing("2025-06-18", obliging))
	s.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/") {
			http.NotFound(w, r)
			return
		}
		script.ServeHTTP(w, r)
	}))
	s.server.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	s.cfg.Upstream.URL, s.cfg.Upstream.Transport = s.server.URL+"/mcp", "http"
	change(&s.cfg, s.server.Certificate())
	core, logs := observer.New(zap.InfoLevel)
	s.logs, s.srv = logs, newOf(t, s.cfg, zap.New(core))
	base, _ := startServing(t, s.srv)
	client := &http.Client{Transport: new(http.Transport), Timeout: patience}
	t.Cleanup(client.CloseIdleConnections)
	s.get = func(method, path string) (int, string) {
		t.Helper()
		body := ""
		if method == "POST" {
			body = initialize("2025-06-18", `{}`)
		}
		status, _, text := visit(t, client, method, base+path, body)
		return status, text
	}
	return s
}

// begins checks the status of a new session.
func (s *secured) begins(t *testing.T, want int) {
	t.Helper()
	if status, body := s.get("POST", "/mcp"); status != want || want == 502 && !strings.Contains(body, "certificate") {
		t.Errorf("%d %s, want %d", status, body, want)
	}
}

// reload reads the file of NODE_EXTRA_CA_CERTS again, as a new configuration does.
func (s *secured) reload() error {
	s.cfg.Upstream.Extra = config.ReadExtraCAs(s.cfg.Upstream.Extra.File)
	return s.srv.Reload(s.cfg)
}

func (s *secured) said(t *testing.T, snippet string, times int) {
	t.Helper()
	if n := s.logs.FilterMessageSnippet(snippet).Len(); n != times {
		t.Errorf("said %d times: %s; %v", n, snippet, s.logs.All())
	}
}

// metadata is a path at which the relay asks the server.
const metadata = "/.well-known/oauth-protected-resource/mcp"

func write(t *testing.T, file string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestExtraAuthorities: those of NODE_EXTRA_CA_CERTS are trusted for the server and for the relay, also after they have changed. A file
// that is half written replaces nothing.
func TestExtraAuthorities(t *testing.T) {
	waits(t)
	file := filepath.Join(t.TempDir(), "extra.pem")
	s := beforeTLS(t, func(cfg *config.Config, c *x509.Certificate) {
		write(t, file, c.Raw)
		cfg.Upstream.Extra = config.ReadExtraCAs(file)
	})
	s.begins(t, 200)
	if status, body := s.get("GET", metadata); status != 404 {
		t.Errorf("relay: %d %s", status, body)
	}
	s.said(t, "authorities of NODE_EXTRA_CA_CERTS are trusted", 1)
	if err := os.WriteFile(file, []byte("-----BEGIN CERTIFICATE-----\nMIIB"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.reload(); err == nil || !strings.Contains(err.Error(), "NODE_EXTRA_CA_CERTS: no certificate in "+file) {
		t.Errorf("half written: %v", err)
	}
	s.begins(t, 200)
	other, _, _ := certificate(t)
	pair, err := os.ReadFile(other)
	if err == nil {
		err = os.WriteFile(file, pair, 0o600)
	}
	if err == nil {
		err = s.reload()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.begins(t, 502)
	write(t, file, s.server.Certificate().Raw)
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
	s.begins(t, 200)
	s.said(t, "NODE_EXTRA_CA_CERTS", 1)
}

// TestExtraAuthoritiesThatAreMissing: the start warns, and uses the file once it is there.
func TestExtraAuthoritiesThatAreMissing(t *testing.T) {
	waits(t)
	file := filepath.Join(t.TempDir(), "none.pem")
	s := beforeTLS(t, func(cfg *config.Config, _ *x509.Certificate) {
		cfg.Upstream.Extra = config.ReadExtraCAs(file)
	})
	s.begins(t, 502)
	s.said(t, "NODE_EXTRA_CA_CERTS cannot be used", 1)
	write(t, file, s.server.Certificate().Raw)
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
	s.begins(t, 200)
}

// TestUnverifiedServer: upstream.verify: none is for the server alone; the relay verifies, and other machines are not served.
func TestUnverifiedServer(t *testing.T) {
	waits(t)
	s := beforeTLS(t, func(cfg *config.Config, _ *x509.Certificate) { cfg.Upstream.Verify = config.VerifyNone })
	s.begins(t, 200)
	if status, body := s.get("GET", metadata); status != 502 {
		t.Errorf("relay: %d %s", status, body)
	}
	s.said(t, "certificate is not verified", 1)
	verified := s.cfg
	verified.Upstream.Verify = config.VerifyFull
	if err := s.srv.Reload(verified); err != nil {
		t.Fatal(err)
	}
	s.begins(t, 502)
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
	s.said(t, "certificate is not verified", 2)

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended, stop := context.WithCancel(context.Background())
	stop()
	s.cfg.Auth.Tokens = []string{"GYyTszHzLoNSj5Mj"}
	if err := newOf(t, s.cfg, zap.NewNop()).Serve(ended, addressed{ln, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}}); !errors.Is(err, setup.ErrUnverified) {
		t.Errorf("%v", err)
	}
}

// TestTokenOverHTTPIsTold: a token that goes to a public name over http is warned of at the start, once.
func TestTokenOverHTTPIsTold(t *testing.T) {
	waits(t)
	cfg := config.Default()
	cfg.Upstream.URL, cfg.Upstream.Headers = "http://mcp.example.com/mcp", map[string]string{"authorization": "Bearer secret"}
	core, logs := observer.New(zap.WarnLevel)
	srv := newOf(t, cfg, zap.New(core))
	if err := srv.ServePipe(t.Context(), strings.NewReader(""), new(strings.Builder)); err != nil {
		t.Fatal(err)
	}
	if all := logs.FilterMessageSnippet("token is sent over http").All(); len(all) != 1 || all[0].ContextMap()["server"] != cfg.Upstream.URL {
		t.Errorf("%v", logs.All())
	}
}
