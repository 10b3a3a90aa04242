// Package exchange carries one message of a client to the server, and the server's messages about it back.
//
//	[Exchange.FromClient] ─► translate ─► [Exchange.Forward] ─► the session's connection
//	[Exchange.Answer] ◄─ FromServer ◄─ translate ◄─ the stream of the request
//
// An [Exchange] is taken from a pool ([Common.New]) and given back with Done; it owns the buffers of both directions. It
// runs on the goroutine of the client's request, which gets what comes before the response as a [mcp.Peer].
//
//   - state.go is what an Exchange holds; exchange.go, on top, sends and reads, and listen.go reads standing streams;
//   - pipeline.go has the two directions of translation, open.go finds what a response belongs to, and client.go has the
//     streams of HTTP clients;
//   - own.go, gates.go, schemas.go, lists.go, shaped.go and direct.go are where features take part: each asks its own
//     package, and does nothing if that has nothing to do;
//   - askagain.go, injected.go and sealedquestion.go are about questions of the server;
//   - resume.go continues streams that have broken off and sends requests again, and lostsession.go finds out whether an error means
//     that;
//   - outcome.go says how the exchange ended; observed.go and spans.go tell the observer and the tracer;
//   - panics.go answers a message whose handling panicked, and memory.go bounds what large messages take.
//
// The package does not know how clients reach dragoman, nor how a session begins.
package exchange

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin/restart"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/requests"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var pool = sync.Pool{New: func() any { return new(Exchange) }}

// New takes an exchange from the pool. The caller ends it with Done. stop ends ctx; it is
// nil if the exchange does not wait for the server.
func (all *Common) New(ctx context.Context, stop context.CancelCauseFunc) *Exchange {
	x := pool.Get().(*Exchange)
	if x.Release == nil {
		x.Release, x.isStale, x.receive, x.insert = x.Done, x.IsStale, x.event, x.sendOwn
	}
	x.Common, x.Ctx, x.Stop = all, ctx, stop
	return x
}

// Done ends the exchange and returns it to the pool.
func (x *Exchange) Done() {
	gone := x.ClientLeft()
	x.injected.end()
	if x.Stream != nil {
		x.Stream.Release()
	}
	parked := x.buffer != nil && x.buffer.Detach(gone)
	x.clear()
	switch { // the stream of a parked call goes on
	case parked:
		x.Session.Lanes.Rest(x.lane)
	case x.Stream != nil:
		x.Stream.Close()
	}
	if x.Stop != nil {
		x.Stop(nil)
	}
	if x.Free != nil {
		x.Free()
	}
	if x.Call != nil {
		if gone && !parked { // what dragoman itself has sent is not sent again, also if the client resumes the server's stream
			x.Call.More.Leaving.Left()
		}
		if parked || gone && len(x.ResumeAt) > 0 && !x.Session.Pooled {
			x.Session.Open.Abandon(x.Call) // the client may resume the stream
		} else {
			x.Session.Open.End(x.Call)
		}
		if !x.Resumed {
			x.count(x.ending(gone))
			x.Common.Metrics.Spent(&x.Clock)
		}
	}
	if x.Call == nil && x.Tally == nil {
		x.Span.End(string(cmp.Or(x.Outcome, metrics.Succeeded)), string(x.Fault.Cause))
		if !x.lent {
			x.Seen.End(string(cmp.Or(x.Outcome, metrics.Succeeded)), string(x.Fault.Cause))
		}
	}
	x.Tally.Release()
	if x.Session != nil {
		x.Session.Renamed.Leave(x.renamed)
		x.Session.Leave()
	}
	if x.Streamed {
		x.Common.Streams.Add(-1)
	}
	x.recycle()
}

// recycle gives x back to the pool.
func (x *Exchange) recycle() {
	if x.large {
		x.Msg.Trim()
		if cap(x.buf) > maxPooled {
			x.buf = nil
		}
	}
	x.state = state{}
	clear(x.From)
	x.From, x.ResumeAt = x.From[:0], x.ResumeAt[:0]
	pool.Put(x)
}

// Post handles one message of a session: it translates and forwards the message, and writes the
// server's response, or starts a stream. It runs on the goroutine of the HTTP request.
func (x *Exchange) Post(raw []byte, resp *downstream.Response) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = x.Panicked(p, raw)
		}
	}()
	out, v, err := x.FromClient(raw)
	switch {
	case x.Recalled():
		resp.Status = fasthttp.StatusAccepted
		return nil
	case err != nil:
		return x.Refused(err)
	case v == wire.Answer:
		x.Outcome = metrics.Local
		x.ObserveLocal(out)
		resp.Body = out
		return nil
	case v != wire.Forward:
		resp.Status = fasthttp.StatusAccepted
		return nil
	}
	if x.client.await != nil && x.Call != nil && x.Call.Method != wire.Initialize { // whose head names the session
		x.client.await(x.Call.ID)
	}
	x.tells = &x.told
	st, err := x.Forward(out)
	if err != nil && !x.Unowed(err) {
		return x.Common.Failed(x, err)
	}
	if st == nil {
		resp.Header, resp.Status = x.appendTold(resp.Header), fasthttp.StatusAccepted
		return nil
	}
	x.Stream = st
	x.client.resp = resp
	last, err := x.Answer(&x.client)
	switch {
	case x.Streamed:
		owed := true
		if err != nil {
			last, owed = x.late(err)
		}
		if owed && x.buffer != nil {
			x.buffer.Record(&last, true)
		}
		resp.Last = last
	case errors.Is(err, io.EOF): // cancelled: no response is owed
		resp.Status = fasthttp.StatusAccepted
	case err != nil:
		return x.Common.Failed(x, err)
	default:
		if x.Msg.Kind == wire.Error {
			resp.Status = x.Session.Direct.Status(last.Data)
		}
		resp.Header, resp.Body = x.appendTold(resp.Header), last.Data
	}
	return nil
}

// Forward sends a message to the server. The stream is nil if no response is expected.
func (x *Exchange) Forward(body []byte) (upstream.Stream, error) {
	if x.OwnCall != nil {
		return x.startHere(), nil
	}
	var over *session.Call // the cancelled call, whose id the client may use again once the server has the cancellation
	if x.Cancels {
		over = x.Session.Open.Newest(x.key)
	}
	switch {
	case over != nil && over.Recall(): // the server does not have the request
		x.cancelled(over)
		return nil, nil
	case x.Call != nil && !x.Call.Sends():
		return nil, requests.ErrCancelled
	}
	x.Session.Notes(x.From)
	marked, header := x.Span.Sent(body, x.From)
	if r := x.Session.Renamed; r != nil && x.Call != nil {
		var err error
		if x.renamed, marked, err = r.Request(x.Ctx, marked); err != nil {
			return nil, err
		}
	}
	x.observeForward(marked)
	x.Outgoing = upstream.Outgoing{Body: marked, Request: x.Call != nil, Header: header, Stale: x.isStale, Waits: x.Waiting, Logs: x.Crossing.WantsLogs(), Told: x.tells}
	if x.Call != nil {
		x.Outgoing.Repeats = x.Call.Method.Reads()
		limit := x.Common.Now().Silence[x.Call.Method]
		x.Outgoing.FirstByte, x.Outgoing.Silence = limit.FirstByte, limit.Silence
		if x.Call.Method == wire.SubscriptionsListen {
			x.Outgoing.Silence = crossing.MaxQuiet
		}
		if more := x.Crossing.Patience(); more > 0 {
			x.Outgoing.FirstByte, x.Outgoing.Silence = lengthened(limit.FirstByte, more), lengthened(limit.Silence, more)
		}
	}
	st, err := upstream.Stream(nil), error(nil)
	if e := x.enquire(body); e != nil {
		st, err = x.sendKept(e, marked)
	} else if c := x.Session.Renewing; c != nil && x.Call != nil {
		x.began, x.within = c.Remember(marked), c.SessionID()
		st, err = c.HTTPSession.Send(x.Ctx, &x.Outgoing) // mend renews a session that is lost
	} else if c != nil && over != nil {
		err = x.cancelIn(c, over)
	} else if c != nil && x.within != "" {
		err = c.Answer(x.seenWithin(), x.within, &x.Outgoing)
	} else if l := x.Session.Lanes; l != nil && x.Call != nil && !x.bridged() {
		if x.lane, err = l.Request(x.seenWithin(), &x.Outgoing); err == nil {
			st = x.lane
		}
	} else if x.bridged() {
		if sameMemory(marked, x.Msg.Raw) && len(marked) == len(x.Msg.Raw) {
			x.Outgoing.Scanned = &x.Msg
		}
		st, x.across, err = x.Session.Bridge.Pass(x.seenWithin(), &x.Outgoing)
		x.Outgoing.Scanned = nil
	} else {
		st, err = x.Session.Conn.Send(x.seenWithin(), &x.Outgoing)
	}
	if h, waits := err.(*upstream.Handed); waits { //nolint:errorlint // a Conn returns it as it is
		x.Handed, err = h, nil
	}
	x.Clock.Lap(&x.Clock.Upstream)
	if err != nil && x.Ctx.Err() != nil {
		err = context.Cause(x.Ctx)
	}
	if err != nil && x.listAlone(body, err) {
		return x.startHere(), nil
	}
	switch {
	case err != nil && x.Call == nil && x.Met != nil:
		x.askedStill(x.Met)
	case over != nil && err != nil: // its response is still owed
		over.Cancelled.Store(false)
	case over != nil:
		x.cancelled(over)
	case x.Cancels && err == nil && x.Session.Open.Knows(x.key): // the call and its cancellation have come at the same time
		return x.Forward(body)
	}
	return st, err
}

// cancelled ends a call that the client has cancelled.
func (x *Exchange) cancelled(over *session.Call) {
	if x.Session.Open.CancelThis(over) && over.Stop == nil {
		o := x.Session.Operation(over, metrics.Cancelled, metrics.Fault{})
		x.Common.EndCall(over, &o)
	}
}

// lengthened returns limit extended by the given time. 0 means no limit and stays 0.
func lengthened(limit, by time.Duration) time.Duration {
	if limit <= 0 {
		return limit
	}
	return limit + by
}

// Answer sends the client the server's messages until the response, which it returns; it is valid until the next call.
// The error is io.EOF if no response is owed, or if the client gets no more messages. A panic becomes an error. After the
// error for one message, or for a server that restarts, Answer may be called again.
func (x *Exchange) Answer(client mcp.Peer) (response sse.Event, err error) {
	defer func() {
		if p := recover(); p != nil {
			x.Common.Host.Report.Panicked(p)
			response, err = sse.Event{}, mcp.Fail(mcp.Panicked, "")
		}
		x.sendTo(nil)
		if err == io.EOF && x.Recalled() || err != nil && err != sse.ErrInterrupted && x.Call != nil && report.FailureOf(err).Cause == mcp.UpstreamTimeout {
			x.withdrawAsked(client)
		}
	}()
	if x.answered {
		return sse.Event{}, io.EOF
	}
	x.sendTo(client)
	for {
		if x.broken == nil {
			x.startLap()
			x.Stream.Events(x.receive)
		}
		if x.broken == nil {
			return x.last, x.failure
		}
		if err := x.mend(); err != nil {
			return sse.Event{}, err
		}
	}
}

// Cross is Answer for the client of a crossing. An error of Send ends it, and is returned. The error is bridge.ErrURLs if the
// response requires that the user opens URLs. After sse.ErrInterrupted, Cross may be called again.
func (x *Exchange) Cross(client crossing.Client) (response sse.Event, err error) {
	x.asker = client
	return x.Answer(client)
}

// startLap starts the wait for the server. Another goroutine may just be sending the client something.
func (x *Exchange) startLap() {
	x.injected.lock()
	defer x.injected.unlock()
	x.Clock.Start()
}

func (x *Exchange) sendTo(client mcp.Peer) {
	x.injected.lock()
	defer x.injected.unlock()
	x.to = client
}

// stop makes Answer return this. It returns false, as the stream is not read on.
func (x *Exchange) stop(last sse.Event, err error) bool {
	x.to, x.last, x.failure = nil, last, err
	return false
}

// event receives one event of the server, or the error with which its stream has ended. It returns false if Answer does not
// read on.
func (x *Exchange) event(e sse.Event, err error) bool {
	x.injected.lock()
	defer func() { x.injected.unlock() }() // it may be another one by then
	if x.to == nil {
		return false
	}
	x.Clock.Lap(&x.Clock.Upstream)
	e, err, ok := pipes.Replaced(e, err, x.Common.Host)
	if err != nil {
		if len(x.rest) > 0 { // the stream has taken back the last event, and may now be quiet for long
			clear(x.rest)
			x.rest, x.Msg.Raw = x.rest[:0], nil
		}
		if err == sse.ErrInterrupted { // mostly, the server waits for a person now
			x.Msg.Rest()
			x.buf = nil
		}
		x.broken = err
		return false
	}
	if ok && !x.messages(e) {
		return false
	}
	x.Clock.Start()
	return true
}

// messages sends the client the messages of an event, under the event's name. An event without a message goes on unchanged, if
// client and server have the same revision.
func (x *Exchange) messages(e sse.Event) bool {
	if cap(x.buf) > maxPooled {
		x.buf = nil // the previous message was large
	}
	x.Resumes = 0
	x.came = sse.Event{ID: e.ID, HasID: e.HasID, Name: e.Name, Retry: e.Retry}
	if e.HasID {
		x.ResumeAt = append(x.ResumeAt[:0], e.ID...)
	}
	if e.Retry > 0 {
		x.Retry = e.Retry
	}
	x.rest, x.at = x.rest[:0], 0
	switch {
	case len(bytes.TrimSpace(e.Data)) == 0:
		e.Data = e.Data[:0]
		return !x.Session.Down.Identity() || x.send(e)
	case !pipes.CarriesMessages(&e):
		return !x.Session.Down.Identity() || x.send(e)
	case wire.IsArray(e.Data):
		var err error
		if x.rest, err = wire.AppendElements(x.rest, e.Data, x.Common.Now().Config.Limits.Batch); err != nil {
			x.bad = x.Common.Host.Report.Malformed(err, e.Data, x.From)
			x.rest = x.rest[:0]
		}
	default:
		x.rest = append(x.rest, e.Data)
	}
	for x.at < len(x.rest) {
		x.at++
		if !x.message(x.rest[x.at-1]) {
			return false
		}
	}
	if x.answered {
		return x.stop(sse.Event{}, io.EOF)
	}
	return true
}

// message translates one message of the server. The response is for Answer, all others go to the client.
func (x *Exchange) message(raw []byte) bool {
	if x.renamed != nil {
		if raw = x.Session.Renamed.Restored(x.Ctx, x.renamed, raw); raw == nil {
			return true
		}
	}
	out, ok := x.FromServer(raw)
	e := sse.Event{Name: x.came.Name, Data: out}
	if x.at == len(x.rest) { // the id goes with the last message of the event
		e.ID, e.HasID, e.Retry = x.came.ID, x.came.HasID, x.came.Retry
	}
	switch {
	case !ok && x.hopeless:
		return x.stop(sse.Event{}, x.bad)
	case !ok && x.broken != nil:
		return false
	case !ok:
		return x.asked()
	case x.Final && (x.at == len(x.rest) || x.asker != nil):
		return x.stop(e, nil)
	}
	return x.send(e)
}

// asked passes on what the message that the client does not get has left for it.
func (x *Exchange) asked() bool {
	if x.asker == nil || !x.Crossing.Pending() {
		return true
	}
	if list := x.Crossing.TakeQuestions(); len(list) > 0 {
		x.asker.Ask(list)
	}
	switch own := x.Crossing.Response(); {
	case own != nil:
		return x.stop(sse.Event{Data: own}, nil)
	case x.Final:
		return x.stop(sse.Event{}, crossing.ErrURLs)
	}
	return true
}

// send sends the client one event.
func (x *Exchange) send(e sse.Event) bool {
	err := x.to.Send(e)
	switch {
	case err == nil:
		return true
	case x.asker != nil:
		return x.stop(sse.Event{}, err)
	case x.Stop != nil:
		x.Stop(downstream.ErrClientLeft)
	}
	return x.stop(sse.Event{}, io.EOF)
}

// sendOwn sends the client a message of dragoman's own as if the server had sent it.
func (x *Exchange) sendOwn(m []byte) {
	if out, ok := x.FromServer(m); ok {
		x.send(sse.Event{Data: out})
	}
}

// mend opens another stream in the place of the broken one: it resumes it, or sends the request again. If neither is
// possible, mend returns the error of the request.
func (x *Exchange) mend() (err error) {
	broken := x.broken
	x.broken = nil
	if said, doubts := broken.(*saidLost); doubts { //nolint:errorlint // x has set it
		if !x.mayWait() {
			x.broken = broken
			return sse.ErrInterrupted
		}
		if broken = x.judgeSession(said); broken == nil {
			return nil
		}
	}
	c := x.Session.Renewing
	switch lost := c != nil && x.Call != nil && !x.resent && x.Outgoing.Body != nil && restart.IsLost(broken); {
	case !lost:
		err = x.ended(broken)
	case x.mayWait():
		return x.sendAgain(c)
	default:
		err = sse.ErrInterrupted
	}
	if err == sse.ErrInterrupted && broken != err {
		x.broken = broken // the next Answer mends it
	}
	return err
}

// Leg returns an exchange for one request of the POST.
func (x *Exchange) Leg() *Exchange {
	ctx, stop := context.WithCancelCause(x.Ctx)
	leg := x.Common.New(ctx, stop)
	leg.Session = x.Session
	leg.Session.Enter()
	leg.From, leg.Heard = append(leg.From[:0], x.From...), x.Heard
	leg.Sender = x.Sender
	return leg
}

// ForwardKept is Forward for a body that may be overwritten before the response comes, although it may then have to be sent
// again.
func (x *Exchange) ForwardKept(body []byte) (upstream.Stream, error) {
	switch {
	case x.Session.Renewing == nil || x.Call == nil || sameMemory(x.buf, body):
	case len(body) > large.Size:
		var err error
		if body, err = x.Common.Host.Memory().Clone(x.Ctx, large.RequestWait, large.RequestCopy, body); err != nil {
			return nil, err
		}
	default:
		x.buf = append(x.buf[:0], body...)
		body, x.large = x.buf, x.large || cap(x.buf) > maxPooled
	}
	return x.Forward(body)
}
