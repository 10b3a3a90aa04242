package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/peertest"
)

// TestOwnDeletesCarryTheClientsCredentials: the DELETE has the Authorization that the server
// received last, and no log line contains it.
func TestOwnDeletesCarryTheClientsCredentials(t *testing.T) {
	for _, c := range []struct {
		name   string
		modern bool // the client is modern, so that the session is dragoman's own
		change func(*config.Config)
		ends   bool // the session ends by itself before the proxy does
	}{
		{name: "drain", change: func(*config.Config) {}},
		{name: "age", ends: true, change: func(c *config.Config) { c.Session.MaxAge, c.Session.IdleTimeout = time.Millisecond, time.Second }},
		{name: "pooled, idle", modern: true, ends: true, change: func(c *config.Config) {
			c.Bridge.IdleTimeout, c.Session.IdleTimeout = time.Millisecond, 40*time.Millisecond
		}},
		{name: "pooled, limit", modern: true, ends: true, change: func(c *config.Config) { c.Bridge.MaxSessions = 2 }},
		{name: "pooled, drain", modern: true, change: func(*config.Config) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			deleted := make(chan string, 10)
			inner := newFaultyServer(t, "", false)
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodDelete {
					deleted <- r.Header.Get("Authorization")
				}
				inner.ServeHTTP(w, r)
			}))
			defer web.Close()
			cfg := config.Default()
			cfg.Upstream.URL, cfg.Upstream.Transport, cfg.Upstream.HandshakeTimeout = web.URL, "http", patience
			c.change(&cfg)
			core, logs := observer.New(zap.DebugLevel)
			srv := newOf(t, cfg, zap.New(core))
			base, stop := startServing(t, srv)
			client := &webClient{t: t, srv: srv, base: base, http: &http.Client{Transport: new(http.Transport)}}
			old, fresh := "Bearer old-secret", "Bearer fresh-secret"
			want := fresh
			if c.modern {
				want = old
				talk := &peertest.Client{T: t, URL: client.base + "/mcp", HTTP: client.http}
				list := modernRequestOf("1", "tools/list", meta(`{}`))
				talk.Say(list, "Authorization", old).HasStatus(200)
				if c.name == "pooled, limit" {
					talk.Say(list, "Authorization", "Bearer another").HasStatus(200)
					talk.Say(list, "Authorization", "Bearer third").HasStatus(200)
				}
			} else {
				session := client.begins("Authorization", old)
				if c.name != "age" {
					client.as("POST", session, pingOne, "Authorization", fresh)
				} else {
					want = old
				}
			}
			if !c.ends {
				stop()
			}
			select {
			case got := <-deleted:
				if got != want {
					t.Errorf("DELETE with %q, want %q", got, want)
				}
			case <-time.After(patience):
				t.Error("no DELETE")
			}
			client.http.CloseIdleConnections()
			stop()
			for _, l := range logs.All() {
				if said := fmt.Sprint(l.Message, l.ContextMap()); strings.Contains(said, "secret") {
					t.Errorf("logged: %s", said)
				}
			}
		})
	}
}

// TestADeletedSessionStaysDead, however many are deleted after it, and even if the server still
// knows the session.
func TestADeletedSessionStaysDead(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"without sessions": (&sessionless{news: make(chan struct{})}).ServeHTTP,
		"with sessions that its DELETE does not end": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			id := gjson.GetBytes(body, "id").Raw
			w.Header().Set("Content-Type", "application/json")
			if gjson.GetBytes(body, "method").String() == "initialize" {
				w.Header().Set("Mcp-Session-Id", "theirs")
				_, _ = io.WriteString(w, result(id, `"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}`))
			} else if id != "" {
				_, _ = io.WriteString(w, result(id, ""))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(handler)
			defer web.Close()
			srv := frontOfWeb(t, web, func(c *config.Config) { c.Upstream.URL = web.URL })
			begin := func() string { return srv.post("", initialize("2025-06-18", `{}`)).header["Mcp-Session-Id"] }
			first, alive := begin(), begin()
			end := func(session string) {
				if r := srv.exchange(context.Background(), "DELETE", session, ""); r.status >= 300 {
					t.Fatalf("%+v", r)
				}
			}
			end(first)
			for range 1100 {
				end(begin())
			}
			if r := srv.post(first, pingOne); r.status != 404 {
				t.Errorf("the first one: %+v", r)
			}
			if r := srv.post(alive, pingOne); r.status != 200 {
				t.Errorf("one that was not deleted: %+v", r)
			}
		})
	}
}
