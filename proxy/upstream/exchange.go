package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// phase is how far the response of an exchange was read.
type phase uint8

const (
	awaiting phase = iota // the head is still to come
	object                // a body of JSON is
	events                // there is a stream of events
	over                  // nothing more is to come
)

// exchange is one request and its response, and the Stream of what the
// response says. It is cancelled by closing exactly its connection.
type exchange struct {
	http *HTTP
	ctx  context.Context
	kind kind
	stop func() bool // no longer watch ctx

	firstByte, silence time.Duration
	deadline           time.Time // of the response's head; zero for none

	mu     sync.Mutex
	conn   *conn // nil once it was given back or given up
	busy   bool  // Next is under way
	lent   bool  // the caller may still read what it has returned
	closed bool

	// What follows belongs to Next, and to Close when Next is not under way.
	phase    phase
	err      error // what Next has ended with
	writeErr error // why the request was not written completely
	body     body
	buf      *buffer
	large    []byte // of http.memory, in the place of buf; nil for none
	reader   *sse.Reader
	session  string
	memory   large.Lender
}

// write sends the request over an idle connection or a new one. It is sent
// again only when nothing of it has left this machine.
func (x *exchange) write(head, content []byte) error {
	dialing, cancel := x.dialing()
	defer cancel()
	c, reused, err := x.http.pool.get(dialing)
	if err != nil {
		return x.unreached(err)
	}
	x.conn = c
	if x.ctx.Done() != nil {
		x.stop = context.AfterFunc(x.ctx, x.abort)
	}
	n, err := c.write(head, content, x.silence)
	if err != nil && n == 0 && reused && x.ctx.Err() == nil {
		x.abort()
		if c, err = x.http.pool.fresh(dialing); err != nil {
			x.unwatch()
			return x.unreached(err)
		}
		x.mu.Lock()
		x.conn = c
		x.mu.Unlock()
		if x.ctx.Err() != nil { // it ended while there was nothing to abort
			x.abort()
		}
		n, err = c.write(head, content, x.silence)
	}
	if err == nil {
		return nil
	}
	if n == 0 || isTimeout(err) || x.ctx.Err() != nil {
		x.abort()
		x.unwatch()
		return x.failure("write", err)
	}
	// The server may have refused before it had read everything, and its
	// answer says more than a broken pipe.
	x.writeErr = err
	return nil
}

// dialing bounds how long the exchange may wait for a connection.
func (x *exchange) dialing() (context.Context, context.CancelFunc) {
	if x.deadline.IsZero() {
		return x.ctx, func() {}
	}
	return context.WithDeadline(x.ctx, x.deadline)
}

// unreached is what is said when there is no connection.
func (x *exchange) unreached(err error) error {
	if err == context.DeadlineExceeded && x.ctx.Err() == nil {
		return &Error{Op: "connect", Addr: x.http.addr, Err: &silence{what: "no connection", after: x.firstByte}}
	}
	return err
}

// await lets reading wait for d, or until the deadline where that is earlier.
func (x *exchange) await(c *conn, d time.Duration) error {
	if !x.deadline.IsZero() && time.Until(x.deadline) < d {
		return c.SetReadDeadline(x.deadline)
	}
	return c.readWithin(d)
}

// settle reads the response to something that has no answer but its status.
func (x *exchange) settle() error {
	defer x.Close() //nolint:errcheck // it has none
	if err := x.readHead(x.current()); err != nil {
		return x.fail(err)
	}
	return nil
}

// open reads the head of the response, ahead of Next.
func (x *exchange) open() error {
	if err := x.readHead(x.current()); err != nil {
		defer x.Close() //nolint:errcheck // it has none
		return x.fail(err)
	}
	return nil
}

// current returns the connection, or nil when it was given up.
func (x *exchange) current() *conn {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.conn
}

// Next implements Stream.
func (x *exchange) Next() (sse.Event, error) {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return sse.Event{}, ErrClosed
	}
	x.busy, x.lent = true, false
	c := x.conn
	x.mu.Unlock()

	e, err := x.next(c)

	x.mu.Lock()
	defer x.mu.Unlock()
	x.busy, x.lent = false, err == nil
	if x.closed {
		x.lent = false
		x.free()
		return sse.Event{}, ErrClosed
	}
	return e, err
}

func (x *exchange) next(c *conn) (sse.Event, error) {
	if x.err != nil {
		return sse.Event{}, x.err
	}
	if x.phase != over && (c == nil || x.ctx.Err() != nil) {
		return sse.Event{}, x.fail(ErrClosed) // or the error of ctx
	}
	if x.phase == awaiting {
		if err := x.readHead(c); err != nil {
			return sse.Event{}, x.fail(err)
		}
	}
	switch x.phase {
	case object:
		data, err := x.readObject(c)
		if err != nil {
			return sse.Event{}, x.fail(err)
		}
		x.phase = over
		x.finish()
		return sse.Event{Data: wire.Trim(data)}, nil
	case events:
		if x.reader == nil { // of a standing stream, which may stay quiet: it costs no buffer until it speaks
			if !x.body.ended {
				c.in.Peek(1) //nolint:errcheck // reading will tell
			}
			// Those in the pool have grown to what they once read.
			x.reader = sse.NewReaderIn(&x.memory, &x.body, x.http.maxMessage)
		}
		e, err := x.reader.Next()
		switch {
		case err == io.EOF:
			x.finish()
			x.err = io.EOF
			return sse.Event{}, io.EOF
		case err != nil:
			if skip := x.failure("read", err); skipped(skip) {
				return sse.Event{}, skip
			}
			return sse.Event{}, x.fail(err)
		}
		e.Data = wire.Trim(e.Data)
		return e, nil
	}
	return sse.Event{}, io.EOF
}

// SessionID implements SessionStream.
func (x *exchange) SessionID() string { return x.session }

// Whole reports whether the message that Next has returned is all that the response
// says, one body of JSON. It is not to be called during Next.
func (x *exchange) Whole() bool { return x.phase == over }

// Release implements Releaser.
func (x *exchange) Release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lent = false
}

// Close implements Stream. The connection is kept for further messages when
// what is left of the response comes at once.
func (x *exchange) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	c := x.conn
	x.conn = nil
	if x.busy { // Next frees the rest
		if c != nil {
			x.http.pool.discard(c)
		}
		return nil
	}
	x.unwatch()
	if c != nil {
		x.leave(c)
	}
	x.free()
	return nil
}

// leave gives back a connection whose response may not be read to its end.
func (x *exchange) leave(c *conn) {
	if x.phase == awaiting || x.kind.standing() || !c.reusable || x.ctx.Err() != nil {
		x.http.pool.discard(c)
		return
	}
	scratch := x.http.buffer()
	c.noWait = true
	ended := x.body.drain(scratch.b[:cap(scratch.b)], lingerBytes)
	c.noWait = false
	x.http.release(scratch)
	if ended {
		x.http.pool.put(c)
		return
	}
	rest := x.body // x may be used no more
	x.http.pool.linger(c, &rest)
}

// finish gives back the connection of a response that was read to its end.
func (x *exchange) finish() {
	x.mu.Lock()
	c := x.conn
	x.conn = nil
	x.mu.Unlock()
	x.unwatch()
	if c != nil {
		x.http.pool.put(c)
	}
}

// abort closes the connection, if it is still that of the exchange.
func (x *exchange) abort() {
	x.mu.Lock()
	c := x.conn
	x.conn = nil
	x.mu.Unlock()
	if c != nil {
		x.http.pool.discard(c)
	}
}

// unwatch ends what AfterFunc began.
func (x *exchange) unwatch() {
	if x.stop != nil {
		x.stop()
	}
}

// free gives back what Next worked with, but for what is lent: that is left to
// whoever looks at it.
func (x *exchange) free() {
	x.unwatch()
	if x.lent {
		x.abandon()
		return
	}
	if x.buf != nil {
		x.http.release(x.buf)
		x.buf = nil
	}
	if b := x.large; b != nil {
		x.large = nil // before it is given back: another message may have its memory then
		x.memory.Put(b)
	}
	if x.reader != nil {
		x.reader.ResetIn(nil, nil)
		if !x.kind.standing() {
			x.http.readers.Put(x.reader)
		}
		x.reader = nil
	}
}

func (x *exchange) abandon() {
	if x.large != nil {
		x.memory.Forget(x.large)
	}
	if x.reader != nil {
		x.reader.Abandon()
	}
	x.buf, x.large, x.reader = nil, nil, nil
}

// fail ends the exchange, and returns what Next says from now on.
func (x *exchange) fail(err error) error {
	x.err = x.failure("read", err)
	if x.body.ended {
		x.finish() // a refusal, most often: the connection is as good as before
	} else {
		x.abort()
		x.unwatch()
	}
	return x.err
}

// failure puts an error into the caller's words.
func (x *exchange) failure(op string, err error) error {
	var (
		status *StatusError
		hop    *ProxyError
		event  *sse.TooLargeError
	)
	switch {
	case x.ctx.Err() != nil:
		return x.ctx.Err()
	case errors.Is(err, net.ErrClosed) || err == ErrClosed:
		return ErrClosed
	case err == ErrNoStream || errors.As(err, &status):
		return err
	case errors.As(err, &hop):
		op = "connect"
	case errors.As(err, &event):
		err = tooLarge(event.Limit, event.Skipped, &event.Message, event.NoRoom)
	case isTimeout(err) && op == "write":
		err = &silence{what: "request not taken", after: x.silence, midway: true}
	case isTimeout(err) && x.phase == awaiting:
		err = &silence{what: "no answer", after: x.firstByte}
	case isTimeout(err):
		err = &silence{what: "nothing further", after: x.silence, midway: true}
	case x.writeErr != nil && x.phase == awaiting:
		op, err = "write", x.writeErr
	}
	return &Error{Op: op, Addr: x.http.addr, Err: err}
}
