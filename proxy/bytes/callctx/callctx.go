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

// Context is a [context.Context] that can be ended. [context.Cause] returns why it has ended. It is safe for concurrent
// use.
type Context struct {
	parent context.Context // nil for none
	above  Watch           // of parent
	apart  bool            // c does not end with parent
	ended  atomic.Bool     // set when everything below says so

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

// Watch is the wait of a Waiter for the end of a context. The zero value waits for none.
type Watch struct {
	ctx  Ender // nil if ctx cannot call w itself
	w    Waiter
	stop func() bool
}

// Notify makes the end of ctx, of any type, call w. w must be comparable.
func Notify(ctx context.Context, w Waiter) Watch {
	if e, ok := ctx.(Ender); ok {
		e.Await(w)
		return Watch{ctx: e, w: w}
	}
	if ctx.Done() == nil {
		return Watch{}
	}
	return Watch{stop: context.AfterFunc(ctx, w.ContextEnded)}
}

// Stop ends the wait. It returns false if the context's end has called the Waiter, or is about to, or if Stop was called
// before. The zero value's returns true.
func (w *Watch) Stop() bool {
	switch {
	case w.ctx != nil:
		return w.ctx.Forget(w.w)
	case w.stop != nil:
		return w.stop()
	}
	return true
}

// New returns a Context without values and deadline.
func New() *Context { return new(Context) }

// Under returns a Context that ends when parent does, with the same cause, and has the values and the deadline of parent.
// It must be ended, as parent knows it until then.
func Under(parent context.Context) *Context {
	c := new(Context)
	c.Begin(parent)
	return c
}

// Begin makes c, which is part of another value and was not used yet, what Under returns.
func (c *Context) Begin(parent context.Context) {
	c.parent = parent
	c.above = Notify(parent, c)
	if parent.Err() != nil {
		c.ContextEnded()
	}
}

// BeginApart makes c, which is part of another value and was not used yet, a Context with the values of parent. It does not
// end with parent, as with [context.WithoutCancel].
func (c *Context) BeginApart(parent context.Context) { c.parent, c.apart = parent, true }

// Join makes c, which BeginApart has begun and which nothing else uses yet, end with its parent, until Part is called.
func (c *Context) Join() {
	c.above = Notify(c.parent, c)
	if c.parent.Err() != nil {
		c.ContextEnded()
	}
}

// Part ends what Join began. The end of the parent may be noted still while Part runs.
func (c *Context) Part() { c.above.Stop() }

// ContextEnded implements [Waiter], for the parent.
func (c *Context) ContextEnded() { c.endWith(context.Cause(c.parent)) }

// End ends c with a cause, which is [context.Canceled] if it is nil. Only the first call has an effect. End does not
// block.
func (c *Context) End(cause error) {
	c.endWith(cause)
	if c.parent != nil {
		c.above.Stop()
	}
}

func (c *Context) endWith(cause error) {
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
		c.tell(c.first)
	}
	for _, w := range c.rest {
		c.tell(w)
	}
	c.first, c.rest = nil, nil
}

// tell calls w. A Context under c has ended when End returns, as with those of the standard library.
func (c *Context) tell(w Waiter) {
	if under, ok := w.(*Context); ok {
		under.endWith(c.cause)
	} else {
		go w.ContextEnded()
	}
}

// Await implements [Ender].
func (c *Context) Await(w Waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cause != nil:
		c.tell(w)
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

// Deadline returns the parent's deadline, if c ends with the parent.
func (c *Context) Deadline() (deadline time.Time, ok bool) {
	if c.parent == nil || c.apart {
		return deadline, false
	}
	return c.parent.Deadline()
}

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

// Value returns a value of the parent. The standard library finds the context that it derives others from, and the
// cause, by a pointer to an int.
func (c *Context) Value(key any) any {
	switch _, ok := key.(*int); {
	case ok:
		return c.standard().Value(key)
	case c.parent != nil:
		return c.parent.Value(key)
	}
	return nil
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
