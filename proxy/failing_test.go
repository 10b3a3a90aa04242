package proxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/failures"
)

// TestServersThatCannotBeReached walks the causes by which there is no server to talk to:
// initialize fails with 502, and there is a line with what to do, and a count.
func TestServersThatCannotBeReached(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for _, c := range []struct {
		cause   failures.Cause
		url     string
		command []string
		server  string
		text    string
	}{
		{cause: failures.TLSUnknownCA, url: secure.URL, server: secure.URL, text: "upstream request failed: server certificate not trusted"},
		{cause: failures.TLSPlain, url: strings.Replace(plain.URL, "http:", "https:", 1), server: strings.Replace(plain.URL, "http:", "https:", 1)},
		{cause: failures.TLSPlain, url: strings.Replace(secure.URL, "https:", "http:", 1), server: strings.Replace(secure.URL, "https:", "http:", 1)},
		{cause: failures.CommandNotFound, command: []string{"/nowhere/server-of-none", "--token=s3cr3t"}, server: "server-of-none"},
		{cause: failures.CommandExit, command: []string{"sh", "-c", "echo oh >&2; exit 7"}, server: "sh"},
	} {
		t.Run(string(c.cause), func(t *testing.T) {
			client := serving(t, func(cfg *Config) {
				cfg.Upstream.URL, cfg.Upstream.Command = c.url, c.command
				if c.url != "" {
					cfg.Upstream.Transport = "http"
				}
			})
			client.logs.TakeAll()
			h := client.initialize()
			if len(h.messages) != 1 || c.text != "" && (h.status != 502 || !strings.Contains(h.messages[0], c.text)) {
				t.Errorf("%d %q", h.status, h.messages)
			}
			lines := client.logs.FilterMessage("request failed").All()
			if len(lines) != 1 {
				t.Fatalf("%d lines: %v", len(lines), client.logs.All())
			}
			is := lines[0].ContextMap()
			if is["cause"] != string(c.cause) || is["server"] != c.server || is["advice"] != c.cause.Advice() || lines[0].Level != c.cause.Level() || is["method"] != "initialize" {
				t.Errorf("%v %v", lines[0].Level, is)
			}
			if n := counted(t, client.srv.metrics, "dragoman_upstream_failures_total", "cause="+string(c.cause)); n != 1 {
				t.Errorf("counted %d", n)
			}
		})
	}
}

// A line about a failure holds no credential, whatever the server quotes in its answer, and
// stays one short line.
func TestFailuresKeepSecrets(t *testing.T) {
	const canary, ours = "c4n4ry-of-a-client", "c4n4ry-of-ours"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprintf(w, "%s\n\x1b[31mwith %s and %s, see https://user:c4n4ry@host/path?token=c4n4ry\u202e, %s", strings.Repeat(" ", 1100),
			r.Header.Get("Authorization"), r.Header.Get("X-Key"), strings.Repeat("long ", 500))
	}))
	t.Cleanup(web.Close)
	for _, from := range []string{"client", "configuration"} {
		client := serving(t, func(cfg *Config) {
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

// A client without one of the listener's tokens is refused with a line, and not counted as a
// failure of the server.
func TestRefusedTokensAreLogged(t *testing.T) {
	client := serving(t, func(cfg *Config) {
		cfg.Upstream.URL, cfg.Auth.Tokens = "http://127.0.0.1:1/mcp", []string{"a-token-that-is-long-enough"}
	})
	h := client.ask("POST", callOne)
	lines := client.logs.FilterMessage("client refused").All()
	if h.status != 401 || len(lines) != 1 || lines[0].Level != zap.InfoLevel || lines[0].ContextMap()["advice"] == "" {
		t.Errorf("%d %v", h.status, lines)
	}
	if n := counted(t, client.srv.metrics, "dragoman_upstream_failures_total"); n != 0 {
		t.Errorf("counted %d", n)
	}
}

// The first failure of a kind is written at once, and later ones in one line.
func TestRepeatedFailuresAreOneLine(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	l := newFailureLog(zap.New(core), nil, func() []string { return nil })
	kind := failureKind{"request failed", failures.Refused, "http://s/mcp"}
	for n := range 5 {
		l.add(kind, failureLine{text: fmt.Sprint(n)})
	}
	l.repeats.Flush()
	at := logs.All()
	if len(at) != 2 || at[0].ContextMap()["repeated"] != nil || at[1].ContextMap()["repeated"] != int64(4) || at[1].ContextMap()["error"] != "4" {
		t.Errorf("%v", at)
	}
}
