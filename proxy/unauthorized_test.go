package proxy

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestRefusedTokensAreDescribed, and stay secret.
func TestRefusedTokensAreDescribed(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://server.example/.well-known/oauth-protected-resource"`)
		w.WriteHeader(401)
	}))
	t.Cleanup(web.Close)
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
