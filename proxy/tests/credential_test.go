package tests

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	gojwt "github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/tidwall/gjson"
	"github.com/zalando/go-keyring"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
)

// visitor is a browser whose user agrees.
type visitor struct{ s *oauthtest.Server }

func (v visitor) Visit(ctx context.Context, address string, c *oauth.Callback, state string) (url.Values, error) {
	go v.s.Visit(address)
	return c.Wait(ctx, state)
}

// protected is a proxy with a credential of its own in front of a protected server.
type protected struct {
	t    *testing.T
	s    *oauthtest.Server
	cfg  config.Config
	url  string
	srv  *proxy.Server
	logs *observer.ObservedLogs
	past []observer.LoggedEntry // of the proxies before
	stop context.CancelFunc
	done chan error
}

func serveProtected(t *testing.T, s *oauthtest.Server, change func(*config.Config)) *protected {
	t.Helper()
	p := &protected{t: t, s: s, cfg: config.Default()}
	p.cfg.Upstream.URL, p.cfg.Credentials, p.cfg.Admin.Listen = s.URL, filepath.Join(t.TempDir(), "tokens"), ""
	change(&p.cfg)
	if err := p.cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	p.start()
	t.Cleanup(p.end)
	return p
}

func (p *protected) start() {
	p.t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	srv, err := proxy.New(p.cfg, zap.New(core))
	if err != nil {
		p.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p.srv, p.logs, p.stop, p.done, p.url = srv, logs, stop, make(chan error, 1), "http://"+ln.Addr().String()+"/mcp"
	go func() { p.done <- srv.Serve(ctx, ln) }()
}

func (p *protected) end() {
	p.stop()
	if err := <-p.done; err != nil {
		p.t.Error(err)
	}
	p.done <- nil
}

func (p *protected) restart() {
	p.t.Helper()
	p.end()
	p.past = append(p.past, p.logs.All()...)
	p.start()
}

// post sends a message of a client with a token of its own, which the server must not get.
func (p *protected) post(session, body string) *http.Response {
	p.t.Helper()
	r, _ := http.NewRequest(http.MethodPost, p.url, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer canary-of-the-client")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp
}

func (p *protected) begin() (*http.Response, string) {
	p.t.Helper()
	resp := p.post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	return resp, resp.Header.Get("Mcp-Session-Id")
}

// echo calls a tool and returns the status and the body.
func (p *protected) echo(session string) (int, gjson.Result) {
	p.t.Helper()
	resp := p.post(session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`)
	text, _ := io.ReadAll(resp.Body)
	if _, data, ok := strings.Cut(string(text), "data: "); ok {
		return resp.StatusCode, gjson.Parse(data)
	}
	return resp.StatusCode, gjson.ParseBytes(text)
}

// signIn signs in as dragoman login does.
func (p *protected) signIn() {
	p.t.Helper()
	a, err := origin.NewAccount(&p.cfg, origin.TokenStore(&p.cfg, zap.NewNop()), zap.NewNop())
	if err != nil {
		p.t.Fatal(err)
	}
	defer a.Close()
	if err := a.SignIn(p.t.Context(), visitor{p.s}); err != nil {
		p.t.Fatal(err)
	}
}

// TestServeWithACredential: each kind of upstream.auth, before there is a token and after, over a refusal, a
// reload and a restart. The client is told that there is no credential, and nothing else.
func TestServeWithACredential(t *testing.T) {
	keyring.MockInitWithError(errors.New("no keyring in tests"))
	file := filepath.Join(t.TempDir(), "token")
	clients := map[string]string{"service": "canary-client-secret"}
	key, keyFile := newKeyFile(t)
	assertion := filepath.Join(t.TempDir(), "assertion")
	for name, c := range map[string]struct {
		change  func(*config.Config)
		provide func(*protected) // makes a token available
		fault   string           // part of the log without a token
	}{
		"login": {
			func(c *config.Config) { c.Upstream.Auth.Type = config.AuthLogin },
			(*protected).signIn, "run dragoman login ",
		},
		"token_file": {
			func(c *config.Config) { c.Upstream.Auth.Type, c.Upstream.Auth.TokenFile = config.AuthTokenFile, file },
			func(p *protected) {
				memory := p.cfg
				memory.CredentialStore, memory.Upstream.Auth = string(oauth.Memory), config.UpstreamAuth{Type: config.AuthLogin, Wait: time.Second}
				a, err := origin.NewAccount(&memory, origin.TokenStore(&memory, zap.NewNop()), zap.NewNop())
				if err != nil {
					p.t.Fatal(err)
				}
				defer a.Close()
				if err := a.SignIn(p.t.Context(), visitor{p.s}); err != nil {
					p.t.Fatal(err)
				}
				value, _ := a.Header(p.t.Context())
				os.WriteFile(file+".new", []byte(strings.TrimPrefix(value, "Bearer ")), 0o600)
				os.Rename(file+".new", file)
			}, "no such file",
		},
		"client_credentials": {
			func(c *config.Config) {
				c.Upstream.Auth.Type, c.Upstream.Auth.ClientID, c.Upstream.Auth.ClientSecret = config.AuthClientCredentials, "service", "canary-client-secret"
			},
			func(p *protected) {
				p.s.Change(func(o *oauthtest.Options) { o.Clients = clients })
				p.restart() // which ends the pause after a failure
			}, "invalid_client",
		},
		"private_key_jwt": {
			func(c *config.Config) {
				c.Upstream.Auth.Type, c.Upstream.Auth.ClientID, c.Upstream.Auth.KeyFile = config.AuthClientCredentials, "service", keyFile
			},
			func(p *protected) {
				p.s.Change(func(o *oauthtest.Options) { o.Keys = map[string]crypto.PublicKey{"service": key.Public()} })
				p.restart()
			}, "invalid_client",
		},
		"jwt_bearer": {
			func(c *config.Config) {
				c.Upstream.Auth.Type, c.Upstream.Auth.AssertionFile = config.AuthJWTBearer, assertion
			},
			func(p *protected) {
				p.s.Change(func(o *oauthtest.Options) { o.AssertionKey = key.Public() })
				signed, err := gojwt.NewWithClaims(gojwt.SigningMethodES256, gojwt.MapClaims{
					"iss": "https://platform.example", "sub": "canary-workload", "aud": p.s.Issuer, "exp": time.Now().Add(time.Hour).Unix(),
				}).SignedString(key)
				if err != nil {
					p.t.Fatal(err)
				}
				os.WriteFile(assertion, []byte(signed), 0o600)
			}, "assertion_file: open ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := oauthtest.New(t, oauthtest.Options{Subject: "ada-of-the-test"})
			p := serveProtected(t, s, c.change)
			resp, _ := p.begin()
			text, _ := io.ReadAll(resp.Body)
			if got := withoutAdvice(gjson.GetBytes(text, "error.message").Str); resp.StatusCode != http.StatusBadGateway || got != "the proxy has no valid credential for the server" || resp.Header.Get("WWW-Authenticate") != "" {
				t.Errorf("%d %v %s", resp.StatusCode, resp.Header, text)
			}
			c.provide(p)
			var session string
			if resp, session = p.begin(); resp.StatusCode != http.StatusOK || session == "" {
				text, _ := io.ReadAll(resp.Body)
				t.Fatalf("%d %s", resp.StatusCode, text)
			}
			works := func(when string) {
				t.Helper()
				if status, r := p.echo(session); status != http.StatusOK || r.Get("result.content.0.text").Str != "hello" {
					t.Errorf("%s: %d %s", when, status, r.Raw)
				}
			}
			works("after")
			s.RevokeAccess()
			if name == "token_file" {
				if status, r := p.echo(session); status != http.StatusOK || withoutAdvice(r.Get("error.message").Str) != "the proxy has no valid credential for the server" {
					t.Errorf("within a session: %d %s", status, r.Raw)
				}
				c.provide(p)
			}
			works("after a refusal")
			logins := s.Counts().Authorizations
			next := p.cfg
			next.Limits.UpstreamMessage++
			if err := p.srv.Reload(next); err != nil {
				t.Error(err)
			}
			works("after a reload")
			p.restart()
			if resp, session = p.begin(); resp.StatusCode != http.StatusOK {
				t.Error("after a restart:", resp.StatusCode)
			}
			works("after a restart")
			if n := s.Counts().Authorizations; n != logins {
				t.Error("someone had to log in again")
			}
			told := ""
			for _, e := range append(p.past, p.logs.All()...) {
				for _, v := range e.ContextMap() {
					if text, ok := v.(string); ok {
						told += text + "\n"
					}
				}
				told += e.Message + "\n"
			}
			rec := httptest.NewRecorder()
			promhttp.HandlerFor(p.srv.Metrics.Registry, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			metrics := rec.Body.String()
			if !strings.Contains(told, c.fault) || strings.Contains(told+metrics, "canary-") || strings.Contains(told+metrics, "eyJ") {
				t.Errorf("the log lacks %q or tells a secret:\n%s", c.fault, told)
			}
			if name == "client_credentials" && !strings.Contains(metrics, `dragoman_oauth_tokens_total{grant="client_credentials",result="ok"} 1`) {
				t.Error("no count of tokens")
			}
			if name == "login" && (!strings.Contains(metrics, "dragoman_oauth_token_expiry_seconds 3") || !strings.Contains(told, "every client acts as the person")) {
				t.Error("no expiry, or no warning")
			}
			if warned := p.logs.FilterField(zap.String("sub", "ada-of-the-test")).Len(); (name == "login") != (warned == 1) {
				t.Error(warned, "warnings that name the person after the restart")
			}
		})
	}
}

// newKeyFile writes a new private key to a file.
func newKeyFile(t *testing.T) (*ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return key, path
}

// TestAnotherPersonSignsIn: what the server told one person is not kept for the next one, and new tokens of the same
// person change nothing.
func TestAnotherPersonSignsIn(t *testing.T) {
	keyring.MockInitWithError(errors.New("no keyring in tests"))
	s := oauthtest.New(t, oauthtest.Options{})
	p := serveProtected(t, s, func(c *config.Config) { c.Upstream.Auth.Type = config.AuthLogin })
	p.signIn()
	changes := 0
	p.srv.SignIns.Changed = func() { changes++ }
	_, session := p.begin()
	p.echo(session)
	s.RevokeAccess()
	if p.echo(session); changes != 0 {
		t.Error("new tokens count as another person")
	}
	p.signIn()
	s.RevokeAccess()
	s.Change(func(*oauthtest.Options) {})
	p.echo(session) // is refused once, and carries the tokens of the other sign-in then
	if p.echo(session); changes != 1 {
		t.Error(changes, "changes")
	}
}

// TestServeLendsNothingToStrangers: with upstream.auth, a listener for others needs auth.tokens.
func TestServeLendsNothingToStrangers(t *testing.T) {
	cfg := config.Default()
	cfg.Upstream.URL, cfg.Upstream.Auth.Type = "http://127.0.0.1:1/mcp", config.AuthLogin
	cfg.Credentials = t.TempDir()
	srv, err := proxy.New(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Serve(t.Context(), ln); err == nil || !strings.Contains(err.Error(), "auth.tokens") {
		t.Error(err)
	}
}

// TestLoginsAreCounted: a login in the browser counts once, by how it ended.
func TestLoginsAreCounted(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("the browser is one that the test replaces by its name")
	}
	keyring.MockInitWithError(errors.New("no keyring in tests"))
	dir := t.TempDir()
	shown := filepath.Join(dir, "shown")
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\necho \"$1\" >'"+shown+".part' && mv '"+shown+".part' '"+shown+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":0")
	t.Setenv("SSH_CONNECTION", "")
	for result, deny := range map[string]string{"ok": "", "failed": "access_denied"} {
		t.Run(result, func(t *testing.T) {
			s := oauthtest.New(t, oauthtest.Options{Deny: deny})
			p := serveProtected(t, s, func(c *config.Config) { c.Upstream.Auth.Type, c.Upstream.Auth.Browser = config.AuthLogin, true })
			visited := make(chan error, 1)
			go func() {
				var page []byte
				for page == nil && t.Context().Err() == nil {
					time.Sleep(10 * time.Millisecond)
					page, _ = os.ReadFile(shown)
				}
				os.Remove(shown)
				_, err := s.Visit(strings.TrimSpace(string(page)))
				visited <- err
			}()
			if resp, session := p.begin(); (session != "") != (result == "ok") {
				text, _ := io.ReadAll(resp.Body)
				t.Errorf("%d %s", resp.StatusCode, text)
			}
			if err := <-visited; err != nil {
				t.Error(err)
			}
			for _, of := range []string{"ok", "failed"} {
				want := 0
				if of == result {
					want = 1
				}
				if n := counted(t, p.srv.Metrics, "dragoman_oauth_logins_total", "result="+of); n != want {
					t.Errorf("counted %d that are %s", n, of)
				}
			}
		})
	}
}
