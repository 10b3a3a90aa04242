package proxy

import (
	"context"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/trace"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
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

// reporting receives what goes wrong while a connection is opened.
type reporting struct{ srv *Server }

func (r reporting) MaxBatch() int { return r.srv.now().cfg.Limits.Batch }
func (r reporting) Malformed(err error, raw []byte, header []upstream.Header) error {
	return r.srv.report.Malformed(err, raw, header)
}
func (r reporting) UnknownResponse(m *wire.Message, header []upstream.Header) {
	r.srv.report.UnknownResponse(true, report.At{Header: header}, m)
}
func (r reporting) Undelivered(err error, header []upstream.Header) {
	r.srv.log.Debug("cannot answer a request that the server sent before its response", append(trace.Fields(header), zap.Error(err))...)
}

// eraEnv returns what package era needs.
func (srv *Server) eraEnv() era.Env {
	return era.Env{
		Config: func() *config.Config { return &srv.now().cfg },
		Open:   func() func(context.Context) (*upstream.Begun, error) { return srv.now().origin.open },
		Log:    srv.log, Report: srv.report, Opener: reporting{srv}, Spawn: srv.spawn, Draining: srv.draining,
	}
}
