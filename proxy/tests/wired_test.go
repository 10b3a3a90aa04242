package tests

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// script returns a server on a pipe or over HTTP.
func script(t *testing.T, piped bool, do func(*peertest.Turn)) *peertest.Server {
	return peertest.NewServer(t, peertest.Over(transportName(piped)), do)
}

// behind makes the server at e the one of cfg.
func behind(e peertest.Endpoint, cfg *config.Config) {
	cfg.Upstream.URL = e.URL
	if e.Wire != "" {
		cfg.Upstream.Command = e.Command()
	}
}

// proxied is a proxy that listens at both HTTP endpoints.
type proxied struct {
	*proxy.Server
	web  peertest.Endpoint
	pipe peertest.Endpoint
}

// through starts a proxy in front of a server.
func through(t *testing.T, to peertest.Endpoint, change ...func(*config.Config)) proxied {
	t.Helper()
	return throughMade(t, to, func(*proxy.Server) {}, change...)
}

// throughMade is through with a proxy that made may change before it serves its first client.
func throughMade(t *testing.T, to peertest.Endpoint, made func(*proxy.Server), change ...func(*config.Config)) proxied {
	t.Helper()
	cfg := config.Default()
	cfg.Shutdown.Drain = time.Second
	cfg.Upstream.HandshakeTimeout, cfg.Upstream.ConnectTimeout = patience, patience
	behind(to, &cfg)
	for _, c := range change {
		c(&cfg)
	}
	start := func() *proxy.Server {
		srv, err := proxy.New(cfg, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		made(srv)
		return srv
	}
	p := proxied{Server: start()}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		if err := p.Serve(ctx, ln); err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		all.Wait()
	})
	p.web.URL = "http://" + ln.Addr().String() + "/mcp"
	p.pipe.Wire = peertest.Accept(t, func(conn net.Conn) { start().ServePipe(ctx, conn, conn) })
	return p
}

// client makes a client of p.
func (p proxied) client(t *testing.T, piped bool) *peertest.Client {
	t.Helper()
	if piped {
		return peertest.NewClient(t, p.pipe)
	}
	return peertest.NewClient(t, p.web)
}
