package large

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// keptShare divides the budget: what is kept beyond its message has at most this part of it, in addition to what is in hand.
const keptShare = 4

// kept counts the bytes of all Holdings of a Memory.
type kept struct {
	most  int64
	bytes atomic.Int64
}

func (k *kept) take(n int64) bool {
	if k.bytes.Add(n) > k.most {
		k.bytes.Add(-n)
		return false
	}
	return true
}

// A Holding counts what one owner keeps of messages that have passed: what a session keeps of its client, its subscriptions,
// a parked call, a queue. All Holdings of a Memory have at most a quarter of its budget together; nothing waits for room
// in it. Its bytes are given back by Close, or when nothing refers to the Holding any more. It is safe for concurrent use. A
// nil Holding counts nothing.
type Holding struct{ *holding }

type holding struct {
	of     *kept
	mu     sync.Mutex
	bytes  int64
	closed bool
}

// Holding returns a Holding that holds nothing yet; nil if m is nil.
func (m *Memory) Holding() *Holding {
	if m == nil {
		return nil
	}
	h := &Holding{&holding{of: &m.kept}}
	runtime.AddCleanup(h, (*holding).close, h.holding)
	return h
}

// Kept returns how many bytes all Holdings of m hold.
func (m *Memory) Kept() int64 { return m.kept.bytes.Load() }

// Keep counts n more bytes. The error is a *NoRoomError, also after Close.
func (h *Holding) Keep(n int) error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || !h.of.take(int64(n)) {
		return &NoRoomError{Bytes: int64(n)}
	}
	h.bytes += int64(n)
	return nil
}

// Resize makes h count n bytes in all. If there is no room, the error is that of Keep, and h counts what it did before.
func (h *Holding) Resize(n int) error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	more := int64(n) - h.bytes
	if h.closed || more > 0 && !h.of.take(more) {
		return &NoRoomError{Bytes: more}
	}
	if more < 0 {
		h.of.bytes.Add(more)
	}
	h.bytes = int64(n)
	return nil
}

// Drop stops counting n bytes that Keep has counted.
func (h *Holding) Drop(n int) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.bytes -= int64(n)
		h.of.bytes.Add(-int64(n))
	}
}

// Close stops counting all bytes. It may be called more than once.
func (h *Holding) Close() {
	if h != nil {
		h.close()
	}
}

func (h *holding) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		h.of.bytes.Add(-h.bytes)
		h.bytes = 0
	}
}
