package proxy

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// Published SDKs close their client when a message of a session is answered with a 5xx.
// Within a session a failure of the server is therefore only the JSON-RPC error, with
// status 200. Other statuses tell the client what to do and stay: the challenges 401 and
// 403, 404 for a lost session, 429, and our own 503 with Retry-After.

// laterStream is a standing stream that the server refused for a reason that may pass. The client's
// stream stays open in the meantime, since published SDKs close their client, or ask again at once,
// if the stream is refused or ends.
type laterStream struct {
	ctx  context.Context
	stop context.CancelFunc
	open func(context.Context) (upstream.Stream, error)
	log  *zap.Logger

	mu sync.Mutex
	st upstream.Stream // nil until the server accepts the GET
}

func newLaterStream(ctx context.Context, log *zap.Logger, open func(context.Context) (upstream.Stream, error)) *laterStream {
	l := &laterStream{open: open, log: log}
	l.ctx, l.stop = context.WithCancel(ctx)
	return l
}

// Next waits until the server opens its stream, and then returns its events. It retries
// after a failure whose status for the client is 500 or above. After any other failure the stream ends:
// the client opens it again, and then receives the failure.
func (l *laterStream) Next() (sse.Event, error) {
	for again := new(server.Reopening); l.st == nil; {
		if err := again.Wait(l.ctx, 0); err != nil {
			return sse.Event{}, err
		}
		st, err := l.open(l.ctx)
		switch {
		case err == nil:
			l.attach(st)
		case errors.Is(err, upstream.ErrNoStream), clienterror.Of(err).Status < http.StatusInternalServerError:
			return sse.Event{}, err
		default:
			l.log.Debug("cannot open the server's standing stream: it is tried again", zap.Error(err))
		}
	}
	return l.st.Next()
}

func (l *laterStream) attach(st upstream.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.st = st
	if l.ctx.Err() != nil {
		st.Close()
	}
}

// Close implements [upstream.Stream].
func (l *laterStream) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
	if l.st == nil {
		return nil
	}
	return l.st.Close()
}
