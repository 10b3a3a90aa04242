package legacyclient

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/dragoman-proxy/dragoman/proxy/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/requests"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// reading is the client's side of a call.
//
// At first Events itself reads what the server sends, which for most calls is all there is to do. A goroutine of the
// call's own takes over if the client leaves, and if something else must be waited for: answers of the client, or
// another request to the server. From then on want asks it for the next event, and got is what it returns.
type reading struct {
	client   context.Context // ends when the client leaves
	watched  bool
	watch    callctx.Watch // of client
	released atomic.Bool
	halt     upstream.Interruptible // the server's stream while Events reads it

	mu      sync.Mutex
	busy    bool // Events reads
	closed  bool
	entered bool // the goroutine has taken over
	ended   bool // finish was called

	// Set before entered.
	want chan struct{}
	got  chan nextEvent
	gone chan struct{} // closed when the stream is
}

// nextEvent is what Events gives next.
type nextEvent struct {
	event sse.Event
	err   error
}

// start makes the goroutine take over at once if reading cannot be interrupted.
func (b *call) start() {
	if st, ok := b.st.(upstream.Interruptible); ok && st.CanInterrupt() {
		b.halt = st
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.takeOver(nil)
}

// takeOver starts the goroutine, which first does then, unless that is nil. b.mu must be held.
func (b *call) takeOver(then func() error) {
	b.want, b.got, b.gone, b.entered = make(chan struct{}), make(chan nextEvent, 1), make(chan struct{}), true
	if b.closed {
		close(b.gone)
	}
	b.c.host.Spawn(func() { b.run(then) })
}

// Events implements [upstream.Stream].
func (b *call) Events(yield func(sse.Event, error) bool) {
	for {
		if e, err := b.event(); !yield(e, err) || err != nil {
			return
		}
	}
}

// event returns the next event for the client.
func (b *call) event() (sse.Event, error) {
	for {
		b.mu.Lock()
		switch {
		case b.entered:
			b.mu.Unlock()
			return b.fromGoroutine()
		case b.ended || b.closed || b.client.Err() != nil:
			b.mu.Unlock()
			return sse.Event{}, b.cause()
		case !b.watched:
			b.watched, b.watch = true, callctx.Notify(b.client, b)
		}
		b.busy = true
		b.mu.Unlock()
		e, then, err := b.readHere()
		b.mu.Lock()
		b.busy = false
		closed := b.closed
		switch {
		case err != nil || closed && b.over:
			b.end()
		case closed || then != nil:
			b.takeOver(then)
		}
		b.mu.Unlock()
		switch {
		case closed:
			return sse.Event{}, upstream.ErrClosed
		case err != nil || e.Data != nil:
			return e, err
		}
	}
}

// readHere returns the next message for the client, if the next message of the server brings one. then is what read
// returns.
func (b *call) readHere() (e sse.Event, then func() error, err error) {
	defer func() {
		if p := recover(); p != nil {
			b.c.host.Report.Panicked(p)
			e, then, err = sse.Event{}, nil, mcp.Fail(mcp.Panicked, "")
		}
	}()
	e, ok, err := b.waiting()
	if !ok && err == nil {
		e.Data, then, err = b.read()
		err = b.judge(err)
		if b.over {
			e.Data = nil // it comes after what is waiting
		}
	}
	if err != nil && b.recalled() {
		err = requests.ErrCancelled
	}
	return e, then, err
}

// ContextEnded implements [callctx.Waiter]: it ends the wait of Events when the client has left.
func (b *call) ContextEnded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy {
		b.halt.Interrupt()
	}
}

// end ends a call that has no goroutine. b.mu must be held.
func (b *call) end() {
	if b.ended {
		return
	}
	b.ended = true
	if b.c.piped != nil && !b.over {
		b.c.host.Spawn(b.finish) // it may send a cancellation
		return
	}
	b.finish()
}

// Close closes the client's stream. The call to the server goes on.
func (b *call) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	if context.Cause(b.client) == requests.ErrCancelled { // cancel may not have found the call
		b.ctx.End(requests.ErrCancelled)
	}
	switch {
	case b.entered:
		close(b.gone)
	case b.ended:
	case b.busy: // Events does the rest
		b.halt.Interrupt()
	case b.over:
		b.end()
	default:
		b.takeOver(nil)
	}
	return nil
}

// Release implements [upstream.Releaser].
func (b *call) Release() { b.released.Store(true) }

// fromGoroutine returns the next message that the goroutine has for the client.
func (b *call) fromGoroutine() (sse.Event, error) {
	select {
	case b.want <- struct{}{}:
	case <-b.ctx.Done():
		return sse.Event{}, b.cause()
	case <-b.gone:
		return sse.Event{}, upstream.ErrClosed
	case <-b.client.Done():
		return sse.Event{}, context.Cause(b.client)
	}
	select {
	case n := <-b.got:
		return n.event, n.err
	case <-b.gone:
		return sse.Event{}, upstream.ErrClosed
	case <-b.client.Done():
		return sse.Event{}, context.Cause(b.client)
	}
}

// run runs the call to its end. It first does then, unless that is nil.
func (b *call) run(then func() error) {
	wanted, detached := false, false
	left := func() bool { return true } // stops waiting for the shutdown
	defer func() { left() }()
	defer b.finish()
	defer func() {
		if p := recover(); p != nil {
			b.c.host.Report.Panicked(p)
			b.reply(nextEvent{err: mcp.Fail(mcp.Panicked, "")}, wanted)
		}
	}()
	for {
		wanted = false
		select {
		case <-b.want:
			wanted = true
		case <-b.gone:
			if b.over {
				return
			}
			if !detached {
				detached, left = true, context.AfterFunc(b.c.host.Draining, func() { b.ctx.End(nil) })
			}
		case <-b.ctx.Done():
		}
		e, err := b.next(then)
		then = nil
		if err != nil && b.recalled() {
			err = requests.ErrCancelled
		}
		b.reply(nextEvent{e, err}, wanted)
		if err != nil {
			return
		}
	}
}

// reply answers want.
func (b *call) reply(n nextEvent, wanted bool) {
	if !wanted {
		return
	}
	select {
	case b.got <- n:
	case <-b.gone:
	}
}
