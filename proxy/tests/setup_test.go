package tests

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/hex"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
)

func TestReloadReachesTheServerInTheNewWay(t *testing.T) {
	s := newSessionServer(t, "2025-06-18", "")
	srv := severalOf(t, s, 1)[0]
	id := srv.initialize("2024-11-05")
	name := srv.who(id)
	cfg := srv.Now().Config
	cfg.Upstream.Headers = map[string]string{"Authorization": "Bearer new"}
	cfg.Limits.Batch = 1
	if err := srv.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if srv.who(id) != name {
		t.Error("the session was lost")
	}
	r := srv.post(id, whoAmI, "Authorization", "Bearer mine") // the configured credential replaces the client's
	if by := s.Last().Header.Get("Authorization"); r.status != 200 || by != "Bearer new" {
		t.Errorf("%+v, by %q", r, by)
	}
	if r := srv.post(id, "["+whoAmI+","+whoAmI+"]"); r.status != 400 {
		t.Errorf("batch: %+v", r)
	}
}

func TestKeysAreReplacedByReloading(t *testing.T) {
	s := newSessionServer(t, "2025-06-18", "")
	srv := severalOf(t, s, 1)[0]
	old := srv.initialize("2025-06-18")
	name := srv.who(old)
	cfg := srv.Now().Config
	before, err := os.ReadFile(cfg.Session.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	turn := func(lines string) {
		t.Helper()
		if err := os.WriteFile(cfg.Session.KeyFile, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := srv.Reload(cfg); err != nil {
			t.Fatal(err)
		}
		srv.Table.DropAll()
	}
	next := hex.EncodeToString(bytes.Repeat([]byte{7}, sealed.KeyBytes))
	turn(next + "\n" + string(before))
	if srv.who(old) != name {
		t.Error("the old key does not open")
	}
	fresh := srv.initialize("2025-06-18")
	turn(next)
	srv.who(fresh)
	if r := srv.post(old, whoAmI); r.status != 404 {
		t.Errorf("without the old key: %+v", r)
	}
}

func TestLastingSettingsStayAndAreNamed(t *testing.T) {
	srv := front(t, newFake(initializing("2025-06-18", obliging)))
	cfg := config.Default()
	cfg.Listen, cfg.Path, cfg.Upstream.URL = "127.0.0.1:1", "/other", "http://elsewhere"
	cfg.Bridge.TTL, cfg.AllowedHosts = time.Minute, []string{}
	if err := srv.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	now := srv.Now().Config
	if now.Listen != config.Default().Listen || now.Path != config.Default().Path || now.Upstream.URL != "" || now.Bridge.TTL != time.Minute {
		t.Errorf("%+v", now)
	}
	lines := srv.logs.FilterMessage("these settings changed and take effect after a restart").All()
	if len(lines) != 1 {
		t.Fatalf("%d lines", len(lines))
	}
	if got := lines[0].ContextMap()["settings"].([]any); len(got) != 3 || got[0] != "listen" || got[1] != "path" || got[2] != "upstream.url" {
		t.Errorf("%q", got)
	}
}

func TestNewCertificateIsShown(t *testing.T) {
	leavesNothing(t)
	var cfg config.Config
	shown := func(at net.Addr) string {
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", at.String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	cfg = config.Default()
	cfg.TLS.Cert, cfg.TLS.Key, _ = certificate(t)
	srv, err := proxy.NewWith(cfg, zap.NewNop(), newFake(nil).origin())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), patience+time.Second)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, ln) }()
	first := shown(ln.Addr())
	cfg.TLS.Cert, cfg.TLS.Key, _ = certificate(t)
	if err := srv.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if second := shown(ln.Addr()); second == first {
		t.Error("still the old one")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestTokensAreReplacedByReloading: after a reload the old token is refused, also on a connection
// where it was accepted before.
func TestTokensAreReplacedByReloading(t *testing.T) {
	leavesNothing(t)
	file := filepath.Join(t.TempDir(), "tokens")
	turn := func(tokens string) {
		if err := os.WriteFile(file, []byte(tokens), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	turn("old")
	cfg := config.Default()
	cfg.Auth.TokenFile = file
	srv, err := proxy.NewWith(cfg, zap.NewNop(), newFake(initializing("2025-06-18", obliging)).origin())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, ln) }()
	client := &http.Client{Transport: new(http.Transport), Timeout: patience}
	status := func(token string) int {
		s, _, _ := visit(t, client, "POST", "http://"+ln.Addr().String()+"/mcp", initialize("2025-06-18", `{}`), "Authorization", "Bearer "+token)
		return s
	}
	if old, next := status("old"), status("new"); old != 200 || next != 401 {
		t.Errorf("before: %d, %d", old, next)
	}
	turn("new")
	if err := srv.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if old, next := status("old"), status("new"); old != 401 || next != 200 {
		t.Errorf("after: %d, %d", old, next)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
