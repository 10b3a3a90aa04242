package modernclient

import (
	"context"
	"errors"
	"io"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// start begins to read the messages about the request that x has sent. It reports whether the goroutine of the client's
// request has to read them, with readFor.
func (d *parkedCall) start(x *asking) (here bool) {
	d.mu.Lock()
	d.x, d.cut, d.seen, d.own = x, x.stop, x.Seen(), x.Own()
	gone, from := d.over, d.from
	d.awaitServer(d.patience().FirstByte)
	d.mu.Unlock()
	if gone { // the client has already left
		d.cancelAtServer("client disconnected", from)
	}
	if d.reading.st = x.st; !x.st.CanInterrupt() {
		d.readOn()
		return false
	}
	return true
}

// readOn starts a goroutine that reads the rest.
func (d *parkedCall) readOn() {
	d.of.Host.Spawn(func() {
		for errors.Is(d.read(), sse.ErrInterrupted) {
		}
	})
}

// readFor reads on the goroutine of r, the client's request, until something else must be waited for as well, or until the
// response has come. It returns false if the client gets no more messages.
func (d *parkedCall) readFor(r *reader) bool {
	err := sse.ErrInterrupted
	if r.ctx.Err() == nil && !r.box.Waiting() {
		d.reading.here = r
		err = d.read()
		d.reading.here = nil
	}
	if !r.answered {
		r.box.SetReader(nil)
	}
	if err != nil {
		d.readOn()
	}
	return err != errUnread
}

// errUnread says that the client gets no more messages.
var errUnread = errors.New("the client has left")

// Wake ends the wait of readFor. It implements [outbox.Reader].
func (d *parkedCall) Wake() { d.reading.st.Interrupt() }

// ContextEnded implements [callctx.Waiter]: the client has left.
func (d *parkedCall) ContextEnded() { d.Wake() }

// read reads what the server says about the call to its end, or until it is interrupted: then there is an error.
func (d *parkedCall) read() (err error) {
	defer func() {
		if p := recover(); p != nil {
			d.of.Host.Report.Panicked(p)
			f := mcp.Fail(mcp.Panicked, "")
			d.finish(outbox.Message{Body: f.Body(), Status: f.Status})
			d.forgetURLs()
			err = nil
		}
		if err == nil {
			d.release()
		}
	}()
	x := d.x
	response, err := x.Answer(d)
	switch {
	case err == nil:
		d.answered(response)
	case err == errUnread, errors.Is(err, sse.ErrInterrupted):
		return err
	case errors.Is(err, crossing.ErrURLs):
		x.CountLater()
		d.countLater()
		d.endWithURLs(x)
	case errors.Is(err, io.EOF), x.Left():
	default:
		unbegun, err := x.refused(err)
		f := x.Fail(err)
		if f.Cause == mcp.UpstreamLost || unbegun {
			d.b.discard()
		}
		d.release()
		d.finish(outbox.Message{Body: f.WithID(nil).Body(), Status: f.SessionlessStatus(), Header: f.Header, Unbegun: unbegun})
	}
	return nil
}

// endWithURLs ends the call at the server, which has answered x with URLs. The session stays in use until they are expected.
func (d *parkedCall) endWithURLs(x *asking) {
	pool, b := d.of.pool, d.b
	pool.retain(b)
	defer pool.release(b)
	d.release()
	d.askURLs(x.crossing.URLs())
}

// answered ends the call with the server's response.
func (d *parkedCall) answered(response []byte) {
	x, r := d.x, d.reading.here
	status := statusOf(x.Message(), response)
	undeclared := x.undeclared(d.missingCapabilities())
	if undeclared == nil && r != nil && !r.box.Waiting() && d.endFor(r.box) { // what waits for the client comes before it
		d.reading.released = true
		r.known = !d.b.calls.leave(d) || d.late
		r.answered, r.response, r.status = true, response, status
		return
	}
	body, err := d.of.Host.Memory().Clone(x.ctx, large.AnswerWait, large.Copy, response)
	if err != nil {
		f := x.Fail(err)
		body, status = f.WithID(d.first.ID).Body(), f.SessionlessStatus()
	}
	if f := undeclared; f != nil {
		body, status = f.WithID(d.first.ID).Body(), f.Status
		x.Settle(metrics.Refused)
	}
	d.release()
	d.finish(outbox.Message{Body: body, Status: status, For: d.first.ID})
}

// MayWait implements [crossing.Client]: the goroutine of a client's request must see what else its client is sent.
func (d *parkedCall) MayWait() bool { return d.reading.here == nil }

// Send implements [crossing.Client]: it sends the client a notification of the server.
func (d *parkedCall) Send(e sse.Event) error {
	m, r := d.x.Message(), d.reading.here
	switch {
	case r == nil:
		d.notify(m, e.Data)
		d.awaitRoom(d.x.ctx)
		return nil
	case r.box.Waiting():
		d.notify(m, e.Data)
		return nil
	case !d.b.interested(r.q, m, e.Data):
		return nil
	}
	d.stopTimer()
	err := r.client.Send(sse.Event{Data: e.Data})
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.awaitServer(d.patience().Silence); err != nil {
		return errUnread
	}
	return nil
}

// stopTimer stops the limit for the server's silence while the client reads more slowly than the server writes: the
// server is not silent, but not read.
func (d *parkedCall) stopTimer() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.asked.open) == 0 {
		d.halt()
	}
}

// awaitRoom waits while the client reads more slowly than the server writes.
func (d *parkedCall) awaitRoom(ctx context.Context) {
	d.mu.Lock()
	box := d.box
	d.mu.Unlock()
	if box == nil || !box.Crowded() {
		return
	}
	d.stopTimer()
	box.AwaitRoom(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaitServer(d.patience().Silence)
}

// release releases the session and the exchange of the call.
func (d *parkedCall) release() {
	if d.reading.released {
		return
	}
	d.reading.released = true
	if r := d.reading.here; r != nil {
		r.box.SetReader(nil) // nothing is left to interrupt
	}
	d.b.calls.leave(d)
	d.x.Done()
	d.of.pool.release(d.b)
}
