package proxy

import (
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// apart is a process that serves clients without sessions, several of them at once: the
// end of a request's stream is what cancels it.
type idRemapper struct {
	*lanes
	srv *Server
}

// Send sends one message to the process. It drops notifications/cancelled: closing the request's
// stream cancels the request, and several clients may have open requests with the same id.
func (a *idRemapper) Send(ctx context.Context, out *upstream.Outgoing) (upstream.Stream, error) {
	if !out.Request {
		var m wire.Message
		if err := m.Scan(out.Body, nil); err != nil {
			return nil, err
		}
		if m.Kind == wire.Notification && m.Method == wire.Cancelled {
			return nil, nil
		}
	}
	st, err := a.lanes.Send(ctx, out)
	if of, ok := st.(*server.Stream); ok {
		return &remappedStream{Stream: of, of: a}, err
	}
	return st, err
}

// Known always returns false: closing the stream of a request sends the cancellation to the server.
func (a *idRemapper) Known(string) (string, bool) { return "", false }

// apartStream is what the process says about one request.
type remappedStream struct {
	*server.Stream
	of   *idRemapper
	once sync.Once
}

// Close closes the stream of a request. If the request has no answer yet, it sends
// notifications/cancelled to the process. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation.
func (st *remappedStream) Close() error {
	st.once.Do(func() {
		if !st.Answered() && !st.Over() { // else no client was asked
			st.of.srv.sendCancelled(st.of.Beneath(), st.Given(), nil, "")
		}
	})
	return st.Stream.Close()
}
