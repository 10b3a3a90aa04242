package requests

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/dragoman-proxy/dragoman/translate/wire"
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

	way atomic.Uint32 // what became of it, see Sends

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
	sentAgain
	recalled
)

// Sends reports whether the request may be sent, and notes that it is. It returns false after Recall.
func (c *Request[T]) Sends() bool { return c.way.CompareAndSwap(waits, sent) || c.way.Load() == sent }

// Refused notes that the other side has refused the request without beginning it, so that it may be sent again.
func (c *Request[T]) Refused() { c.way.CompareAndSwap(sent, waits) }

// SendsAgain is Sends for a request that was refused. It returns false if no answer is owed any more.
func (c *Request[T]) SendsAgain() bool {
	return !c.Cancelled.Load() && c.way.CompareAndSwap(waits, sentAgain)
}

// WasSentAgain reports whether SendsAgain has returned true. After Recall that does not change any more.
func (c *Request[T]) WasSentAgain() bool { return c.way.Load() == sentAgain }

// Waits reports whether the other side does not have the request yet, and may get it.
func (c *Request[T]) Waits() bool { return c.way.Load() == waits }

// Recall notes that no answer is owed any more. It returns true if the other side does not have the request, and will not get it.
func (c *Request[T]) Recall() bool {
	c.Cancelled.Store(true)
	return c.way.CompareAndSwap(waits, recalled)
}
