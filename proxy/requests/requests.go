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
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Why a request cannot be opened, and why the wait for its answer has ended.
var (
	ErrTooMany   = errors.New("too many open requests")
	ErrDuplicate = errors.New("request id is already in use")
	ErrCancelled = errors.New("request was cancelled")
)

// More is the session's own data for a request. Cancelled is called when the request is cancelled and
// has no Stop function.
type More interface{ Cancelled() }

// Request is a request that has no answer yet. It owns its memory.
type Request[T More] struct {
	ID     string // as it stands in the message
	Key    string // equal for equal ids, see wire.AppendIDKey
	Method wire.Method
	Note   []byte // what the translation of the answer needs of the request
	As     []byte // the id by which the other side knows the request; nil if that is ID
	Began  time.Time
	More   T

	// Stop ends the wait for the answer; nil where no goroutine waits.
	Stop context.CancelCauseFunc
	// Abandoned says that no goroutine waits, although the answer may still come on
	// another stream.
	Abandoned atomic.Bool
	// Cancelled says that no answer is owed any more.
	Cancelled atomic.Bool

	way atomic.Uint32 // whether the request was sent, see Sends

	older *Request[T]  // an older request with the same id, on transports that allow it
	text  [idRoom]byte // the memory of ID and Key, unless they are long
}

// idRoom is the size of ID and Key together that needs no further allocation.
const idRoom = 48

// New returns a request with the given id, which began at that time. It keeps a clone of the id.
func New[T More](id []byte, m wire.Method, began time.Time) *Request[T] {
	c := &Request[T]{Method: m, Began: began}
	both := wire.AppendIDKey(append(c.text[:0], id...), id)
	text := unsafe.String(unsafe.SliceData(both), len(both)) // no other code writes to both
	c.ID, c.Key = text[:len(id)], text[len(id):]
	return c
}

// Keep clones the note that a translator returned with the request. A note of more than wire.MaxNote
// bytes is an error.
func (c *Request[T]) Keep(note []byte) error {
	if len(note) > wire.MaxNote {
		return errors.New("note is too long")
	}
	c.Note = append([]byte(nil), note...)
	return nil
}

// What became of a request.
const (
	waits uint32 = iota
	sent
	recalled
)

// Sends reports whether the request may be sent, and notes that it is. It returns false after Recall.
func (c *Request[T]) Sends() bool { return c.way.CompareAndSwap(waits, sent) || c.way.Load() == sent }

// Recall notes that no answer is owed any more. It returns true if the request was not sent, and will not be.
func (c *Request[T]) Recall() bool {
	c.Cancelled.Store(true)
	return c.way.CompareAndSwap(waits, recalled)
}

// A Table has the open requests of one direction of a session. It is safe for concurrent
// use.
type Table[T More] struct {
	Max    int  // greatest number of open requests; may be changed before the first one
	Unique bool // a second request with an open id is an error, as on a pipe

	mu    sync.Mutex
	byKey map[string]*Request[T]
	count int
	empty chan struct{} // closed when the last one ends; nil before Idle is called
}

// NewTable returns an empty table.
func NewTable[T More](max int) *Table[T] {
	return &Table[T]{Max: max, byKey: make(map[string]*Request[T])}
}

// Add enters c. The error is ErrTooMany or ErrDuplicate.
func (t *Table[T]) Add(c *Request[T]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count >= t.Max && !t.evict() {
		return ErrTooMany
	}
	c.older = t.byKey[c.Key]
	if c.older != nil && t.Unique {
		return ErrDuplicate
	}
	t.byKey[c.Key] = c
	t.count++
	return nil
}

// Abandon keeps c open for an answer on another stream, until its room is needed.
func (t *Table[T]) Abandon(c *Request[T]) { c.Abandoned.Store(true) }

// evict ends the oldest abandoned request to make room, and reports whether there was one. Called
// with t.mu held.
func (t *Table[T]) evict() bool {
	var oldest *Request[T]
	for _, c := range t.byKey {
		for ; c != nil; c = c.older {
			if c.Abandoned.Load() && (oldest == nil || c.Began.Before(oldest.Began)) {
				oldest = c
			}
		}
	}
	return oldest != nil && t.unlink(oldest)
}

// Take ends and returns the newest request with an id, or returns nil if there is none.
func (t *Table[T]) Take(key []byte) *Request[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byKey[string(key)]
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
	c := t.byKey[string(key)]
	return c != nil && c.Keep(note) == nil
}

// Change calls do with the newest request with an id, which no other goroutine changes meanwhile. It
// returns false if there is no such request.
func (t *Table[T]) Change(key []byte, do func(*Request[T])) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byKey[string(key)]
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

// unlink removes c and reports whether it was open. Called with t.mu held.
func (t *Table[T]) unlink(c *Request[T]) bool {
	at := t.byKey[c.Key]
	switch {
	case at == c && c.older == nil:
		delete(t.byKey, c.Key)
	case at == c:
		t.byKey[c.Key] = c.older
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

// Newest returns the newest request with an id, which stays open, or nil if there is none.
func (t *Table[T]) Newest(key []byte) *Request[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byKey[string(key)]
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
	at := t.byKey[c.Key]
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
	return t.byKey[string(key)] != nil
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
	for _, c := range t.byKey {
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
	clear(t.byKey)
	t.count = 0
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
