package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients"
	"github.com/dragoman-proxy/dragoman/proxy/session/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// JSON-RPC batches exist in one revision only
// (https://modelcontextprotocol.io/specification/2025-03-26/basic#batching). dragoman splits a
// client's batch, so that translation and the server see single messages, and joins the responses.
// It never sends a batch to a server.

// batchReply processes the requests of one batch over HTTP. Each request is a leg with a goroutine
// of its own, which ends with the leg. To the legs it is the client.
type batchReply struct {
	x       *exchange.Exchange // the exchange of the POST
	group   *session.Batch
	legs    sync.WaitGroup
	started chan struct{} // closed when all legs have begun: the request is not needed any more

	mu       sync.Mutex
	to       mcp.Peer
	status   []*mcp.Failure
	order    [][]byte // responses that were not sent, in the order in which they came, for a streamed reply
	streamed bool     // the reply is an event stream
}

// postBatch answers a batch. As long as the legs only send responses, the reply is one array in the
// order of the requests. The first other message makes the reply an event stream.
func (face *Face) postBatch(x *exchange.Exchange, req *downstream.Request, resp *downstream.Response) error {
	items, slots, err := face.Split(x.Session, req.Body)
	if err != nil {
		return err
	}
	b := &batchReply{x: x, group: session.NewBatch(slots), started: make(chan struct{}), to: req.Client}
	resp.Done = b.done
	if req.Await != nil && slots > 0 {
		req.Await("null")
	}
	for _, it := range items {
		switch {
		case it.Refusal != nil:
			face.ObserveRefused(x.Session, it.Raw, it.Refusal)
			b.end(it.Slot, it.Refusal.Body(), nil)
		case it.Slot < 0 && x.Session.Pooled: // it would be about a session
		case it.Slot < 0:
			b.pass(it.Raw)
		default:
			b.start(it)
		}
	}
	close(b.started)
	b.legs.Wait()
	begun := false
	if req.Settle != nil {
		_, begun = req.Settle()
	}
	switch {
	case b.streamed:
		return nil
	case begun: // each response is an event of its own
		b.mu.Lock()
		defer b.mu.Unlock()
		b.streamed = true
		_ = b.flush()
		return nil
	case x.Ctx.Err() != nil: // the client has left, or dragoman is stopping
		return context.Cause(x.Ctx)
	}
	if f := b.verdict(slots); f != nil {
		return f
	}
	if resp.Body = b.group.Array(); resp.Body == nil {
		resp.Status = fasthttp.StatusAccepted
	}
	return nil
}

// Send implements [mcp.Peer].
func (b *batchReply) Send(e sse.Event) error {
	if len(e.Data) == 0 {
		return nil
	}
	select {
	case <-b.started:
	case <-b.x.Ctx.Done():
		return context.Cause(b.x.Ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streamed = true
	b.order = append(b.order, e.Data)
	return b.flush()
}

// end stores the response of a leg. It is nil if none is owed. failure is what it reports, if the leg has failed.
func (b *batchReply) end(slot int, response []byte, failure *mcp.Failure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.group.Put(slot, response)
	if failure != nil {
		b.status = append(b.status, failure)
	}
	if response != nil {
		b.order = append(b.order, response)
	}
	if b.streamed {
		_ = b.flush()
	}
}

// flush sends the client what has come. If that fails, the legs end. b.mu must be held.
func (b *batchReply) flush() (err error) {
	for _, m := range b.order {
		if err = b.to.Send(sse.Event{Data: m}); err != nil {
			b.x.Stop(downstream.ErrClientLeft)
			break
		}
	}
	b.order = b.order[:0]
	return err
}

// pass sends a notification or a response to the server. A failure is only logged.
func (b *batchReply) pass(raw []byte) {
	x := b.x.Leg()
	defer x.Done()
	defer func() {
		if p := recover(); p != nil {
			x.Common.Host.Report.Panicked(p)
		}
	}()
	out, v, err := x.FromClient(raw)
	if err == nil && v == wire.Forward {
		_, err = x.Forward(out)
	}
	if err != nil {
		x.Common.Failed(x, err)
	}
}

// start sends one request and starts a goroutine for the rest.
func (b *batchReply) start(it clients.Item) {
	x := b.x.Leg()
	defer func() {
		if p := recover(); p != nil {
			b.fail(x, it.Slot, x.Panicked(p, it.Raw))
		}
	}()
	out, v, err := x.FromClient(it.Raw)
	switch {
	case x.Recalled():
		b.end(it.Slot, nil, nil)
		x.Done()
		return
	case err != nil:
		b.fail(x, it.Slot, x.Refused(err))
		return
	case v == wire.Answer:
		x.Outcome = metrics.Local
		x.ObserveLocal(out)
		b.end(it.Slot, bytes.Clone(out), nil) // its buffer is x's
		x.Done()
		return
	}
	st, err := x.ForwardKept(out)
	switch {
	case err != nil && x.Unowed(err):
		b.end(it.Slot, nil, nil)
		x.Done()
		return
	case err != nil:
		b.fail(x, it.Slot, x.Common.Failed(x, err))
		return
	}
	x.Stream = st
	b.legs.Go(func() { b.follow(x, it.Slot) })
}

func (b *batchReply) fail(x *exchange.Exchange, slot int, f *mcp.Failure) {
	b.end(slot, f.Body(), f)
	x.Done()
}

// follow forwards the server's messages for one leg.
func (b *batchReply) follow(x *exchange.Exchange, slot int) {
	defer x.Done()
	var response []byte
	e, err := x.Answer(b)
	if err == nil {
		response, err = x.Keep(e.Data)
	}
	var failure *mcp.Failure
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: no response is owed
		failure = x.Common.Failed(x, err)
		response = failure.Body()
	}
	b.end(slot, response, failure)
}

// verdict returns the HTTP error for the whole POST: the 401 of any leg, or a 403 or 404 that all
// legs have in common. It returns nil if there is no such error.
func (b *batchReply) verdict(slots int) *mcp.Failure {
	same := len(b.status) == slots && slots > 0
	for _, f := range b.status {
		if f.Status == fasthttp.StatusUnauthorized {
			return f.WithoutID()
		}
		same = same && f.Status == b.status[0].Status
	}
	if same && (b.status[0].Status == fasthttp.StatusForbidden || b.status[0].Status == fasthttp.StatusNotFound) {
		return b.status[0].WithoutID()
	}
	return nil
}

// done cancels the legs and waits until they have ended.
func (b *batchReply) done() {
	b.x.Stop(nil)
	b.legs.Wait()
	b.x.Done()
}
