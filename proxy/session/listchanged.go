package session

import (
	"context"
	"errors"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
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
	own := t.Now().Own != nil && s.Told.Load() != nil
	o.Parks = o.Parks && !own // a goroutine waits for the changes anyway
	st, err := s.Stand(ctx, o)
	if errors.Is(err, upstream.ErrNoStream) && !s.ServerRevision.Modern {
		t.Host.Report.Quirk(report.NoStanding)
	}
	if !own {
		return st, err
	}
	if errors.Is(err, upstream.ErrNoStream) {
		st, err = origin.NoServer{}.Listen(ctx, upstream.ListenOptions{})
	}
	if err != nil {
		return nil, err
	}
	return &listChangedStream{Stream: st, table: t, s: s}, nil
}

// listChangedStream is a standing stream with dragoman's own tools/list_changed notifications.
type listChangedStream struct {
	upstream.Stream
	table *Table
	s     *Session
}

// Events gives the events of the server's stream. In between, another goroutine gives a notifications/tools/list_changed for
// each change of dragoman's own tools.
func (st *listChangedStream) Events(yield func(sse.Event, error) bool) {
	var mu sync.Mutex // held by yield
	ctx, end := context.WithCancel(context.Background())
	give := func(e sse.Event, err error) bool {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil && !yield(e, err) {
			end()
		}
		return ctx.Err() == nil
	}
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		end()
	}()
	st.table.Host.Spawn(func() {
		for ctx.Err() == nil {
			if st.table.ToolsChanged(st.s) && !give(sse.Event{Data: mcp.Notification(wire.ToolsListChanged, "")}, nil) {
				st.Close() // it is not read any more
				return
			}
			select {
			case <-st.s.Told.Load().Replaced():
			case <-ctx.Done():
			}
		}
	})
	st.Stream.Events(give)
}
