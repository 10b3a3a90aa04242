package proxy

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

// announce sends a client on a pipe notifications/tools/list_changed whenever dragoman's own tools
// change, until the session ends.
func (p *pipe) announce() {
	for {
		if p.srv.toolsChanged(p.s) {
			p.write(mcp.Notification(wire.ToolsListChanged, ""))
		}
		select {
		case <-p.s.told.Load().Replaced():
		case <-p.ctx.Done():
			return
		}
	}
}

// toolsChanged reports, once for each change, whether dragoman's own tools differ from those that
// the session's client knows.
func (srv *sessions) toolsChanged(s *session) bool {
	own := srv.now().OwnFor(&s.sender)
	if own == nil {
		return false
	}
	was, is := s.told.Load(), own.Edition()
	return was != is && s.told.CompareAndSwap(was, is)
}

// listen opens the standing stream of a session for an HTTP client. If dragoman has tools of its
// own, the stream also carries notifications of their changes, and exists even if the server offers
// none.
func (srv *sessions) listen(ctx context.Context, s *session, o upstream.ListenOptions) (upstream.Stream, error) {
	st, err := s.stand(ctx, o)
	if errors.Is(err, upstream.ErrNoStream) && !s.ServerRevision.Modern {
		srv.host.Report.Quirk(report.NoStanding)
	}
	if srv.now().Own == nil || s.told.Load() == nil {
		return st, err
	}
	if errors.Is(err, upstream.ErrNoStream) {
		st, err = origin.NoServer{}.Listen(ctx, upstream.ListenOptions{})
	}
	if err != nil {
		return nil, err
	}
	return &listChangedStream{srv: srv, s: s, of: st, ctx: ctx, heard: make(chan nextResult, 1), closed: make(chan struct{})}, nil
}

// listChangedStream is a standing stream with dragoman's own tools/list_changed notifications.
type listChangedStream struct {
	srv   *sessions
	s     *session
	of    upstream.Stream
	ctx   context.Context
	heard chan nextResult
	asked bool // a call of of.Next is under way

	once   sync.Once
	closed chan struct{}
}

// nextResult is the result of a call of Next.
type nextResult struct {
	event sse.Event
	err   error
}

// Next returns the next event of the server's stream, or a notifications/tools/list_changed of
// dragoman's own, whichever is first.
func (st *listChangedStream) Next() (sse.Event, error) {
	if !st.asked {
		st.asked = true
		st.srv.host.Spawn(func() {
			e, err := st.of.Next()
			st.heard <- nextResult{e, err}
		})
	}
	for {
		if st.srv.toolsChanged(st.s) {
			return sse.Event{Data: mcp.Notification(wire.ToolsListChanged, "")}, nil
		}
		select {
		case h := <-st.heard:
			st.asked = false
			return h.event, h.err
		case <-st.s.told.Load().Replaced():
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
