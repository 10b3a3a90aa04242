package tests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestFailuresKeepSecrets: a log line about a failure contains no credential, whatever the server
// quotes in its response, and is one short line.
func TestFailuresKeepSecrets(t *testing.T) {
	const canary, ours = "c4n4ry-of-a-client", "c4n4ry-of-ours"
	web := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		u.Refuse(http.StatusBadGateway)
		fmt.Fprintf(u.Web, "%s\n\x1b[31mwith %s and %s, see https://user:c4n4ry@host/path?token=c4n4ry\u202e, %s", strings.Repeat(" ", 1100),
			u.Header.Get("Authorization"), u.Header.Get("X-Key"), strings.Repeat("long ", 500))
	})
	web.At()
	for _, from := range []string{"client", "configuration"} {
		client := serving(t, func(cfg *config.Config) {
			cfg.Upstream.URL, cfg.Upstream.Transport = web.URL+"/mcp?key=c4n4ry", "http"
			cfg.Upstream.Headers = map[string]string{"X-Key": ours}
			if from == "configuration" {
				cfg.Upstream.Headers["Authorization"] = "Token " + canary
			}
		})
		client.logs.TakeAll()
		client.ask("POST", initialize("2025-06-18", `{}`), "Authorization", "Token "+canary)
		lines := client.logs.FilterMessage("request failed").All()
		if len(lines) != 1 {
			t.Fatalf("%v", client.logs.All())
		}
		text := fmt.Sprint(lines[0].ContextMap())
		if strings.Contains(text, "c4n4ry") || strings.ContainsAny(text, "\n\x1b\u202e") || !strings.Contains(text, "with") {
			t.Errorf("%q", text)
		}
		if is := lines[0].ContextMap()["error"].(string); len(is) > 310 {
			t.Errorf("%d bytes", len(is))
		}
	}
}

// TestRefusedTokensAreLoggedOnce: many requests without a token cause one line at once and one at
// the next flush, and do not count as failures of the server.
func TestRefusedTokensAreLoggedOnce(t *testing.T) {
	client := serving(t, func(cfg *config.Config) {
		cfg.Upstream.URL, cfg.Auth.Tokens = "http://127.0.0.1:1/mcp", []string{"a-token-that-is-long-enough"}
	})
	for range 20 {
		if h := client.ask("POST", callOne); h.status != 401 {
			t.Errorf("%+v", h)
		}
	}
	lines := client.logs.FilterMessage("client refused").All()
	if len(lines) != 1 || lines[0].Level != zap.InfoLevel {
		t.Errorf("%v", lines)
	}
	client.logs.TakeAll()
	client.srv.Host.Report.Flush()
	lines = client.logs.FilterMessage("client refused").All()
	if len(lines) != 1 || lines[0].ContextMap()["repeated"] != int64(19) {
		t.Errorf("%v", lines)
	}
	if n := counted(t, client.srv.Metrics, "dragoman_upstream_failures_total"); n != 0 {
		t.Errorf("counted %d", n)
	}
}
