package proxy

import (
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// guest is a session's part in the one process that all have, where that has no
// handshake: each request is then one of its own, and only ids have to be kept apart.
// Messages of the process about no request are dropped.
type guest struct {
	*apart
	of   *shared
	once sync.Once
}

var _ upstream.Conn = (*guest)(nil)

// guest lets a session in, for which the process is started if it is the first. It is
// the caller's to Close.
func (sh *shared) guest(ctx context.Context, srv *Server) (*guest, error) {
	select {
	case sh.turn <- struct{}{}:
		defer func() { <-sh.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if lost := sh.plain; lost != nil && lost.Reason() != nil { // it has ended, and there will be no other
		sh.plain = nil
		srv.spawn(func() { srv.endConn(lost) })
	}
	if sh.emptied {
		return nil, upstream.ErrClosed
	}
	if sh.plain == nil {
		b := srv.eras.take(ctx)
		if b == nil {
			var err error
			if b, err = srv.now().origin.open(ctx); err != nil {
				return nil, err
			}
		}
		sh.plain, sh.guests = &apart{lanes: srv.lanesTo(b.Conn, b.Standing), srv: srv}, 0
	}
	sh.guests++
	return &guest{apart: sh.plain, of: sh}, nil
}

// Listen returns upstream.ErrNoStream: a shared process has no standing stream for one client.
func (g *guest) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

// Close removes this client from the shared process. The process keeps running for the other clients.
func (g *guest) Close(context.Context) error {
	g.once.Do(func() {
		g.of.mu.Lock()
		defer g.of.mu.Unlock()
		if g.of.plain == g.apart {
			g.of.guests--
			if g.of.retired || g.of.emptied {
				g.of.letPlain()
			}
		}
	})
	return nil
}

// emptyPlain accepts no more sessions, and has the process end with the last one that
// is in it.
func (sh *shared) emptyPlain() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.emptied = true
	sh.letPlain()
}

// letPlain ends a process without sessions. Called with sh.mu held.
func (sh *shared) letPlain() {
	if plain := sh.plain; plain != nil && sh.guests == 0 {
		sh.plain = nil
		plain.srv.spawn(func() { plain.srv.endConn(plain) })
	}
}

// sharesModern reports whether the process that all sessions have turns out to have no
// handshake, after one with it has failed.
func (h *handshake) sharesModern(ctx context.Context) bool {
	if h.srv.now().origin.shared == nil || !h.bridges {
		return false
	}
	e, err := h.srv.upstreamEra(ctx, h.header)
	return err == nil && e.modern() && !e.shakes
}
