package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// JSON-RPC arrays, which one revision had
// (https://modelcontextprotocol.io/specification/2025-03-26/basic#batching).
// They are taken apart here, so that translation and servers see single
// messages, and the reply is put together again. We never make one of our own.

// item is one element of an array from a client.
type batchItem struct {
	raw     []byte
	refusal []byte // the error that is its answer; nil for a message to send on
	slot    int    // of its answer in the reply; -1 for none
}

// takeApart finds the elements of the array in body and how many answers they
// get. s is nil when the client has not initialized.
func (srv *Server) splitBatch(s *session, body []byte) (items []batchItem, slots int, err error) {
	most := srv.now().cfg.Limits.Batch
	elements, err := wire.AppendElements(nil, body, most)
	switch {
	case errors.Is(err, wire.ErrTooMany):
		return nil, 0, mcp.Fail(mcp.BatchTooLong, fmt.Sprintf("%d are allowed", most))
	case err != nil && s != nil:
		return nil, 0, s.up.Explain(new(wire.Message), err)
	case err != nil:
		return nil, 0, err
	case len(elements) == 0:
		return nil, 0, mcp.Fail(mcp.BatchEmpty, "")
	}
	items = make([]batchItem, len(elements))
	seen := make(map[string]bool)
	modern := ""
	var m wire.Message
	for i, raw := range elements {
		it := &items[i]
		*it = batchItem{raw: raw, slot: -1}
		switch err := m.Scan(raw, nil); {
		case err != nil && raw[0] != '{':
			it.refusal = mcp.Fail(mcp.BatchElement, "").Body()
		case err != nil && s != nil:
			it.refusal = clienterror.Of(s.up.Explain(&m, err)).Body()
		case err != nil:
			it.refusal = clienterror.Of(err).Body()
		case m.Kind == wire.Request && m.Method == wire.Initialize:
			return nil, 0, mcp.Fail(mcp.BatchInitialize, "")
		case m.Kind == wire.Request:
			if s == nil && isModern(&m) {
				modern = translate.Modern()
			}
			key := string(wire.AppendIDKey(nil, m.ID()))
			if seen[key] {
				it.refusal = mcp.Fail(mcp.BatchDuplicate, "").About(m.ID()).Body()
			}
			seen[key] = true
		}
		if it.refusal != nil || m.Kind == wire.Request {
			it.slot = slots
			slots++
		}
	}
	switch {
	case s == nil && modern != "":
		return nil, 0, noBatches(modern)
	case s == nil:
		return nil, 0, mcp.Uninitialized(mcp.NotInitialized)
	case !takesBatches(s.ClientRevision):
		return nil, 0, noBatches(s.ClientRevision.Name)
	}
	return items, slots, nil
}

// noBatches refuses an array of a client of a revision that has none.
func noBatches(revision string) *mcp.Failure {
	f := mcp.Fail(mcp.BatchRefused, "")
	f.Text += " in " + revision
	return f
}

// takesBatches reports whether arrays are accepted from clients of a revision:
// of the one that has them, and of those before, leniently.
func takesBatches(r *translate.Revision) bool {
	for _, at := range translate.Handshake() { // newest first
		if at.Batches {
			return at == r || at.Newer(r)
		}
	}
	return false
}

// group is the reply to an array that comes together.
type batchAnswers struct {
	emit func(array []byte) // called with the reply when it is complete; may be nil

	mu      sync.Mutex
	answers [][]byte // by slot; nil while it is open, or when none is owed
	left    int
}

func newGroup(slots int) *batchAnswers {
	return &batchAnswers{answers: make([][]byte, slots), left: slots}
}

// put takes the answer for one slot, which is the group's from now on; nil when none is
// owed.
func (g *batchAnswers) put(slot int, answer []byte) {
	g.mu.Lock()
	g.answers[slot] = answer
	g.left--
	last := g.left == 0
	g.mu.Unlock()
	if !last || g.emit == nil {
		return
	}
	if reply := g.array(); reply != nil {
		g.emit(reply)
	}
}

// array is the reply; nil when nothing is owed.
func (g *batchAnswers) array() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := []byte{'['}
	for _, a := range g.answers {
		if a == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, a...)
	}
	if len(out) == 1 {
		return nil
	}
	return append(out, ']')
}

// said is something the server said about one leg of a batch.
type legMessage struct {
	slot    int
	message []byte       // nil: the leg ends without an answer
	final   bool         // it is the leg's answer, or the end
	failure *mcp.Failure // what the answer was made of, when the leg failed
}

// batchReply carries the legs of one batch over HTTP. Each leg has a goroutine,
// which ends with the leg.
type batchReply struct {
	x      *exchange // the whole POST
	group  *batchAnswers
	legs   sync.WaitGroup
	said   chan legMessage
	open   int          // legs that have not ended
	order  []legMessage // answers in the order they came, for a reply that streams
	status []*mcp.Failure
}

// postBatch answers an array. As long as the legs have nothing to say but
// their answers, the reply is an array in the order of the requests; from the
// first other message on it is a stream.
func (srv *Server) postBatch(x *exchange, body []byte, resp *downstream.Response) error {
	items, slots, err := srv.splitBatch(x.s, body)
	if err != nil {
		return err
	}
	b := &batchReply{x: x, group: newGroup(slots), said: make(chan legMessage)}
	resp.Done = b.done
	for _, it := range items {
		switch {
		case it.refusal != nil:
			b.legEnded(legMessage{slot: it.slot, message: it.refusal, final: true})
		case it.slot < 0:
			b.pass(it.raw)
		default:
			b.start(it)
		}
	}
	for b.open > 0 {
		m, err := b.receive()
		if err != nil {
			return err
		}
		if !m.final {
			b.order = append(b.order, m)
			resp.Stream = b
			return nil
		}
		b.legEnded(m)
	}
	if f := b.verdict(slots); f != nil {
		return f
	}
	if resp.Body = b.group.array(); resp.Body == nil {
		resp.Status = fasthttp.StatusAccepted
	}
	return nil
}

// pass sends on a notification or a response; its failure is logged only.
func (b *batchReply) pass(raw []byte) {
	x := b.x.leg()
	defer x.done()
	defer func() {
		if p := recover(); p != nil {
			x.srv.host.Report.Panicked(p)
		}
	}()
	out, v, err := x.fromClient(raw)
	if err == nil && v == wire.Forward {
		_, err = x.forward(out)
	}
	if err != nil {
		x.srv.answerFor(x, err)
	}
}

// start sends one request on its way and leaves the rest to a goroutine.
func (b *batchReply) start(it batchItem) {
	x := b.x.leg()
	defer func() {
		if p := recover(); p != nil {
			b.fail(x, it.slot, x.panicked(p, it.raw))
		}
	}()
	out, v, err := x.fromClient(it.raw)
	switch {
	case err != nil:
		b.fail(x, it.slot, x.refused(err))
		return
	case v == wire.Answer:
		x.outcome = metrics.Local
		b.legEnded(legMessage{slot: it.slot, message: bytes.Clone(out), final: true}) // which is x's
		x.done()
		return
	}
	st, err := x.forwardKept(out)
	if err != nil {
		b.fail(x, it.slot, x.srv.answerFor(x, err))
		return
	}
	x.attach(st)
	b.open++
	b.legs.Go(func() { b.follow(x, it.slot) })
}

func (b *batchReply) fail(x *exchange, slot int, f *mcp.Failure) {
	b.legEnded(legMessage{slot: slot, message: f.Body(), final: true, failure: f})
	x.done()
}

// follow reports what the server says about one leg.
func (b *batchReply) follow(x *exchange, slot int) {
	defer x.done()
	for {
		m := x.keep(x.nextMessage(slot))
		if len(m.message) == 0 && !m.final {
			continue
		}
		select {
		case b.said <- m:
		case <-b.x.ctx.Done():
			return
		}
		if m.final {
			return
		}
	}
}

// said is the next thing said about x's request. It is valid until the next call.
func (x *exchange) nextMessage(slot int) legMessage {
	e, err := x.nextRecovered()
	switch {
	case errors.Is(err, io.EOF): // cancelled: no answer is owed
		return legMessage{slot: slot, final: true}
	case err != nil:
		return x.endMessage(slot, err)
	}
	return legMessage{slot: slot, message: e.Data, final: x.final}
}

// keep is m with memory of its own.
func (x *exchange) keep(m legMessage) legMessage {
	if m.failure != nil || m.message == nil {
		return m
	}
	message, err := x.srv.host.Memory().Clone(x.ctx, large.AnswerWait, large.Copy, m.message)
	if err != nil {
		return x.endMessage(m.slot, err)
	}
	m.message = message
	return m
}

// unsaid is the end of x's request by err.
func (x *exchange) endMessage(slot int, err error) legMessage {
	f := x.srv.answerFor(x, err)
	return legMessage{slot: slot, message: f.Body(), final: true, failure: f}
}

// leg is an exchange within the same POST.
func (x *exchange) leg() *exchange {
	ctx, stop := context.WithCancelCause(x.ctx)
	leg := x.srv.newExchange(ctx, stop)
	leg.s = x.s
	leg.s.enter()
	leg.from = append(leg.from[:0], x.from...)
	return leg
}

func (b *batchReply) receive() (legMessage, error) {
	select {
	case m := <-b.said:
		if m.final {
			b.open--
		}
		return m, nil
	case <-b.x.ctx.Done():
		return legMessage{}, context.Cause(b.x.ctx)
	}
}

// settle takes down how a leg ended.
func (b *batchReply) legEnded(m legMessage) {
	b.group.put(m.slot, m.message)
	b.order = append(b.order, m)
	if m.failure != nil {
		b.status = append(b.status, m.failure)
	}
}

// verdict is the HTTP error for the whole POST: any leg's 401, or the 403 or
// 404 of all legs.
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

// Next returns the next message of the reply as an event, in the order of arrival; io.EOF when all
// requests of the batch are answered, or the client has left.
func (b *batchReply) Next() (sse.Event, error) {
	for {
		if len(b.order) > 0 {
			m := b.order[0]
			b.order = b.order[1:]
			if m.message == nil {
				continue
			}
			return sse.Event{Data: m.message}, nil
		}
		if b.open == 0 {
			return sse.Event{}, io.EOF
		}
		m, err := b.receive()
		if err != nil {
			return sse.Event{}, io.EOF // the client has left, or we are stopping
		}
		b.order = append(b.order, m)
	}
}

// Close ends all legs.
func (b *batchReply) Close() error {
	b.x.stop(nil)
	return nil
}

// done waits for the legs, which end with the exchange.
func (b *batchReply) done() {
	b.x.stop(nil)
	b.legs.Wait()
	b.x.done()
}
