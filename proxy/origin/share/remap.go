package share

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Streams is a connection to a process whose requests have streams of their own.
type Streams interface {
	upstream.Conn
	Request(ctx context.Context, out *upstream.Outgoing) (*pipes.Stream, error)
	// RecallStream says that the request of a stream is given up. It returns how to cancel it at the process, or nil if there is
	// nothing to cancel, or not yet.
	RecallStream(st *pipes.Stream, reason string, header []mcp.Header) (given string, on upstream.Conn)
	Reason() error      // why the process has ended; nil while it runs
	WhenLost(do func()) // sets what to do when it ends by itself, or does that now
}

// Remapper is a connection to a process that serves several modern clients. Closing the stream of a request cancels the
// request. Make it with [NewRemapper].
type Remapper struct {
	Streams
	host    *host.Host
	notices host.Notices // that Close waits for

	mu   sync.Mutex
	open map[*remappedStream]bool // whose streams are not closed
}

// NewRemapper returns a Remapper around s.
func NewRemapper(h *host.Host, s Streams) *Remapper {
	return &Remapper{Streams: s, host: h, open: make(map[*remappedStream]bool)}
}

// Send sends one message to the process. It drops notifications/cancelled: closing the request's
// stream cancels the request, and several clients may have open requests with the same id.
func (a *Remapper) Send(ctx context.Context, out *upstream.Outgoing) (upstream.Stream, error) {
	if !out.Request {
		var m wire.Message
		if err := m.Scan(out.Body, nil); err != nil {
			return nil, err
		}
		if m.Kind == wire.Notification && m.Method == wire.Cancelled {
			return nil, nil
		}
		return a.Streams.Send(ctx, out)
	}
	st, err := a.Request(ctx, out)
	if err != nil {
		return nil, err
	}
	r := &remappedStream{Stream: st, of: a}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open[r] = true
	return r, nil
}

// Close closes the connection, behind the cancellations of the requests that have no answer yet: they are of no use to a process whose
// pipe has ended.
func (a *Remapper) Close(ctx context.Context) error {
	a.mu.Lock()
	list := slices.Collect(maps.Keys(a.open))
	a.mu.Unlock()
	for _, st := range list {
		st.cancel()
	}
	a.notices.Wait(ctx)
	return a.Streams.Close(ctx)
}

// Recall returns nothing to send: closing the stream of a request cancels it.
func (a *Remapper) Recall(string, string, []mcp.Header) (given string, on upstream.Conn) {
	return "", nil
}

// remappedStream is the stream of one request.
type remappedStream struct {
	*pipes.Stream
	of   *Remapper
	once sync.Once
}

// Close closes the stream of a request. If the request has no answer yet, it sends
// notifications/cancelled to the process. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation.
func (st *remappedStream) Close() error {
	st.cancel()
	return st.Stream.Close()
}

// cancel cancels the request, if it has no answer yet.
func (st *remappedStream) cancel() {
	st.once.Do(func() {
		st.of.mu.Lock()
		delete(st.of.open, st)
		st.of.mu.Unlock()
		if id, on := st.of.RecallStream(st.Stream, "", nil); on != nil {
			st.of.notices.Begin()
			st.of.host.SendCancelled(on, id, nil, "", st.of.notices.End)
		}
	})
}
