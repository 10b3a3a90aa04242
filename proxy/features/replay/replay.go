// Package replay keeps the last events of the streams of one HTTP client, for a client whose
// connection broke. A server on a pipe knows nothing of streams and cannot repeat its messages, so
// dragoman numbers the events itself. See "Resumability and Redelivery",
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery.
package replay

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
)

// Bounds of what is kept for replaying, in addition to those of the configuration.
const (
	MaxStreams = 32  // streams per session
	maxExpired = 128 // streams per session of which only the number of events is known
	// handover is how long a new reader of a stream waits for the one before.
	handover = 5 * time.Second
)

// Limits bounds what [Buffers] keep.
type Limits struct {
	// Events and Bytes bound what is kept of one stream. No events turn replay off.
	Events, Bytes int
	// Age is how long a stream is kept that no client reads.
	Age time.Duration
	// Total counts the bytes of all Buffers that share it, at most Most.
	Total *atomic.Int64
	Most  int64
}

// Call is the request that a stream answers. Its zero value is none: the stream is a standing one.
type Call interface {
	comparable
	// Cancelled reports whether the request was cancelled.
	Cancelled() bool
	// End ends the request: no client will read its stream any more.
	End()
}

// Buffers holds the replay buffers of the streams of one client. It is safe for concurrent use.
type Buffers[C Call] struct {
	limits Limits

	mu      sync.Mutex
	closed  bool
	named   uint64          // the number of the newest buffer
	all     []*Buffer[C]    // oldest first
	expired []expiredBuffer // oldest first
}

// New returns Buffers that keep nothing yet.
func New[C Call](l Limits) *Buffers[C] { return &Buffers[C]{limits: l} }

// An expiredBuffer is what is known of a forgotten buffer: its number and that of its last event.
type expiredBuffer struct{ number, last uint64 }

// A Buffer keeps the last events of one stream. The lock of Buffers guards it.
type Buffer[C Call] struct {
	of     *Buffers[C]
	number uint64
	call   C

	kept  [][]byte // the last events, with consecutive numbers that end with last
	bytes int
	last  uint64 // the number of the last event; the first is 1

	stop func(error)   // ends the reader, which sends the events to the client; nil if there is none
	free chan struct{} // closed when the reader has detached
	over bool          // no more events will come
	left time.Time     // when the last reader detached
}

// Call returns the request that the stream answers.
func (b *Buffer[C]) Call() C { return b.call }

// isStanding reports whether the stream answers no request.
func (b *Buffer[C]) isStanding() bool {
	var none C
	return b.call == none
}

// Over reports whether no more events will come. Only the reader may call it.
func (b *Buffer[C]) Over() bool { return b.over }

// Finish notes that no more events will come. Only the reader may call it.
func (b *Buffer[C]) Finish() { b.over = true }

// Begin returns a new buffer for a stream that answers c. stop ends its
// reader. Begin returns nil if there are too many buffers, or if replay is turned off.
func (t *Buffers[C]) Begin(c C, stop func(error)) *Buffer[C] {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limits.Events == 0 || t.closed {
		return nil
	}
	if len(t.all) >= MaxStreams {
		i := slices.IndexFunc(t.all, func(b *Buffer[C]) bool { return b.stop == nil })
		if i < 0 {
			return nil
		}
		t.drop(i)
	}
	t.named++
	b := &Buffer[C]{of: t, number: t.named, call: c}
	b.read(stop)
	t.all = append(t.all, b)
	return b
}

// read notes a new reader. The caller holds the lock.
func (b *Buffer[C]) read(stop func(error)) { b.stop, b.free = stop, make(chan struct{}) }

// drop forgets a buffer, and ends its call if there is no reader. The caller holds t.mu.
func (t *Buffers[C]) drop(i int) {
	b := t.all[i]
	t.all = slices.Delete(t.all, i, i+1)
	b.discard(len(b.kept))
	if b.last > 0 {
		if len(t.expired) == maxExpired {
			t.expired = slices.Delete(t.expired, 0, 1)
		}
		t.expired = append(t.expired, expiredBuffer{b.number, b.last})
	}
	if b.stop == nil && !b.over && !b.isStanding() {
		b.call.End()
	}
}

// discard forgets the first n events.
func (b *Buffer[C]) discard(n int) {
	for _, e := range b.kept[:n] {
		b.bytes -= len(e)
		b.of.limits.Total.Add(-int64(len(e)))
	}
	b.kept = slices.Delete(b.kept, 0, n)
}

// Sweep forgets streams that no client has resumed.
func (t *Buffers[C]) Sweep(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.all) - 1; i >= 0; i-- {
		if b := t.all[i]; b.stop == nil && now.Sub(b.left) >= t.limits.Age {
			t.drop(i)
		}
	}
}

// Close forgets everything, for good.
func (t *Buffers[C]) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, b := range t.all {
		b.discard(len(b.kept))
	}
	t.all, t.expired = nil, nil
}

// Record numbers an event that is about to be sent to the client, and keeps it.
func (b *Buffer[C]) Record(e *sse.Event, final bool) {
	t := b.of
	t.mu.Lock()
	defer t.mu.Unlock()
	b.last++
	e.ID, e.HasID = b.name(b.last), true
	b.over = b.over || final
	if t.closed {
		return
	}
	if len(e.Data) > t.limits.Bytes {
		b.discard(len(b.kept)) // the earlier events are useless too
		return
	}
	b.kept = append(b.kept, slices.Clone(e.Data))
	b.bytes += len(e.Data)
	t.limits.Total.Add(int64(len(e.Data)))
	for len(b.kept) > t.limits.Events || b.bytes > t.limits.Bytes || len(b.kept) > 0 && t.limits.Total.Load() > t.limits.Most {
		b.discard(1)
	}
}

// name returns the id of an event, which is unique in the session.
func (b *Buffer[C]) name(event uint64) []byte {
	return strconv.AppendUint(append(strconv.AppendUint(nil, b.number, 10), '-'), event, 10)
}

// Detach removes the reader, and reports whether its call continues without one, for a client that
// may resume the stream. gone says that the client has left.
func (b *Buffer[C]) Detach(gone bool) (parked bool) {
	t := b.of
	t.mu.Lock()
	defer t.mu.Unlock()
	b.stop, b.left = nil, time.Now()
	close(b.free)
	switch {
	case b.last == 0, t.closed:
		if i := slices.Index(t.all, b); i >= 0 {
			b.over = true
			t.drop(i)
		}
		return false
	case b.isStanding():
		return false
	}
	parked = gone && !b.over && !b.call.Cancelled()
	b.over = !parked
	return parked
}

// Find returns the buffer of the stream that the event with this id was sent on, for a new reader, and
// the events that followed it. stop ends the new reader; Find ends the previous one. b is nil if there
// is no such buffer. lost is how many events cannot be sent again, or -1 if that is unknown.
func (t *Buffers[C]) Find(ctx context.Context, id string, stop func(error)) (b *Buffer[C], again []sse.Event, lost int) {
	number, after, ok := parseEventID(id)
	if !ok {
		return nil, nil, -1
	}
	deadline := time.NewTimer(handover)
	defer deadline.Stop()
	for {
		t.mu.Lock()
		b := t.numbered(number)
		if b == nil || after > b.last {
			lost = t.expiredSince(number, after)
			t.mu.Unlock()
			return nil, nil, lost
		}
		if b.stop == nil {
			defer t.mu.Unlock()
			b.read(stop)
			first := b.last - uint64(len(b.kept)) + 1
			lost = int(max(first, after+1) - (after + 1))
			for n := max(first, after+1); n <= b.last; n++ {
				again = append(again, sse.Event{Data: b.kept[n-first], ID: b.name(n), HasID: true})
			}
			return b, again, lost
		}
		b.stop(report.ErrTakenUp)
		free := b.free
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
func (t *Buffers[C]) numbered(number uint64) *Buffer[C] {
	for _, b := range t.all {
		if b.number == number {
			return b
		}
	}
	return nil
}

// expiredSince returns how many events followed the event number after on a forgotten stream, or -1 if
// that is unknown. The caller holds t.mu.
func (t *Buffers[C]) expiredSince(number, after uint64) int {
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
