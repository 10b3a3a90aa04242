package proxy

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var (
	errTooManyOpen = errors.New("too many open requests")
	errDuplicateID = errors.New("request id is already in use")
	errCancelled   = errors.New("request was cancelled")
)

// call is a request that has no answer yet, in either direction. It owns its
// memory.
type call struct {
	id     string // as it stands in the message
	key    string // equal for equal ids, see wire.AppendIDKey
	method wire.Method
	note   []byte // what translating the answer needs of the request
	as     []byte // the id that the other side knows it by; nil for id
	again  *again // what asking it once more takes; nil where that is not to be
	began  time.Time

	here    bool        // it is answered here, and not by the server
	answers chan []byte // who asked the client this is one of us; nil for the server
	wanted  *wanted     // what shaping its result needs; nil for nothing

	// stop ends the wait for the answer; nil where nobody waits.
	stop context.CancelCauseFunc
	// abandoned says that nobody waits, although the answer may still come on
	// another stream.
	abandoned atomic.Bool
	// cancelled says that no answer is owed any more.
	cancelled atomic.Bool

	// group and slot: the array that the request came in, and its place there.
	group *group
	slot  int

	older *call // with the same id, on transports that allow it
}

// newCall is the call of a request with the given id, which begins now.
func newCall(id []byte, m wire.Method) *call { return newCallAt(id, m, time.Now()) }

func newCallAt(id []byte, m wire.Method, began time.Time) *call {
	both := make([]byte, len(id), 2*len(id)+8)
	copy(both, id)
	text := view(wire.AppendIDKey(both, id)) // nobody writes there any more
	return &call{id: text[:len(id)], key: text[len(id):], method: m, began: began}
}

// keep clones the note that a translator handed back with the request.
func (c *call) keep(note []byte) error {
	if len(note) > wire.MaxNote {
		return errors.New("note is too long")
	}
	c.note = append([]byte(nil), note...)
	return nil
}

// calls are the open requests of one direction of a session. An entry ends
// with its answer, its cancellation or the session.
type calls struct {
	max    int
	unique bool // two requests of one id cannot be told apart here: one pipe

	mu    sync.Mutex
	byKey map[string]*call
	count int
	empty chan struct{} // closed when the last one ends; nil when nobody asked
}

func newCalls(max int) *calls { return &calls{max: max, byKey: make(map[string]*call)} }

// add enters c, or says why not: errTooManyOpen, errDuplicateID.
func (t *calls) add(c *call) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count >= t.max && !t.evict() {
		return errTooManyOpen
	}
	c.older = t.byKey[c.key]
	if c.older != nil && t.unique {
		return errDuplicateID
	}
	t.byKey[c.key] = c
	t.count++
	return nil
}

// abandon keeps c open for an answer on another stream, as long as there is room.
func (t *calls) abandon(c *call) { c.abandoned.Store(true) }

// evict makes room by ending the oldest abandoned call. Called with t.mu held.
func (t *calls) evict() bool {
	var oldest *call
	for _, c := range t.byKey {
		for ; c != nil; c = c.older {
			if c.abandoned.Load() && (oldest == nil || c.began.Before(oldest.began)) {
				oldest = c
			}
		}
	}
	return oldest != nil && t.unlink(oldest)
}

// take ends the newest call of an id and returns it; nil when there is none.
func (t *calls) take(key []byte) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byKey[string(key)]
	if c != nil {
		t.unlink(c)
	}
	return c
}

// annotate keeps a clone of note with the newest call of an id; false when there
// is no such call or the note is too long.
func (t *calls) annotate(key, note []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byKey[string(key)]
	return c != nil && c.keep(note) == nil
}

// repeatable notes how to ask the newest call of an id once more.
func (t *calls) repeatable(key []byte, how *again) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.byKey[string(key)]; c != nil {
		c.again = how
	}
}

// rename notes that the other side knows the newest call of an id by another one.
func (t *calls) rename(key, as []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.byKey[string(key)]; c != nil {
		c.as = as
	}
}

// end ends c and reports whether it was open.
func (t *calls) end(c *call) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unlink(c)
}

// unlink is called with t.mu held.
func (t *calls) unlink(c *call) bool {
	at := t.byKey[c.key]
	switch {
	case at == c && c.older == nil:
		delete(t.byKey, c.key)
	case at == c:
		t.byKey[c.key] = c.older
	default:
		for at != nil && at.older != c {
			at = at.older
		}
		if at == nil {
			return false
		}
		at.older = c.older
	}
	t.count--
	if t.count == 0 && t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
	return true
}

// none reports whether no call is open.
func (t *calls) none() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count == 0
}

// overdue ends the calls for which left is no longer positive, and returns them;
// and the shortest time that is left to another, 0 when there is none.
func (t *calls) overdue(left func(*call) time.Duration) (late []*call, next time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.byKey {
		for ; c != nil; c = c.older {
			switch d := left(c); {
			case d <= 0:
				late = append(late, c)
			case next == 0 || d < next:
				next = d
			}
		}
	}
	for _, c := range late {
		t.unlink(c)
	}
	return late, next
}

// newest is the newest call of an id, which stays open; nil when there is none.
func (t *calls) newest(key []byte) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[string(key)]
}

// cancel ends the newest call of an id without an answer, and returns it; nil when there is none.
func (t *calls) cancel(key []byte) *call {
	if c := t.newest(key); c != nil && t.cancelCall(c) {
		return c
	}
	return nil
}

// cancelCall ends a call without an answer. It is false where that has ended already.
func (t *calls) cancelCall(c *call) bool {
	if !t.end(c) {
		return false
	}
	c.cancelled.Store(true)
	switch {
	case c.stop != nil:
		c.stop(errCancelled)
	case c.group != nil:
		c.group.put(c.slot, nil)
	}
	return true
}

// reopen makes stop end the wait for the answer to c, and reports whether c is
// still open.
func (t *calls) reopen(c *call, stop context.CancelCauseFunc) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.holds(c) {
		return false
	}
	c.stop = stop
	return true
}

// holds is called with t.mu held.
func (t *calls) holds(c *call) bool {
	at := t.byKey[c.key]
	for at != nil && at != c {
		at = at.older
	}
	return at != nil
}

// has reports whether c is open.
func (t *calls) has(c *call) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holds(c)
}

// knows reports whether a call of this id is open.
func (t *calls) knows(key []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[string(key)] != nil
}

// list returns all calls, which stay open.
func (t *calls) list() []*call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all()
}

// all is called with t.mu held.
func (t *calls) all() []*call {
	all := make([]*call, 0, t.count)
	for _, c := range t.byKey {
		for ; c != nil; c = c.older {
			all = append(all, c)
		}
	}
	return all
}

// drain ends all calls and returns them.
func (t *calls) drain() []*call {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.all()
	clear(t.byKey)
	t.count = 0
	if t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
	return all
}

// idle returns a channel that is closed once no call is open.
func (t *calls) idle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.empty == nil {
		t.empty = make(chan struct{})
	}
	done := t.empty
	if t.count == 0 {
		close(t.empty)
		t.empty = nil
	}
	return done
}
