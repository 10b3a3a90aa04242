package legacyclient

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// news are the notifications that belong to no call. They wait for the client's standing stream.
type news struct {
	mu     sync.Mutex
	queue  pipes.Queue
	missed [][]byte        // those of dragoman's own that tell of a gap, before queue; each once
	seen   []queuedNews    // the observations of some of the queue
	on     *standingStream // nil for none
}

// queuedNews is the observation of a notification that waits for the client.
type queuedNews struct {
	text *byte // the first of the notification
	call *observe.Call
}

// maxQueued bounds the observations that wait: the queue of notifications drops the oldest, too.
const maxQueued = 256

// maxMissed bounds the notifications that tell of a gap. A session has at most one for each of its subscriptions, and three of lists.
const maxMissed = 1100

// put adds a notification, and its observation unless that is nil. It returns how many were dropped.
func (n *news) put(text []byte, seen *observe.Call) (dropped int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if seen != nil && len(text) > 0 {
		if len(n.seen) == maxQueued {
			n.seen[0].call.End(string(metrics.Left), "")
			n.seen = slices.Delete(n.seen, 0, 1)
		}
		n.seen = append(n.seen, queuedNews{&text[0], seen})
	}
	dropped = n.queue.Put(text, false)
	if n.on != nil {
		n.on.wake()
	}
	return dropped
}

// tell adds a notification that tells of a gap, unless it waits already. It reports false if there is no room.
func (n *news) tell(text []byte) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case slices.ContainsFunc(n.missed, func(other []byte) bool { return bytes.Equal(other, text) }):
		return true
	case len(n.missed) == maxMissed:
		return false
	}
	n.missed = append(n.missed, text)
	if n.on != nil {
		n.on.wake()
	}
	return true
}

// next removes and returns the oldest notification. n.mu must be held.
func (n *news) next() ([]byte, bool) {
	if len(n.missed) > 0 {
		m := n.missed[0]
		n.missed = n.missed[1:]
		return m, true
	}
	return n.queue.Pop()
}

// observed returns the observation of a notification that the standing stream has given, or nil.
func (n *news) observed(text []byte) *observe.Call {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(text) == 0 {
		return nil
	}
	at := slices.IndexFunc(n.seen, func(q queuedNews) bool { return q.text == &text[0] })
	if at < 0 {
		return nil
	}
	call := n.seen[at].call
	for _, dropped := range n.seen[:at] { // they were before it
		dropped.call.End(string(metrics.Left), "")
	}
	n.seen = slices.Delete(n.seen, 0, at+1)
	return call
}

// standing returns the stream on which the client gets them, or nil.
func (n *news) standing() *standingStream {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.on
}

// move gives them to st from now on, and ends the stream that had them before.
func (n *news) move(st *standingStream) {
	n.mu.Lock()
	old := n.on
	n.on = st
	n.mu.Unlock()
	if old != nil {
		old.end()
	}
}

// standingStream is the standing stream of the client. The zero value is not usable.
type standingStream struct {
	upstream.Plain
	of     *news
	client context.Context
	header []mcp.Header    // the client's
	ctx    context.Context // ends with the stream
	end    context.CancelFunc
	signal chan struct{}
	once   sync.Once
}

func (st *standingStream) wake() {
	select {
	case st.signal <- struct{}{}:
	default:
	}
}

// Events gives the notifications, and io.EOF when the stream is closed or replaced.
func (st *standingStream) Events(yield func(sse.Event, error) bool) {
	for {
		if e, err := st.event(); !yield(e, err) || err != nil {
			return
		}
	}
}

// event waits for the next notification.
func (st *standingStream) event() (sse.Event, error) {
	for {
		if m, ok := st.take(); ok {
			return sse.Event{Data: m}, nil
		}
		select {
		case <-st.signal:
		case <-st.ctx.Done():
			return sse.Event{}, io.EOF
		case <-st.client.Done():
			return sse.Event{}, context.Cause(st.client)
		}
	}
}

// take returns the oldest notification. It reports false if there is none for this stream.
func (st *standingStream) take() ([]byte, bool) {
	st.of.mu.Lock()
	defer st.of.mu.Unlock()
	if st.of.on != st {
		return nil, false
	}
	return st.of.next()
}

// Close ends the stream; the subscriptions to resources stay.
func (st *standingStream) Close() error {
	st.once.Do(func() {
		st.end()
		st.of.mu.Lock()
		defer st.of.mu.Unlock()
		if st.of.on == st {
			st.of.on = nil
		}
	})
	return nil
}
