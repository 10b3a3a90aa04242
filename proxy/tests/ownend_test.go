package tests

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
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
			web := newFaultyServer(t, "", false)
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
			end := web.Awaits(1, "a DELETE", func(m string) bool { return m == http.MethodDelete })
			if got := end.Header.Get("Authorization"); got != want {
				t.Errorf("DELETE with %q, want %q", got, want)
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
	keeps := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		switch {
		case u.Method == "initialize":
			u.Answer(200, result(u.ID, helloOf("2025-06-18", `{}`)))
		case u.ID != "":
			u.Answer(200, result(u.ID, ""))
		}
	})
	keeps.SessionID, keeps.NoGet = "theirs", true
	for name, s := range map[string]peer{"without sessions": newSessionless(t, nil), "with sessions that its DELETE does not end": keeps} {
		t.Run(name, func(t *testing.T) {
			srv := frontOfWeb(t, s.At().URL)
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
