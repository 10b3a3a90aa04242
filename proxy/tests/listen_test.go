package tests

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/session/setup"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// certificate makes a self-signed certificate for this machine, in two files.
func certificate(t *testing.T) (cert, key string, roots *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	is := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "test"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, is, is, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	return cert, key, roots
}

// visit sends a GET for a page.
func visit(t *testing.T, client *http.Client, method, url, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

func TestTokenAndTLSGuardTheListener(t *testing.T) {
	cert, key, roots := certificate(t)
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("from-file\nanother\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake(initializing("2025-06-18", obliging))
	base, stop := listening(t, f, func(c *config.Config) {
		c.TLS = config.TLS{Cert: cert, Key: key}
		c.Auth.Tokens, c.Auth.TokenFile, c.Auth.Header = []string{"mine"}, file, "X-API-Key"
	})
	url := strings.Replace(base, "http://", "https://", 1) + "/mcp"
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, Timeout: patience}
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		name, value string
		status      int
	}{
		{"A", "", 401},
		{"Authorization", "Bearer wrong", 401},
		{"Authorization", "Bearer mine", 200},
		{"Authorization", "Bearer another", 200},
		{"X-Dragoman-Token", "from-file", 200},
		{"X-Dragoman-Token", "", 401},
		{"Authorization", "mine", 200},
		{"Authorization", "min", 401},
		{"x-api-key", "from-file", 200},
		{"X-API-Key", "wrong", 401},
	} {
		status, header, body := visit(t, client, "POST", url, initialize("2025-06-18", `{}`), c.name, c.value)
		if status != c.status || status == 401 && !strings.HasPrefix(header.Get("WWW-Authenticate"), "Bearer") || strings.Contains(body, "mine") {
			t.Errorf("%s %s: %d %v %s", c.name, c.value, status, header, body)
		}
	}
	for _, m := range f.Heard() {
		if len(m.Header) > 0 {
			t.Errorf("%v went on", m.Header)
		}
	}
	client.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestPlainHTTPAtAPortForTLSIsLoggedOnce, however many clients use it.
func TestPlainHTTPAtAPortForTLSIsLoggedOnce(t *testing.T) {
	cfg := config.Default()
	cfg.TLS.Cert, cfg.TLS.Key, _ = certificate(t)
	core, logs := observer.New(zap.WarnLevel)
	srv, err := proxy.NewWith(cfg, zap.New(core), newFake(nil).origin())
	if err != nil {
		t.Fatal(err)
	}
	base, _ := startServing(t, srv)
	for range 3 {
		status, _, body := visit(t, http.DefaultClient, "POST", base+"/mcp", initialize("2025-06-18", `{}`), "A", "")
		if status != 400 || !strings.Contains(body, "https://") {
			t.Errorf("%d %s", status, body)
		}
	}
	if said := logs.FilterMessageSnippet("it must use https://").Len(); said != 1 || logs.Len() != 1 {
		t.Errorf("the log says %v", logs.All())
	}
}

// TestTLSAtAPortWithoutItIsLoggedOnce, however many clients use it, with the port and what to use.
func TestTLSAtAPortWithoutItIsLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	srv, err := proxy.NewWith(config.Default(), zap.New(core), newFake(nil).origin())
	if err != nil {
		t.Fatal(err)
	}
	base, _ := startServing(t, srv)
	for range 3 {
		if r, err := http.Post(strings.Replace(base, "http:", "https:", 1)+"/mcp", "application/json", nil); err == nil {
			r.Body.Close()
			t.Error("no error")
		}
	}
	lines := logs.FilterMessageSnippet("it must use http://").All()
	if len(lines) != 1 || logs.Len() != 1 {
		t.Fatalf("the log says %v", logs.All())
	}
	if said := fmt.Sprint(lines[0].ContextMap()["error"]); !strings.Contains(said, strings.TrimPrefix(base, "http://")) {
		t.Errorf("the log says %s", said)
	}
}

// TestShimReachesAGuardedProxy: the local shim connects to a proxy that requires a token, over TLS
// with a certificate that only the shim trusts.
func TestShimReachesAGuardedProxy(t *testing.T) {
	cert, key, _ := certificate(t)
	f := newFake(initializing("2025-06-18", obliging))
	far, stop := listening(t, f, func(c *config.Config) {
		c.TLS, c.Auth.Tokens = config.TLS{Cert: cert, Key: key}, []string{"mine"}
	})
	for name, c := range map[string]struct {
		change func(*config.Upstream)
		status int
	}{
		"with both":           {func(*config.Upstream) {}, 200},
		"without a token":     {func(u *config.Upstream) { u.Headers = nil }, 401},
		"without the root":    {func(u *config.Upstream) { u.CAFile = "" }, 502},
		"by its other header": {func(u *config.Upstream) { u.Headers = map[string]string{"X-Dragoman-Token": "mine"} }, 200},
	} {
		cfg := config.Default()
		cfg.Upstream.URL = strings.Replace(far, "http://", "https://", 1) + "/mcp"
		cfg.Upstream.CAFile = cert
		cfg.Upstream.Headers = map[string]string{"Authorization": "Bearer mine"}
		c.change(&cfg.Upstream)
		near, err := proxy.New(cfg, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		shim := testServer{Server: near, t: t}
		r := shim.post("", initialize("2024-11-05", `{}`))
		if r.status != c.status {
			t.Errorf("%s: %+v", name, r)
		}
		if id := r.header["Mcp-Session-Id"]; r.status == 200 && shim.post(id, pingOne).status != 200 {
			t.Errorf("%s: no ping", name)
		}
		near.Close()
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// addressed is a listener that reports another address.
type addressed struct {
	net.Listener
	at net.Addr
}

func (l addressed) Addr() net.Addr { return l.at }

func TestCredentialsAreNotLentToStrangers(t *testing.T) {
	wide, loop := net.IPv4(192, 0, 2, 1), net.IPv4(127, 0, 0, 1)
	secret := map[string]string{"Authorization": "Bearer secret"}
	for name, c := range map[string]struct {
		at      net.IP
		change  func(*config.Config)
		refused bool
	}{
		"credentials":                    {wide, func(c *config.Config) { c.Upstream.Headers = secret }, true},
		"any address":                    {net.IPv4zero, func(c *config.Config) { c.Upstream.Headers = secret }, true},
		"certificate":                    {wide, func(c *config.Config) { c.Upstream.ClientCert = "x" }, true},
		"credentials on loopback":        {loop, func(c *config.Config) { c.Upstream.Headers = secret }, false},
		"nothing to lend":                {wide, func(*config.Config) {}, false},
		"credentials behind a token":     {wide, func(c *config.Config) { c.Upstream.Headers, c.Auth.Tokens = secret, []string{"GYyTszHzLoNSj5Mj"} }, false},
		"credentials, trusted neighbour": {wide, func(c *config.Config) { c.Upstream.Headers, c.Auth.TrustNetwork = secret, true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			cfg := config.Default()
			c.change(&cfg)
			srv, err := proxy.NewWith(cfg, zap.NewNop(), newFake(nil).origin())
			if err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended, stop := context.WithCancel(context.Background())
			stop() // as soon as it serves
			err = srv.Serve(ended, addressed{ln, &net.TCPAddr{IP: c.at, Port: 1}})
			if errors.Is(err, setup.ErrLends) != c.refused || err != nil && (!c.refused || strings.Contains(err.Error(), "secret")) {
				t.Errorf("%v", err)
			}
			if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("listener is left open: %v", err)
			}
		})
	}
}

// TestTokensThatCanBeGuessed: a placeholder or a short token is refused where other machines can try.
func TestTokensThatCanBeGuessed(t *testing.T) {
	wide, loop := net.IPv4(192, 0, 2, 1), net.IPv4(127, 0, 0, 1)
	const strong = "GYyTszHzLoNSj5Mj"
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(strong+"\nshort\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		at   net.IP
		auth config.Auth
		want string // in the error; "" for none
	}{
		"placeholder":            {wide, config.Auth{Tokens: []string{strong, "REPLACE"}}, "auth.tokens[1] is a placeholder, and other machines can reach"},
		"short":                  {wide, config.Auth{Tokens: []string{"short"}}, "auth.tokens[0] is shorter than 16 characters, and other machines can reach"},
		"named":                  {wide, config.Auth{NamedTokens: map[string]string{"ci": "CHANGEME"}}, "auth.named_tokens.ci is a placeholder"},
		"at a line":              {wide, config.Auth{Tokens: []string{strong, "REPLACE"}, From: map[string]string{"auth.tokens[1]": "rep.yaml:3"}}, "rep.yaml:3: auth.tokens[1] is a placeholder, and"},
		"in a file":              {wide, config.Auth{TokenFile: file}, "auth.token_file: token 2 of " + file + " is shorter than 16 characters"},
		"strong":                 {wide, config.Auth{Tokens: []string{strong}}, ""},
		"short on loopback":      {loop, config.Auth{Tokens: []string{"short"}}, ""},
		"short, trusted network": {wide, config.Auth{Tokens: []string{"short"}, TrustNetwork: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			cfg := config.Default()
			cfg.Auth = c.auth
			srv, err := proxy.NewWith(cfg, zap.NewNop(), newFake(nil).origin())
			if err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended, stop := context.WithCancel(context.Background())
			stop() // as soon as it serves
			err = srv.Serve(ended, addressed{ln, &net.TCPAddr{IP: c.at, Port: 1}})
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "openssl rand -base64 32") || !errors.As(err, new(*setup.WeakTokenError))) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestReloadRefusesTokensThatCanBeGuessed: the tokens in use stay.
func TestReloadRefusesTokensThatCanBeGuessed(t *testing.T) {
	leavesNothing(t)
	cfg := config.Default()
	cfg.Auth.Tokens = []string{"GYyTszHzLoNSj5Mj"}
	srv, err := proxy.NewWith(cfg, zap.NewNop(), newFake(nil).origin())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	serving, ended := make(chan struct{}), make(chan error, 1)
	srv.WhenServing(func() { close(serving) })
	go func() { ended <- srv.Serve(ctx, addressed{ln, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}}) }()
	<-serving
	cfg.Auth.Tokens = []string{"REPLACE"}
	if err := srv.Reload(cfg); !errors.As(err, new(*setup.WeakTokenError)) {
		t.Errorf("%v", err)
	}
	cfg.Auth.TrustNetwork = true
	if err := srv.Reload(cfg); err != nil {
		t.Errorf("in a trusted network: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestOpenListenersAreTold: the start says once that clients need no token, which names they may use, and which files with secrets others
// can read.
func TestOpenListenersAreTold(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	const hosts = config.NoHosts
	const tokens = "this listener can be reached from other machines without a token: every client that reaches it can use the server"
	token := []string{"GYyTszHzLoNSj5Mj"}
	for name, c := range map[string]struct {
		at     net.Addr
		change func(*config.Config)
		want   []string // beginnings of the warnings
	}{
		"open":        {&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}, func(*config.Config) {}, []string{tokens, hosts}},
		"everywhere":  {&net.TCPAddr{IP: net.IPv6zero, Port: 1}, func(*config.Config) {}, []string{tokens, hosts}},
		"a token":     {&net.TCPAddr{IP: net.IPv4zero, Port: 1}, func(c *config.Config) { c.Auth.Tokens = token }, []string{hosts}},
		"named":       {&net.TCPAddr{IP: net.IPv4zero, Port: 1}, func(c *config.Config) { c.AllowedHosts, c.Auth.Tokens = []string{"a.example"}, token }, nil},
		"trusted":     {&net.TCPAddr{IP: net.IPv4zero, Port: 1}, func(c *config.Config) { c.AllowedHosts, c.Auth.TrustNetwork = []string{"a.example"}, true }, nil},
		"loopback":    {&net.TCPAddr{IP: net.IPv6loopback, Port: 1}, func(*config.Config) {}, nil},
		"unix socket": {&net.UnixAddr{Name: "x", Net: "unix"}, func(*config.Config) {}, nil},
		"no variable": {&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, func(c *config.Config) {
			c.Remarks = []config.Remark{{What: "TOKEN has no braces: it is sent as it is", Do: "write ${TOKEN}"}}
		}, []string{"TOKEN has no braces: it is sent as it is"}},
		"key file": {&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, func(c *config.Config) { c.Session.KeyFile = key }, []string{"session.key_file: " + key + " has mode 0644: other users of this machine can read it"}},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && name == "key file" {
				t.Skip("files have no mode")
			}
			leavesNothing(t)
			cfg := config.Default()
			c.change(&cfg)
			core, logged := observer.New(zap.WarnLevel)
			srv, err := proxy.NewWith(cfg, zap.New(core), newFake(nil).origin())
			if err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended, stop := context.WithCancel(context.Background())
			stop() // as soon as it serves
			if err := srv.Serve(ended, addressed{ln, c.at}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range logged.All() {
				got = append(got, e.Message)
			}
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestOpenFilesAreToldOnAPipe: stdio warns of them as serve does.
func TestOpenFilesAreToldOnAPipe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode")
	}
	leavesNothing(t)
	cfg := config.Default()
	cfg.Session.KeyFile = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(cfg.Session.KeyFile, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(cfg.Session.KeyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zap.WarnLevel)
	srv, err := proxy.NewWith(cfg, zap.New(core), newFake(nil).origin())
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.ServePipe(t.Context(), strings.NewReader(""), io.Discard); err != nil {
		t.Fatal(err)
	}
	if all := logged.FilterMessageSnippet("has mode 0644").All(); len(all) != 1 || !strings.HasPrefix(fmt.Sprint(all[0].ContextMap()["advice"]), "chmod 600 "+cfg.Session.KeyFile) {
		t.Errorf("%v", logged.All())
	}
}

func TestProbesAndMetrics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gone := peertest.Listen(t)
		cfg := config.Default()
		cfg.Upstream.URL = "http://" + gone.Addr().String()
		cfg.Auth.Tokens = []string{"t"}
		srv := newOf(t, cfg, zap.NewNop())
		lns := []net.Listener{peertest.Listen(t), peertest.Listen(t)}
		ctx, stop := context.WithCancel(context.Background())
		srv.Admin(lns[1])
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(ctx, lns[0]) }()
		client := peertest.WebClient(t)
		main, admin := "http://"+lns[0].Addr().String(), "http://"+lns[1].Addr().String()
		for _, c := range []struct {
			url, token string
			status     int
			text       string
		}{
			{admin + "/livez", "", 200, "ok"},
			{admin + "/readyz", "", 200, "ok"},
			{admin + "/metrics", "", 200, "dragoman_sessions 0"},
			{admin + "/mcp", "", 404, ""},
			{admin + "/sse", "", 404, ""},
			{main + "/livez", "", 401, ""},
			{main + "/livez", "t", 200, "ok"},
			{main + "/metrics", "t", 200, "dragoman_sessions 0"},
		} {
			status, _, text := visit(t, client, "GET", c.url, "", "X-Dragoman-Token", c.token)
			if status != c.status || !strings.Contains(text, c.text) {
				t.Errorf("%s: %d %q", c.url, status, text)
			}
		}
		gone.Close()
		eventually(t, "the server is not reachable", func() bool { // as soon as the last look at it is too old
			status, _, text := visit(t, client, "GET", admin+"/readyz", "")
			return status == 503 && strings.Contains(text, "refused")
		})
		if status, _, _ := visit(t, client, "GET", admin+"/livez", ""); status != 200 {
			t.Errorf("livez depends on the server: %d", status)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestFilesOfTheListener(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\n \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*config.Config){
		"auth.token_file: ":         func(c *config.Config) { c.Auth.TokenFile = filepath.Join(dir, "none") },
		"auth.token_file: " + empty: func(c *config.Config) { c.Auth.TokenFile = empty },
		"tls: ":                     func(c *config.Config) { c.TLS = config.TLS{Cert: empty, Key: empty} },
		"upstream.ca_file: ":        func(c *config.Config) { c.Upstream.CAFile = empty },
		"upstream.client_cert: ":    func(c *config.Config) { c.Upstream.ClientCert, c.Upstream.ClientKey = empty, empty },
		"session.key_file":          func(c *config.Config) { c.Session.KeyFile = empty },
	} {
		cfg := config.Default()
		cfg.Upstream.URL = "https://127.0.0.1:1/mcp"
		change(&cfg)
		if _, err := proxy.New(cfg, zap.NewNop()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// TestMissingProgramIsLoggedAtOnce: a program that does not exist is logged when serving begins, and
// not only when the first client comes.
func TestMissingProgramIsLoggedAtOnce(t *testing.T) {
	cfg := config.Default()
	cfg.Upstream.Command = []string{filepath.Join(t.TempDir(), "nothing")}
	core, logs := observer.New(zap.WarnLevel)
	srv, err := proxy.New(cfg, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := srv.Serve(ctx, ln); err != nil {
		t.Error(err)
	}
	if n := logs.FilterMessage("upstream is not ready").Len(); n != 1 {
		t.Errorf("told %d times", n)
	}
}

// TestServingSaysWhere: the line about the start has a URL that this machine can use, the address that was asked for, and the command.
func TestServingSaysWhere(t *testing.T) {
	everywhere := &net.TCPAddr{IP: net.IPv6zero, Port: 9410}
	long := slices.Repeat([]string{"argument"}, 20)
	for name, c := range map[string]struct {
		at      net.Addr
		listen  string
		command []string
		want    map[string]any
		others  string // where other machines reach it, said once
		tokens  []string
	}{
		"this machine": {&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9410}, "127.0.0.1:9410", []string{"node", "server.js", "--token", "GYyTszHzLoNSj5Mj"},
			map[string]any{"url": "http://127.0.0.1:9410/mcp", "server": "node server.js --token " + config.Masked("GYyTszHzLoNSj5Mj")}, "", nil},
		"everywhere": {everywhere, "0.0.0.0:9410", []string{"node", "server.js"},
			map[string]any{"url": "http://127.0.0.1:9410/mcp", "server": "node server.js"}, "0.0.0.0:9410", nil},
		"with a token": {everywhere, "0.0.0.0:9410", []string{"node", "server.js"},
			map[string]any{"url": "http://127.0.0.1:9410/mcp", "server": "node server.js"}, "0.0.0.0:9410", []string{"GYyTszHzLoNSj5Mj"}},
		"any port": {everywhere, ":0", append([]string{"node"}, long...),
			map[string]any{"url": "http://127.0.0.1:9410/mcp", "server": ("node " + strings.Join(long, " "))[:79] + "…"}, ":9410", nil},
		"one address": {&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9410}, "192.0.2.1:9410", []string{"node"}, map[string]any{"url": "http://192.0.2.1:9410/mcp", "server": "node"}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			cfg := config.Default()
			cfg.Listen, cfg.Upstream.Command, cfg.Auth.Tokens = c.listen, c.command, c.tokens
			core, logged := observer.New(zap.InfoLevel)
			srv, err := proxy.NewWith(cfg, zap.New(core), newFake(nil).origin())
			if err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended, stop := context.WithCancel(context.Background())
			stop() // as soon as it serves
			if err := srv.Serve(ended, addressed{ln, c.at}); err != nil {
				t.Fatal(err)
			}
			if got := logged.FilterMessage("serving").All(); len(got) != 1 || !maps.Equal(got[0].ContextMap(), c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
			const byAddress, byAll = "other machines reach this listener by this machine's address", "this listener " + config.NoTokens + ": every client that reaches it can use the server"
			told := byAddress
			if len(c.tokens) == 0 {
				told = byAll // which says it, too
			}
			all := append(logged.FilterMessage(byAddress).All(), logged.FilterMessage(byAll).All()...)
			if others := slices.DeleteFunc(all, func(e observer.LoggedEntry) bool { return e.ContextMap()["listen"] != c.others }); len(others) > 0 != (c.others != "") || len(others) > 0 && (len(all) != 1 || others[0].Message != told) {
				t.Errorf("%v, want %q", all, c.others)
			}
		})
	}
}
