package large

import (
	"context"
	"slices"
	"sync"
)

// Budget bounds how many bytes of messages are in hand at one time, however
// many peers they are from. It is safe for concurrent use.
type Budget struct {
	size int64

	mu       sync.Mutex
	taken    int64
	clients  map[string]*client
	waiting  []*waiter // first come, first served
	unserved int       // of those

	begun func() // called when something is taken; nil for nothing. Not to be changed later
}

// client is what the shares of one client have together.
type client struct {
	held    int64
	waiting int
}

// NewBudget returns a budget of size bytes, all of them free.
func NewBudget(size int64) *Budget {
	return &Budget{size: size, clients: make(map[string]*client)}
}

// Share is what one message takes of a Budget while it comes in. It is not safe for
// concurrent use.
type Share struct {
	of     *Budget
	client string
	most   int64 // that it will take
	asked  int64 // by Grow
	held   int64 // of the budget: asked, or most
	own    int64 // what its message holds besides
}

// Share returns the share of a message of at most most bytes, which holds nothing yet.
// The messages of one client hold a quarter of the budget together while other clients
// wait; a single message may be larger. No client, "", stands for the server, which has no
// such limit.
func (b *Budget) Share(client string, most int64) Share {
	return Share{of: b, client: client, most: most}
}

type waiter struct {
	s     *Share
	n     int64
	ready chan struct{} // closed when s has its bytes
}

// Grow takes n bytes more, and waits until they are free or ctx ends, whose cause it
// then returns.
//
// A message takes its bytes step by step while half of the budget is free. When less is
// free, a step takes all that the message may still need: else several of them could
// wait for each other.
func (s *Share) Grow(ctx context.Context, n int64) error {
	s.asked += n
	s.most = max(s.most, s.asked)
	if s.asked <= s.held {
		return nil
	}
	b := s.of
	n = s.asked - s.held
	b.mu.Lock()
	if len(b.waiting) == 0 && b.take(s, n) {
		b.mu.Unlock()
		return nil
	}
	w := &waiter{s: s, n: n, ready: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.count(s, 1)
	b.serve()
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready:
		return nil // at the same moment
	default:
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(other *waiter) bool { return other == w })
	b.count(s, -1)
	b.forget(s)
	s.asked -= n
	b.serve() // those behind w may want less
	return context.Cause(ctx)
}

// Asked returns what Grow has taken.
func (s *Share) Asked() int64 { return s.asked }

// Release gives back all that s holds.
func (s *Share) Release() {
	if s.held == 0 {
		return
	}
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= s.held
	if s.client != "" {
		b.client(s).held -= s.held
	}
	s.asked, s.held = 0, 0
	b.forget(s)
	b.serve()
}

// client is that of s. Callers hold mu, and call forget where they took from it.
func (b *Budget) client(s *Share) *client {
	c := b.clients[s.client]
	if c == nil {
		c = new(client)
		b.clients[s.client] = c
	}
	return c
}

func (b *Budget) forget(s *Share) {
	if *b.client(s) == (client{}) {
		delete(b.clients, s.client)
	}
}

// serve gives those who wait what is free: first to messages that hold something
// already, then to the others in the order in which they came. Callers hold mu.
func (b *Budget) serve() {
	for _, begun := range []bool{true, false} {
		blocked := false
		b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool {
			if (w.s.held > 0) != begun || blocked {
				return false
			}
			b.count(w.s, -1)
			if b.take(w.s, w.n) {
				close(w.ready)
				return true
			}
			b.count(w.s, 1)
			blocked = !begun && !b.limited(w.s, w.n)
			return false
		})
	}
}

// take gives s n bytes or more where they are free, and reports whether it did.
// Callers hold mu.
func (b *Budget) take(s *Share, n int64) bool {
	limited := b.limited(s, n)
	if limited && b.othersWait(s) {
		return false
	}
	rest := s.most - s.held
	free := b.size - b.taken
	spare := max(b.size/4, s.most)
	switch {
	case free-n >= 2*spare:
	case free >= rest && !limited, free-rest >= spare, b.taken == s.held+s.own:
		n = rest
	default:
		return false
	}
	b.taken += n
	s.held += n
	if s.client != "" {
		b.client(s).held += n
	}
	if b.begun != nil {
		b.begun()
	}
	return true
}

// othersWait reports whether messages of other clients wait.
func (b *Budget) othersWait(s *Share) bool {
	c := b.clients[s.client]
	return b.unserved > 0 && (c == nil || b.unserved > c.waiting)
}

// count counts one waiter more, or less.
func (b *Budget) count(s *Share, n int) {
	b.unserved += n
	b.client(s).waiting += n
}

// limited reports whether the messages of s's client would hold more than a quarter.
func (b *Budget) limited(s *Share, n int64) bool {
	c := b.clients[s.client]
	return s.client != "" && c != nil && c.held > s.held && c.held+n > b.size/4
}

// Overdrawn reports whether more is taken than there is, as Add can make it.
func (b *Budget) Overdrawn() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken > b.size
}

// Add takes n bytes without waiting, also where that is more than there are: for
// what is here already. It is followed by a Sub of n.
func (b *Budget) Add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken += n
	if b.begun != nil {
		b.begun()
	}
}

// Sub gives n bytes back that Add has taken.
func (b *Budget) Sub(n int64) {
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
