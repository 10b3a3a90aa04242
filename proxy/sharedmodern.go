package proxy

import (
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// A sharedModernConn is one session's connection to a shared process that is a modern server. Each request
// is independent then, and only the ids of the sessions must be kept apart. Messages of the process that
// belong to no request are dropped.
type sharedModernConn struct {
	*idRemapper
	of   *processSharing
	once sync.Once
}

var _ upstream.Conn = (*sharedModernConn)(nil)

// joinModern adds a session, and starts the process if it is the first. The caller must close the
// connection.
func (sh *processSharing) joinModern(ctx context.Context, srv *Server) (*sharedModernConn, error) {
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
		srv.host.Spawn(func() { srv.endConn(lost) })
	}
	if sh.draining {
		return nil, upstream.ErrClosed
	}
	if sh.modern == nil {
		b := srv.eras.TakeSpare(ctx)
		if b == nil {
			var err error
			if b, err = srv.now().origin.open(ctx); err != nil {
				return nil, err
			}
		}
		sh.modern, sh.modernConns = &idRemapper{lanes: srv.lanesTo(b.Conn, b.Standing), srv: srv}, 0
	}
	sh.modernConns++
	return &sharedModernConn{idRemapper: sh.modern, of: sh}, nil
}

// Shared implements [legacyclient.Pipe].
func (g *sharedModernConn) Shared() bool { return true }

// Listen returns upstream.ErrNoStream: a shared process has no standing stream for one client.
func (g *sharedModernConn) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

// Close removes this client from the shared process. The process keeps running for the other clients.
func (g *sharedModernConn) Close(context.Context) error {
	g.once.Do(func() {
		g.of.mu.Lock()
		defer g.of.mu.Unlock()
		if g.of.modern == g.idRemapper {
			g.of.modernConns--
			if g.of.retired || g.of.draining {
				g.of.endModern()
			}
		}
	})
	return nil
}

// drainModern accepts no more sessions, and ends the process when its last session ends.
func (sh *processSharing) drainModern() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.draining = true
	sh.endModern()
}

// endModern ends the process if it has no sessions. The caller holds sh.mu.
func (sh *processSharing) endModern() {
	if plain := sh.modern; plain != nil && sh.modernConns == 0 {
		sh.modern = nil
		plain.srv.host.Spawn(func() { plain.srv.endConn(plain) })
	}
}

// sharesModern reports whether the shared process is a modern server. It is called after a handshake with the
// process has failed.
func (h *handshake) sharesModern(ctx context.Context) bool {
	if h.srv.now().origin.shared == nil || !h.bridges {
		return false
	}
	e, err := h.srv.eras.Of(ctx, h.Header)
	return err == nil && e.Modern() && !e.Handshake
}
