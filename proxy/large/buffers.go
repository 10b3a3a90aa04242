// Package large is about messages that are too large for the pools of their
// readers: how many bytes of them are in hand at one time, and the buffers that
// they are read into.
package large

import (
	"context"
	"math/bits"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Size is from how many bytes on a buffer is large: those of at most this size
// are their users' own affair.
const Size = 64 << 10

// What is kept: buffers of 128 KiB to 8 MiB, each size twice the one before.
const (
	smallest = 2 * Size
	sizes    = 7
	maxKept  = 16 << 20
	idle     = 5 * time.Second
)

// Buffers lends large buffers. Some of those that come back are kept for the
// next message: a fresh one of 1 MiB costs more than all else that is done with
// such a message. At most 16 MiB are kept, and what was not needed for five
// seconds is let go. The zero value is ready for use, by many goroutines.
type Buffers struct {
	mu    sync.Mutex
	free  [sizes][][]byte
	spare [sizes]int // the fewest there were of each since the last sweep
	kept  int        // bytes in free
	sweep *time.Timer
}

// Take returns an empty buffer with room for n bytes at least. It is the
// caller's, who may Put it back.
func (p *Buffers) Take(n int) []byte {
	at := sizeFor(n)
	if at >= sizes {
		return make([]byte, 0, n)
	}
	if b := p.pop(at); b != nil {
		return b
	}
	return make([]byte, 0, smallest<<at)
}

// sizeFor is the place of the smallest size with room for n bytes.
func sizeFor(n int) int { return bits.Len(uint(max(n, 1)-1) / smallest) }

func (p *Buffers) pop(at int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.free[at]) - 1
	if last < 0 {
		return nil
	}
	b := p.free[at][last]
	p.free[at][last] = nil
	p.free[at] = p.free[at][:last]
	p.spare[at] = min(p.spare[at], last)
	p.kept -= cap(b)
	return b
}

// Put takes back what a Lender has lent, or any other buffer, and reports whether it keeps
// it. Nobody may use it any more.
func (p *Buffers) Put(b []byte) bool {
	at := sizeFor(cap(b))
	if at >= sizes || cap(b) != smallest<<at {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept+cap(b) > maxKept {
		return false
	}
	p.free[at] = append(p.free[at], b[:0])
	p.kept += cap(b)
	if p.sweep == nil {
		p.sweep = time.AfterFunc(idle, p.tidy)
	}
	return true
}

// tidy releases what was not used since the last call of tidy.
func (p *Buffers) tidy() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, free := range p.free {
		left := copy(free, free[p.spare[at]:])
		clear(free[left:])
		p.kept -= p.spare[at] * (smallest << at)
		p.free[at], p.spare[at] = free[:left], left
	}
	p.sweep = nil
	if p.kept > 0 {
		p.sweep = time.AfterFunc(idle, p.tidy)
	}
}

// slack is how much more room than was asked for a buffer has that is too large to be
// kept: a message in it can grow a little where it stands.
const slack = 16 << 10

// How long a copy of a large message waits for room: one of a client's message as long as
// an upload does, one of the server's while its client may be slow.
const (
	RequestWait = 5 * time.Second
	AnswerWait  = 30 * time.Second
)

// Memory lends buffers and counts them for as long as they are out.
type Memory struct {
	Budget  *Budget
	Buffers *Buffers

	garbage  atomic.Int64 // bytes of buffers that were let go since the last collection
	referred atomic.Int64 // bytes of Allocs
}

// NewMemory returns memory with a budget of size bytes. Half of them are kept for
// messages of the server, without which those of clients are not answered.
func NewMemory(size int64) *Memory {
	m := &Memory{Budget: NewBudget(size), Buffers: new(Buffers)}
	m.Budget.reserve[Whole], m.Budget.reserve[Partial] = size/2, size/16
	m.Budget.begun = new(reclaim).start(m)
	return m
}

// First is the size of the first large buffer for a message of unknown length. The
// second one has room for any message: it waits for no third.
const First = 1 << 20

// classOf is the class of a message of the server in a buffer of n bytes.
func classOf(n int) Class {
	if n <= First {
		return Partial
	}
	return Whole
}

// Room is the capacity of a buffer for n bytes.
func Room(n int) int {
	switch at := sizeFor(n); {
	case n <= Size:
		return n
	case at < sizes:
		return smallest << at
	}
	return (n + slack + 1<<13 - 1) &^ (1<<13 - 1) // of whole pages
}

// Lender is where the reader of a stream of the server has its large buffers from.
type Lender struct {
	*Memory
	ctx  context.Context
	wait time.Duration
}

// Lender returns a Lender of buffers of m, which waits for each at most for wait.
func (m *Memory) Lender(ctx context.Context, wait time.Duration) Lender {
	return Lender{m, ctx, wait}
}

// Take lends a buffer with room for n bytes, once the budget has room for it. The error
// is a *NoRoomError, or why ctx has ended. Each is followed by one Put or Forget.
func (l *Lender) Take(n int) ([]byte, error) {
	n = max(Room(n), smallest)
	if err := l.Hold(l.ctx, l.wait, classOf(n), n); err != nil {
		return nil, err
	}
	return l.Lend(n), nil
}

// Hold counts n bytes that its caller is about to allocate. It waits until the budget has
// room, at most for wait or until ctx ends, whose cause it then returns; otherwise the
// error is a *NoRoomError. It is followed by a Drop.
func (m *Memory) Hold(ctx context.Context, wait time.Duration, c Class, n int) error {
	full := &NoRoomError{Bytes: int64(n), Waited: wait}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, full)
	defer cancel()
	if err := m.Budget.Take(ctx, c, int64(n)); err != nil {
		return err
	}
	m.collect()
	return nil
}

// Drop counts n bytes no more, which are garbage now.
func (m *Memory) Drop(c Class, n int) {
	m.garbage.Add(int64(n))
	m.Budget.Give(c, int64(n))
}

// collectable is how much garbage is worth a collection before the next buffer is taken.
const collectable = 16 << 20

// collect makes room where garbage takes it.
func (m *Memory) collect() {
	if garbage := m.garbage.Load(); garbage > collectable && garbage+m.Budget.Taken() > m.Budget.size && m.garbage.CompareAndSwap(garbage, 0) {
		debug.FreeOSMemory()
	}
}

// Lend lends a buffer for n bytes that are counted already. It is followed by Return.
func (m *Memory) Lend(n int) []byte {
	m.collect()
	return m.Buffers.Take(n)
}

// Return takes back what Lend has lent.
func (m *Memory) Return(b []byte) {
	if !m.Buffers.Put(b) {
		m.garbage.Add(int64(cap(b)))
	}
}

// Forget stops counting b. The callers that may still read b keep it; b is not lent again.
func (m *Memory) Forget(b []byte) { m.Drop(classOf(cap(b)), cap(b)) }

// Put takes back what a Lender has lent, of whatever length but from its beginning.
func (m *Memory) Put(b []byte) {
	m.Return(b)
	m.Budget.Give(classOf(cap(b)), int64(cap(b)))
}
