package modernclient

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// reading says which goroutine reads what the server says about a parked call.
//
// At first that is the goroutine of the client's request, which for most calls has nothing else to do. A goroutine of
// the call's own takes over when something else must be waited for as well: when the server has asked, when another
// goroutine has a message for the client, and when the client leaves.
type reading struct {
	st       upstream.Interruptible // the stream; nil if reading it cannot be interrupted
	released bool                   // release was called; used only by the goroutine that reads

	mu   sync.Mutex
	busy bool // the client's goroutine reads
}

// step is what one message of the server, or its absence, means for the reading of a call.
type step int

const (
	goOn     step = iota
	handOver      // something else must be waited for as well
	over          // nothing more is read
)

// start begins to read the messages about the request that x has sent. It reports whether the goroutine of the client's
// request has to read them, with readFor.
func (d *parkedCall) start(x *asking) (here bool) {
	d.mu.Lock()
	d.x, d.cut, d.seen = x, x.stop, x.Seen()
	gone, from := d.over, d.from
	d.awaitServer(d.patience().FirstByte)
	d.mu.Unlock()
	if gone { // the client has already left
		d.cancelAtServer("client disconnected", from)
	}
	if d.reading.st = x.Interruptible(); d.reading.st == nil {
		d.readOn()
		return false
	}
	x.crossing.Alone = true
	return true
}

// readOn starts a goroutine that reads the rest.
func (d *parkedCall) readOn() {
	d.x.crossing.Alone = false
	d.br.host.Spawn(func() {
		for d.readNext() != over {
		}
	})
}

// readFor reads on the goroutine of the client's request, until there is a message for the client in box. It returns
// false once this goroutine has nothing more to read.
func (d *parkedCall) readFor(ctx context.Context, box *outbox.Outbox) bool {
	for {
		d.setBusy(true)
		next := handOver
		if ctx.Err() == nil && !box.Waiting() {
			next = d.readNext()
		}
		d.setBusy(false)
		switch {
		case next == over:
			return false
		case next == handOver:
			d.readOn()
			return false
		case box.Waiting():
			return true
		}
	}
}

func (d *parkedCall) setBusy(is bool) {
	d.reading.mu.Lock()
	d.reading.busy = is
	d.reading.mu.Unlock()
}

// Wake ends the wait of readFor. It implements [outbox.Reader].
func (d *parkedCall) Wake() {
	d.reading.mu.Lock()
	defer d.reading.mu.Unlock()
	if d.reading.busy {
		d.reading.st.Interrupt()
	}
}

// readNext reads one message of the server about the call. It releases the session before the client receives the
// response.
func (d *parkedCall) readNext() (next step) {
	defer func() {
		if p := recover(); p != nil {
			d.br.host.Report.Panicked(p)
			f := mcp.Fail(mcp.Panicked, "")
			d.finish(outbox.Message{Body: f.Body(), Status: f.Status})
			d.b.forgetOpened(d)
			next = over
		}
		if next == over {
			d.release()
		}
	}()
	x := d.x
	e, err := x.Next()
	switch {
	case errors.Is(err, sse.ErrInterrupted):
		return handOver
	case errors.Is(err, bridge.ErrAsked):
		urls := x.crossing.URLs()
		if urls != nil {
			x.CountLater()
			d.countLater()
		}
		if d.ask(x.crossing.TakeQuestions()); urls == nil {
			return handOver
		}
		d.release()
		d.askURLs(urls)
		return over
	case errors.Is(err, io.EOF), err != nil && x.Left():
		return over
	case err != nil:
		unbegun := x.Unbegun(err)
		f := x.Fail(err)
		if f.Cause == mcp.UpstreamLost || unbegun {
			d.br.pool.discard(d.b)
		}
		d.release()
		d.finish(outbox.Message{Body: f.WithID(nil).Body(), Status: f.SessionlessStatus(), Header: f.Header, Unbegun: unbegun})
		return over
	case x.Final():
		status := statusOf(x.Message(), e.Data)
		body, err := d.br.host.Memory().Clone(x.ctx, large.AnswerWait, large.Copy, e.Data)
		if err != nil {
			f := x.Fail(err)
			body, status = f.WithID(d.first.ID).Body(), f.SessionlessStatus()
		}
		if f := x.undeclared(d.missingCapabilities()); f != nil {
			body, status = f.WithID(d.first.ID).Body(), f.Status
			x.Settle(metrics.Refused)
		}
		d.release()
		d.finish(outbox.Message{Body: body, Status: status, For: d.first.ID})
		return over
	}
	d.notify(x.Message(), e.Data)
	if !x.crossing.Alone {
		d.awaitRoom(x.ctx)
	}
	return goOn
}

// release releases the session and the exchange of the call.
func (d *parkedCall) release() {
	if d.reading.released {
		return
	}
	d.reading.released = true
	d.b.leave(d)
	d.x.Done()
	d.br.pool.release(d.b)
}

// whileSending calls send, which may wait for a client that reads slowly. Meanwhile the server is not silent: it is not
// read.
func (d *parkedCall) whileSending(send func() error) error {
	d.mu.Lock()
	if len(d.asked) == 0 && d.timer != nil {
		d.timer.Stop()
	}
	d.mu.Unlock()
	err := send()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.awaitServer(d.patience().Silence)
	return err
}
