package upstream

import (
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// A Lookahead is a Stream that can also be read for a while only: unlike Close, the end of that time loses nothing.
type Lookahead struct {
	Stream
	back    [][]byte   // messages that were put back
	pending chan event // of the read under way; nil for none
}

type event struct {
	sse.Event
	err error
}

// LookAhead returns st as a Lookahead, which is used instead of st from then on.
func LookAhead(st Stream) *Lookahead { return &Lookahead{Stream: st} }

// Look returns a Stream of the same messages. To close it ends only this Stream, not l. It must not be read at the same time as
// l or another one.
func (l *Lookahead) Look() Stream { return &look{of: l, closed: make(chan struct{})} }

// Unread puts messages back, which Events gives first, in this order.
func (l *Lookahead) Unread(messages ...[]byte) { l.back = append(messages, l.back...) }

// Events implements [Stream].
func (l *Lookahead) Events(yield func(sse.Event, error) bool) {
	for len(l.back) > 0 || l.pending != nil {
		if e := l.next(nil); !yield(e.Event, e.err) || e.err != nil && !skipped(e.err) {
			return
		}
	}
	l.Stream.Events(yield)
}

// next returns the next event, or ErrClosed once closed is.
func (l *Lookahead) next(closed <-chan struct{}) event {
	if len(l.back) > 0 {
		e := event{Event: sse.Event{Data: l.back[0]}}
		l.back = l.back[1:]
		return e
	}
	if l.pending == nil {
		pending := make(chan event, 1)
		l.pending = pending
		go func() {
			var e event
			e.Event, e.err = First(l.Stream)
			pending <- e
		}()
	}
	select {
	case e := <-l.pending:
		l.pending = nil
		return e
	case <-closed:
		return event{err: ErrClosed}
	}
}

// CanInterrupt returns false while events were read ahead.
func (l *Lookahead) CanInterrupt() bool {
	return len(l.back) == 0 && l.pending == nil && l.Stream.CanInterrupt()
}

// Park returns false while events were read ahead.
func (l *Lookahead) Park(w mcp.Waker) bool {
	return len(l.back) == 0 && l.pending == nil && l.Stream.Park(w)
}

// look is a Stream of the messages of a Lookahead.
type look struct {
	Plain
	of     *Lookahead
	once   sync.Once
	closed chan struct{} // closed by Close
}

func (k *look) Events(yield func(sse.Event, error) bool) {
	for {
		if e := k.of.next(k.closed); !yield(e.Event, e.err) || e.err != nil && !skipped(e.err) {
			return
		}
	}
}

func (k *look) Close() error {
	k.once.Do(func() { close(k.closed) })
	return nil
}
