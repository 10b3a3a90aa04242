// Package large manages messages that are too large for the pools of their readers: it
// bounds how many bytes of them are in hand at one time, and lends the buffers that they
// are read into.
package large

import (
	"context"
	"math/bits"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Size is the size in bytes up to which a buffer is not large. The code that uses such
// small buffers allocates them itself, and nothing counts them.
const Size = 64 << 10

// Buffers of 128 KiB to 8 MiB are kept for reuse; each size is twice the one before.
const (
	smallest = 2 * Size
	sizes    = 7
	maxKept  = 16 << 20
	idle     = 5 * time.Second
)

// Buffers lends large buffers. It keeps some of the returned ones for the next message,
// because a fresh buffer of 1 MiB costs more than everything else that is done with such a
// message. It keeps at most 16 MiB, and releases what was not needed for five seconds.
//
// Of the buffers that are larger than 8 MiB it keeps one, for as long as such messages come one after the other: a fresh one
// costs page faults, or zeros in all of it, and a collection. Memory counts it as garbage, and releases it as such.
//
// The zero value is ready for use. Buffers is safe for concurrent use.
type Buffers struct {
	mu    sync.Mutex
	big   []byte // the one that is larger; nil for none
	free  [sizes][][]byte
	spare [sizes]int // the fewest free buffers of each size since the last sweep
	kept  int        // bytes in free
	sweep *time.Timer
}

// Take returns an empty buffer with room for at least n bytes. It belongs to the caller,
// which may return it with Put.
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

// sizeFor returns the index of the smallest size with room for n bytes.
func sizeFor(n int) int { return bits.Len(uint(max(n, 1)-1) / smallest) }

// takeBig returns the kept buffer of more than 8 MiB if a message of n bytes may have it, or nil.
func (p *Buffers) takeBig(n int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.big
	if cap(b) < n || cap(b)-n > n/4 {
		return nil
	}
	p.big = nil
	return b[:0]
}

// keepBig keeps a buffer of more than 8 MiB instead of the one that it kept before.
func (p *Buffers) keepBig(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.big = b[:0]
}

func (p *Buffers) dropBig() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.big = nil
}

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

// Put takes back a buffer of Take, or any other buffer, and reports whether it keeps it.
// The caller must not use b afterwards.
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

// slack is the extra room in a buffer that is too large to be kept, so that a message can
// grow a little in it.
const slack = 16 << 10

// How long a copy of a large message waits for room. A copy of a client's message waits as
// long as an upload does; a copy of a server's message waits longer, because the clients
// that hold the room may be slow.
const (
	RequestWait = 5 * time.Second
	AnswerWait  = 30 * time.Second
)

// Memory lends buffers and counts their bytes while they are lent.
type Memory struct {
	Budget  *Budget
	Buffers *Buffers

	garbage  atomic.Int64 // bytes of buffers that were released since the last collection
	referred atomic.Int64 // bytes that Alloc and Adopt count
	kept     kept         // what Holdings hold
}

// NewMemory returns a Memory with a budget of size bytes. It reserves half of them for
// whole messages of the server and a sixteenth for partial ones, because clients' requests
// are not answered without these.
func NewMemory(size int64) *Memory {
	m := &Memory{Budget: NewBudget(size), Buffers: new(Buffers), kept: kept{most: size / keptShare}}
	m.Budget.reserve[Whole], m.Budget.reserve[Partial] = size/2, size/16
	m.Budget.begun = new(reclaim).start(m.Budget, &m.referred, m.Buffers.dropBig)
	return m
}

// First is the size in bytes of the first large buffer for a message of unknown length.
// The second one has room for any message, so that a message never waits for a third.
const First = 1 << 20

// classOf returns the class of a server's message in a buffer of n bytes.
func classOf(n int) Class {
	if n <= First {
		return Partial
	}
	return Whole
}

// Room returns the capacity of a buffer for n bytes.
func Room(n int) int {
	switch at := sizeFor(n); {
	case n <= Size:
		return n
	case at < sizes:
		return smallest << at
	}
	return (n + slack + 1<<13 - 1) &^ (1<<13 - 1) // rounded up to whole pages
}

// Lender lends large buffers to the reader of a server's stream.
type Lender struct {
	*Memory
	ctx  context.Context
	wait time.Duration
}

// Lender returns a Lender of buffers of m. It waits for room for each buffer for at most
// wait.
func (m *Memory) Lender(ctx context.Context, wait time.Duration) Lender {
	return Lender{m, ctx, wait}
}

// Take lends a buffer with room for n bytes once the budget has room for it. The error is
// a *NoRoomError, or the cause of ctx if ctx ended first. Each Take is followed by one Put
// or Forget.
func (l *Lender) Take(n int) ([]byte, error) {
	n = max(Room(n), smallest)
	kept := l.Memory.takeBig(n)
	if kept != nil {
		n = cap(kept)
	}
	if err := l.Hold(l.ctx, l.wait, classOf(n), n); err != nil {
		if kept != nil {
			l.Return(kept)
		}
		return nil, err
	}
	if kept != nil {
		return kept, nil
	}
	return l.Lend(n), nil
}

// Windows counts what decoders of compressed responses take.
type Windows struct{ Lender }

// Hold counts n bytes that a decoder is about to take, once the budget has room for them. The errors are those of Take.
func (w Windows) Hold(n int) error { return w.Lender.Hold(w.ctx, w.wait, Window, n) }

// Drop stops counting n bytes.
func (w Windows) Drop(n int) { w.Lender.Drop(Window, n) }

// takeBig returns the kept buffer that is larger than the others if a message of n bytes may have it, or nil. It releases
// it if the message needs another one of that kind.
func (m *Memory) takeBig(n int) []byte {
	if sizeFor(n) < sizes {
		return nil
	}
	b := m.Buffers.takeBig(n)
	if b == nil {
		m.Buffers.dropBig()
		return nil
	}
	if m.garbage.Add(-int64(cap(b))) < 0 {
		m.garbage.Store(0) // a collection has begun at the same moment
	}
	return b
}

// Hold counts n bytes that its caller is about to allocate. It waits until the budget has
// room. If that takes longer than wait, the error is a *NoRoomError; if ctx ends first, it
// is the cause of ctx. Hold is followed by Drop.
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

// Drop stops counting n bytes, which are garbage now.
func (m *Memory) Drop(c Class, n int) {
	m.garbage.Add(int64(n))
	m.Budget.Give(c, int64(n))
}

// collectable is how many bytes of garbage are worth a collection before the next buffer
// is taken.
const collectable = 16 << 20

// collect runs the garbage collector if garbage and the bytes in hand together exceed the
// budget.
func (m *Memory) collect() {
	if garbage := m.garbage.Load(); garbage > collectable && garbage+m.Budget.Taken() > m.Budget.size && m.garbage.CompareAndSwap(garbage, 0) {
		m.Buffers.dropBig()
		debug.FreeOSMemory()
	}
}

// Lend lends a buffer for n bytes that are counted already. It is followed by Return.
func (m *Memory) Lend(n int) []byte {
	m.collect()
	return m.Buffers.Take(n)
}

// Return takes back a buffer of Lend.
func (m *Memory) Return(b []byte) {
	if m.Buffers.Put(b) {
		return
	}
	m.garbage.Add(int64(cap(b)))
	if sizeFor(cap(b)) >= sizes && int64(cap(b)) <= m.Budget.size/4 {
		m.Buffers.keepBig(b)
	}
}

// Forget stops counting b. The callers that may still read b keep it; b is not lent again.
func (m *Memory) Forget(b []byte) { m.Drop(classOf(cap(b)), cap(b)) }

// Put takes back a buffer that a Lender has lent. b may have any length, but must start
// where the buffer starts.
func (m *Memory) Put(b []byte) {
	m.Return(b)
	m.Budget.Give(classOf(cap(b)), int64(cap(b)))
}
