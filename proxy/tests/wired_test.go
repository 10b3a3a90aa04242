package tests

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// script returns a server on a pipe or over HTTP.
func script(t *testing.T, piped bool, do func(*peertest.Turn)) *peertest.Server {
	return peertest.NewServer(t, peertest.Over(transportName(piped)), do)
}

// behind makes the server at e the one of cfg.
func behind(t *testing.T, e peertest.Endpoint, cfg *config.Config) {
	cfg.Upstream.URL = e.URL
	if e.Wire != "" {
		cfg.Upstream.Command = e.Command(t)
	}
}

// worldOf is where a proxy of the test finds its server. In a bubble, the process of [peertest.Endpoint.Command] is a connection in memory.
func worldOf(t *testing.T) origin.World {
	dial := peertest.Dialer(t)
	if dial == nil {
		return origin.World{}
	}
	return origin.World{Dial: dial, Start: func(s *upstream.Stdio) (*upstream.Process, error) {
		conn, err := dial(context.Background(), "tcp", s.Command[1])
		if err != nil {
			return nil, err
		}
		return wireInMemory(conn), nil
	}}
}

// wireInMemory is the process that connects its stdin and stdout with conn, as the program in peertest/testdata/wire.
func wireInMemory(conn net.Conn) *upstream.Process {
	fromServer, out := io.Pipe()
	heard, complaint := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer complaint.Close()
		defer out.Close()
		defer conn.Close()
		_, _ = io.Copy(out, conn)
	}()
	return &upstream.Process{
		In: wireStdin{conn}, Out: fromServer, Err: heard,
		Wait: func() error { <-ended; return nil }, Terminate: func() bool { return conn.Close() == nil }, Kill: func() { conn.Close(); fromServer.Close() }, Release: func() {},
	}
}

// wireStdin is the stdin of a process that sends what it reads to a connection.
type wireStdin struct{ net.Conn }

func (w wireStdin) Close() error { return w.Conn.(interface{ CloseWrite() error }).CloseWrite() }

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
	behind(t, to, &cfg)
	for _, c := range change {
		c(&cfg)
	}
	start := func() *proxy.Server {
		srv := newOf(t, cfg, zap.NewNop())
		made(srv)
		return srv
	}
	p := proxied{Server: start()}
	ln := peertest.Listen(t)
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
