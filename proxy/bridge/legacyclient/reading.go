package legacyclient

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/requests"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// reading is a call as its client reads it: the stream of what the client gets for the request.
//
// At first Events itself reads what the server sends, which for most calls is all there is to do. A goroutine of the
// call's own takes over if the client leaves, and if something else must be waited for: answers of the client, or
// another request to the server. From then on Events asks it for each message, so that it reads none before the last one
// was taken.
//
// The call continues when the client closes the stream: a modern server would take that as a cancellation, and a
// client with a session does not mean it so.
type reading struct {
	upstream.Plain
	call
	client  context.Context // ends when the client leaves
	watched bool
	watch   callctx.Watch   // of client
	halt    upstream.Stream // the server's stream while Events reads it
	wanted  chan struct{}   // set before entered, like pushed
	pushed  chan nextEvent
	arrived atomic.Bool // the goroutine has the answer, and gives it to a client that stays

	mu      sync.Mutex
	busy    bool // Events reads
	closed  bool
	entered bool        // the goroutine has taken over
	ended   bool        // nothing runs the call any more
	alone   bool        // only the caller of Pass knows the call, and only until it calls Close
	stays   func() bool // undoes that the shutdown ends the call; nil if the client has not left the goroutine
}

// nextEvent is what Events gives next.
type nextEvent struct {
	event sse.Event
	err   error
}

// sendFirst is post for a client that waits until the request is written. Until then the call ends with its client: the server does not know it.
func (b *reading) sendFirst(e *results.Enquiry) (upstream.Stream, error) {
	watch := callctx.Notify(b.client, (*unsent)(b))
	st, err := b.post(e)
	if !watch.Stop() {
		b.alone = false // ContextEnded may still run
	}
	return st, err
}

// unsent is a call whose first request is being sent.
type unsent reading

// ContextEnded implements [callctx.Waiter]: the client has left, or dragoman ends.
func (b *unsent) ContextEnded() { b.ctx.End(context.Cause(b.client)) }

// start makes the goroutine take over at once if reading cannot be interrupted.
func (b *reading) start() {
	if b.st.CanInterrupt() {
		b.halt = b.st
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.takeOver(nil)
}

// takeOver starts the goroutine, which first does then, unless that is nil. b.mu must be held.
func (b *reading) takeOver(then func() error) {
	b.wanted, b.pushed, b.gone, b.entered = make(chan struct{}), make(chan nextEvent), make(chan struct{}), true
	if b.closed {
		b.leave()
	}
	b.c.host.Spawn(func() { b.run(then) })
}

// leave tells the goroutine that the client no longer waits for the call. b.mu must be held.
func (b *reading) leave() {
	close(b.gone)
	b.stays = context.AfterFunc(b.c.host.Draining, func() { b.ctx.End(nil) })
}

// Events implements [upstream.Stream].
func (b *reading) Events(yield func(sse.Event, error) bool) {
	for {
		if e, err := b.event(); !yield(e, err) || err != nil {
			return
		}
	}
}

// event returns the next event for the client.
func (b *reading) event() (sse.Event, error) {
	for {
		b.mu.Lock()
		switch {
		case b.entered:
			b.mu.Unlock()
			return b.take()
		case b.ended || b.closed || b.client.Err() != nil && (!b.over || b.recalled()):
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
func (b *reading) readHere() (e sse.Event, then func() error, err error) {
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
func (b *reading) ContextEnded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy {
		b.halt.Interrupt()
	}
}

// end ends a call that has no goroutine. It reports whether ContextEnded is not called any more. b.mu must be held.
func (b *reading) end() (quiet bool) {
	if b.ended {
		return false
	}
	b.ended = true
	quiet = b.watch.Stop()
	if b.c.reach == ByOwnProcess && !b.over {
		b.c.host.Spawn(b.finish) // it may send a cancellation
		return false
	}
	b.finish()
	return quiet
}

// readings has the memory of calls that nothing knows any more.
var readings = sync.Pool{New: func() any { return new(reading) }}

// maxBody is the size of a request to the server whose memory is used again.
const maxBody = 4 << 10

// Close closes the client's stream. The call to the server goes on.
func (b *reading) Close() error {
	if b.close() && b.alone {
		body := b.request.Body[:0]
		if cap(body) > maxBody {
			body = nil
		}
		*b = reading{call: call{scratch: body}}
		readings.Put(b)
	}
	return nil
}

// close is Close. It reports whether the call had its answer, and no goroutine.
func (b *reading) close() (over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.closed = true
	if context.Cause(b.client) == requests.ErrCancelled { // cancel may not have found the call
		b.ctx.End(requests.ErrCancelled)
	}
	switch {
	case b.ended:
	case b.entered:
		b.leave()
	case b.busy: // Events does the rest
		b.halt.Interrupt()
	case b.over:
		return b.end()
	default:
		b.takeOver(nil)
	}
	return false
}

// Release implements [upstream.Stream].
func (b *reading) Release() { b.released.Store(true) }

// recalled reports whether the client has cancelled the call.
func (b *reading) recalled() bool {
	return b.call.recalled() || context.Cause(b.client) == requests.ErrCancelled
}

// cause returns the reason for which there is no answer.
func (b *reading) cause() error {
	if b.recalled() {
		return requests.ErrCancelled
	}
	if err := context.Cause(b.client); err != nil {
		return err
	}
	return upstream.ErrClosed
}

// take asks the goroutine for the next message, and returns it. An answer that has come is not lost if the session ends.
func (b *reading) take() (sse.Event, error) {
	wanted, session, client := b.wanted, b.ctx.Done(), b.client.Done()
	for {
		select {
		case wanted <- struct{}{}:
			wanted = nil
		case n := <-b.pushed:
			if b.recalled() {
				return sse.Event{}, b.cause()
			}
			return n.event, n.err
		case <-b.gone:
			return sse.Event{}, upstream.ErrClosed
		case <-session:
			session = nil
		case <-client:
			client = nil
		}
		if (session == nil || client == nil) && (!b.arrived.Load() || b.recalled()) {
			return sse.Event{}, b.cause()
		}
	}
}

// abandoned returns a channel that is closed when the goroutine need not wait for the client any more: when the call ends. After
// the answer has come, it returns nil, which is never closed, since the client uses the answer's memory.
func (b *reading) abandoned() <-chan struct{} {
	if b.arrived.Load() {
		return nil
	}
	return b.ctx.Done()
}

// awaitWanted waits until the client wants a message, has left, or the call has ended.
func (b *reading) awaitWanted() {
	select {
	case <-b.wanted:
	case <-b.gone:
	case <-b.abandoned():
	}
}

// push gives the client a message. It waits until the client takes it, has left, or the call has ended.
func (b *reading) push(n nextEvent) {
	select {
	case b.pushed <- n:
	case <-b.gone:
	case <-b.abandoned():
	}
}

// run runs the call to its end. It first does then, unless that is nil.
func (b *reading) run(then func() error) {
	defer b.stop()
	defer func() {
		if p := recover(); p != nil {
			b.c.host.Report.Panicked(p)
			b.push(nextEvent{err: mcp.Fail(mcp.Panicked, "")})
		}
	}()
	for {
		b.awaitWanted()
		e, err := b.next(then)
		then = nil
		if err != nil && b.recalled() {
			err = requests.ErrCancelled
		}
		b.arrived.Store(b.over)
		b.push(nextEvent{e, err}) // the end is pushed as well: until the client takes it, it uses the answer
		if err != nil || b.ctx.Err() != nil && !b.over {
			return
		}
	}
}

// stop ends a call that has a goroutine.
func (b *reading) stop() {
	b.mu.Lock()
	b.ended = true
	if b.stays != nil {
		b.stays()
	}
	b.mu.Unlock()
	b.watch.Stop()
	b.arrived.Store(false) // and was taken
	b.finish()
}

// Scanned implements [Answering].
func (b *reading) Scanned() *wire.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entered || b.ended {
		return nil
	}
	return &b.msgs.down
}

// Told implements [Answering].
func (b *reading) Told() []mcp.Header { return b.told }

// Failed implements [Answering].
func (b *reading) Failed() bool { return b.lost.Load() }
