package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/lines"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
)

// output is the Stream of what a child writes to its standard output.
type output struct {
	Plain
	child   *Child
	ctx     context.Context
	unwatch func() bool
	lines   *lines.Reader
	count   int // lines so far
	spread  spread

	err error // the error with which the stream has ended

	once sync.Once
	done chan struct{} // closed by Close
	mu   sync.Mutex    // held while a line is read, and by Forget of the last one
}

// Listen returns the one Stream of the child's messages. It ends with an *ExitError when
// the child ends. A line over the limit is an *Error that wraps a *TooLargeError, after
// which others may follow.
//
// While no caller reads the Stream, the child may have to wait with its output.
func (c *Child) Listen(ctx context.Context, _ ListenOptions) (Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.listening.Swap(true) {
		return nil, fmt.Errorf("upstream %q: %w", c.name, errListenTwice)
	}
	o := &output{child: c, ctx: ctx, done: make(chan struct{})}
	o.lines = lines.NewReader(o, c.maxMessage)
	if c.memory != nil {
		from := c.memory.Lender(ctx, pipeWait)
		o.lines = lines.NewReaderIn(&from, o, c.maxMessage)
	}
	o.unwatch = context.AfterFunc(ctx, func() { c.out.Close() })
	return o, nil
}

// Read reads from the pipe. What the child wrote before its end can still be read after
// it.
func (o *output) Read(p []byte) (int, error) {
	select {
	case <-o.child.exited:
		o.child.out.SetReadDeadline(time.Now().Add(drainTime)) //nolint:errcheck // without deadlines, Close ends the read
	default:
	}
	return o.child.out.Read(p)
}

// Events implements Stream.
func (o *output) Events(yield func(sse.Event, error) bool) {
	for {
		if e, err := o.event(); !yield(e, err) || err != nil && !skipped(err) {
			return
		}
	}
}

// event reads the next message.
func (o *output) event() (sse.Event, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil {
		text, err := o.lines.Next()
		var (
			long   *lines.TooLongError
			within bool
			whole  *SpreadError
		)
		if o.count++; err == nil {
			within, whole = o.spread.line(text, o.count, o.child.maxMessage)
		}
		switch {
		case o.given() != nil:
			o.err = o.given()
		case errors.As(err, &long):
			return sse.Event{}, &Error{Op: "read", Addr: o.child.name, Err: tooLarge(long.Limit, true, &long.Message, long.NoRoom)}
		case err != nil:
			o.err = o.end()
		case whole != nil:
			o.child.noise.spoken.Store(true)
			whole.Begins = o.child.quote(whole.Begins)
			return sse.Event{}, &Error{Op: "read", Addr: o.child.name, Err: whole}
		case !within && isMessage(text):
			o.child.noise.spoken.Store(true)
			return sse.Event{Data: text}, nil
		default:
			o.err = o.skip(text)
		}
	}
	o.lines.Forget()
	return sse.Event{}, o.err
}

// isMessage reports whether a line may be JSON-RPC: one message or a batch. Lines of logs often begin with a time or a level
// in brackets.
func isMessage(text []byte) bool {
	text = bytes.TrimLeft(text, " \t")
	if batch, is := bytes.CutPrefix(text, []byte("[")); is {
		text = bytes.TrimLeft(batch, " \t")
		return len(text) > 0 && (text[0] == '{' || text[0] == '[' || text[0] == ']')
	}
	return len(text) > 0 && text[0] == '{'
}

// skip counts a line that is not a message. It returns an error if there were too many.
func (o *output) skip(text []byte) error {
	if o.child.skipped != nil {
		o.child.skipped(text[:min(len(text), maxTailLine)])
	}
	if o.child.noise.add(text) {
		return nil
	}
	err := o.child.noise.error(o.child.quote)
	o.child.fail(err)
	return &Error{Op: "read", Addr: o.child.name, Err: err}
}

// end stops the child, which will write no more, and waits for its end.
func (o *output) end() error {
	o.child.stop(errClosedOut)
	select {
	case <-o.child.exited:
		return o.child.ended()
	case <-o.done:
		return ErrClosed
	case <-o.ctx.Done():
		return o.ctx.Err()
	}
}

// given returns why this side reads no more, or nil.
func (o *output) given() error {
	select {
	case <-o.done:
		return ErrClosed
	default:
		return o.ctx.Err()
	}
}

// Close implements Stream. The child itself goes on, and finds its standard output
// closed.
func (o *output) Close() error {
	o.once.Do(func() {
		close(o.done)
		o.unwatch()
		o.child.out.Close()
		if o.mu.TryLock() { // otherwise Events does it
			o.lines.Forget()
			o.mu.Unlock()
		}
	})
	if mute := o.child.Mute(); mute != nil {
		return mute
	}
	return nil
}
