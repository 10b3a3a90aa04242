package large

import (
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// held returns how many bytes are kept for the next message.
func (p *Buffers) held() (bytes int) {
	for _, free := range p.free {
		for _, b := range free {
			bytes += cap(b)
		}
	}
	return bytes
}

// sweepNow does what the timer does, and stops the timer: a later sweep would write
// what a test reads without the lock.
func (p *Buffers) sweepNow() {
	p.mu.Lock()
	if p.sweep != nil {
		p.sweep.Stop()
	}
	p.mu.Unlock()
	p.tidy()
}

func TestReturnedBufferIsReused(t *testing.T) {
	var p Buffers
	b := p.Take(1 << 20)
	p.Put(append(b, "something"...))
	if again := p.Take(900 << 10); len(again) != 0 || cap(again) != cap(b) || &again[:1][0] != &b[:1][0] {
		t.Error("it was not lent again")
	}
	if other := p.Take(1 << 20); &other[:1][0] == &b[:1][0] {
		t.Error("it was lent twice")
	}
}

func TestReusingABufferAllocatesNothing(t *testing.T) {
	var p Buffers
	if n := testing.AllocsPerRun(100, func() { p.Put(p.Take(1 << 20)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestUnusedBuffersAreReleased: after the first sweep, buffers that were in use since
// the last one are left, after the second none.
func TestUnusedBuffersAreReleased(t *testing.T) {
	var p Buffers
	a, b := p.Take(Size), p.Take(Size)
	p.Put(a)
	p.Put(b)
	p.sweepNow()
	p.Put(p.Take(Size))
	p.sweepNow()
	if p.held() != cap(a) {
		t.Errorf("%d bytes are kept, one buffer was needed", p.held())
	}
	p.sweepNow()
	if p.held() != 0 || p.kept != 0 {
		t.Errorf("%d bytes are kept, none was needed", p.held())
	}
	if p.sweep != nil {
		t.Error("there is nothing left to sweep")
	}
}

// TestBuffersStayWithinTheirBounds checks that for any sequence of calls, and that no
// buffer is lent twice at a time.
func TestBuffersStayWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Buffers
		var out [][]byte
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.IntRange(0, 12<<20).Draw(t, "bytes")
				b := p.Take(n)
				if len(b) != 0 || cap(b) < n {
					t.Fatalf("%d of %d for %d", len(b), cap(b), n)
				}
				for _, other := range out {
					if &other[:1][0] == &b[:1][0] {
						t.Fatal("lent twice")
					}
				}
				out = append(out, b)
			},
			"put": func(t *rapid.T) {
				if len(out) == 0 {
					return
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				p.Put(out[i])
				out = append(out[:i], out[i+1:]...)
			},
			"foreign": func(t *rapid.T) { p.Put(make([]byte, rapid.IntRange(0, 1<<20).Draw(t, "bytes"))) },
			"tidy":    func(*rapid.T) { p.sweepNow() },
			"": func(t *rapid.T) {
				p.mu.Lock() // on a slow machine the sweep comes by itself as well
				defer p.mu.Unlock()
				if p.held() != p.kept || p.kept > maxKept {
					t.Fatalf("%d bytes are kept, %d were counted, %d are allowed", p.held(), p.kept, maxKept)
				}
				if p.kept > 0 && p.sweep == nil {
					t.Fatal("nothing will release the kept buffers")
				}
			},
		})
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.sweep != nil {
			p.sweep.Stop()
		}
	})
}

func TestMemoryIsCountedWhileItIsInUse(t *testing.T) {
	m := NewMemory(1 << 20)
	l := m.Lender(t.Context(), time.Second)
	b, err := l.Take(300 << 10)
	if err != nil {
		t.Fatal(err)
	}
	if taken := m.Budget.Taken(); taken != 512<<10 {
		t.Errorf("%d bytes are taken", taken)
	}
	m.Put(append(b, 'x'))
	if taken := m.Budget.Taken(); taken != 0 {
		t.Errorf("%d bytes are taken at the end", taken)
	}
}

func recv[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(10 * time.Second):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// TestAllocIsCountedWhileItIsInUse checks also that its bytes are free afterwards.
func TestAllocIsCountedWhileItIsInUse(t *testing.T) {
	m := NewMemory(4 << 20)
	b, err := m.Clone(t.Context(), time.Second, Copy, make([]byte, 3<<20))
	if err != nil {
		t.Fatal(err)
	}
	if taken := m.Budget.Taken(); taken < 3<<20 {
		t.Errorf("%d bytes are taken", taken)
	}
	if _, err := m.Alloc(t.Context(), 10*time.Millisecond, Copy, 3<<20); err == nil {
		t.Error("there was room for two")
	}
	runtime.KeepAlive(b)
	if _, err = m.Alloc(t.Context(), 10*time.Second, Copy, 3<<20); err != nil { // what waits has the first one collected
		t.Error(err)
	}
	peertest.Eventually(t, "no bytes are taken while nothing is in use", func() bool { return m.Budget.Taken() == 0 })
	if small, err := m.Alloc(t.Context(), 0, Copy, 1000); err != nil || m.Budget.Taken() != 0 || cap(small) < 1000 {
		t.Error("a small one was counted")
	}
	var none *Memory
	if b, err := none.Clone(t.Context(), 0, Copy, make([]byte, 1<<20)); err != nil || len(b) != 1<<20 {
		t.Error("without a memory nothing is counted")
	}
}

// TestOneBufferAbove8MiBIsReused by messages of about its size, counted as what it is.
func TestOneBufferAbove8MiBIsReused(t *testing.T) {
	m := NewMemory(1 << 30)
	l := m.Lender(t.Context(), time.Second)
	take := func(n int) []byte {
		t.Helper()
		b, err := l.Take(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) != 0 || cap(b) < n {
			t.Fatalf("%d of %d bytes for %d", len(b), cap(b), n)
		}
		return b
	}
	same := func(a, b []byte) bool { return &a[:1][0] == &b[:1][0] }
	first := take(20 << 20)
	m.Put(first)
	if m.garbage.Load() != int64(cap(first)) {
		t.Errorf("%d bytes are garbage", m.garbage.Load())
	}
	again := take(19 << 20)
	if !same(again, first) || m.garbage.Load() != 0 || m.Budget.Taken() != int64(cap(first)) {
		t.Errorf("%d bytes are garbage, %d are in hand", m.garbage.Load(), m.Budget.Taken())
	}
	if other := take(20 << 20); same(other, again) {
		t.Error("it was lent twice")
	} else {
		m.Put(other)
	}
	m.Put(again)
	if small := take(12 << 20); same(small, again) || m.Buffers.big != nil {
		t.Error("a message has much more than it needs, or a buffer is kept beside that of another message")
	}
}

// TestBufferAbove8MiBIsNotKept where it would take the room of other messages, nor when no more of its size come.
func TestBufferAbove8MiBIsNotKept(t *testing.T) {
	m := NewMemory(64 << 20)
	l := m.Lender(t.Context(), time.Second)
	b, err := l.Take(24 << 20)
	if err != nil {
		t.Fatal(err)
	}
	m.Put(b)
	if m.Buffers.big != nil {
		t.Error("a buffer of a third of the budget is kept")
	}

	m = NewMemory(128 << 20)
	l = m.Lender(t.Context(), time.Second)
	if b, err = l.Take(24 << 20); err != nil {
		t.Fatal(err)
	}
	m.Put(b)
	if m.Buffers.big == nil {
		t.Error("it is not kept")
	}
	if err := m.Hold(t.Context(), time.Second, Whole, 110<<20); err != nil { // with the kept one more than the budget
		t.Fatal(err)
	}
	if m.Buffers.big != nil {
		t.Error("it is kept beside as many bytes as the budget has")
	}
	m.Drop(Whole, 110<<20)

	if b, err = l.Take(24 << 20); err != nil {
		t.Fatal(err)
	}
	m.Put(b)
	kept := func() bool {
		m.Buffers.mu.Lock()
		defer m.Buffers.mu.Unlock()
		return m.Buffers.big != nil
	}
	peertest.Eventually(t, "it is let go when no large message comes", func() bool { return !kept() })
}
