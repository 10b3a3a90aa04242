// Package callctx is a context for one request that costs little if nothing happens to it.
//
// A context of the standard library that can be cancelled takes four allocations until a function waits for its end, and
// nearly every request ends before anything needs that. A [Context] becomes such a context only when it is asked for
// its channel, or when another context is derived from it.
package callctx

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Context is a [context.Context] without values and deadline. [context.Cause] returns why it has ended. It is safe for
// concurrent use.
type Context struct {
	ended atomic.Bool // set when everything below says so

	mu    sync.Mutex
	cause error // why it has ended; nil while it has not
	std   context.Context
	end   context.CancelCauseFunc // of std; both are nil until they are needed
	first Waiter
	rest  []Waiter
}

// Waiter is what waits for the end of a Context.
type Waiter interface {
	// ContextEnded is called in a goroutine of its own when the Context has ended.
	ContextEnded()
}

// Ender is a context that can tell a Waiter of its end.
type Ender interface {
	context.Context
	// Await makes the end of the context call w, at once if it has ended. w must be comparable.
	Await(w Waiter)
	// Forget undoes Await. It returns false if w was called, or is about to be.
	Forget(w Waiter) bool
}

var _ Ender = (*Context)(nil)

// New returns a Context that has not ended.
func New() *Context { return new(Context) }

// End ends c with a cause, which is [context.Canceled] if it is nil. Only the first call has an effect. End does not
// block.
func (c *Context) End(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	if cause == nil {
		cause = context.Canceled
	}
	c.cause = cause
	if c.end != nil {
		c.end(cause)
	}
	c.ended.Store(true)
	if c.first != nil {
		go c.first.ContextEnded()
	}
	for _, w := range c.rest {
		go w.ContextEnded()
	}
	c.first, c.rest = nil, nil
}

// Await implements [Ender].
func (c *Context) Await(w Waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cause != nil:
		go w.ContextEnded()
	case c.first == nil:
		c.first = w
	default:
		c.rest = append(c.rest, w)
	}
}

// Forget implements [Ender].
func (c *Context) Forget(w Waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first == w {
		c.first = nil
		return true
	}
	i := slices.Index(c.rest, w)
	if i < 0 {
		return false
	}
	c.rest = slices.Delete(c.rest, i, i+1)
	return true
}

// Deadline returns that there is none.
func (*Context) Deadline() (deadline time.Time, ok bool) { return deadline, false }

// Done returns a channel that is closed when c has ended.
func (c *Context) Done() <-chan struct{} { return c.standard().Done() }

// Err returns [context.Canceled] if c has ended, and nil otherwise.
func (c *Context) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	c.mu.Lock() // after Done was closed, Err does not return nil
	defer c.mu.Unlock()
	if c.cause != nil {
		return context.Canceled
	}
	return nil
}

// Value returns nil for all keys but that by which the standard library finds the context that it derives others from,
// and the cause: a pointer to an int.
func (c *Context) Value(key any) any {
	if _, ok := key.(*int); !ok {
		return nil
	}
	return c.standard().Value(key)
}

// standard returns a context of the standard library that ends with c.
func (c *Context) standard() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.std == nil {
		c.std, c.end = context.WithCancelCause(context.Background())
		if c.cause != nil {
			c.end(c.cause)
		}
	}
	return c.std
}
