package network

import (
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/rawio"
)

// link is a connection or a pipe between two ends. What an end writes waits in its out, and arrives as far as the weather lets it. All of
// it belongs to the lock of the network.
type link struct {
	n      *Network
	id     int
	at     int // in n.links
	pipe   bool
	window int
	ends   [2]end

	still    time.Time // nothing arrives before it
	slow     time.Time // bytes trickle until then
	vanished bool      // nothing arrives ever
	cuts     bool      // the link is cut after more bytes:
	more     int
}

// end is one end of a link.
type end struct {
	link  *link
	other *end
	host  string

	// What it sends.
	out     []byte
	read    int  // bytes of out that the other end has read
	arrived int  // bytes of out that it has read or could read
	fin     bool // nothing follows out
	rst     bool // a reset follows out
	sent    bool // these have arrived as well

	// What it knows.
	closed  bool  // by its owner
	killed  bool  // its host has lost its power
	ended   bool  // the other end sends no more
	unread  bool  // the other end of a pipe reads no more
	failed  bool  // the connection was reset, or timed out
	err     error // why, until a call has returned it
	severed bool  // the other end has seen the end of its sending, of which it does not know

	mayRead, mayWrite wait
	drops             int  // bytes that trickle next; 0 if none do
	drop              int  // how many did so last
	queued            bool // it has its turn to come
	doubtful          bool
	watchers          []*watcher
}

// watcher is notified of what happens on an end.
type watcher struct {
	what rawio.Watched
	by   rawio.Watcher
	over bool
}

// join makes a link. n.mu must be held.
func (n *Network) join(a, b string, window int) *link {
	n.last++
	k := &link{n: n, id: n.last, at: len(n.links), window: window}
	n.links = append(n.links, k)
	for i, host := range [2]string{a, b} {
		e := &k.ends[i]
		e.link, e.other, e.host = k, &k.ends[1-i], host
		e.mayRead.cond.L, e.mayWrite.cond.L = &n.mu, &n.mu
	}
	return k
}

// move lets arrive what e has sent, as far as it can now.
func (e *end) move() {
	k, waits := e.link, len(e.out)-e.arrived
	switch {
	case waits == 0 && (e.sent || !e.fin && !e.rst):
	case k.vanished && !e.doubtful:
		e.doubtful = true
		e.failAfter(k.n.Dead)
	case k.vanished || !k.still.IsZero() && time.Now().Before(k.still):
	case waits > 0 && !k.slow.IsZero() && time.Now().Before(k.slow):
		e.trickle()
	default:
		e.turn()
	}
}

// turn lets arrive what e has sent when it is its turn.
func (e *end) turn() {
	if e.queued {
		return
	}
	n := e.link.n
	if n.turns == nil || n.closed {
		e.arrive(len(e.out) - e.arrived)
		return
	}
	e.queued = true
	n.takesTurn(&turn{from: e.host, to: e.other.host, bytes: func() []byte { return e.out[e.arrived:] }, id: e.link.id, do: func() {
		e.queued = false
		if k := e.link; !k.vanished && (k.still.IsZero() || !time.Now().Before(k.still)) { // else it waits, as all that follows
			e.arrive(len(e.out) - e.arrived)
		}
	}})
}

// trickle lets a few bytes arrive in as many milliseconds, and so on.
func (e *end) trickle() {
	if e.drops > 0 {
		return
	}
	e.drop = 1 + (e.drop+2)%7
	e.drops = e.drop
	time.AfterFunc(time.Duration(e.drops)*time.Millisecond, func() {
		defer e.link.n.lock().Unlock()
		e.link.n.takesTurn(&turn{from: e.host, to: e.other.host, bytes: func() []byte { return e.out[e.arrived:] }, id: e.link.id, do: func() {
			bytes := min(e.drops, len(e.out)-e.arrived)
			e.drops = 0
			if bytes > 0 && !e.link.vanished && !time.Now().Before(e.link.still) {
				e.arrive(bytes)
			}
			e.move()
		}})
	})
}

// failAfter makes e fail after d, since its connection has vanished.
func (e *end) failAfter(d time.Duration) {
	time.AfterFunc(d, func() {
		defer e.link.n.lock().Unlock()
		e.reset(syscall.ETIMEDOUT)
	})
}

// arrive lets the next bytes of e arrive, and what follows them if they are the last.
func (e *end) arrive(bytes int) {
	k, o := e.link, e.other
	if k.cuts {
		bytes = min(bytes, k.more)
		k.more -= bytes
	}
	if bytes > 0 {
		if o.closed || o.failed || e.severed { // as what belongs to no connection
			e.reset(syscall.ECONNRESET)
			return
		}
		e.arrived += bytes
		o.mayRead.cond.Broadcast()
		o.tell(rawio.Readable)
	}
	switch {
	case k.cuts && k.more == 0:
		k.cut()
	case e.arrived < len(e.out) || e.sent:
	case e.rst:
		e.sent = true
		o.reset(syscall.ECONNRESET)
	case e.fin:
		e.sent = true
		o.seesEnd()
	}
}

// finish ends the sending of e.
func (e *end) finish() {
	e.fin = true
	e.mayWrite.cond.Broadcast()
	e.move()
}

// seesEnd says that the other end sends no more.
func (e *end) seesEnd() {
	if !e.ended && !e.failed && !e.closed {
		e.ended = true
		e.wake()
	}
}

// reset ends the connection at e, which may still read what has arrived. Nothing more of what it has sent arrives.
func (e *end) reset(why error) {
	e.out = e.out[:e.arrived]
	e.fin, e.rst = false, false
	switch {
	case e.failed || e.closed:
		return
	case e.link.pipe: // as if both ends were closed
		e.unread, e.ended = true, true
	case e.ended && why == syscall.ECONNRESET: // as the kernel says in the state CLOSE_WAIT
		e.failed, e.err = true, syscall.EPIPE
	default:
		e.failed, e.err = true, why
	}
	e.wake()
}

// wake says that something has ended at e.
func (e *end) wake() {
	e.mayRead.cond.Broadcast()
	e.mayWrite.cond.Broadcast()
	e.tell(rawio.Readable)
	e.tell(rawio.Leaving)
}

// tell notifies the watchers of e that wait for this.
func (e *end) tell(what rawio.Watched) {
	for _, w := range e.watchers {
		if w.what == what && !w.over {
			w.over = what == rawio.Readable
			e.link.n.telling.Go(w.by.Notice)
		}
	}
}

// close is what the owner of e does.
func (e *end) close() {
	if e.closed {
		return
	}
	k, o := e.link, e.other
	e.closed, e.watchers = true, nil
	e.mayRead.cond.Broadcast()
	unread := o.arrived > o.read
	o.out = append([]byte(nil), o.out[o.arrived:]...) // what has arrived is lost, and the rest comes to a closed end
	o.read, o.arrived = 0, 0
	switch {
	case e.killed || e.failed:
	case k.pipe:
		o.out, o.unread = nil, true
		o.mayWrite.cond.Broadcast()
		e.finish()
	default:
		e.rst, e.sent = unread, e.sent && !unread
		e.finish()
	}
	if o.closed {
		n := k.n
		last := n.links[len(n.links)-1]
		n.links[k.at], last.at = last, k.at
		n.links = n.links[:len(n.links)-1]
	}
}

// has reports whether e knows of this.
func (e *end) has(what rawio.Watched) bool {
	return e.ended || e.failed || e.killed || what == rawio.Readable && e.other.arrived > e.other.read
}

// take reads into p what has arrived.
func (e *end) take(p []byte) int {
	o := e.other
	k := copy(p, o.out[o.read:o.arrived])
	if o.read += k; 2*o.read >= len(o.out) {
		o.out = o.out[:copy(o.out, o.out[o.read:])]
		o.read, o.arrived = 0, o.arrived-o.read
	}
	o.mayWrite.cond.Broadcast()
	return k
}

// wait is what calls wait for, with a deadline.
type wait struct {
	cond    sync.Cond
	by      time.Time   // zero for none
	timer   *time.Timer // nil before the first use
	waiting int
}

func (w *wait) isOver() bool { return !w.by.IsZero() && !time.Now().Before(w.by) }

// wait waits until something may have happened, or the deadline has passed. The lock of the network must be held.
func (w *wait) wait() {
	switch left := time.Until(w.by); {
	case w.by.IsZero():
	case w.timer != nil:
		w.timer.Reset(left)
	default:
		w.timer = time.AfterFunc(left, func() {
			w.cond.L.Lock()
			defer w.cond.L.Unlock()
			w.cond.Broadcast()
		})
	}
	w.waiting++
	w.cond.Wait()
	if w.waiting--; w.waiting == 0 && w.timer != nil {
		w.timer.Stop()
	}
}
