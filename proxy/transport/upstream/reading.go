package upstream

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/samehead"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxTries is how often a request is sent with a new credential. Credentials give up earlier.
const maxTries = 4

// readHead reads the head of the response. If the connection was dead and the server may get the request twice, it is sent once
// more; so it is if the server refuses the credential and there is a new one.
func (x *exchange) readHead(c *conn) error {
	err := x.readOneHead(c)
	if x.again != nil && err != sse.ErrInterrupted {
		if dial.IsDead(err) {
			err = x.repeat(c)
		}
		x.forget()
	}
	again := x.carried
	if again == nil {
		if refusal, ok := errors.AsType[*StatusError](err); ok && x.http.explain != nil {
			return x.http.explain(refusal)
		}
		return err
	}
	x.carried = nil
	defer x.http.drop(again)
	for tries := 0; ; tries++ {
		refusal, ok := errors.AsType[*StatusError](err)
		if !ok || refusal.Code != http.StatusUnauthorized && refusal.Code != http.StatusForbidden || tries == maxTries {
			return err
		}
		asked := time.Now()
		if no := again.by.Refused(x.ctx, again.value, refusal, tries); no != nil {
			if x.ctx.Err() != nil {
				return x.ctx.Err()
			}
			if _, passed := errors.AsType[*StatusError](no); passed {
				return no
			}
			return &CredentialError{no}
		}
		if !x.deadline.IsZero() { // which is for the server, not for the credential
			x.deadline = x.deadline.Add(time.Since(asked))
		}
		if err := again.renew(x.ctx); err != nil {
			return err
		}
		if c, err = x.resend(&again.r); err != nil {
			return err
		}
		err = x.readOneHead(c)
	}
}

// repeat sends the request once more, as the connection was dead, and reads the head of the response.
func (x *exchange) repeat(dead *conn) error {
	c, err := x.overNew(x.again.b, nil)
	if err != nil {
		return err
	}
	c.reader = dead.reader
	return x.readOneHead(c)
}

// resend sends a request over a new connection, in the place of the one that was refused.
func (x *exchange) resend(r *request) (*conn, error) {
	buf := x.http.buffer()
	defer x.http.release(buf)
	var err error
	if buf.b, err = x.http.head.append(buf.b, *r, x.http.cookies); err != nil {
		return nil, err
	}
	return x.overNew(buf.b, r.content)
}

// overNew writes a request to a new connection, which replaces that of x.
func (x *exchange) overNew(head, content []byte) (*conn, error) {
	x.abort()
	x.writeErr = nil
	dialing, cancel := x.dialing()
	defer cancel()
	c, err := x.http.pool.fresh(dialing)
	if err != nil {
		return nil, x.unreached(err)
	}
	x.mu.Lock()
	x.conn = c
	closed := x.closed
	x.mu.Unlock()
	if closed || x.ctx.Err() != nil { // while there was no connection to abort
		x.abort()
		return nil, ErrClosed
	}
	if _, err := c.write(head, content, x.silence); err != nil {
		return nil, x.failure("write", err)
	}
	return c, nil
}

// settle reads a response of which only the status matters.
func (x *exchange) settle() error {
	defer x.Close() //nolint:errcheck // it has none
	if err := x.readHead(x.current()); err != nil {
		return x.fail(err)
	}
	return nil
}

// open reads the head of the response, ahead of Events.
func (x *exchange) open() error {
	if err := x.readHead(x.current()); err != nil {
		defer x.Close() //nolint:errcheck // it has none
		return x.fail(err)
	}
	return nil
}

// Events implements Stream.
func (x *exchange) Events(yield func(sse.Event, error) bool) {
	for {
		if e, err := x.event(); !yield(e, err) || err != nil && !skipped(err) {
			return
		}
	}
}

// event reads the next event.
func (x *exchange) event() (sse.Event, error) {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return sse.Event{}, ErrClosed
	}
	x.busy, x.lent = true, false
	c := x.conn
	x.mu.Unlock()

	e, err := x.read(c)

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

func (x *exchange) read(c *conn) (sse.Event, error) {
	if x.err != nil {
		return sse.Event{}, x.err
	}
	if x.phase != over && (c == nil || x.ctx.Err() != nil) {
		return sse.Event{}, x.fail(ErrClosed) // or the error of ctx
	}
	if x.carried == nil && c != nil {
		c.reader = x
	}
	if x.phase == awaiting {
		if err := x.readHead(c); err == sse.ErrInterrupted {
			return sse.Event{}, err
		} else if err != nil {
			return sse.Event{}, x.fail(err)
		}
		if c = x.current(); c == nil && x.phase != over {
			return sse.Event{}, x.fail(ErrClosed)
		}
	}
	switch x.phase {
	case object:
		data, err := x.readObject()
		if err == sse.ErrInterrupted {
			return sse.Event{}, err
		}
		if err != nil {
			return sse.Event{}, x.fail(err)
		}
		x.phase = over
		x.finish()
		return sse.Event{Data: wire.Trim(data)}, nil
	case events:
		if x.reader == nil { // a standing stream may stay quiet: it gets no buffer before its first byte
			if err := x.begins(c); err == sse.ErrInterrupted {
				return sse.Event{}, err
			} // the reader gets any other error
			// A reader from the pool would have the larger buffer of an earlier response.
			x.reader = sse.NewReaderIn(&x.memory, x.content(), x.http.maxMessage)
		}
		if x.kind.standing() && c.in.Size() < streamBuffer {
			x.resize(c, streamBuffer)
		}
		if x.interrupted && !x.parks && x.packed == nil { // else the decoder may still have something
			switch err := x.rest(c); {
			case err == sse.ErrInterrupted:
				return sse.Event{}, err
			case err != nil && err != io.EOF:
				return sse.Event{}, x.fail(err)
			}
		}
		e, err := x.reader.Next()
		switch {
		case err == io.EOF:
			x.finish()
			x.err = io.EOF
			return sse.Event{}, io.EOF
		case err == sse.ErrInterrupted:
			if x.interrupted = !x.parks; x.parks {
				x.lie(c)
			}
			return sse.Event{}, err
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

// rest waits for more with as little memory as possible: no buffer for events, a small one for the connection, and a
// shallow stack. It is for a stream whose reader has changed, because the server then mostly waits for the answer of a
// person. A later read would get only io.EOF again, not another error.
func (x *exchange) rest(c *conn) error {
	x.interrupted = false
	if x.body.ended || c.in.Buffered() > 0 || !x.reader.Rest() {
		return nil
	}
	x.resize(c, restBuffer)
	c.known = samehead.Head{}
	_, err := c.in.Peek(1)
	x.resize(c, smallHead)
	x.interrupted = err == sse.ErrInterrupted
	return err
}

// begins waits for the first byte of a standing stream. A stream that can be parked does not wait: mostly, nothing ever comes.
func (x *exchange) begins(c *conn) error {
	switch {
	case x.body.ended:
		return nil
	case x.parks && !x.parked && c.in.Buffered() == 0 && len(c.unread) == 0 && c.gate == nil: // TLS may have read ahead
		return sse.ErrInterrupted
	}
	_, err := c.in.Peek(1)
	return err
}

// lie releases the memory that a stream does not need while it is parked.
func (x *exchange) lie(c *conn) {
	if x.reader.Rest() {
		x.resize(c, restBuffer)
	}
}
