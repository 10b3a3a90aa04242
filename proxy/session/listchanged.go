package session

import (
	"context"
	"errors"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ToolsChanged reports, once for each change, whether dragoman's own tools differ from those that
// the session's client knows.
func (t *Table) ToolsChanged(s *Session) bool {
	own := t.Now().OwnFor(&s.sender)
	if own == nil {
		return false
	}
	was, is := s.Told.Load(), own.Edition()
	return was != is && s.Told.CompareAndSwap(was, is)
}

// Listen opens the standing stream of a session for an HTTP client. If dragoman has tools of its
// own, the stream also carries notifications of their changes, and exists even if the server offers
// none.
func (t *Table) Listen(ctx context.Context, s *Session, o upstream.ListenOptions) (upstream.Stream, error) {
	st, err := s.Stand(ctx, o)
	if errors.Is(err, upstream.ErrNoStream) && !s.ServerRevision.Modern {
		t.Host.Report.Quirk(report.NoStanding)
	}
	if t.Now().Own == nil || s.Told.Load() == nil {
		return st, err
	}
	if errors.Is(err, upstream.ErrNoStream) {
		st, err = origin.NoServer{}.Listen(ctx, upstream.ListenOptions{})
	}
	if err != nil {
		return nil, err
	}
	return &listChangedStream{table: t, s: s, of: st, ctx: ctx, heard: make(chan NextResult, 1), closed: make(chan struct{})}, nil
}

// listChangedStream is a standing stream with dragoman's own tools/list_changed notifications.
type listChangedStream struct {
	table *Table
	s     *Session
	of    upstream.Stream
	ctx   context.Context
	heard chan NextResult
	asked bool // a call of of.Next is under way

	once   sync.Once
	closed chan struct{}
}

// NextResult is the result of a call of Next.
type NextResult struct {
	Event sse.Event
	Err   error
}

// Next returns the next event of the server's stream, or a notifications/tools/list_changed of
// dragoman's own, whichever is first.
func (st *listChangedStream) Next() (sse.Event, error) {
	if !st.asked {
		st.asked = true
		st.table.Host.Spawn(func() {
			e, err := st.of.Next()
			st.heard <- NextResult{e, err}
		})
	}
	for {
		if st.table.ToolsChanged(st.s) {
			return sse.Event{Data: mcp.Notification(wire.ToolsListChanged, "")}, nil
		}
		select {
		case h := <-st.heard:
			st.asked = false
			return h.Event, h.Err
		case <-st.s.Told.Load().Replaced():
		case <-st.closed:
			return sse.Event{}, upstream.ErrClosed
		}
	}
}

// Close closes the server's stream, and makes Next return.
func (st *listChangedStream) Close() error {
	st.once.Do(func() { close(st.closed) })
	return st.of.Close()
}
