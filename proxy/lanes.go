package proxy

import (
	"context"

	"github.com/dragoman-proxy/dragoman/proxy/replay"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// replayShare divides limits.in_hand: the bytes that are kept for replay in the whole process, in
// addition to in_hand.
const replayShare = 8

// lanes is the connection to a server on a pipe, with one stream for each request, which an HTTP
// client may resume.
type lanes struct {
	*server.Streams
	trails *replay.Buffers
}

// openLanes reads st, the stream of all messages of the server behind conn.
func (srv *sessions) openLanes(conn upstream.Conn, st upstream.Stream) *lanes {
	cfg := srv.now().Config.Limits
	return &lanes{
		Streams: server.Open(conn, st, cfg, srv.host),
		trails: replay.New(replay.Limits{
			Events: cfg.Replay, Bytes: int(cfg.ReplayBytes), Age: cfg.ReplayTime,
			Total: &srv.kept, Most: srv.host.Memory().Budget.Size() / replayShare,
		}),
	}
}

// Shared implements [legacyclient.Pipe].
func (l *lanes) Shared() bool { return false }

// Close stops the server process and discards the events kept for replay.
func (l *lanes) Close(ctx context.Context) error {
	err := l.Streams.Close(ctx)
	l.trails.Close()
	return err
}
