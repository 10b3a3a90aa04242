package tests

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

func keptAlive(cfg *config.Config) { cfg.Upstream.KeepAlive = 5 * time.Millisecond }

// TestIdleServerIsPinged: by upstream.keepalive, on each transport, and for clients of either era. The client sees nothing of it, and the
// session is as idle as without.
func TestIdleServerIsPinged(t *testing.T) {
	for _, over := range everyTransport {
		for _, client := range []string{"http", "pipe", "modern"} {
			t.Run(client+" to "+string(over), func(t *testing.T) {
				t.Parallel()
				s := newStateful(t, over)
				p := through(t, s.At(), keptAlive)
				c := p.client(t, client == "pipe")
				if client == "modern" {
					c.Say(modernRequestOf("1", "tools/list", meta(`{}`))).Next()
				} else {
					c.Initialize("2025-06-18", "{}")
				}
				s.Gets(3, "ping")
				if client == "http" {
					idle := p.Table.DropIdle(time.Now())
					if len(idle) != 1 {
						t.Fatal("a ping keeps the session")
					}
					p.Table.Retire(idle[0], report.ErrIdle)
				}
				if client != "modern" {
					select {
					case m := <-c.Lines:
						t.Errorf("the client gets %s", m)
					default:
					}
				}
			})
		}
	}
}

// TestPingHasTheCredentialOfTheClient, and a ping without an answer is logged.
func TestPingHasTheCredentialOfTheClient(t *testing.T) {
	s := newStateful(t, peertest.HTTP)
	others := s.Script
	s.Script = func(u *peertest.Turn) {
		if u.Method == "ping" {
			u.Refuse(502)
			return
		}
		others(u)
	}
	leavesNothing(t)
	core, logs := observer.New(zap.InfoLevel)
	cfg := config.Default()
	behind(t, s.At(), &cfg)
	keptAlive(&cfg)
	base, _ := startServing(t, newOf(t, cfg, zap.New(core)))
	c := peertest.NewClient(t, peertest.Endpoint{URL: base + "/mcp"})
	c.Say(initialize("2025-06-18", "{}"), "Authorization", "Bearer mine").HasStatus(200)
	if m := s.Gets(2, "ping"); m.Header.Get("Authorization") != "Bearer mine" || m.Session == "" {
		t.Errorf("%+v", m)
	}
	peertest.Eventually(t, "the log tells", func() bool {
		return logs.FilterMessage("server has not answered a ping (upstream.keepalive)").Len() > 0
	})
}
