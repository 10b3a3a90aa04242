// Package host has what all packages of one running proxy use: the configuration in force, the log and
// the reports of failures and losses, the memory for large messages, and goroutines that end before the
// proxy does.
//
// A [Host] is the [pipes.Owner] of every connection to the server, and the [pipes.Opener] of those
// that are not open yet.
package host

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/losses"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/changes"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Host holds what the packages of one running proxy share. It is safe for concurrent use. Make it with [New].
type Host struct {
	Log      *zap.Logger
	Report   *report.Reporter
	Losses   *losses.Log
	Draining context.Context // ends when the proxy begins to shut down
	Serving  context.Context // ends when the proxy has shut down so far that no more clients are served
	Store    *store.Store    // what replicas share; the memory of this process if it is not Shared
	// Changes is how replicas that share a Store tell each other what they have changed there; nil for none.
	Changes *changes.Channel

	setup  func() report.Setup
	memory *large.Memory
	drain  context.CancelFunc
	close  context.CancelFunc

	// A sync.WaitGroup panics if a task begins while Wait returns.
	mu    sync.Mutex
	tasks int
	idle  *sync.Cond // tasks is 0
}

var (
	_ pipes.Owner  = (*Host)(nil)
	_ pipes.Opener = (*Host)(nil)
)

// New returns the Host of a program of this version. setup returns the setup in force; it is called for each
// use of it.
func New(log *zap.Logger, m *metrics.Metrics, memory *large.Memory, version string, setup func() report.Setup) *Host {
	h := &Host{Log: log, memory: memory, setup: setup}
	h.Losses = losses.New(log, m, func() (string, []string) {
		now := setup()
		return now.Server, now.Config.Log.KnownLosses
	})
	h.Report = report.New(log, m, version, setup)
	h.idle = sync.NewCond(&h.mu)
	h.Draining, h.drain = context.WithCancel(context.Background())
	h.Serving, h.close = context.WithCancel(context.Background())
	return h
}

// Config returns the configuration in force, which must not be changed.
func (h *Host) Config() *config.Config { return h.setup().Config }

// Table returns the translators in force.
func (h *Host) Table() *translate.Table { return h.setup().Table }

// Shared returns the store that other replicas use as well; nil if there is none.
func (h *Host) Shared() *store.Store {
	if h.Store == nil || !h.Store.Shared() {
		return nil
	}
	return h.Store
}

// Drain ends Draining.
func (h *Host) Drain() { h.drain() }

// Close ends Draining and Serving.
func (h *Host) Close() {
	h.drain()
	h.close()
}

// Wait returns when all tasks of Spawn have ended, those that begin meanwhile included.
func (h *Host) Wait() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.tasks > 0 {
		h.idle.Wait()
	}
}

// Ending returns the time that a server over HTTP has for the end of a session: [pipes.EndTimeout], but no more than
// [pipes.LeaveTime] once the proxy begins to shut down.
func (h *Host) Ending() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), pipes.EndTimeout)
	stays := context.AfterFunc(h.Draining, func() {
		select {
		case <-time.After(pipes.LeaveTime):
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		stays()
		cancel()
	}
}

// Flush writes the merged lines of repeated failures to the log and, once an hour, those of losses.
func (h *Host) Flush(now time.Time) {
	h.Losses.Flush(now)
	h.Report.Flush()
}

// FlushAll writes the merged lines of repeated failures and losses to the log.
func (h *Host) FlushAll() {
	h.Losses.Close()
	h.Report.Flush()
}

// Spawn runs a task in a goroutine that Wait waits for. Its caller should be something that Wait waits for
// too, as a task may otherwise begin after Wait has returned. A panic ends only the task.
func (h *Host) Spawn(task func()) {
	h.mu.Lock()
	h.tasks++
	h.mu.Unlock()
	go func() {
		defer h.done()
		h.Report.Contained(task)
	}()
}

// done notes that a task has ended.
func (h *Host) done() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tasks--; h.tasks == 0 {
		h.idle.Broadcast()
	}
}

// Memory returns the memory in which large messages are copied.
func (h *Host) Memory() *large.Memory { return h.memory }

// Dropped implements [pipes.Owner].
func (h *Host) Dropped(reason string) { h.Report.Dropped(reason) }

// Unread implements [pipes.Owner].
func (h *Host) Unread(reason string, f *mcp.Failure) *mcp.Failure {
	return h.Report.AnswerDropped(reason, f)
}

// Quirk implements [pipes.Owner] and [pipes.Opener].
func (h *Host) Quirk(q mcp.Quirk) { h.Report.Quirk(q) }

// Panicked implements [pipes.Owner].
func (h *Host) Panicked(p any) { h.Report.Panicked(p) }

// MaxBatch implements [pipes.Opener].
func (h *Host) MaxBatch() int { return h.Config().Limits.Batch }

// Malformed implements [pipes.Opener].
func (h *Host) Malformed(err error, raw []byte, header []mcp.Header) error {
	return h.Report.Malformed(err, raw, header)
}

// UnknownResponse implements [pipes.Opener].
func (h *Host) UnknownResponse(m *wire.Message, header []mcp.Header) {
	h.Report.UnknownResponse(true, report.At{Header: header}, m)
}

// Undelivered implements [pipes.Opener].
func (h *Host) Undelivered(err error, header []mcp.Header) {
	h.Log.With(trace.Fields(header)...).Debug("cannot answer a request that the server sent before its response", zap.Error(err))
}

// SendCancelled sends the server notifications/cancelled for the request that the server knows by id, raw JSON. It does
// not wait; sent is called when the notification is sent, or cannot be.
func (h *Host) SendCancelled(conn upstream.Conn, id string, header []mcp.Header, reason string, sent func()) {
	notice := upstream.Outgoing{Body: mcp.Cancelled(id, reason), Header: append([]mcp.Header(nil), header...)}
	h.Spawn(func() {
		defer sent()
		ctx, cancel := context.WithTimeout(context.Background(), pipes.NoticeTimeout)
		defer cancel()
		if _, err := conn.Send(ctx, &notice); err != nil {
			h.Log.Debug("cannot send a cancellation to the server", zap.Error(err))
		}
	})
}
