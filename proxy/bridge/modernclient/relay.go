package modernclient

import (
	"context"
	"errors"
	"io"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/results"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A relay is one request of a modern client to a handshake server, as that client sees it: messages, and then the
// response. The relay reads an exchange on a pooled session, whose [Client] it is. If the server may ask the client
// something before it answers, a parked call reads the exchange instead, and may outlive the relay. See "Modern client, legacy server" in
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning#compatibility.
//
// Only one goroutine at a time may use it. The caller calls End when it is done.
type relay struct {
	br   *Bridge
	ctx  context.Context // ends when the client leaves
	q    *stateless.Request
	who  string // the principal
	from []upstream.Header

	client   mcp.Peer   // set by Answer
	web      httpClient // client, if it is one over HTTP
	response []byte     // once it is known

	b     *pooledSession
	x     *asking        // nil if a parked call reads it
	box   *outbox.Outbox // the messages of the parked call for the client; nil if there is none
	reads *parkedCall    // the parked call that this goroutine reads; nil if another one does
	done  bool           // Answer returns the response
	task  taskPlan       // whether a tool call becomes a task
	sent  bool           // the request was sent a second time, since the server did not know the session

	ended bool // end was called

	status int // the HTTP status of the response
	header []mcp.Header

	leave callctx.Watch // of ctx

	memory *memory // r is part of it
	taken  bool    // its other parts are in use, or were
	shared bool    // something else may know its parts
	parked bool    // something else may know the parked call in it
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

// callMemory is what a call needs until the server has answered.
type callMemory struct {
	asking asking
	parked parkedCall
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

// ask sends q to the server. The caller must end the relay.
func (br *Bridge) ask(ctx context.Context, q *stateless.Request, who string, from []upstream.Header) (_ *relay, err error) {
	r := &br.takeMemory().relay
	*r = relay{br: br, ctx: ctx, q: q, who: who, from: from, status: 200, memory: r.memory}
	r.q.Counts.Hold()
	defer func() {
		if p := recover(); p != nil {
			r.shared = true
			br.host.Report.Panicked(p)
			br.host.Report.Contained(r.End)
			err = mcp.Fail(mcp.Panicked, "").WithID(q.ID)
		}
	}()
	switch {
	case q.Method == wire.TasksGet || q.Method == wire.TasksUpdate || q.Method == wire.TasksCancel:
		if err = br.tasks.answer(r); err == nil {
			q.Counts.Settle(metrics.Local)
		}
	case q.State != nil:
		err = br.parked.resume(r)
	default:
		err = r.begin()
	}
	if err != nil {
		r.End()
		return nil, clienterror.Of(err).WithID(q.ID)
	}
	return r, nil
}

// begin sends the request on a session. If the server does not know that session any more, begin
// sends the request once more, on another session.
func (r *relay) begin() error {
	if r.q.Inputs != nil && !objects(r.q.Inputs) {
		return mcp.Fail(mcp.InputsInvalid, "")
	}
	err := r.send()
	if err != nil && clienterror.Of(err).UnknownSession() {
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
		r.br.pool.discard(r.b)
	}
	if r.x != nil {
		r.x.Unsent()
	}
	r.drop()
	return r.send()
}

func (r *relay) send() error {
	b, err := r.br.pool.get(r.ctx, r.q, r.who, r.from)
	if err != nil {
		return err
	}
	r.b = b
	if err := r.br.proxy.CheckCall(r.ctx, b.s, r, r.q); err != nil {
		return err
	}
	b.setLevel(r.ctx, r.q.LogLevel, r.from)
	if r.task, err = r.br.tasks.plan(r.ctx, b, r.q, r.from); err != nil {
		return err
	}
	e, begun := r.enquire(), false
	r.shared = r.shared || e != nil || r.task != plainCall
	var d *parkedCall
	var box *outbox.Outbox
	defer func() {
		if begun {
			return
		}
		if e.End(); d != nil {
			b.leave(d)
			d.stop()
		}
	}()
	if err := e.Wait(r.ctx); err != nil {
		return err
	}
	var x *asking
	var id []byte
	if r.q.MayAsk() || b.mayReceiveOnStanding(r.q) {
		r.parked = true
		d, x, id, box = r.br.parked.begin(r, b) // before sendOn, as the server may ask before sendOn returns
		if e != nil {
			e.Asked = d.hasAsked
		}
	} else {
		m, _ := r.room()
		x = &m.asking
		id = b.appendID(x.id[:0])
	}
	lasts := d != nil || r.task != plainCall // the call may outlive the request that began it
	x.ctx = callctx.New()
	if lasts {
		x.ctx.BeginApart(r.ctx)
	} else {
		x.ctx.Begin(r.ctx)
	}
	if err := r.br.sendOn(x, b, id, r.q, r.task, r.from, e); err != nil {
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

// room returns memory for a request that is sent.
func (r *relay) room() (*callMemory, *outbox.Outbox) {
	if r.taken {
		return new(callMemory), outbox.New()
	}
	r.taken = true
	return r.memory.call, &r.memory.box
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
	return r.b.lists(r.from)(ctx, params)
}

// enquire looks up the request in the cache of results. It returns nil if the answer must not be
// cached. Otherwise it makes the session listen for the server's change notifications, which
// invalidate the cached answer.
func (r *relay) enquire() *results.Enquiry {
	if r.b.s.Alone() || r.q.Inputs != nil || !r.br.results.Keeps(r.q.Method) {
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

// asking is a request that was sent to the server, and its exchange.
type asking struct {
	Exchange
	ctx      *callctx.Context // ends with stop
	stop     context.CancelCauseFunc
	crossing bridge.Crossing
	run      *taskRun     // nil if the call does not become a task here
	id       [idRoom]byte // the memory of the id at the server
}

// isTask reports whether the server has answered the call with a task: then the end of the task's stream cancels that, and
// there is no call to cancel. See
// https://modelcontextprotocol.io/specification/2025-11-25/schema#cancellednotificationparams.
func (x *asking) isTask() bool { return x.run != nil && x.run.isTask() }

// undeclared returns the error that replaces the server's error response, or nil if the
// response is to be sent as it is. missing is the capability that the server's questions have lacked so far.
func (x *asking) undeclared(missing []byte) *mcp.Failure {
	if lacking := x.crossing.Lacking(); lacking != nil {
		missing = lacking
	}
	if missing == nil || x.Message().Kind != wire.Error {
		return nil
	}
	f := mcp.Fail(mcp.CapabilityMissing, "")
	f.Data = missing
	return f
}

// sendOn sends q as x, whose context has begun, with the given id to the server behind b, or takes the answer that e has
// found. If there is no error, the caller owns the exchange.
func (br *Bridge) sendOn(x *asking, b *pooledSession, id []byte, q *stateless.Request, task taskPlan, from []upstream.Header, e *results.Enquiry) error {
	ctx := x.ctx
	x.stop = ctx.End
	b.cross(&x.crossing, q, id, task, e)
	x.Exchange = b.s.Begin(ctx, x.stop, from, &x.crossing, q)
	out, v, err := x.Translate(Message{q.Raw, q.Spare(), q.Scanned})
	q.Scanned = nil
	switch {
	case err != nil:
		x.Settle(metrics.Refused)
	case v == wire.Answer && gjson.GetBytes(out, "result").Exists(): // a gate has refused the call
		answer := under(out, id)
		x.Read(upstream.Answered(answer))
		e.End()
		return nil
	case v == wire.Answer:
		x.Settle(metrics.Local)
		f := mcp.Fail(mcp.MethodUnknown, q.Name)
		f.Cause = mcp.MethodUnknown
		err = f
	case v != wire.Forward:
		err = mcp.Fail(mcp.MethodUnknown, q.Name)
	}
	if err == nil {
		var st upstream.Stream
		st, err = e.Stream(id, func() (upstream.Stream, error) {
			st, err := x.Forward(out)
			if x.Own() {
				e.Taint() // dragoman answers, not the server
			}
			switch {
			case err != nil || x.Own():
			case task == asTask:
				st = br.tasks.created(st, b, id, from)
			case task == taskHere:
				x.run = br.runTask(x, b, st, id, from)
				st = x.run
			}
			return st, err
		})
		if err == nil {
			x.Read(st)
			return nil
		}
		f := x.Fail(err)
		if err = f; f.Cause == mcp.UpstreamLost || f.Cause == mcp.UpstreamRefused && f.Status == 404 {
			br.pool.discard(b)
		}
	}
	x.Done()
	f := clienterror.Of(err).WithID(q.ID)
	f.Status = f.SessionlessStatus()
	return f
}

// cross sets c to what translation needs to know of q, which is sent on b with this id.
func (b *pooledSession) cross(c *bridge.Crossing, q *stateless.Request, id []byte, task taskPlan, e *results.Enquiry) {
	cfg := b.br.host.Config().Bridge
	token := append(id, `"p`...) // behind the id, where nextID has left room
	token = append(append(token, id...), '"')[len(id):]
	*c = bridge.Crossing{
		Up: wire.Stamp{ID: id[:len(id):len(id)], ProgressToken: token},
		Down: wire.Stamp{
			ID: q.ID, ProgressToken: q.ProgressToken, ServerInfo: b.said.server,
			TTL: e.Remaining(cfg.TTL).Milliseconds(),
		},
		Logs: b.wantsLogs(q), Opened: b.hasOpened, Tasks: b.taskNews,
	}
	if task != plainCall {
		c.Up.Task = []byte("{}")
	}
	if task == asTask {
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

// errUnread says that the client gets no more messages.
var errUnread = errors.New("the client has left")

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
		if r.box != nil {
			response, err = r.fromBox()
		} else {
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
	case errors.Is(err, bridge.ErrURLs): // there is no parked call to ask the user with
		return r.answer(urlsUnasked()), nil
	case err != nil && r.ctx.Err() != nil:
		return r.cutShort()
	case err != nil && r.x.Unbegun(err) && !r.sent:
		r.br.host.Report.Failed(err, r.x.At())
		return nil, errUnbegun
	case err != nil:
		return r.answer(err), nil
	}
	if f := r.x.undeclared(nil); f != nil {
		return r.answer(f), nil
	}
	r.respond(response, statusOf(r.x.Message(), response))
	return response, nil
}

// respond notes the response of the server.
func (r *relay) respond(response []byte, status int) {
	r.done, r.response, r.status = true, response, status
}

// Send implements [bridge.Client].
func (r *relay) Send(e sse.Event) error {
	if interested(r.b, r.q, r.x.Message(), e.Data) && r.client.Send(sse.Event{Data: e.Data}) != nil {
		return errUnread
	}
	return nil
}

// Ask implements [bridge.Client].
func (r *relay) Ask(list []bridge.Question) { r.b.attribute(list, r.from) }

// cutShort ends a relay whose context has ended. If dragoman is shutting down, the client gets an error;
// otherwise the client has left, and cutShort returns io.EOF.
func (r *relay) cutShort() ([]byte, error) {
	if why := context.Cause(r.ctx); errors.Is(why, downstream.ErrStopped) || errors.Is(why, clienterror.ErrShutdown) {
		return r.answer(clienterror.ErrShutdown), nil
	}
	return nil, io.EOF
}

// fromBox sends the client the messages of the parked call, and returns the response.
func (r *relay) fromBox() ([]byte, error) {
	if d := r.reads; d != nil {
		switch r.reads = nil; {
		case !d.readFor(r):
			return nil, io.EOF
		case r.done:
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
		r.br.pool.discard(r.b)
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
	quiet := r.drop()
	r.client, r.web.Peer = nil, nil // a parked call, which keeps the relay's memory, is of no client
	r.q.Counts.Release()
	if quiet && r.response != nil && !r.shared && !r.parked {
		r.memory.free()
	}
}

// interested reports whether a message that is no response goes to q's client. List changes and resource
// updates go to the session's subscriptions instead.
func interested(b *pooledSession, q *stateless.Request, m *wire.Message, body []byte) bool {
	if m.Kind != wire.Notification {
		return true
	}
	switch m.Method {
	case wire.Progress:
		return q.ProgressToken != nil
	case wire.LogMessage:
		return q.LogLevel != mcp.NoLogLevel && mcp.LogLevelOf(gjson.GetBytes(body, "params.level").String()) >= q.LogLevel
	case wire.ToolsListChanged, wire.PromptsListChanged, wire.ResourcesListChanged, wire.ResourcesUpdated:
		b.announce(m.Method, body)
		return false
	case wire.Cancelled:
		return false // the server cancels a question, which the client already has or will never receive
	}
	return true
}

// Cut implements [Reply].
func (r *relay) Cut() bool { return false }

func (r *relay) fill(resp *downstream.Response) {
	resp.Status, resp.Header = r.status, append(resp.Header, r.header...)
	if r.x != nil { // no parked call reads it
		resp.Header = r.x.AppendTiming(resp.Header)
	}
}
