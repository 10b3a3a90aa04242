package proxy

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// Bounds of what is kept for replaying, in addition to those of the configuration.
const (
	maxTrails   = 32  // streams per session
	replayShare = 8   // limits.in_hand is divided by it: bytes in the whole process, in addition to in_hand
	maxFaded    = 128 // streams per session of which only the number of events is known
	// handover is how long a request that resumes a stream waits for the request that still reads it.
	handover = 5 * time.Second
)

// replayBuffers holds the replay buffers of the streams of one HTTP client. A server on a pipe knows
// nothing of streams and cannot repeat its messages. So dragoman numbers the events, and keeps the
// last ones of each stream for a client whose connection broke. See "Resumability and Redelivery",
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery.
type replayBuffers struct {
	events, bytes int
	age           time.Duration
	total         *atomic.Int64 // bytes in the whole process
	most          int64         // the bound of total

	mu      sync.Mutex
	closed  bool
	named   uint64          // the number of the newest buffer
	all     []*replayBuffer // oldest first
	expired []expiredBuffer // oldest first
}

// An expiredBuffer is what is known of a forgotten buffer: its number and that of its last event.
type expiredBuffer struct{ number, last uint64 }

// A replayBuffer keeps the last events of one stream. The lock of replayBuffers guards it.
type replayBuffer struct {
	of     *replayBuffers
	number uint64
	call   *call // the call that the stream answers; nil for the standing stream
	open   *calls
	stream *server.Stream // the server's stream for the call

	kept  [][]byte // the last events, with consecutive numbers that end with last
	bytes int
	last  uint64 // the number of the last event; the first is 1

	reader *exchange     // the exchange that sends the events to the client; nil if there is none
	free   chan struct{} // closed when the reader has detached
	over   bool          // no more events will come
	left   time.Time     // when the last reader detached
}

// begin makes x the reader of a new buffer. It returns nil if there are too many buffers, or if replay
// is turned off.
func (t *replayBuffers) begin(x *exchange, st *server.Stream) *replayBuffer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.events == 0 || t.closed {
		return nil
	}
	if len(t.all) >= maxTrails {
		i := slices.IndexFunc(t.all, func(tr *replayBuffer) bool { return tr.reader == nil })
		if i < 0 {
			return nil
		}
		t.drop(i)
	}
	t.named++
	tr := &replayBuffer{of: t, number: t.named, call: x.call, open: x.s.open, stream: st}
	tr.read(x)
	t.all = append(t.all, tr)
	return tr
}

// read makes x the reader. The caller holds the lock.
func (tr *replayBuffer) read(x *exchange) { tr.reader, tr.free = x, make(chan struct{}) }

// drop forgets a buffer, and its call if no exchange reads it. The caller holds t.mu.
func (t *replayBuffers) drop(i int) {
	tr := t.all[i]
	t.all = slices.Delete(t.all, i, i+1)
	tr.discard(len(tr.kept))
	if tr.last > 0 {
		if len(t.expired) == maxFaded {
			t.expired = slices.Delete(t.expired, 0, 1)
		}
		t.expired = append(t.expired, expiredBuffer{tr.number, tr.last})
	}
	if tr.reader == nil && !tr.over && tr.call != nil {
		tr.open.End(tr.call)
		tr.stream.Close()
	}
}

// discard forgets the first n events.
func (tr *replayBuffer) discard(n int) {
	for _, e := range tr.kept[:n] {
		tr.bytes -= len(e)
		tr.of.total.Add(-int64(len(e)))
	}
	tr.kept = slices.Delete(tr.kept, 0, n)
}

// sweep forgets streams that no client has resumed.
func (t *replayBuffers) sweep(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.all) - 1; i >= 0; i-- {
		if tr := t.all[i]; tr.reader == nil && now.Sub(tr.left) >= t.age {
			t.drop(i)
		}
	}
}

// close forgets everything, for good.
func (t *replayBuffers) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, tr := range t.all {
		tr.discard(len(tr.kept))
	}
	t.all, t.expired = nil, nil
}

// record numbers an event that is about to be sent to the client, and keeps it.
func (tr *replayBuffer) record(e *sse.Event, final bool) {
	t := tr.of
	t.mu.Lock()
	defer t.mu.Unlock()
	tr.last++
	e.ID, e.HasID = tr.name(tr.last), true
	tr.over = tr.over || final
	if t.closed {
		return
	}
	if len(e.Data) > t.bytes {
		tr.discard(len(tr.kept)) // the earlier events are useless too
		return
	}
	tr.kept = append(tr.kept, slices.Clone(e.Data))
	tr.bytes += len(e.Data)
	t.total.Add(int64(len(e.Data)))
	for len(tr.kept) > t.events || tr.bytes > t.bytes || len(tr.kept) > 0 && t.total.Load() > t.most {
		tr.discard(1)
	}
}

// name returns the id of an event, which is unique in the session.
func (tr *replayBuffer) name(event uint64) []byte {
	return strconv.AppendUint(append(strconv.AppendUint(nil, tr.number, 10), '-'), event, 10)
}

// detach removes the reader, and reports whether its call continues without one, for a client that
// may resume the stream. gone says that the client has left.
func (tr *replayBuffer) detach(gone bool) (parked bool) {
	t := tr.of
	t.mu.Lock()
	defer t.mu.Unlock()
	tr.reader, tr.left = nil, time.Now()
	close(tr.free)
	switch {
	case tr.last == 0, t.closed:
		if i := slices.Index(t.all, tr); i >= 0 {
			tr.over = true
			t.drop(i)
		}
		return false
	case tr.call == nil:
		return false
	}
	parked = gone && !tr.over && !tr.call.Cancelled.Load()
	tr.over = !parked
	return parked
}

// find returns the buffer of the stream that the event with this id was sent on, with x as its reader,
// and the events that followed it. tr is nil if there is no such buffer. lost is how many events cannot
// be sent again, or -1 if that is unknown.
func (t *replayBuffers) find(ctx context.Context, x *exchange, id string) (tr *replayBuffer, again []sse.Event, lost int) {
	number, after, ok := parseEventID(id)
	if !ok {
		return nil, nil, -1
	}
	deadline := time.NewTimer(handover)
	defer deadline.Stop()
	for {
		t.mu.Lock()
		tr := t.numbered(number)
		if tr == nil || after > tr.last {
			lost = t.expiredSince(number, after)
			t.mu.Unlock()
			return nil, nil, lost
		}
		if tr.reader == nil {
			defer t.mu.Unlock()
			tr.read(x)
			first := tr.last - uint64(len(tr.kept)) + 1
			lost = int(max(first, after+1) - (after + 1))
			for n := max(first, after+1); n <= tr.last; n++ {
				again = append(again, sse.Event{Data: tr.kept[n-first], ID: tr.name(n), HasID: true})
			}
			return tr, again, lost
		}
		tr.reader.stop(clienterror.ErrTakenUp)
		free := tr.free
		t.mu.Unlock()
		select {
		case <-free:
		case <-deadline.C:
			return nil, nil, -1
		case <-ctx.Done():
			return nil, nil, -1
		}
	}
}

// numbered returns the buffer with this number, or nil. The caller holds t.mu.
func (t *replayBuffers) numbered(number uint64) *replayBuffer {
	for _, tr := range t.all {
		if tr.number == number {
			return tr
		}
	}
	return nil
}

// expiredSince returns how many events followed the event number after on a forgotten stream, or -1 if
// that is unknown. The caller holds t.mu.
func (t *replayBuffers) expiredSince(number, after uint64) int {
	for _, f := range t.expired {
		if f.number == number && f.last >= after {
			return int(f.last - after)
		}
	}
	return -1
}

func parseEventID(id string) (number, event uint64, ok bool) {
	a, b, ok := strings.Cut(id, "-")
	if !ok {
		return 0, 0, false
	}
	number, err := strconv.ParseUint(a, 10, 64)
	event, err2 := strconv.ParseUint(b, 10, 64)
	return number, event, err == nil && err2 == nil
}

// resumeStream makes x continue after the client's last event, or opens a new standing stream if that
// event is unknown. The kept events are sent again even if some are lost, since the response
// of a call is the last of them.
func (x *exchange) resumeStream(l *lanes, lastEventID string) error {
	if lastEventID == "" {
		return x.stand(l)
	}
	tr, again, lost := l.trails.find(x.ctx, x, lastEventID)
	if lost != 0 {
		x.log().Info("events were lost on a resumed stream", zap.Int("lost", lost))
	}
	if tr == nil {
		return x.stand(l)
	}
	x.buffer, x.replay = tr, again
	switch {
	case tr.call == nil:
		st, err := x.srv.listen(x.ctx, x.s, upstream.ListenOptions{})
		if err != nil {
			return err
		}
		x.attach(st)
	case tr.over:
		x.answered = true // no event follows
	case !tr.open.Reopen(tr.call, x.stop): // cancelled, or forgotten as there were too many open requests
		tr.stream.Close()
		tr.over, x.answered = true, true
	default:
		x.call, x.resumed = tr.call, true
		tr.stream = l.Move(x.ctx, tr.stream)
		x.attach(tr.stream)
	}
	return nil
}

// stand opens a new standing stream for x.
func (x *exchange) stand(l *lanes) error {
	st, err := x.srv.listen(x.ctx, x.s, upstream.ListenOptions{})
	if err != nil {
		return err
	}
	x.attach(st)
	x.buffer = l.trails.begin(x, nil)
	return nil
}
