package upstream

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/lines"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
)

const (
	// maxNoiseLines and maxNoiseBytes bound what a child may write before its first
	// message that is not a message. Package runners and print statements write such
	// lines.
	maxNoiseLines = 1000
	maxNoiseBytes = 1 << 20
	// maxSaid is how many of these lines are quoted.
	maxSaid = 5
)

// output is the Stream of what a child writes to its standard output.
type output struct {
	Plain
	child   *Child
	ctx     context.Context
	unwatch func() bool
	lines   *lines.Reader

	err error // the error with which the stream has ended

	once sync.Once
	done chan struct{} // closed by Close
	mu   sync.Mutex    // held while a line is read, and by Forget of the last one
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
		var long *lines.TooLongError
		switch {
		case o.given() != nil:
			o.err = o.given()
		case errors.As(err, &long):
			return sse.Event{}, &Error{Op: "read", Addr: o.child.name, Err: tooLarge(long.Limit, true, &long.Message, long.NoRoom)}
		case err != nil:
			o.err = o.end()
		case isMessage(text):
			o.child.noise.spoken.Store(true)
			return sse.Event{Data: text}, nil
		default:
			o.err = o.skip(text)
		}
	}
	o.lines.Forget()
	return sse.Event{}, o.err
}

// isMessage reports whether a line may be JSON-RPC: one message or a batch.
func isMessage(text []byte) bool {
	text = bytes.TrimLeft(text, " \t")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

// skip counts a line that is not a message. It returns an error if there were too many.
func (o *output) skip(text []byte) error {
	if o.child.noise.add(text) {
		return nil
	}
	err := o.child.noise.error(o.child.quote)
	o.child.fail(err)
	return &Error{Op: "read", Addr: o.child.name, Err: err}
}

// noise counts what a child writes to its standard output that is not a message.
type noise struct {
	spoken atomic.Bool // the child has written a message

	mu    sync.Mutex
	all   int64
	lines int // before the first message
	bytes int
	said  []string // the first of these lines
}

// add counts a line. It returns false if there were too many before the first message.
func (n *noise) add(text []byte) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all++
	if n.spoken.Load() {
		return true
	}
	if n.lines < maxSaid {
		n.said = append(n.said, cut(text, maxTailLine))
	}
	n.lines++
	n.bytes += len(text)
	return n.lines <= maxNoiseLines && n.bytes <= maxNoiseBytes
}

// error returns the error for too many lines.
func (n *noise) error(quote func(string) string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return &NoiseError{Lines: n.lines, First: quote(n.said[0])}
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
	if mute := o.child.mute(); mute != nil {
		return mute
	}
	return nil
}
