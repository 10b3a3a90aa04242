package large

import (
	"context"
	"sync"
)

// Budget bounds how many bytes of messages are in hand at one time, however
// many peers they are from. It is safe for concurrent use.
type Budget struct {
	mu      sync.Mutex
	size    int64
	taken   int64
	waiting []*waiter // first come, first served
}

type waiter struct {
	n     int64
	ready chan struct{} // closed when n was taken
}

// NewBudget returns a budget of size bytes, all of them free.
func NewBudget(size int64) *Budget { return &Budget{size: size} }

// Acquire takes n bytes, and waits until they are free or ctx ends, whose cause
// it then returns. Somebody who wants more than there is altogether waits until
// nothing else is taken. Every success is followed by a Release of n.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	b.mu.Lock()
	if b.try(n) {
		b.mu.Unlock()
		return nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()

	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.serve() // those behind w may want less
			return context.Cause(ctx)
		}
	}
	return nil // it became ready at the same moment
}

// Try takes n bytes where Acquire would not have to wait, and reports whether it
// did. Success is followed by a Release of n.
func (b *Budget) Try(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.try(n)
}

func (b *Budget) try(n int64) bool {
	ok := len(b.waiting) == 0 && b.fits(n)
	if ok {
		b.taken += n
	}
	return ok
}

// Overdrawn reports whether more is taken than there is, as Add can make it.
func (b *Budget) Overdrawn() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken > b.size
}

// Add takes n bytes without waiting, also where that is more than there are: for
// what is here already. It is followed by a Release of n.
func (b *Budget) Add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken += n
}

// Release gives n bytes back.
func (b *Budget) Release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= n
	b.serve()
}

// Taken returns how many bytes are in hand.
func (b *Budget) Taken() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

// Waiting returns how many wait.
func (b *Budget) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// fits reports whether n bytes can be taken. Callers hold mu.
func (b *Budget) fits(n int64) bool { return b.taken <= 0 || b.taken+n <= b.size }

// serve gives those who wait what is free. Callers hold mu.
func (b *Budget) serve() {
	for len(b.waiting) > 0 && b.fits(b.waiting[0].n) {
		w := b.waiting[0]
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
		b.taken += w.n
		close(w.ready)
	}
}
