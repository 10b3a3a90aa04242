package large

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Class says which kind of message holds bytes of a Budget. A message that holds bytes
// may wait only for bytes of a later class, and one of the last class may not wait at
// all, so that no two messages wait for each other.
type Class uint8

const (
	Request     Class = iota // a client's message, until it is answered
	RequestCopy              // a copy of a client's message, on its way to the server
	Window                   // what a compressed response is decoded with, until it was read
	Partial                  // the beginning of a server's message, of at most 1 MiB
	Whole                    // a server's message, with all the room that it may need
	Copy                     // a copy of a server's message, on its way to the client
	classes
)

// Budget bounds how many bytes of messages are in hand at one time, over all peers. It
// is safe for concurrent use.
type Budget struct {
	size    int64
	reserve [classes]int64 // bytes that earlier classes must leave free for each class
	begun   func()         // called when a message takes bytes or waits for them; may be nil. Set before the first use

	mu       sync.Mutex
	taken    int64
	held     [classes]int64 // the part of taken that each class holds
	clients  map[string]*client
	waiting  [classes][]*waiter // in the order of arrival
	unserved int                // how many of waiting are requests of clients that hold less than a quarter
}

// client sums up the shares of one client.
type client struct {
	held    int64
	waiting int
}

// NewBudget returns a budget of size bytes, all of them free.
func NewBudget(size int64) *Budget {
	return &Budget{size: size, clients: make(map[string]*client)}
}

// NoRoomError says that the budget had no room for a message in time, or none for what would be kept of it.
type NoRoomError struct {
	Bytes  int64
	Waited time.Duration // 0 for what would be kept
}

func (e *NoRoomError) Error() string {
	if e.Waited == 0 {
		return fmt.Sprintf("no room to keep %d bytes: raise limits.in_hand, or begin fewer sessions, subscriptions and calls that ask their users at one time", e.Bytes)
	}
	return fmt.Sprintf("no room for %d bytes within %v: raise limits.in_hand, or make fewer large calls at one time", e.Bytes, e.Waited)
}

// Share is the part of a Budget that one message takes while it is read. It is not safe
// for concurrent use.
type Share struct {
	of     *Budget
	class  Class
	client string
	most   int64 // the most bytes that it will take
	asked  int64 // bytes that Grow was asked for
	held   int64 // bytes taken from the budget: asked, or most
}

// Share returns a share for one message of a client. It holds nothing yet; most is the
// greatest number of bytes that it will need. A client whose messages hold a quarter of
// the budget begins no other message while clients that hold less wait.
func (b *Budget) Share(client string, most int64) Share {
	return Share{of: b, client: client, most: most}
}

// Take takes n bytes in one step. It waits until they are free or until ctx ends; it
// then returns the cause of ctx. The caller gives the bytes back with Give.
func (b *Budget) Take(ctx context.Context, c Class, n int64) error {
	s := Share{of: b, class: c, most: n}
	return s.Grow(ctx, n)
}

// Give gives back what Take has taken.
func (b *Budget) Give(c Class, n int64) {
	s := Share{of: b, class: c, held: n}
	s.Release()
}

type waiter struct {
	s     *Share
	n     int64
	ready chan struct{} // closed when s has its bytes
}

// Grow takes n more bytes. It waits until they are free or until ctx ends; it then
// returns the cause of ctx.
//
// A message takes its bytes step by step while half of what its class can have is free.
// When less is free, one step takes all that the message may still need: otherwise
// several messages, each with a part of its bytes, could wait for each other.
func (s *Share) Grow(ctx context.Context, n int64) error {
	s.asked += n
	s.most = max(s.most, s.asked)
	if s.asked <= s.held {
		return nil
	}
	b := s.of
	n = s.asked - s.held
	b.mu.Lock()
	if len(b.waiting[s.class]) == 0 && b.take(s, n) {
		b.mu.Unlock()
		return nil
	}
	w := &waiter{s: s, n: n, ready: make(chan struct{})}
	b.waiting[s.class] = append(b.waiting[s.class], w)
	b.count(s, 1)
	b.serve()
	b.began()
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
		return nil // the bytes came at the same moment
	default:
	}
	b.waiting[s.class] = slices.DeleteFunc(b.waiting[s.class], func(other *waiter) bool { return other == w })
	b.count(s, -1)
	b.forget(s)
	s.asked -= n
	b.serve() // waiters behind w may want less
	return context.Cause(ctx)
}

// Asked returns how many bytes Grow has taken.
func (s *Share) Asked() int64 { return s.asked }

// Release gives back all that s holds.
func (s *Share) Release() {
	if s.held == 0 {
		return
	}
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(s, -s.held)
	s.asked = 0
	b.forget(s)
	b.serve()
}

// add counts n more bytes for s. Callers hold mu.
func (b *Budget) add(s *Share, n int64) {
	s.held += n
	b.taken += n
	b.held[s.class] += n
	if s.class == Request {
		b.change(s, n, 0)
	}
}

// change adds to the sums of the client of s. Callers hold mu, and call forget after
// they have lowered a sum.
func (b *Budget) change(s *Share, held int64, waiting int) {
	c := b.clients[s.client]
	if c == nil {
		c = new(client)
		b.clients[s.client] = c
	}
	b.unserved -= b.due(c)
	c.held += held
	c.waiting += waiting
	b.unserved += b.due(c)
}

// due returns how many waiting messages of c come before those of clients that hold a
// quarter of the budget.
func (b *Budget) due(c *client) int {
	if c == nil || c.held >= b.size/4 {
		return 0
	}
	return c.waiting
}

func (b *Budget) forget(s *Share) {
	if c := b.clients[s.client]; s.class == Request && c != nil && *c == (client{}) {
		delete(b.clients, s.client)
	}
}

// serve gives the free bytes to waiters, the last class first. Within a class, messages
// that hold bytes already come first, then the others in the order of their arrival.
// Callers hold mu.
func (b *Budget) serve() {
	for c := range classes {
		at := classes - 1 - c
		for _, begun := range []bool{true, false} {
			blocked := false
			b.waiting[at] = slices.DeleteFunc(b.waiting[at], func(w *waiter) bool {
				if (w.s.held > 0) != begun || blocked {
					return false
				}
				b.count(w.s, -1)
				if b.take(w.s, w.n) {
					close(w.ready)
					return true
				}
				b.count(w.s, 1)
				blocked = !begun && !b.limited(w.s)
				return false
			})
		}
	}
}

// take gives s n bytes or more if they are free, and reports whether it did. Callers
// hold mu.
func (b *Budget) take(s *Share, n int64) bool {
	limited := b.limited(s)
	if limited && s.held == 0 && b.unserved > 0 {
		return false // a message that has begun goes on: what it holds is free only after its end
	}
	rest := s.most - s.held
	free, last := b.free(s.class)
	spare := max(b.part(s.class)/4, s.most)
	switch {
	case free-n >= 2*spare:
	case free >= rest && !limited, free-rest >= spare, last && b.held[s.class] == s.held:
		n = rest
	default:
		return false
	}
	b.add(s, n)
	b.began()
	return true
}

func (b *Budget) began() {
	if b.begun != nil {
		b.begun()
	}
}

// free returns how many bytes a class may still take. last is true if no later class
// holds bytes that it would give back: take then admits one message of the class,
// however large it is. Callers hold mu.
func (b *Budget) free(c Class) (free int64, last bool) {
	free, last = b.size-b.taken, true
	for c++; c < classes; c++ {
		free -= max(0, b.reserve[c]-b.held[c])
		last = last && b.held[c] == 0
	}
	return free, last
}

// part returns the most bytes that a class can hold.
func (b *Budget) part(c Class) int64 {
	part := b.size
	for c++; c < classes; c++ {
		part -= b.reserve[c]
	}
	return part
}

// count adds n to the number of waiting requests.
func (b *Budget) count(s *Share, n int) {
	if s.class == Request {
		b.change(s, 0, n)
	}
}

// limited reports whether s has to leave room for other clients: other messages of its
// client hold bytes, and all of them hold a quarter of the budget.
func (b *Budget) limited(s *Share) bool {
	c := b.clients[s.client]
	return s.class == Request && c != nil && c.held > s.held && c.held >= b.size/4
}

// Overdrawn reports whether more bytes are taken than the budget has. A single message
// that is larger than the budget causes that.
func (b *Budget) Overdrawn() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken > b.size
}

// Size returns the size of the budget in bytes.
func (b *Budget) Size() int64 { return b.size }

// Taken returns how many bytes are in hand.
func (b *Budget) Taken() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

// Waiting returns how many messages wait for bytes.
func (b *Budget) Waiting() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, list := range b.waiting {
		n += len(list)
	}
	return n
}
