package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/unpack"
)

// exchange is one request and its response, and the Stream of the messages in the
// response. Closing its connection, and no other, cancels it.
type exchange struct {
	http *HTTP
	ctx  context.Context
	end  callctx.Watch // of ctx

	firstByte, silence time.Duration
	deadline           time.Time // of the response's head; zero for none
	carried            *carried  // until the head is read; nil if the request carries no credential
	again              *buffer   // the request as it was written, until the head is read; nil if it must not be sent twice

	mu     sync.Mutex
	conn   *conn // nil once it was given back or closed
	kind   kind  // which never changes
	busy   bool  // an event is read
	waits  bool  // Events waits for data
	halt   bool  // Interrupt was called, and Events has not given ErrInterrupted for it
	lent   bool  // the caller may still read the last event
	closed bool
	waker  mcp.Waker // of a parked stream; nil for others

	// The rest belongs to Events, and to Close when Events does not read.
	phase    phase
	err      error // the error with which the stream has ended
	writeErr error // why the request was not written completely
	body     body
	packed   *unpack.Reader // decodes body; nil if it is not compressed
	buf      *buffer
	part     []byte // of the object that an interrupted Events has begun to read
	large    []byte // lent by memory, used instead of buf; nil for none
	reader   *sse.Reader
	session  string
	jar      *jar          // the cookies of the session; nil for none
	told     *[]mcp.Header // as in Outgoing
	memory   large.Lender

	interrupted bool // the last wait for an event was
	parks       bool // as in [ListenOptions]; false if that has failed
	parked      bool // it was parked before
}

// exchange writes one request. The response is still to be read.
func (h *HTTP) exchange(ctx context.Context, r request) (*exchange, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h = h.latest()
	asked := time.Now()
	carried, err := h.carry(ctx, &r)
	if err != nil {
		return nil, err
	}
	if carried != nil && !r.deadline.IsZero() { // which is for the server, not for the credential
		r.deadline = r.deadline.Add(time.Since(asked))
	}
	buf := h.buffer()
	defer h.release(buf)
	if buf.b, err = h.head.append(buf.b, r, h.cookies); err != nil {
		return nil, fmt.Errorf("upstream %s: %w", h.addr, err)
	}
	x := &exchange{
		http: h, ctx: ctx, kind: r.kind, session: r.id, jar: r.jar, told: r.told,
		firstByte: cmp.Or(r.firstByte, h.firstByte),
		silence:   cmp.Or(r.silence, h.silence),
		deadline:  r.deadline,
		carried:   carried,
	}
	x.memory = h.memory.Lender(ctx, r.kind.patience(x.silence))
	if r.repeats && len(buf.b)+len(r.content) <= keepBuffer {
		x.again = h.buffer()
		x.again.b = append(append(x.again.b, buf.b...), r.content...)
	}
	if err := x.write(buf.b, r.content); err != nil {
		x.forget()
		return nil, err
	}
	return x, nil
}

// plainTime is how long a server may take to begin a standing stream that it has begun already, in another way.
const plainTime = 5 * time.Second

// plainly returns the request for the same standing stream, uncompressed.
func (r request) plainly() request {
	r.plain, r.firstByte = true, plainTime
	return r
}

// orPlain returns x, a standing stream that has begun, or what open returns in its place if x is compressed: such a stream cannot
// be parked, and its decoder takes memory. A server that compresses all streams is not asked a second time. x stays open until
// there is another one, since some servers grant only one.
func (h *HTTP) orPlain(x *exchange, open func() (*exchange, error)) *exchange {
	h = h.latest()
	if x.packed == nil || h.packs.Load() {
		return x
	}
	plain, err := open()
	if err != nil || plain.packed != nil {
		h.packs.Store(true)
	}
	if err != nil {
		return x
	}
	x.Close()
	return plain
}

// write sends the request over an idle connection or a new one. It sends it again only
// if no byte of it has left this machine.
func (x *exchange) write(head, content []byte) error {
	dialing, cancel := x.dialing()
	defer cancel()
	c, reused, err := x.take(dialing)
	if err != nil {
		return x.unreached(err)
	}
	x.conn = c
	x.end = callctx.Notify(x.ctx, x)
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
		if x.ctx.Err() != nil { // ctx ended while there was no connection to abort
			x.abort()
		}
		n, err = c.write(head, content, x.silence)
	}
	if err == nil {
		return nil
	}
	if n == 0 && c.gate == nil || isTimeout(err) || x.ctx.Err() != nil {
		x.abort()
		x.unwatch()
		return x.failure("write", err)
	}
	// The server may have refused before it had read everything, and its
	// answer says more than a broken pipe. So does its alert if it refuses TLS.
	x.writeErr = err
	return nil
}

// take returns a connection for the request. A standing stream gets a new one: it keeps it, and is to begin at once also while idle
// ones are dead, and not known to be.
func (x *exchange) take(dialing context.Context) (c *conn, reused bool, err error) {
	if x.kind.standing() {
		c, err = x.http.pool.fresh(dialing)
		return c, false, err
	}
	return x.http.pool.get(dialing)
}

// dialing bounds how long the exchange may wait for a connection.
func (x *exchange) dialing() (context.Context, context.CancelFunc) {
	switch {
	case x.deadline.IsZero() && x.kind.standing(): // what is derived from x.ctx would stay there as long as the stream
		ctx := callctx.Under(x.ctx)
		return ctx, func() { ctx.End(nil) }
	case x.deadline.IsZero():
		return x.ctx, func() {}
	}
	return context.WithDeadline(x.ctx, x.deadline)
}

// unreached returns the error if there is no connection.
func (x *exchange) unreached(err error) error {
	if ended := x.ctx.Err(); ended != nil && err == context.Canceled {
		return ended
	}
	if err == context.DeadlineExceeded && x.ctx.Err() == nil && !x.deadline.IsZero() {
		return &Error{Op: "connect", Addr: x.http.addr, Err: &silence{what: "no connection", after: x.firstByte}}
	}
	return err
}

// await lets reads wait for d, or until the deadline if that is earlier.
func (x *exchange) await(c *conn, d time.Duration) error {
	if !x.deadline.IsZero() && time.Until(x.deadline) < d {
		return c.SetReadDeadline(x.deadline)
	}
	return c.readWithin(d)
}

// current returns the connection, or nil if it was given back or closed.
func (x *exchange) current() *conn {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.conn
}

func (x *exchange) resize(c *conn, size int) {
	c.resize(size)
	x.body.src = c.in
}

// beginWait returns sse.ErrInterrupted if Events must not wait.
func (x *exchange) beginWait() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.halt {
		x.halt = false
		return sse.ErrInterrupted
	}
	x.waits = true
	return nil
}

// endWait returns the error of a read of c that has returned n and err.
func (x *exchange) endWait(c *conn, n int, err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waits = false
	if x.parks && n == 0 && isTimeout(err) {
		return sse.ErrInterrupted
	}
	if !x.halt {
		return err
	}
	no := c.Conn.SetReadDeadline(c.readBy)
	if n > 0 || no != nil || !isTimeout(err) {
		return err // the next wait is interrupted
	}
	x.halt = false
	return sse.ErrInterrupted
}

// CanInterrupt implements Stream. A request that carries a credential of dragoman's own may have to wait for a
// login before its head is read.
func (x *exchange) CanInterrupt() bool { return x.carried == nil }

// Interrupt implements Stream.
func (x *exchange) Interrupt() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.halt = true
	if x.waits && x.conn != nil {
		_ = x.conn.Conn.SetReadDeadline(time.Unix(1, 0)) // if that fails, the read fails as well
	}
}

// SessionID implements Stream.
func (x *exchange) SessionID() string { return x.session }

// Whole implements Stream.
func (x *exchange) Whole() bool { return x.phase == over }

// Release implements Stream.
func (x *exchange) Release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lent = false
}

// Close implements Stream. The connection is kept for further messages if the rest of
// the response comes at once.
func (x *exchange) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	c := x.conn
	x.conn = nil
	x.wake(c)
	if x.busy { // Events frees the rest
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
	c.reader = nil
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
	rest := x.body // x may not be used any more
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
		c.reader = nil
		x.http.pool.put(c)
	}
}

// abort closes the connection, if the exchange still has it.
func (x *exchange) abort() {
	x.mu.Lock()
	c := x.conn
	x.conn = nil
	x.wake(c)
	x.mu.Unlock()
	if c != nil {
		x.http.pool.discard(c)
	}
}

// ContextEnded implements [callctx.Waiter].
func (x *exchange) ContextEnded() { x.abort() }

// unwatch ends the watch of ctx.
func (x *exchange) unwatch() { x.end.Stop() }

// forget gives back the copy of the request.
func (x *exchange) forget() {
	if x.again != nil {
		x.http.release(x.again)
		x.again = nil
	}
}

// free gives back the memory of Events, except what is lent: that stays with the caller
// that may still read it.
func (x *exchange) free() {
	x.unwatch()
	x.forget()
	x.unpacked()
	if x.lent {
		x.abandon()
		return
	}
	if x.buf != nil {
		x.http.release(x.buf)
		x.buf = nil
	}
	if b := x.large; b != nil {
		x.large = nil // before Put, after which another message may use the memory
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

// unpacked gives back what decodes the body.
func (x *exchange) unpacked() {
	if x.packed != nil {
		x.packed.Close()
		x.packed = nil
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

// fail ends the exchange, and returns the error that Events gives from now on.
func (x *exchange) fail(err error) error {
	x.err = x.failure("read", err)
	if x.body.ended {
		x.finish() // most often a refusal: the connection can be used again
	} else {
		x.abort()
		x.unwatch()
	}
	return x.err
}

// failure turns an error into one for the caller.
func (x *exchange) failure(op string, err error) error {
	var (
		status *StatusError
		hop    *ProxyError
		event  *sse.TooLargeError
		lacks  *CredentialError
	)
	switch {
	case x.ctx.Err() != nil:
		return x.ctx.Err()
	case errors.Is(err, net.ErrClosed) || err == ErrClosed:
		return ErrClosed
	case err == ErrNoStream || errors.As(err, &status) || errors.As(err, &lacks):
		return err
	case errors.As(err, &hop):
		op = "connect"
	case errors.As(err, &event):
		err = tooLarge(event.Limit, event.Skipped, &event.Message, event.NoRoom)
	case isTimeout(err) && op == "write":
		err = &silence{what: "the server has not read the request", after: x.silence, midway: true}
	case isTimeout(err) && x.phase == awaiting:
		err = &silence{what: "no answer", after: x.firstByte}
	case isTimeout(err):
		err = &silence{what: "no further data", after: x.silence, midway: true}
	case x.writeErr != nil && x.phase == awaiting && !IsAlert(err):
		op, err = "write", x.writeErr
	}
	return &Error{Op: op, Addr: x.http.addr, Err: err, Unanswered: x.phase == awaiting}
}
