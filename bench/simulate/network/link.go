package network

import (
	"slices"
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
	shut    bool  // by CloseWrite
	killed  bool  // its host has lost its power
	ended   bool  // the other end sends no more
	unread  bool  // the other end of a pipe reads no more
	failed  bool  // the connection was reset, or timed out
	err     error // why, until a call has returned it
	severed bool  // the other end has seen the end of its sending, of which it does not know

	mayRead, mayWrite wait
	drip              *time.Timer // nil before the first use
	dripping          bool
	piece             int // bytes that drip next
	dice              uint32
	doubt             *time.Timer // after which a connection that has vanished fails; nil for none
	doubtful          time.Time
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
		e.link, e.other, e.host, e.dice = k, &k.ends[1-i], host, uint32(2*k.id+i)
		e.mayRead.cond.L, e.mayWrite.cond.L = &n.mu, &n.mu
	}
	return k
}

// leave forgets a link of which both ends are closed.
func (k *link) leave() {
	n := k.n
	last := len(n.links) - 1
	n.links[k.at] = n.links[last]
	n.links[k.at].at = k.at
	n.links[last] = nil
	n.links = n.links[:last]
	for i := range k.ends {
		for _, t := range []*time.Timer{k.ends[i].drip, k.ends[i].doubt} {
			if t != nil {
				t.Stop()
			}
		}
	}
}

// move lets arrive what e has sent, as far as it can now.
func (e *end) move() {
	k := e.link
	waits := len(e.out) - e.arrived
	if waits == 0 && (e.sent || !e.fin && !e.rst) {
		return
	}
	switch {
	case k.vanished:
		e.doubtAfter(k.n.Dead)
	case !k.still.IsZero() && time.Now().Before(k.still):
	case waits > 0 && !k.slow.IsZero() && time.Now().Before(k.slow):
		e.trickle()
	default:
		e.arrive(waits)
	}
}

// trickle lets a few bytes arrive in as many milliseconds, and so on.
func (e *end) trickle() {
	if e.dripping {
		return
	}
	e.dripping = true
	e.dice = e.dice*1664525 + 1013904223
	e.piece = 1 + int(e.dice>>16)%7
	if after := time.Duration(e.piece) * time.Millisecond; e.drip != nil {
		e.drip.Reset(after)
	} else {
		e.drip = time.AfterFunc(after, e.fall)
	}
}

// fall is called when a drop falls.
func (e *end) fall() {
	k := e.link
	k.n.mu.Lock()
	defer k.n.mu.Unlock()
	e.dripping = false
	if waits := len(e.out) - e.arrived; waits > 0 && !k.vanished && !time.Now().Before(k.still) {
		e.arrive(min(waits, e.piece))
	}
	e.move()
}

// arrive lets the next bytes of e arrive, and what follows them if they are the last.
func (e *end) arrive(bytes int) {
	k, o := e.link, e.other
	if k.cuts {
		bytes = min(bytes, k.more)
		k.more -= bytes
	}
	switch {
	case bytes == 0:
	case o.closed || o.failed || e.severed: // as what belongs to no connection
		e.reset(syscall.ECONNRESET)
		return
	default:
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

// seesEnd says that the other end sends no more.
func (e *end) seesEnd() {
	if e.ended || e.failed || e.closed {
		return
	}
	e.ended = true
	e.mayRead.cond.Broadcast()
	e.tell(rawio.Readable)
	e.tell(rawio.Leaving)
}

// reset ends the connection at e, which may still read what has arrived. Nothing more of what it has sent arrives.
func (e *end) reset(why error) {
	e.out = e.out[:e.arrived]
	e.fin, e.rst = false, false
	if e.failed || e.closed {
		return
	}
	switch {
	case e.link.pipe: // both ends were closed
		e.unread, e.ended = true, true
	default:
		e.failed, e.err = true, why
		if e.ended && why == syscall.ECONNRESET { // as the kernel says in the state CLOSE_WAIT
			e.err = syscall.EPIPE
		}
	}
	e.wake()
}

// wake wakes all that wait for something at e, which has ended.
func (e *end) wake() {
	e.mayRead.cond.Broadcast()
	e.mayWrite.cond.Broadcast()
	e.tell(rawio.Readable)
	e.tell(rawio.Leaving)
}

func (k *link) cut() {
	k.cuts = false
	k.ends[0].reset(syscall.ECONNRESET)
	k.ends[1].reset(syscall.ECONNRESET)
}

// close is what the owner of e does.
func (e *end) close() {
	if e.closed {
		return
	}
	k, o := e.link, e.other
	e.closed, e.watchers = true, nil
	e.mayRead.cond.Broadcast()
	e.mayWrite.cond.Broadcast()
	unread := o.arrived > o.read
	o.out = append([]byte(nil), o.out[o.arrived:]...) // what has arrived is lost, and the rest comes to a closed end
	o.read, o.arrived = 0, 0
	switch {
	case e.killed || e.failed:
	case k.pipe:
		o.out, o.unread, e.fin = nil, true, true
		o.mayWrite.cond.Broadcast()
		e.move()
	default:
		e.rst, e.fin, e.sent = unread, true, e.sent && !unread
		e.move()
	}
	if o.closed {
		k.leave()
	}
}

// kill is a powercut at e.
func (e *end) kill() {
	if e.killed || e.closed {
		return
	}
	e.reset(syscall.ECONNRESET)
	e.killed = true
	e.other.reset(syscall.ECONNRESET)
}

// doubtAfter makes e fail after d, since its connection has vanished.
func (e *end) doubtAfter(d time.Duration) {
	at := time.Now().Add(d)
	if e.failed || e.closed || e.doubt != nil && !at.Before(e.doubtful) {
		return
	}
	e.doubtful = at
	if e.doubt != nil {
		e.doubt.Reset(d)
		return
	}
	n := e.link.n
	e.doubt = time.AfterFunc(d, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		e.reset(syscall.ETIMEDOUT)
	})
}

// readable reports whether a read would not wait.
func (e *end) readable() bool {
	return e.other.arrived > e.other.read || e.ended || e.failed || e.killed
}

// take reads into p what has arrived.
func (e *end) take(p []byte) int {
	o := e.other
	k := copy(p, o.out[o.read:o.arrived])
	o.read += k
	if 2*o.read >= len(o.out) {
		o.out = o.out[:copy(o.out, o.out[o.read:])]
		o.arrived -= o.read
		o.read = 0
		if len(o.out) == 0 && cap(o.out) > 64<<10 {
			o.out = nil
		}
	}
	o.mayWrite.cond.Broadcast()
	return k
}

// tell notifies the watchers of e that wait for this.
func (e *end) tell(what rawio.Watched) {
	n := e.link.n
	for _, w := range e.watchers {
		if w.what != what || w.over {
			continue
		}
		if what == rawio.Readable {
			w.over = true
		}
		n.telling.Go(w.by.Notice)
	}
}

// forget forgets a watcher.
func (e *end) forget(w *watcher) {
	e.watchers = slices.DeleteFunc(e.watchers, func(other *watcher) bool { return other == w })
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
	if !w.by.IsZero() {
		if left := time.Until(w.by); w.timer != nil {
			w.timer.Reset(left)
		} else {
			w.timer = time.AfterFunc(left, func() {
				w.cond.L.Lock()
				defer w.cond.L.Unlock()
				w.cond.Broadcast()
			})
		}
	}
	w.waiting++
	w.cond.Wait()
	if w.waiting--; w.waiting == 0 && w.timer != nil {
		w.timer.Stop()
	}
}
