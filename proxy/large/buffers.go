// Package large is about messages that are too large for the pools of their
// readers: how many bytes of them are in hand at one time, and the buffers that
// they are read into.
package large

import (
	"math/bits"
	"sync"
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

// Put takes back what Take has lent, or any other buffer. Nobody may use it any
// more.
func (p *Buffers) Put(b []byte) {
	at := sizeFor(cap(b))
	if at >= sizes || cap(b) != smallest<<at {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept+cap(b) > maxKept {
		return
	}
	p.free[at] = append(p.free[at], b[:0])
	p.kept += cap(b)
	if p.sweep == nil {
		p.sweep = time.AfterFunc(idle, p.tidy)
	}
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
}

// NewMemory returns memory with a budget of size bytes.
func NewMemory(size int64) *Memory { return &Memory{NewBudget(size), new(Buffers)} }

// Take is that of Buffers. It does not wait for the budget: what is to be read
// is on its way already. Each is followed by one
// Put or Forget.
func (m *Memory) Take(n int) []byte {
	b := m.Buffers.Take(n)
	m.Budget.Add(int64(cap(b)))
	return b
}

// Forget counts b no more and leaves it to whoever may still look at it.
func (m *Memory) Forget(b []byte) { m.Budget.Sub(int64(cap(b))) }

// Put takes back what Take has lent, of whatever length but from its beginning.
func (m *Memory) Put(b []byte) {
	m.Budget.Sub(int64(cap(b)))
	m.Buffers.Put(b)
}
