package share

import (
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/processes"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// A ModernConn is one session's connection to a shared process that is a modern server. Each request
// is independent then, and only the ids of the sessions must be kept apart. Messages of the process that
// belong to no request are dropped.
type ModernConn struct {
	*Remapper
	of     *Sharing
	client quota.Holder
	once   sync.Once
}

// Send sends one message to the process.
func (g *ModernConn) Send(ctx context.Context, out *upstream.Outgoing) (upstream.Stream, error) {
	if err := g.of.waiting.enter(g.client, g.host.Config().Limits); err != nil {
		return nil, err
	}
	defer g.of.waiting.leave(g.client)
	return g.Remapper.Send(ctx, out)
}

var _ upstream.Conn = (*ModernConn)(nil)

// JoinModern adds a session, and starts the process if it is the first. The caller must close the
// connection.
func (sh *Sharing) JoinModern(ctx context.Context, proxy *Proxy) (*ModernConn, error) {
	select {
	case sh.turn <- struct{}{}:
		defer func() { <-sh.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if lost := sh.modern; lost != nil && lost.Reason() != nil { // the process has ended, and is not restarted
		sh.modern = nil
		proxy.Host.Spawn(func() { pipes.End(lost, proxy.Host.Log) })
	}
	if sh.draining {
		return nil, upstream.ErrClosed
	}
	if sh.modern == nil {
		b, _ := proxy.Eras.TakeSpare(ctx, nil)
		if b == nil {
			var err error
			if b, err = proxy.Open(ctx); err != nil {
				return nil, err
			}
		}
		sh.modern, sh.modernConns = NewRemapper(proxy.Host, proxy.Streams(b.Conn, b.Standing)), 0
	}
	sh.modernConns++
	return &ModernConn{Remapper: sh.modern, of: sh, client: quota.Holder{Principal: processes.ClientOf(ctx)}}, nil
}

// Listen returns upstream.ErrNoStream: a shared process has no standing stream for one client.
func (g *ModernConn) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

// Close removes this client from the shared process. The process keeps running for the other clients.
func (g *ModernConn) Close(context.Context) error {
	g.once.Do(func() {
		g.of.mu.Lock()
		defer g.of.mu.Unlock()
		if g.of.modern == g.Remapper {
			g.of.modernConns--
			if g.of.retired || g.of.draining {
				g.of.endModern()
			}
		}
	})
	return nil
}

// DrainModern accepts no more sessions, and ends the process when its last session ends.
func (sh *Sharing) DrainModern() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.draining = true
	sh.endModern()
}
