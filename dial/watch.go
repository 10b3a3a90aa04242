package dial

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Standard is the watch of all connections, except in tests that cannot wait for it.
var Standard = NewWatch(25 * time.Second)

// Watch closes connections whose peer has acknowledged nothing for a while, although something was sent. It looks at those on
// which something is on its way, and costs nothing while there are none.
type Watch struct {
	limit time.Duration
	dead  *DeadError

	mu      sync.Mutex
	waiting []*Guard
	next    *time.Timer // nil while nothing waits
}

// NewWatch returns a watch that closes a connection when the bytes sent were not acknowledged for limit, which may become up to a
// tenth less or more.
func NewWatch(limit time.Duration) *Watch { return &Watch{limit: limit, dead: &DeadError{limit}} }

// KeepAlive returns how the system probes quiet connections: so that a dead one is found in the time of w.
func (w *Watch) KeepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: w.limit * 2 / 5, Interval: w.limit / 5, Count: 3}
}

// DeadError is the error of a connection that was closed because its peer acknowledged nothing.
type DeadError struct {
	After time.Duration
}

func (e *DeadError) Error() string {
	return fmt.Sprintf("the connection was dead (no acknowledgement for %g s)", e.After.Seconds())
}

// IsDead reports whether err is that of a dead connection.
func IsDead(err error) bool {
	_, ok := errors.AsType[*DeadError](err)
	return ok
}

// Guard is what a [Watch] knows of one connection. The zero value is for a connection that is not watched. It must not be copied.
type Guard struct {
	watch  *Watch
	socket socket
	waits  atomic.Bool // the watch has it
	dead   atomic.Bool
	since  time.Duration // after started: since when sent bytes are known not to be acknowledged; 0 for never. For the watch only
}

var started = time.Now().Add(-time.Second) // so that no moment is 0

// Guard makes w watch nc, if it is a socket. It is called once, before anything else of g.
func (g *Guard) Guard(w *Watch, nc net.Conn) {
	if s, ok := nc.(socket); ok {
		g.watch, g.socket = w, s
	}
}

// Sent says that something is being sent or was sent. It is called before a write, which may wait, and after it.
func (g *Guard) Sent() {
	if g.socket != nil && !g.waits.Load() && g.waits.CompareAndSwap(false, true) {
		g.watch.add(g)
	}
}

// Err returns a *[DeadError] in the place of err, an error of the connection, if it has that reason.
func (g *Guard) Err(err error) error {
	switch {
	case err == nil || g.watch == nil:
		return err
	case timedOut(err):
		g.dead.Store(true)
	case !g.dead.Load():
		return err
	}
	return g.watch.dead
}

// Dead reports whether the connection was found dead.
func (g *Guard) Dead() bool { return g.dead.Load() }

// timedOut reports whether the system itself has given a connection up. An error of a route comes if the system has heard of one
// meanwhile.
func timedOut(err error) bool {
	return errors.Is(err, etimedout) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

func (w *Watch) add(g *Guard) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, g)
	if w.next == nil {
		w.next = time.AfterFunc(w.limit/10, w.look)
	}
}

// look closes the dead ones among the connections that wait, and forgets those that wait no more.
func (w *Watch) look() {
	w.mu.Lock()
	list := w.waiting
	w.waiting = nil
	w.mu.Unlock()
	now := time.Now()
	left := list[:0]
	for _, g := range list {
		if g.look(now) {
			left = append(left, g)
		}
	}
	clear(list[len(left):])
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(left, w.waiting...)
	if w.next = nil; len(w.waiting) > 0 {
		w.next = time.AfterFunc(w.limit/10, w.look)
	}
}

// look reports whether g is to be looked at again.
func (g *Guard) look(now time.Time) bool {
	g.waits.Store(false) // first: what is sent from now on is said again
	s, ok := stateOf(g.socket)
	if !ok || !s.unacked && !s.unsent {
		g.since = 0
		return false
	}
	if g.isDead(s, now) {
		g.dead.Store(true)
		g.socket.Close()
		return false
	}
	return g.waits.CompareAndSwap(false, true) // else Sent has added it
}

// isDead decides by what was acknowledged since the bytes were first seen to wait: the last acknowledgement may be much older
// than they are.
func (g *Guard) isDead(s state, now time.Time) bool {
	if !s.unacked { // the peer does not read, and answers probes, each of which may be two minutes after the last one
		g.since = 0
		return s.probes >= 3 && s.quiet >= g.watch.limit
	}
	at := now.Sub(started)
	if g.since == 0 {
		g.since = at
	}
	g.since = max(g.since, at-s.quiet)
	return at-g.since >= g.watch.limit-g.watch.limit/10
}
