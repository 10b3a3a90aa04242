// Package processes bounds how many processes run for the clients of a server, and how many of them
// run for one client while others need some.
package processes

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrFull says that there is no room for another process.
var ErrFull = errors.New("the number of processes has reached session.max_processes")

// patience is how long Take waits for a process that is about to end.
const patience = 10 * time.Second

// Limit counts processes by the client that they run for. It is safe for concurrent use.
type Limit struct {
	max   func() int
	yield func(of func(client string) bool) bool

	mu      sync.Mutex
	running map[*Place]struct{}
	of      map[string]int // number of processes by client
	ending  int            // how many of running are about to end
	queue   []*waiting     // in the order of arrival
	promise int            // ended sessions whose processes were not asked to end yet
}

// Place is what one process takes until it has ended.
type Place struct {
	limit  *Limit
	client string
	ending bool
}

type waiting struct {
	client string
	place  chan *Place // has room for one
}

// New returns a limit of max processes. yield ends the session that has been idle for the
// longest time, among those of the clients for which of returns true. It does not wait until
// the session's process has ended, and reports whether there was such a session.
func New(max func() int, yield func(of func(client string) bool) bool) *Limit {
	return &Limit{max: max, yield: yield, running: make(map[*Place]struct{}), of: make(map[string]int)}
}

type clientKey struct{}

// For returns a context that counts processes for this client.
func For(ctx context.Context, client string) context.Context {
	return context.WithValue(ctx, clientKey{}, client)
}

// ClientOf returns the client that processes are counted for in ctx; "" for none.
func ClientOf(ctx context.Context) string {
	client, _ := ctx.Value(clientKey{}).(string)
	return client
}

// Take reserves a place for a process of the client in ctx. When all places are taken, it ends an idle
// session to free one: a session of a client that has more than a quarter of all places, if this
// client has fewer, else a session of this client. The error is ErrFull when there is no such session,
// or that of ctx.
func (l *Limit) Take(ctx context.Context) (*Place, error) {
	client := ClientOf(ctx)
	l.mu.Lock()
	if len(l.running) < l.max() && len(l.queue) == 0 {
		defer l.mu.Unlock()
		return l.add(client), nil
	}
	w := &waiting{client, make(chan *Place, 1)}
	l.queue = append(l.queue, w)
	enough := l.ending+l.promise >= len(l.queue)
	if !enough {
		l.promise++
	}
	l.mu.Unlock()
	if !enough && !l.makeRoom(client) {
		l.mu.Lock()
		l.promise--
		l.mu.Unlock()
		return l.leave(w, ErrFull)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case p := <-w.place:
		return p, nil
	case <-timer.C:
		return l.leave(w, ErrFull)
	case <-ctx.Done():
		return l.leave(w, context.Cause(ctx))
	}
}

// makeRoom ends a session to free a place for a client, and reports whether there was one.
func (l *Limit) makeRoom(client string) bool {
	share := max(1, l.max()/4)
	l.mu.Lock()
	mine := l.of[client]
	greedy := map[string]bool{}
	for other, n := range l.of {
		if other != client && n > share {
			greedy[other] = true
		}
	}
	l.mu.Unlock()
	if mine < share && len(greedy) > 0 && l.yield(func(other string) bool { return greedy[other] }) {
		return true
	}
	return l.yield(func(other string) bool { return other == client })
}

// leave removes w from the queue. If w got a place meanwhile, leave returns it.
func (l *Limit) leave(w *waiting, why error) (*Place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.queue {
		if other == w {
			l.queue = append(l.queue[:i:i], l.queue[i+1:]...)
			return nil, why
		}
	}
	return <-w.place, nil
}

// add reserves a place. Called with l.mu held.
func (l *Limit) add(client string) *Place {
	p := &Place{limit: l, client: client}
	l.running[p] = struct{}{}
	l.of[client]++
	return p
}

// Move counts the process for the client in ctx from now on.
func (p *Place) Move(ctx context.Context) {
	client := ClientOf(ctx)
	l := p.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, runs := l.running[p]; !runs {
		return
	}
	l.uncount(p)
	p.client = client
	l.of[client]++
}

// uncount removes p from the number of its client. Called with l.mu held.
func (l *Limit) uncount(p *Place) {
	if l.of[p.client]--; l.of[p.client] == 0 {
		delete(l.of, p.client)
	}
}

// Ending notes that the process was asked to end.
func (p *Place) Ending() {
	l := p.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, runs := l.running[p]; runs && !p.ending {
		p.ending = true
		l.ending++
		l.promise = max(0, l.promise-1)
	}
}

// Free gives the place to the next process, when this one has ended. It may be called more
// than once.
func (p *Place) Free() {
	l := p.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, runs := l.running[p]; !runs {
		return
	}
	delete(l.running, p)
	if p.ending {
		l.ending--
	}
	l.uncount(p)
	for len(l.queue) > 0 && len(l.running) < l.max() {
		w := l.queue[0]
		l.queue = l.queue[1:]
		w.place <- l.add(w.client)
	}
}

// Running returns the number of processes.
func (l *Limit) Running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running)
}
