package tests

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// startServing serves srv on a free port until stop is called or the test ends. stop returns the
// error of Serve.
func startServing(t *testing.T, srv *proxy.Server) (base string, stop func() error) {
	t.Helper()
	return startServingAt(t, srv, nil)
}

// startServingAt is startServing for a listener that srv takes for one at this address, unless it is nil.
func startServingAt(t *testing.T, srv *proxy.Server, at net.Addr) (base string, stop func() error) {
	t.Helper()
	ln := peertest.Listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	as := ln
	if at != nil {
		as = addressed{ln, at}
	}
	go func() { served <- srv.Serve(ctx, as) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-served
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return "http://" + ln.Addr().String(), stop
}

// newOf is New for a valid configuration.
func newOf(t *testing.T, cfg config.Config, log *zap.Logger) *proxy.Server {
	t.Helper()
	srv, err := proxy.NewIn(worldOf(t), cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

// frontOfWeb returns a Server in front of what is at this URL. It does not listen.
func frontOfWeb(t *testing.T, url string, change ...func(*config.Config)) testServer {
	t.Helper()
	cfg := config.Default()
	cfg.Upstream.URL = url
	o, err := worldOf(t).Of(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return frontOf(t, o, change...)
}

// sealerOf makes a sealer with keys of one repeated byte each.
func sealerOf(t testing.TB, url string, keys ...byte) *sealed.Sealer {
	t.Helper()
	var all [][]byte
	for _, k := range keys {
		all = append(all, bytes.Repeat([]byte{k}, sealed.KeyBytes))
	}
	s, err := sealed.New(all, config.Upstream{URL: url}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
