package pipes

import (
	"context"
	"errors"
	"slices"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// mayHave reports whether the server may have a request for which Send has returned err: over HTTP+SSE, a POST that the
// server has not answered in time may have arrived.
func mayHave(err error) bool {
	e, ok := errors.AsType[*upstream.Error](err)
	return ok && e.Timeout() && !upstream.NeverSent(err)
}

// ErrRecalled says that a request was not sent, because its client has cancelled it.
var ErrRecalled = errors.New("the request was cancelled before it was sent")

// Sending is the way of a request to a server on a pipe. A cancellation may not come before its request, nor without it: see
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation#behavior-requirements. While the
// request is being sent, its cancellation waits, and takes it back if none of it was written. The lock of the table of open requests guards it.
type Sending struct {
	over      bool               // the request was sent, or will not be
	cancelled bool               // there was a cancellation
	recall    *upstream.Outgoing // the cancellation that waits
	handed    *upstream.Handed   // the request, if the server is too busy to read it; else nil
}

// Cancel reports whether a cancellation is to be sent now: it waits for its request, and is sent once.
func (s *Sending) Cancel(body []byte, header []mcp.Header) bool {
	if s.cancelled {
		return false
	}
	s.cancelled = true
	if !s.over {
		s.recall = &upstream.Outgoing{Body: body, Header: slices.Clone(header)}
		if s.handed != nil {
			s.handed.TakeBack()
		}
	}
	return s.over
}

// Waits notes that the request waits for a busy server.
func (s *Sending) Waits(h *upstream.Handed) {
	s.handed = h
	if s.cancelled {
		h.TakeBack()
	}
}

// End notes that the request was sent, or will not be, and returns the cancellation that has waited, or nil.
func (s *Sending) End() *upstream.Outgoing {
	s.over, s.handed = true, nil
	recall := s.recall
	s.recall = nil
	return recall
}

// renameCancelled replaces the id in a cancellation with the one that the server knows. It reports
// whether the message is to be sent now. A cancellation of a request that is not open is not, and one
// of a request that is being sent follows it; a second one is not.
func renameCancelled[T any](t *idmap.Table[T], m *wire.Message, header []mcp.Header, way func(*idmap.Entry[T]) *Sending) bool {
	if m.Kind != wire.Notification || m.Method != wire.Cancelled {
		return true
	}
	key := idmap.Cancelled(m)
	if key == "" {
		return true // it cancels a task, see https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation
	}
	e := t.Newest(func(e *idmap.Entry[T]) bool { return e.Key == key })
	if e == nil {
		return false
	}
	e.Cancel(m)
	return way(e).Cancel(m.AppendTo(nil), header)
}

// SendRecall sends the cancellation of a request that was sent. It does not wait.
func SendRecall(o Owner, on upstream.Conn, recall *upstream.Outgoing) {
	o.Spawn(func() {
		ctx, cancel := context.WithTimeout(context.Background(), NoticeTimeout)
		defer cancel()
		_, _ = on.Send(ctx, recall) // if it fails, the server is gone, and its stream says so
	})
}
