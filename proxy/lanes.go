package proxy

import (
	"context"

	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// lanes is the connection to a server on a pipe whose requests have streams of their own,
// which a client over HTTP may resume.
type lanes struct {
	*server.Streams
	trails replayBuffers
}

// openLanes begins to read st, everything the server behind conn says.
func (srv *Server) openLanes(conn upstream.Conn, st upstream.Stream) *lanes {
	cfg := srv.now().cfg.Limits
	return &lanes{
		Streams: server.Open(conn, st, cfg, keeper{srv}),
		trails:  replayBuffers{events: cfg.Replay, bytes: int(cfg.ReplayBytes), age: cfg.ReplayTime, total: &srv.kept, most: srv.memory.Budget.Size() / replayShare},
	}
}

// Close stops the server process and discards the events kept for replay.
func (l *lanes) Close(ctx context.Context) error {
	err := l.Streams.Close(ctx)
	l.trails.close()
	return err
}

// keeper is the owner of what a server on a pipe says.
type keeper struct{ srv *Server }

func (k keeper) Spawn(task func())                      { k.srv.spawn(task) }
func (k keeper) Dropped(reason string)                  { k.srv.report.Dropped(reason) }
func (k keeper) Unread(reason string, why *mcp.Failure) { k.srv.report.AnswerDropped(reason, why) }
func (k keeper) Panicked(p any)                         { k.srv.report.Panicked(p) }
func (k keeper) Memory() *large.Memory                  { return k.srv.memory }
