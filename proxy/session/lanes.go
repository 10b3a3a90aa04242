package session

import (
	"context"

	"github.com/dragoman-proxy/dragoman/proxy/replay"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// replayShare divides limits.in_hand: the bytes that are kept for replay in the whole process, in
// addition to in_hand.
const replayShare = 8

// Lanes is the connection to a server on a pipe, with one stream for each request, which an HTTP
// client may resume.
type Lanes struct {
	*server.Streams
	Trails *replay.Buffers
}

// OpenLanes reads st, the stream of all messages of the server behind conn.
func (t *Table) OpenLanes(conn upstream.Conn, st upstream.Stream) *Lanes {
	cfg := t.Now().Config.Limits
	return &Lanes{
		Streams: server.Open(conn, st, cfg, t.Host),
		Trails: replay.New(replay.Limits{
			Events: cfg.Replay, Bytes: int(cfg.ReplayBytes), Age: cfg.ReplayTime,
			Total: &t.Kept, Most: t.Host.Memory().Budget.Size() / replayShare,
		}),
	}
}

// Close stops the server process and discards the events kept for replay.
func (l *Lanes) Close(ctx context.Context) error {
	err := l.Streams.Close(ctx)
	l.Trails.Close()
	return err
}

// OverLanes makes l the connection of s.
func (s *Session) OverLanes(l *Lanes) { s.Conn, s.Recall, s.Lanes = l, l.Recall, l }
