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

// Put takes back what Take has lent, or any other buffer, and reports whether it keeps
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

// tidy lets go of what nobody has needed since it was called last.
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

// Memory lends buffers and counts them for as long as they are out.
type Memory struct {
	Budget  *Budget
	Buffers *Buffers

	garbage atomic.Int64 // bytes of buffers that were let go since the last collection
}

// NewMemory returns memory with a budget of size bytes.
func NewMemory(size int64) *Memory {
	m := &Memory{Budget: NewBudget(size), Buffers: new(Buffers)}
	m.Budget.begun = new(reclaim).start(m.Budget)
	return m
}

// maxWait is how long a message of the server waits for the budget.
const maxWait = 5 * time.Second

// Take is that of Buffers. While the budget is spent it waits, and so the server does;
// but not for ever: what is read already may be what others wait for. Each is followed
// by one Put or Forget. The message has a buffer of have bytes already, which is put
// back when it was copied.
func (m *Memory) Take(n, have int) []byte {
	size := int64(room(n))
	s := m.Budget.Share("", size)
	s.own = int64(have)
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	if s.Grow(ctx, size) != nil {
		m.Budget.Add(size)
	}
	if garbage := m.garbage.Load(); garbage+m.Budget.Taken() > m.Budget.size && garbage > collectable {
		m.garbage.Store(0)
		debug.FreeOSMemory()
	}
	return m.Buffers.Take(n)
}

// collectable is how much garbage is worth a collection before the next buffer is taken.
const collectable = 16 << 20

// room is the capacity of a buffer for n bytes.
func room(n int) int {
	if at := sizeFor(n); at < sizes {
		return smallest << at
	}
	return n
}

// Forget counts b no more and leaves it to whoever may still look at it.
func (m *Memory) Forget(b []byte) {
	m.garbage.Add(int64(cap(b)))
	m.Budget.Sub(int64(cap(b)))
}

// Put takes back what Take has lent, of whatever length but from its beginning.
func (m *Memory) Put(b []byte) {
	if !m.Buffers.Put(b) {
		m.garbage.Add(int64(cap(b)))
	}
	m.Budget.Sub(int64(cap(b)))
}
