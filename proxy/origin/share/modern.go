package share

import (
	"cmp"
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/processes"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// A ModernConn is one session's connection to a shared process that is a modern server. Each request
// is independent then, and only the ids of the sessions must be kept apart. Messages of the process that
// belong to no request are dropped.
type ModernConn struct {
	*modernProcess
	of     *Sharing
	client quota.Holder
	unlost func() bool // undoes WhenLost
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
		streams := proxy.Streams(b.Conn, b.Standing)
		life, end := context.WithCancel(context.Background())
		streams.WhenLost(end)
		sh.modern = &modernProcess{Remapper: NewRemapper(proxy.Host, streams), life: life}
	}
	sh.modern.conns++
	return &ModernConn{modernProcess: sh.modern, of: sh, client: quota.Holder{Principal: processes.ClientOf(ctx)}, unlost: func() bool { return true }}, nil
}

// WhenLost makes do run when the process ends by itself and is not started again, or now if that has happened, unless the session has ended.
// It must be called once at most, before Close.
func (g *ModernConn) WhenLost(do func()) { g.unlost = context.AfterFunc(g.life, do) }

// Listen returns a stream that ends with the process, and on which nothing comes: what belongs to no request may not be for this client.
func (g *ModernConn) Listen(ctx context.Context, _ upstream.ListenOptions) (upstream.Stream, error) {
	if err := g.Reason(); err != nil {
		return nil, err
	}
	s := &emptyStream{of: g.modernProcess}
	s.ctx, s.end = context.WithCancel(ctx)
	return s, nil
}

// emptyStream is the standing stream of a ModernConn.
type emptyStream struct {
	upstream.Plain
	of  *modernProcess
	ctx context.Context
	end context.CancelFunc
}

// Events waits for the end of the process, or of the stream.
func (s *emptyStream) Events(yield func(sse.Event, error) bool) {
	select {
	case <-s.of.life.Done():
		yield(sse.Event{}, cmp.Or(s.of.Reason(), upstream.ErrClosed))
	case <-s.ctx.Done():
		yield(sse.Event{}, context.Cause(s.ctx))
	}
}

// Close ends the stream.
func (s *emptyStream) Close() error {
	s.end()
	return nil
}

// Close removes this client from the shared process. The process keeps running for the other clients.
func (g *ModernConn) Close(context.Context) error {
	g.once.Do(func() {
		g.unlost()
		g.of.mu.Lock()
		defer g.of.mu.Unlock()
		g.conns--
		if g.of.modern == g.modernProcess {
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
