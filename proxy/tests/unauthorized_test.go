package tests

import (
	"encoding/base64"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestRefusedTokensAreDescribed in the log, without revealing the token.
func TestRefusedTokensAreDescribed(t *testing.T) {
	web := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		u.Web.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://server.example/.well-known/oauth-protected-resource"`)
		u.Refuse(401)
	})
	web.At()
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"aud":["https://a.example","https://b.example"],"iss":"https://as.example","exp":1700000000,"sub":"somebody"}`))
	for token, described := range map[string]bool{"aGVhZGVy." + claims + ".c2lnbmF0dXJl": true, "opaque-token-of-a-client": false, "a.!!!.c": false} {
		t.Run(token[:5], func(t *testing.T) {
			client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" })
			if h := client.raw(request("POST", initialize("2025-06-18", "{}"), "Authorization: Bearer "+token), 1)[0]; h.status != 401 {
				t.Fatalf("%+v", h)
			}
			lines := client.logs.FilterField(zap.String("cause", "unauthorized")).All()
			if len(lines) != 1 {
				t.Fatalf("%v", lines)
			}
			m := lines[0].ContextMap()
			if m["resource_metadata"] != "https://server.example/.well-known/oauth-protected-resource" {
				t.Errorf("%v", m)
			}
			if described != (m["unverified_aud"] == `["https://a.example","https://b.example"]` && m["unverified_iss"] == "https://as.example" && m["unverified_exp"] != nil) {
				t.Errorf("%v", m)
			}
			for _, l := range client.logs.All() {
				for name, v := range l.ContextMap() {
					if s, ok := v.(string); ok && (strings.Contains(s, token) || strings.Contains(s, "somebody")) {
						t.Errorf("%s holds the token: %s", name, s)
					}
				}
			}
		})
	}
}

// TestALoginThatBeginsIsNoFailure: a 401 with the server's metadata, for a request without a token,
// is the first step of a login.
func TestALoginThatBeginsIsNoFailure(t *testing.T) {
	challenge := `Bearer resource_metadata="https://server.example/.well-known/oauth-protected-resource"`
	web := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		u.Web.Header().Set("WWW-Authenticate", challenge)
		u.Refuse(401)
	})
	web.At()
	for _, c := range []struct {
		name, challenge, header string
		fails                   int
	}{
		{"a login", challenge, "X-Other: 1", 0},
		{"a token that is refused", challenge, "Authorization: Bearer opaque-token-of-a-client", 1},
		{"a server without OAuth", "Bearer", "X-Other: 1", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			challenge = c.challenge
			client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Transport = web.URL, "http" })
			h := client.raw(request("POST", initialize("2025-06-18", "{}"), c.header), 1)[0]
			if h.status != 401 || h.header.Get("WWW-Authenticate") != c.challenge {
				t.Errorf("%+v", h)
			}
			lines := client.logs.FilterField(zap.String("cause", "unauthorized")).Len()
			if n := counted(t, client.srv.Metrics, "dragoman_upstream_failures_total", "cause=unauthorized"); n != c.fails || lines != c.fails {
				t.Errorf("counted %d, %d lines", n, lines)
			}
			if n := client.logs.FilterMessage("server asks the client to log in").Len(); n != 1-c.fails {
				t.Errorf("%d lines about the login", n)
			}
		})
	}
}
