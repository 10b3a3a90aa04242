package modernclient

import (
	"context"
	"errors"
	"io"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A relay is one request of a modern client at a handshake server, as that client sees it: messages, and then the
// response. Some are answered here; for the others the relay reads an exchange on a pooled session, whose [Client] it is. If
// the server may ask the client something before it answers, a parked call reads the exchange instead, and may outlive the
// relay. See "Modern client, legacy server" in
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#compatibility.
//
// Only one goroutine at a time may use it. The caller calls End when it is done.
type relay struct {
	br *Bridge
	caller

	client   mcp.Peer   // set by Answer
	web      httpClient // client, if it is one over HTTP
	response []byte     // once it is known; nil if it came from another goroutine, or is an error of dragoman's

	b     *pooledSession
	x     *asking        // nil if a parked call reads it
	box   *outbox.Outbox // the messages of the parked call for the client; nil if there is none
	reads *parkedCall    // the parked call that this goroutine reads, as here; nil if another one does
	here  reader
	done  bool     // Answer returns the response
	task  taskPlan // whether a tool call becomes a task
	sent  bool     // the request was sent a second time, since the server did not know the session

	repeats bool // the request makes a call again that waited: see repeated

	ended bool // End was called

	status int // the HTTP status of the response
	header []mcp.Header

	leave callctx.Watch // of ctx

	memory *memory // r is part of it
	shared bool    // something else may know its parts
}

// memory is what one request needs until it is answered, which later requests use again. It is used again only if nothing
// else can know its parts: the response came before the server asked anything, on the goroutine of the client's request.
// All others are left to the garbage collector.
type memory struct {
	relay relay
	box   outbox.Outbox
	call  *callMemory // in a piece of its own, which is all that a parked call keeps

	end func() // the method End of relay, bound once
}

// takeMemory returns memory that was used before, if there is any.
func (br *Bridge) takeMemory() *memory {
	if m, ok := br.memories.Get().(*memory); ok {
		return m
	}
	m := &memory{call: new(callMemory)}
	m.relay.memory, m.end = m, m.relay.End
	return m
}

// free gives m back. Only the timer, which is stopped, is kept.
func (m *memory) free() {
	br := m.relay.br
	m.relay, m.box = relay{memory: m, ended: true}, outbox.Outbox{}
	m.call.asking, m.call.parked = asking{}, parkedCall{silence: m.call.parked.silence}
	br.memories.Put(m)
}

// ask sends the request of c to the server. The caller must end the relay.
func (br *Bridge) ask(c caller) (_ *relay, err error) {
	r := &br.takeMemory().relay
	*r = relay{br: br, caller: c, status: 200, memory: r.memory}
	r.q.Counts.Hold()
	defer func() {
		if p := recover(); p != nil {
			r.shared = true
			br.host.Report.Panicked(p)
			br.host.Report.Contained(r.End)
			err = mcp.Fail(mcp.Panicked, "").WithID(c.q.ID)
		}
	}()
	if err = r.dispatch(); err != nil {
		r.End()
		return nil, report.FailureOf(err).WithID(c.q.ID)
	}
	return r, nil
}

// dispatch answers the request, or sends it, or continues with the parked call for which it has answers.
func (r *relay) dispatch() (err error) {
	begin := true
	switch {
	case r.q.Method == wire.ServerDiscover:
		begin = false
		r.response, err = r.br.discover(r.caller)
	case isTaskRequest(r.q.Method):
		begin = false
		r.response, err = r.br.tasks.answer(r.caller)
	case r.q.State != nil:
		r.box, begin, err = r.br.parked.resume(r.caller)
		r.repeats = begin
	}
	switch {
	case err != nil:
	case r.response != nil:
		r.done, r.shared = true, true // something may know the request
		r.q.Counts.Settle(metrics.Local)
	case begin:
		err = r.begin()
	}
	return err
}

// begin sends the request on a session. If the server does not know that session any more, begin
// sends the request once more, on another session.
func (r *relay) begin() error {
	if r.q.Inputs != nil && !objects(r.q.Inputs) {
		return mcp.Fail(mcp.InputsInvalid, "")
	}
	err := r.send()
	if err != nil && report.FailureOf(err).UnknownSession() {
		return r.resend()
	}
	return err
}

// resend sends the request once more, on another session: the server does not know the first session
// any more, and so has not acted on the request. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management.
func (r *relay) resend() error {
	r.sent, r.shared = true, true
	if r.b != nil {
		r.b.discard()
	}
	if r.x != nil {
		r.x.Unsent()
	}
	r.drop()
	return r.send()
}

func (r *relay) send() error {
	b, err := r.br.pool.get(r.caller)
	if err != nil {
		return err
	}
	r.b = b
	if err := b.s.CheckCall(r.ctx, r, r.q); err != nil {
		return err
	}
	b.setLevel(r.ctx, r.q.LogLevel, r.from)
	if r.task, err = r.br.tasks.plan(r.caller, b); err != nil {
		return err
	}
	e, begun := r.enquire(), false
	r.shared = r.shared || e != nil || r.task != plainCall
	var d *parkedCall
	defer func() {
		if begun {
			return
		}
		if e.End(); d != nil {
			b.calls.leave(d)
			d.stop()
		}
	}()
	if err := e.Wait(r.ctx); err != nil {
		return err
	}
	m, box := r.memory.call, &r.memory.box
	if r.sent { // something else may know these
		m, box = new(callMemory), outbox.New()
	}
	box.CountBy(r.br.host.Report)
	x := &m.asking
	x.id = b.appendID(x.room[:0])
	if r.q.MayAsk() || b.mayReceiveOnStanding(r.q) {
		d = r.br.parked.join(m, box, r.caller, b) // before sendOn, as the server may ask before sendOn returns
		if e != nil {
			e.Asked = d.hasAsked
		}
	}
	lasts := d != nil || r.task != plainCall // the call may outlive the request that began it
	x.ctx = callctx.New()
	if lasts {
		x.ctx.BeginApart(r.ctx)
		x.ctx.Join() // but it does not wait for the server without its client
	} else {
		x.ctx.Begin(r.ctx)
	}
	err = r.sendOn(x, e)
	if lasts {
		x.ctx.Part()
	}
	if err != nil {
		return err
	}
	begun = true
	if d != nil {
		r.box, r.b = box, nil // d releases the session
		if d.start(x) {
			r.reads = d
			box.SetReader(d)
			r.leave = callctx.Notify(r.ctx, d)
		}
		return nil
	}
	r.x = x
	if lasts {
		r.leave = callctx.Notify(r.ctx, &stopper{r.ctx, x.stop})
	}
	return nil
}

// A stopper ends a request with the context of its client.
type stopper struct {
	client context.Context
	stop   context.CancelCauseFunc
}

// ContextEnded implements [callctx.Waiter].
func (s *stopper) ContextEnded() { s.stop(context.Cause(s.client)) }

// List implements [ToolLister].
func (r *relay) List(ctx context.Context, params string) ([]byte, error) {
	return r.b.tools(ctx, params, r.from)
}

// enquire looks up the request in the cache of results. It returns nil if the answer must not be
// cached. Otherwise it makes the session listen for the server's change notifications, which
// invalidate the cached answer.
func (r *relay) enquire() *results.Enquiry {
	if r.b.s.Serverless() || r.q.Inputs != nil || !r.br.results.Keeps(r.q.Method) {
		return nil
	}
	e := r.br.results.Enquire(results.Lookup{
		Method: r.q.Method, Digest: r.q.Digest(), URI: gjson.ParseBytes(r.q.Target).String(),
		Principal: r.who, Header: r.from, Realm: r.b.realm, TTL: r.br.host.Config().Bridge.TTL,
	})
	if e != nil {
		r.b.startListening(r.ctx, r.from)
	}
	return e
}

// sendOn sends the request as x, whose context has begun and which has an id, on the relay's session, or takes the answer that
// e has found. If there is no error, the caller owns the exchange.
func (r *relay) sendOn(x *asking, e *results.Enquiry) error {
	b, q := r.b, r.q
	x.stop = x.ctx.End
	r.cross(x, e)
	x.Exchange = b.s.Begin(x.ctx, x.stop, r.from, &x.crossing, q)
	out, v, err := x.Translate(Message{q.Raw, q.Spare(), q.Scanned})
	q.Scanned = nil
	switch {
	case err != nil:
		x.Settle(metrics.Refused)
	case v == wire.Answer && gjson.GetBytes(out, "result").Exists(): // a gate has refused the call
		x.readFrom(upstream.Answered(under(out, x.id)))
		e.End()
		return nil
	case v == wire.Answer:
		x.Settle(metrics.Local)
		err = mcp.Fail(mcp.MethodUnknown, q.Name)
	case v != wire.Forward:
		err = mcp.Fail(mcp.MethodUnknown, q.Name)
	}
	if err == nil {
		var st upstream.Stream
		st, err = e.Stream(x.id, func() (upstream.Stream, error) {
			st, err := x.Forward(out)
			if x.Own() {
				r.shared = true
				e.Taint() // dragoman answers, not the server
			}
			switch {
			case err != nil || x.Own():
			case r.task == asTask:
				st = r.br.tasks.created(st, b, x.id, r.from)
			case r.task == taskHere:
				x.run = newTaskRun(x.ctx, x.Limits(), b, st, x.id, r.from)
				st = x.run
			}
			return st, err
		})
		if err == nil {
			x.readFrom(st)
			return nil
		}
		f := x.Fail(err)
		if err = f; f.Cause == mcp.UpstreamLost || f.Cause == mcp.UpstreamRefused && f.Status == 404 {
			b.discard()
		}
	}
	x.Done()
	f := report.FailureOf(err).WithID(q.ID)
	f.Status = f.SessionlessStatus()
	return f
}

// cross sets what translation needs to know of the request that is sent as x.
func (r *relay) cross(x *asking, e *results.Enquiry) {
	cfg, b, q, c := r.br.host.Config().Bridge, r.b, r.q, &x.crossing
	token := append(x.id, `"p`...) // behind the id, where there is room
	token = append(append(token, x.id...), '"')[len(x.id):]
	*c = crossing.Crossing{
		Up: wire.Stamp{ID: x.id[:len(x.id):len(x.id)], ProgressToken: token},
		Down: wire.Stamp{
			ID: q.ID, ProgressToken: q.ProgressToken, ServerInfo: b.said.server,
			TTL: e.Remaining(cfg.TTL).Milliseconds(),
		},
		Logs: b.wantsLogs(q), Opened: b.hasOpened, Tasks: b.taskNews, Withdrawn: b.withdraws,
	}
	if r.task != plainCall {
		c.Up.Task = []byte("{}")
	}
	if r.task == asTask {
		c.Down.Task = c.Up.Task
	}
	if q.MayAsk() {
		c.Wait = cfg.ParkTimeout // the parked call limits how long the server itself may take
	}
}

// drop releases the session. If the call has no response yet, drop also cancels it at the server, since
// its client has left. It reports whether nothing is told any more that the client has left.
func (r *relay) drop() (quiet bool) {
	x, leave := r.x, r.leave
	r.x, r.leave = nil, callctx.Watch{}
	quiet = leave.Stop()
	if x != nil {
		if !r.done && !x.isTask() {
			x.CancelAtServer("client disconnected")
		}
		x.Done()
	}
	if r.b != nil {
		r.br.pool.release(r.b)
		r.b = nil
	}
	return quiet
}

// errUnbegun says that the server does not know the session, and has not begun to process the request.
var errUnbegun = errors.New("the server does not know the session")

// Answer implements [Reply].
func (r *relay) Answer(client mcp.Peer) (response []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.shared = true
			r.br.host.Report.Panicked(p)
			response, err = r.answer(mcp.Fail(mcp.Panicked, "")), nil
		}
	}()
	r.client = client
	for {
		switch {
		case r.done: // dragoman knew it
			return r.response, nil
		case r.box != nil:
			response, err = r.fromBox()
		default:
			response, err = r.fromServer()
		}
		if err != errUnbegun {
			return response, err
		}
		r.box = nil
		switch err := r.resend(); {
		case era.IsModern(err):
			return nil, err
		case err != nil:
			return r.answer(err), nil
		}
	}
}

// fromServer sends the client what the server says, and returns the response.
func (r *relay) fromServer() ([]byte, error) {
	response, err := r.x.Answer(r)
	switch {
	case err == errUnread:
		return nil, io.EOF
	case errors.Is(err, crossing.ErrURLs): // there is no parked call to ask the user with
		return r.answer(lacking(needsURLs)), nil
	case err != nil && r.ctx.Err() != nil:
		return r.cutShort()
	case err != nil:
		unbegun, err := r.x.refused(err)
		if unbegun && !r.sent {
			r.br.host.Report.Failed(err, r.x.At())
			return nil, errUnbegun
		}
		return r.answer(err), nil
	}
	if f := r.x.undeclared(nil); f != nil {
		return r.answer(f), nil
	}
	r.done, r.response, r.status = true, response, statusOf(r.x.Message(), response)
	return response, nil
}

// Send implements [crossing.Client].
func (r *relay) Send(e sse.Event) error {
	if r.b.interested(r.q, r.x.Message(), e.Data) && r.client.Send(sse.Event{Data: e.Data}) != nil {
		return errUnread
	}
	return nil
}

// Ask implements [crossing.Client].
func (r *relay) Ask(list []crossing.Question) { r.b.attribute(list, r.from) }

// MayWait implements [crossing.Client]: nothing else than the server's messages is for the client of a relayed request.
func (r *relay) MayWait() bool { return true }

// cutShort ends a relay whose context has ended. If dragoman is shutting down, the client gets an error;
// otherwise the client has left, and cutShort returns io.EOF.
func (r *relay) cutShort() ([]byte, error) {
	if why := context.Cause(r.ctx); errors.Is(why, downstream.ErrStopped) || errors.Is(why, report.ErrShutdown) {
		return r.answer(report.ErrShutdown), nil
	}
	return nil, io.EOF
}

// fromBox sends the client the messages of the parked call, and returns the response.
func (r *relay) fromBox() ([]byte, error) {
	if d := r.reads; d != nil {
		r.reads, r.here = nil, reader{ctx: r.ctx, q: r.q, client: r.client, box: r.box}
		switch {
		case !d.readFor(&r.here):
			return nil, io.EOF
		case r.here.answered:
			r.x, r.b, r.box, r.shared = d.x, d.b, nil, r.shared || r.here.known
			r.done, r.response, r.status = true, r.here.response, r.here.status
			return r.response, nil
		}
	}
	for {
		m, last, err := r.box.Take(r.ctx)
		switch {
		case err != nil:
			return r.cutShort()
		case m.Unbegun && r.sent:
			return r.answer(mcp.Fail(mcp.UpstreamRefused, "").NoEndpoint()), nil
		case m.Unbegun:
			return nil, errUnbegun
		case last:
			r.done = true
			r.status, r.header = m.Status, m.Header
			return m.Body, nil
		case r.client.Send(sse.Event{Data: m.Body}) != nil:
			return nil, io.EOF
		}
	}
}

// answer ends the relay with err and returns the error response for the client.
func (r *relay) answer(err error) []byte {
	r.done = true
	if r.x != nil {
		err = r.x.Fail(err)
	}
	f := r.br.host.Report.Failed(err, r.q.At(r.from)).WithID(r.q.ID)
	r.q.Counts.Fail(f)
	if f.UnknownSession() { // the server does not know the second session either
		f.NoEndpoint()
	}
	if f.Cause == mcp.UpstreamLost && r.b != nil {
		r.b.discard()
	}
	r.status, r.header = f.SessionlessStatus(), f.Header
	return f.Body()
}

// End ends the relay. If there was no response yet, the client has left, and the call is cancelled.
func (r *relay) End() {
	if r.ended {
		return
	}
	r.ended = true
	if r.box != nil {
		r.box.Close()
	}
	if r.reads != nil { // the client has left
		r.reads.readOn()
		r.reads = nil
	}
	if r.repeats {
		r.br.parked.repeated()
	}
	quiet, q := r.drop(), r.q
	r.client, r.web.Peer, r.here = nil, nil, reader{} // a parked call, which keeps the relay's memory, is of no client
	if quiet && r.response != nil && !r.shared {
		r.memory.free()
		q.Free()
	}
	q.Counts.Release()
}

// Cut implements [Reply].
func (r *relay) Cut() bool { return false }

func (r *relay) http(resp *downstream.Response) *httpClient {
	resp.Done = r.memory.end
	return &r.web
}

func (r *relay) fill(resp *downstream.Response) {
	resp.Status, resp.Header = r.status, append(resp.Header, r.header...)
	if r.x != nil { // no parked call reads it
		resp.Header = r.x.AppendTiming(resp.Header)
	}
}
