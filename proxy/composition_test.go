package proxy

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

func TestWrongConfigurationChangesNothing(t *testing.T) {
	cfg := config.Default()
	cfg.Upstream.URL = "http://127.0.0.1:1/mcp"
	srv, err := New(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	srv.at = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
	was := srv.Now()
	for want, change := range map[string]func(*config.Config){
		"session.key_file": func(c *config.Config) { c.Session.KeyFile = "none" },
		"upstream.ca_file": func(c *config.Config) { c.Upstream.CAFile = "none" },
		"tls: a listener":  func(c *config.Config) { c.TLS = config.TLS{Cert: "c", Key: "k"} },
		"listen: this":     func(c *config.Config) { c.Upstream.Headers = map[string]string{"A": "lent"} },
		"contract.tasks":   func(c *config.Config) { c.Contract.Tasks = "none" },
		"upstream":         func(c *config.Config) { c.Upstream.Headers = map[string]string{"A": "x\r\ny"} },
	} {
		cfg := was.Config
		change(&cfg)
		if err := srv.Reload(cfg); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if srv.Now() != was {
			t.Errorf("%s: in use all the same", want)
		}
	}
}

// TestUnreachableServerIsLoggedAtOnce: a server at a URL that cannot be reached when serving begins is logged then, with its
// name, and again when it can be.
func TestUnreachableServerIsLoggedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		core, logs := observer.New(zap.InfoLevel)
		cfg := config.Default()
		cfg.Upstream.URL = "http://127.0.0.1:1/mcp"
		srv, err := New(cfg, zap.New(core))
		if err != nil {
			t.Fatal(err)
		}
		next := *srv.Now()
		next.Origin.Ready = func(context.Context) error {
			if up.Load() {
				return nil
			}
			return &upstream.Error{Op: "connect", Addr: "127.0.0.1:1", Err: syscall.ECONNREFUSED}
		}
		srv.use(&next)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			srv.awaitServer(ctx)
			close(ended)
		}()
		time.Sleep(5 * time.Second)
		warned := logs.FilterMessage("upstream is not ready").All()
		if len(warned) != 1 || warned[0].Level != zap.WarnLevel {
			t.Fatalf("told %v", warned)
		}
		said := warned[0].ContextMap()
		if said["server"] != "http://127.0.0.1:1/mcp" || said["cause"] != "refused" || said["error"] != "upstream 127.0.0.1:1: connect: connection refused" || said["advice"] == "" {
			t.Errorf("told %v", said)
		}
		up.Store(true)
		<-ended
		if n := logs.FilterMessage("upstream is ready").Len(); n != 1 {
			t.Errorf("told %d times that it is ready", n)
		}
		up.Store(false)
		time.Sleep(probeAge * 2)
		srv.awaitServer(ctx) // gives up
		stop()
		srv.Close()
	})
}
