package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/clients"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// JSON-RPC batches exist in one revision only
// (https://modelcontextprotocol.io/specification/2025-03-26/basic#batching). dragoman splits a
// client's batch, so that translation and the server see single messages, and joins the responses.
// It never sends a batch to a server.

// legMessage is a message of the server for one leg of a batch.
type legMessage struct {
	slot    int
	message []byte       // nil if the leg ends without a response
	final   bool         // it is the leg's response, or the leg has ended
	failure *mcp.Failure // the failure that message reports, if the leg has failed
}

// batchReply processes the requests of one batch over HTTP. Each request is a leg with a goroutine
// of its own, which ends with the leg.
type batchReply struct {
	x      *exchange.Exchange // the exchange of the POST
	group  *session.Batch
	legs   sync.WaitGroup
	said   chan legMessage
	open   int // the number of legs that have not ended
	status []*mcp.Failure

	order    []legMessage // what was not sent, in the order in which it came, for a streamed reply
	streamed bool         // the reply is an event stream
}

// postBatch answers a batch. As long as the legs only send responses, the reply is one array in the
// order of the requests. The first other message makes the reply an event stream.
func (face *Face) postBatch(x *exchange.Exchange, req *downstream.Request, resp *downstream.Response) error {
	items, slots, err := face.Split(x.Session, req.Body)
	if err != nil {
		return err
	}
	b := &batchReply{x: x, group: session.NewBatch(slots), said: make(chan legMessage)}
	resp.Done = b.done
	for _, it := range items {
		switch {
		case it.Refusal != nil:
			face.ObserveRefused(x.Session, it.Raw, it.Refusal)
			b.legEnded(legMessage{slot: it.Slot, message: it.Refusal.Body(), final: true})
		case it.Slot < 0:
			b.pass(it.Raw)
		default:
			b.start(it)
		}
	}
	for b.open > 0 {
		m, err := b.receive()
		switch {
		case err != nil && b.streamed:
			return nil // the client has left, or dragoman is stopping
		case err != nil:
			return err
		case m.final:
			b.legEnded(m)
		default:
			b.streamed = true
			b.order = append(b.order, m)
		}
		if b.streamed && b.send(req.Client) != nil {
			return nil
		}
	}
	if b.streamed {
		return nil
	}
	if f := b.verdict(slots); f != nil {
		return f
	}
	if resp.Body = b.group.Array(); resp.Body == nil {
		resp.Status = fasthttp.StatusAccepted
	}
	return nil
}

// send sends the client the messages that have come, in the order of arrival.
func (b *batchReply) send(client mcp.Peer) error {
	for _, m := range b.order {
		if m.message == nil {
			continue
		}
		if err := client.Send(sse.Event{Data: m.message}); err != nil {
			return err
		}
	}
	b.order = nil
	return nil
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
	case err != nil:
		b.fail(x, it.Slot, x.Refused(err))
		return
	case v == wire.Answer:
		x.Outcome = metrics.Local
		x.ObserveLocal(out)
		b.legEnded(legMessage{slot: it.Slot, message: bytes.Clone(out), final: true}) // its buffer is x's
		x.Done()
		return
	}
	st, err := x.ForwardKept(out)
	if err != nil {
		b.fail(x, it.Slot, x.Common.Failed(x, err))
		return
	}
	x.Attach(st)
	b.open++
	b.legs.Go(func() { b.follow(x, it.Slot) })
}

func (b *batchReply) fail(x *exchange.Exchange, slot int, f *mcp.Failure) {
	b.legEnded(legMessage{slot: slot, message: f.Body(), final: true, failure: f})
	x.Done()
}

// follow forwards the server's messages for one leg.
func (b *batchReply) follow(x *exchange.Exchange, slot int) {
	defer x.Done()
	last := legMessage{slot: slot, final: true}
	client := &legClient{b: b, x: x, slot: slot}
	e, err := x.Answer(client)
	switch {
	case err == nil:
		last.message, err = x.Keep(e.Data)
	case client.failed != nil:
		err = client.failed
	}
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: no response is owed
		last.failure = x.Common.Failed(x, err)
		last.message = last.failure.Body()
	}
	b.say(last)
}

// say passes a message on to the goroutine of the POST.
func (b *batchReply) say(m legMessage) error {
	select {
	case b.said <- m:
		return nil
	case <-b.x.Ctx.Done():
		return context.Cause(b.x.Ctx)
	}
}

// legClient is the client of one leg of a batch.
type legClient struct {
	b    *batchReply
	x    *exchange.Exchange
	slot int

	failed error // why a message could not be kept
}

// Send implements [mcp.Peer].
func (c *legClient) Send(e sse.Event) error {
	if len(e.Data) == 0 {
		return nil
	}
	var message []byte
	if message, c.failed = c.x.Keep(e.Data); c.failed != nil {
		return c.failed
	}
	return c.b.say(legMessage{slot: c.slot, message: message})
}

func (b *batchReply) receive() (legMessage, error) {
	select {
	case m := <-b.said:
		if m.final {
			b.open--
		}
		return m, nil
	case <-b.x.Ctx.Done():
		return legMessage{}, context.Cause(b.x.Ctx)
	}
}

// legEnded stores the last message of a leg.
func (b *batchReply) legEnded(m legMessage) {
	b.group.Put(m.slot, m.message)
	b.order = append(b.order, m)
	if m.failure != nil {
		b.status = append(b.status, m.failure)
	}
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
