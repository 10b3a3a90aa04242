package network

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"strconv"
	"sync"
	"testing/synctest"
)

// turns makes what happens in the network happen one after another: the next only when every goroutine of the bubble waits, and in an order
// that does not depend on which goroutine ran first.
type turns struct {
	seed    uint64
	queue   []*turn
	came    sync.Cond       // something was added to queue or resting, or the network is closed
	resting []chan struct{} // closed when all waits and the queue is empty
	over    chan struct{}
}

// turn is something that happens in the network.
type turn struct {
	from, to string
	bytes    func() []byte // that arrive
	id       int           // of the link
	behind   bool          // what arrives between the same hosts comes first
	do       func()        // with the lock of the network
}

// InTurn makes bytes arrive and dials connect one after another from now on, in an order that follows from seed. Then only Rest may wait until
// the bubble is at rest: there may be one call of synctest.Wait at a time.
func (n *Network) InTurn(seed uint64) {
	t := &turns{seed: seed, over: make(chan struct{})}
	t.came.L = &n.mu
	n.turns = t
	go func() {
		defer close(t.over)
		for t.step(n) {
		}
	}()
}

// Rest waits until all goroutines of the bubble wait, and nothing is on its way.
func (n *Network) Rest() {
	if n.turns == nil {
		synctest.Wait()
		return
	}
	rests := make(chan struct{})
	n.mu.Lock()
	n.turns.resting = append(n.turns.resting, rests)
	n.turns.came.Signal()
	n.mu.Unlock()
	<-rests
}

// step lets happen what is next; it returns false at the end.
func (t *turns) step(n *Network) bool {
	synctest.Wait()
	defer n.lock().Unlock()
	switch {
	case len(t.queue) > 0:
		t.next().do()
	case len(t.resting) > 0:
		for _, rests := range t.resting {
			close(rests)
		}
		t.resting = nil
	case n.closed:
		return false
	default:
		t.came.Wait()
	}
	return true
}

// next takes the first of the queue.
func (t *turns) next() *turn {
	first := 0
	for i := 1; i < len(t.queue); i++ {
		if t.compare(t.queue[i], t.queue[first]) < 0 {
			first = i
		}
	}
	next := t.queue[first]
	t.queue = append(t.queue[:first], t.queue[first+1:]...)
	return next
}

// compare orders turns by the hosts, and between the same ones by the bytes, not by when they came: that depends on which goroutine ran first.
func (t *turns) compare(a, b *turn) int {
	if a.from != b.from || a.to != b.to {
		return cmp.Or(cmp.Compare(t.place(a), t.place(b)), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	}
	first, second := a, b
	if t.seed%2 == 0 {
		first, second = b, a
	}
	switch {
	case a.behind && !b.behind:
		return 1
	case b.behind && !a.behind:
		return -1
	}
	return cmp.Or(bytes.Compare(first.bytes(), second.bytes()), first.id-second.id)
}

// place is a number at random for two hosts, which is another one for each seed.
func (t *turns) place(of *turn) uint64 {
	h := t.seed*0x9e3779b97f4a7c15 + 0xcbf29ce484222325
	for _, s := range [2]string{of.from, of.to} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 0x100000001b3
		}
		h = (h ^ h>>29) * 0xbf58476d1ce4e5b9
	}
	return h ^ h>>32
}

// sends is the key of what a context says about a dial.
type sends struct{}

// Sends returns a context for a dial on whose connection data is sent first: by that dials from the same host have their order.
func Sends(ctx context.Context, data []byte) context.Context {
	return context.WithValue(ctx, sends{}, data)
}

// awaitTurn waits until a dial has its turn.
func (n *Network) awaitTurn(ctx context.Context, from string, port int) {
	data, _ := ctx.Value(sends{}).([]byte)
	n.Turn(from, strconv.Itoa(port), data)
}

// Turn waits for a turn of a host. Of those that wait at the same time, data says which is first.
func (n *Network) Turn(host, with string, data []byte) {
	its := make(chan struct{})
	n.mu.Lock()
	n.takesTurn(&turn{from: host, to: with, bytes: func() []byte { return data }, do: func() { close(its) }})
	n.mu.Unlock()
	<-its
}

// Behind does what must not overtake what comes on c.
func (n *Network) Behind(c net.Conn, do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := c.(*Conn).end
	n.takesTurn(&turn{from: e.host, to: e.other.host, bytes: func() []byte { return nil }, id: e.link.id, behind: true, do: func() { go do() }})
}

// takesTurn does what t says when it is its turn. n.mu must be held.
func (n *Network) takesTurn(t *turn) {
	if n.turns == nil || n.closed {
		t.do()
		return
	}
	n.turns.queue = append(n.turns.queue, t)
	n.turns.came.Signal()
}
