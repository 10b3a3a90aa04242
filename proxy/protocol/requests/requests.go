// Package requests holds the open requests of one direction of a session.
//
// A [Request] is open until it is answered or cancelled, or until the session ends. A [Table] finds
// requests by their ids in the form of [wire.AppendIDKey], because equal ids can be written in
// several ways. On a pipe an id is unique while it is open. Over HTTP clients use one id on several
// POSTs, and the newest request counts.
package requests

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Why a request cannot be opened, and why the wait for its answer has ended.
var (
	ErrTooMany   = errors.New("too many open requests")
	ErrDuplicate = errors.New("request id is already in use")
	ErrCancelled = errors.New("request was cancelled")
)

// A Table has the open requests of one direction of a session. It is safe for concurrent
// use.
type Table[T More] struct {
	Max    int  // greatest number of open requests; may be changed before the first one
	Unique bool // a second request with an open id is an error, as on a pipe
	Keeps  bool // Ended knows the last requests that have ended

	mu    sync.Mutex
	byKey index[T]
	count int
	ended []uint64      // hashes of the keys of requests that have ended, the newest last
	empty chan struct{} // closed when the last one ends; nil before Idle is called
}

// maxEnded is how many requests that have ended a table remembers.
const maxEnded = 32

var seed = maphash.MakeSeed()

// NewTable returns an empty table.
func NewTable[T More](max int) *Table[T] {
	return &Table[T]{Max: max}
}

// Ended reports whether a request of this id was one of the last that have ended. It is not if a newer request of the id is open, if it
// had to make room for others, or if it was drained.
func (t *Table[T]) Ended(key []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey.get(wire.View(key)) == nil && t.endedAt(wire.View(key)) >= 0
}

// endedAt returns the place of a key in t.ended, or -1. Called with t.mu held.
func (t *Table[T]) endedAt(key string) int {
	if len(t.ended) == 0 {
		return -1
	}
	return slices.Index(t.ended, maphash.String(seed, key))
}

// Add enters c. The error is ErrTooMany or ErrDuplicate.
func (t *Table[T]) Add(c *Request[T]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count >= t.Max && !t.evict() {
		return ErrTooMany
	}
	c.older = t.byKey.get(c.Key)
	if c.older != nil && t.Unique {
		return ErrDuplicate
	}
	if at := t.endedAt(c.Key); at >= 0 {
		t.ended = slices.Delete(t.ended, at, at+1)
	}
	t.byKey.put(c)
	t.count++
	return nil
}

// Abandon keeps c open for an answer on another stream, until its room is needed.
func (t *Table[T]) Abandon(c *Request[T]) { c.Abandoned.Store(true) }

// evict ends the oldest abandoned request to make room, and reports whether there was one. Called
// with t.mu held.
func (t *Table[T]) evict() bool {
	var oldest *Request[T]
	for c := range t.byKey.all {
		for ; c != nil; c = c.older {
			if c.Abandoned.Load() && (oldest == nil || c.Began.Before(oldest.Began)) {
				oldest = c
			}
		}
	}
	return oldest != nil && t.remove(oldest)
}

// Take ends and returns the newest request with an id, or returns nil if there is none.
func (t *Table[T]) Take(key []byte) *Request[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byKey.get(wire.View(key))
	if c != nil {
		t.unlink(c)
	}
	return c
}

// Annotate keeps a clone of note with the newest request with an id. It returns false if there is no
// such request or the note is too long.
func (t *Table[T]) Annotate(key, note []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byKey.get(wire.View(key))
	return c != nil && c.Keep(note) == nil
}

// Change calls do with the newest request with an id, which no other goroutine changes meanwhile. It
// returns false if there is no such request.
func (t *Table[T]) Change(key []byte, do func(*Request[T])) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byKey.get(wire.View(key))
	if c != nil {
		do(c)
	}
	return c != nil
}

// End ends c and reports whether it was open.
func (t *Table[T]) End(c *Request[T]) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unlink(c)
}

// unlink ends c and reports whether it was open. Called with t.mu held.
func (t *Table[T]) unlink(c *Request[T]) bool {
	if !t.remove(c) {
		return false
	}
	if t.Keeps && t.byKey.get(c.Key) == nil {
		if len(t.ended) == maxEnded {
			t.ended = slices.Delete(t.ended, 0, 1)
		}
		t.ended = append(t.ended, maphash.String(seed, c.Key))
	}
	return true
}

// remove removes c and reports whether it was open. Called with t.mu held.
func (t *Table[T]) remove(c *Request[T]) bool {
	at := t.byKey.get(c.Key)
	switch {
	case at == c && c.older == nil:
		t.byKey.drop(c.Key)
	case at == c:
		t.byKey.put(c.older)
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

// None reports whether no request is open.
func (t *Table[T]) None() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count == 0
}

// Count returns the number of open requests.
func (t *Table[T]) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// Overdue ends and returns the requests that have no time left. left returns how much time a request
// has. next is the shortest time that is left to another request, or 0 if there is none.
func (t *Table[T]) Overdue(left func(*Request[T]) time.Duration) (late []*Request[T], next time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.byKey.all {
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

// Newest returns the newest request with an id, which stays open, or nil if there is none.
func (t *Table[T]) Newest(key []byte) *Request[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey.get(wire.View(key))
}

// Cancel ends the newest request with an id without an answer and returns it, or returns nil if there
// is none.
func (t *Table[T]) Cancel(key []byte) *Request[T] {
	if c := t.Newest(key); c != nil && t.CancelThis(c) {
		return c
	}
	return nil
}

// CancelThis ends a request without an answer. It returns false if the request has ended already.
func (t *Table[T]) CancelThis(c *Request[T]) bool {
	if !t.End(c) {
		return false
	}
	c.Cancelled.Store(true)
	switch {
	case c.Stop != nil:
		c.Stop(ErrCancelled)
	default:
		c.More.Cancelled()
	}
	return true
}

// Reopen makes stop end the wait for the answer to c, and reports whether c is
// still open.
func (t *Table[T]) Reopen(c *Request[T], stop context.CancelCauseFunc) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.holds(c) {
		return false
	}
	c.Stop = stop
	return true
}

// holds reports whether c is open. Called with t.mu held.
func (t *Table[T]) holds(c *Request[T]) bool {
	at := t.byKey.get(c.Key)
	for at != nil && at != c {
		at = at.older
	}
	return at != nil
}

// Has reports whether c is open.
func (t *Table[T]) Has(c *Request[T]) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holds(c)
}

// Knows reports whether a request of this id is open.
func (t *Table[T]) Knows(key []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey.get(wire.View(key)) != nil
}

// List returns all requests, which stay open.
func (t *Table[T]) List() []*Request[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all()
}

// all returns all requests. Called with t.mu held.
func (t *Table[T]) all() []*Request[T] {
	all := make([]*Request[T], 0, t.count)
	for c := range t.byKey.all {
		for ; c != nil; c = c.older {
			all = append(all, c)
		}
	}
	return all
}

// Drain ends all requests and returns them.
func (t *Table[T]) Drain() []*Request[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.all()
	t.byKey.clear()
	t.count = 0
	t.ended = nil
	if t.empty != nil {
		close(t.empty)
		t.empty = nil
	}
	return all
}

// Idle returns a channel that is closed once no request is open.
func (t *Table[T]) Idle() <-chan struct{} {
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
