package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/footprint"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/memo"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/replay"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/requests"
	"github.com/dragoman-proxy/dragoman/proxy/restart"
	"github.com/dragoman-proxy/dragoman/proxy/results"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/shape"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/trace"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxPooled is the largest buffer that goes back to the pool, in bytes.
const maxPooled = 64 << 10

// These constants bound how a stream is resumed that the server closed before it sent the response.
const (
	maxResumes   = 5                // attempts in a row without a message between them
	resumeWait   = time.Second      // the wait if the server named none
	maxRetryWait = 30 * time.Second // the longest wait, whatever the server named
)

// exchanges has what all exchanges share.
type exchanges struct {
	*session.Table
	results   *results.Cache
	lists     *memo.Memo
	toolsSize footprint.Gauge
	shadows   sync.Map     // names of the server's tools that a tool of dragoman hides, once logged
	streams   atomic.Int64 // the number of open event streams of HTTP clients
}

// exchange carries one message of a client to the server and the server's messages about it back,
// or it reads one standing stream. It owns the buffers of both directions; what it returns is valid
// until the next call. Only one goroutine at a time may use it.
type exchange struct {
	// These fields keep their memory when the exchange is used again.
	msg      wire.Message
	buf      []byte // the buffer for translated messages
	key      []byte
	id       []byte            // the id of the current message
	from     []upstream.Header // headers passed to the server; they may be secrets
	rest     [][]byte          // the messages of the last event
	resumeAt []byte            // the id of the last event that had one
	release  func()            // the method done, bound once
	isStale  func() bool       // the method stale, bound once

	exchangeState
}

// exchangeState is the part of an exchange that is cleared before the exchange is used again.
type exchangeState struct {
	srv  *exchanges
	s    *session.Session
	ctx  context.Context
	stop context.CancelCauseFunc // ends ctx; nil if the exchange does not wait for the server
	free func() bool             // stops another function that would end ctx; nil for none

	call    *session.Call     // nil if the message is not a request
	ownCall *owntools.Request // nil if dragoman does not answer the request itself
	group   *session.Batch
	slot    int
	cancels bool // the message is notifications/cancelled for the request in key
	send    upstream.Outgoing

	clock     trace.Stopwatch
	span      *telemetry.Call // of the client's message; nil for none
	peer      string          // the client's address; "" on a pipe
	who       string          // the principal that sent initialize, as far as it is known
	owner     sealed.Owner
	runsFor   string // the client that its process is counted for
	maxTokens int    // the budget that the request asked for with a header
	sender    downstream.Sender

	stream   upstream.Stream
	at       int       // how many messages of rest were returned
	eventID  sse.Event // the ID and Retry of the last event
	retry    time.Duration
	resumes  int
	began    uint64       // the number of the server session that the request was sent in
	resent   bool         // the request was sent once more, in another server session
	bad      *mcp.Failure // the last data of the server that was not a message
	answered bool
	final    bool          // next has returned the response
	met      *session.Call // the call that the message of next answers, if it is not x's own

	injected *injected        // dragoman's own messages on stream; nil for none
	buffer   *replay.Buffer   // keeps the events sent to the client; nil for none
	replay   []sse.Event      // kept events to send again before any others
	resumed  bool             // another exchange counts the call
	tally    *stateless.Tally // the tally of a modern client's call; nil for others
	crossing *bridge.Crossing // set between a modern client and a handshake server; else nil

	observation

	client   httpClient      // receives what comes before the response; unused on pipes
	streamed bool            // the client's response is an event stream
	large    bool            // a message was too large to keep the buffers
	verdict  metrics.Outcome // the outcome of the last response
	outcome  metrics.Outcome
	fault    metrics.Fault // why the outcome or the verdict is a failure
}

var exchangePool = sync.Pool{New: func() any { return new(exchange) }}

// newExchange takes an exchange from the pool. The caller ends it with done. stop ends ctx; it is
// nil if the exchange does not wait for the server.
func (srv *exchanges) newExchange(ctx context.Context, stop context.CancelCauseFunc) *exchange {
	x := exchangePool.Get().(*exchange)
	if x.release == nil {
		x.release, x.isStale = x.done, x.stale
	}
	x.srv, x.ctx, x.stop = srv, ctx, stop
	return x
}

// log returns the logger for lines about x's message.
func (x *exchange) log() *zap.Logger { return x.srv.Host.Log.With(trace.Fields(x.from)...) }

// done ends the exchange and returns it to the pool.
func (x *exchange) done() {
	gone := x.clientLeft()
	if st, ok := x.stream.(upstream.Releaser); ok {
		st.Release()
	}
	parked := x.buffer != nil && x.buffer.Detach(gone)
	x.clear()
	if x.stream != nil && !parked { // the stream of a parked call goes on
		x.stream.Close()
	}
	if x.stop != nil {
		x.stop(nil)
	}
	if x.free != nil {
		x.free()
	}
	if x.call != nil {
		if parked || gone && len(x.resumeAt) > 0 {
			x.s.Open.Abandon(x.call) // the client may resume the stream
		} else {
			x.s.Open.End(x.call)
		}
		if !x.resumed {
			x.count(x.ending(gone))
			x.srv.Metrics.Spent(&x.clock)
		}
	}
	if x.call == nil && x.tally == nil {
		x.span.End(string(cmp.Or(x.outcome, metrics.Succeeded)), string(x.fault.Cause))
		if !x.lent {
			x.seen.End(string(cmp.Or(x.outcome, metrics.Succeeded)), string(x.fault.Cause))
		}
	}
	x.tally.Release()
	if x.s != nil {
		x.s.Leave()
	}
	if x.streamed {
		x.srv.streams.Add(-1)
	}
	if x.large {
		x.msg.Trim()
		if cap(x.buf) > maxPooled {
			x.buf = nil
		}
	}
	x.exchangeState = exchangeState{}
	clear(x.from)
	x.from, x.resumeAt = x.from[:0], x.resumeAt[:0]
	exchangePool.Put(x)
}

// count counts x's request with its outcome.
func (x *exchange) count(how metrics.Outcome) {
	if how == metrics.Left || how == metrics.Cancelled {
		x.srv.Host.Report.Unanswered(how, x.requestInfo())
	}
	o := x.s.Operation(x.call, how, x.fault)
	if x.ownCall == nil {
		o.Waited = x.clock.Waited()
	}
	if x.tally != nil {
		x.tally.Note(&o)
		x.call.More.Seen.End(string(how), string(x.fault.Cause))
		return
	}
	x.srv.EndCall(x.call, &o)
}

// clear forgets all messages, so that their memory can be freed.
func (x *exchange) clear() {
	x.msg.Raw, x.send.Body = nil, nil
	clear(x.rest[:cap(x.rest)])
	x.rest, x.at = x.rest[:0], 0
	x.replay = nil
}

// stale reports whether x's request was answered or cancelled before it was sent.
func (x *exchange) stale() bool { return x.call != nil && !x.s.Open.Has(x.call) }

// clientLeft reports whether x's context ended because the client has left. Other reasons are
// reported as an error.
func (x *exchange) clientLeft() bool {
	why := context.Cause(x.ctx)
	return errors.Is(why, downstream.ErrClientLeft) || errors.Is(why, downstream.ErrOver) ||
		errors.Is(why, clienterror.ErrTakenUp) || errors.Is(why, context.Canceled)
}

// ending returns the outcome of x's request.
func (x *exchange) ending(gone bool) metrics.Outcome {
	switch {
	case x.call.Cancelled.Load():
		return metrics.Cancelled
	case x.answered && x.verdict == "":
		return metrics.Failed // dragoman's error replaced the response
	case x.answered && x.ownCall != nil:
		return metrics.Local
	case x.answered && x.outcome != metrics.Failed:
		return x.verdict
	case x.outcome != "" && (!gone || errors.Is(context.Cause(x.ctx), downstream.ErrOver)):
		return x.outcome // the transport ends every exchange with ErrOver
	}
	return metrics.Left
}

// startStream notes that the response is an event stream. The client's message is not available any more.
func (x *exchange) startStream() {
	x.streamed, x.send.Body = true, nil
	x.srv.streams.Add(1)
}

// attach makes st the stream that Next reads.
func (x *exchange) attach(st upstream.Stream) {
	if x.injected != nil {
		st = x.injected.on(x.srv, st)
	}
	x.stream = st
}

// answer sends the client the server's messages until the response, which it returns; it is valid until the next call.
// The error is io.EOF if no response is owed, or if the client gets no more messages.
func (x *exchange) answer(client mcp.Peer) (response sse.Event, err error) {
	for {
		e, err := x.nextRecovered()
		if err != nil || x.final && x.at == len(x.rest) {
			return e, err
		}
		if client.Send(e) != nil {
			if x.stop != nil {
				x.stop(downstream.ErrClientLeft)
			}
			return sse.Event{}, io.EOF
		}
	}
}

// httpClient is the client of an exchange over HTTP. The first message that it receives makes the response an event
// stream, and what it receives is kept for replay.
type httpClient struct {
	x    *exchange
	to   mcp.Peer
	resp *downstream.Response // nil if the response is an event stream already
}

// Send implements [mcp.Peer].
func (c *httpClient) Send(e sse.Event) error {
	x := c.x
	if !x.streamed {
		x.startStream()
		c.resp.Header = x.clock.AppendTo(c.resp.Header)
		if of, ok := x.stream.(*server.Stream); ok {
			x.buffer = lanesOf(x.s.Conn).Trails.Begin(&resumableCall{x.call, x.s.Open, of}, x.stop)
		}
	}
	if x.buffer != nil {
		x.buffer.Record(&e, x.final)
	}
	return c.to.Send(e)
}

// late returns the last event of an event stream whose reading has failed with err: an error instead of the response.
// ok is false if the client is owed nothing more.
func (x *exchange) late(err error) (e sse.Event, ok bool) {
	if errors.Is(err, io.EOF) || x.call == nil || x.clientLeft() {
		return e, false // a client opens a standing stream again
	}
	x.answered, x.final = true, true
	if x.call.Method == wire.SubscriptionsListen && errors.Is(err, clienterror.ErrShutdown) {
		x.verdict = metrics.Succeeded
		return sse.Event{Data: bridge.ListenResult([]byte(x.call.ID))}, true
	}
	return sse.Event{Data: x.srv.answerFor(x, err).Body()}, true
}

// listen sends the client the events of x's stream until it ends: first those that are kept for it.
func (x *exchange) listen(client mcp.Peer) error {
	for _, e := range x.replay {
		if err := client.Send(e); err != nil {
			return err
		}
	}
	x.replay = nil
	if x.ctx.Err() != nil {
		return nil // what comes waits for the next stream
	}
	x.client = httpClient{x: x, to: client}
	last, err := x.answer(&x.client)
	if err != nil {
		var ok bool
		if last, ok = x.late(err); !ok {
			return nil
		}
	}
	return x.client.Send(last)
}

// next returns the next message for the client. It is valid until the next call. The error is
// io.EOF after the response, or if none is owed.
func (x *exchange) next() (sse.Event, error) {
	for {
		if x.at < len(x.rest) {
			x.at++
			out, ok := x.fromServer(x.rest[x.at-1])
			if !ok && x.crossing.Pending() {
				return sse.Event{}, bridge.ErrAsked
			}
			if !ok {
				continue
			}
			return x.event(out), nil
		}
		if x.answered {
			return sse.Event{}, io.EOF
		}
		if e, ok, err := x.pull(); ok || err != nil {
			return e, err
		}
	}
}

// nextRecovered is next, but a panic becomes an error.
func (x *exchange) nextRecovered() (e sse.Event, err error) {
	defer func() {
		if p := recover(); p != nil {
			x.srv.Host.Report.Panicked(p)
			e, err = sse.Event{}, mcp.Fail(mcp.Panicked, "")
		}
	}()
	return x.next()
}

// event returns the event that carries data. The event id goes with the last message of the
// server's event.
func (x *exchange) event(data []byte) sse.Event {
	e := sse.Event{Data: data}
	if x.at == len(x.rest) {
		e.ID, e.HasID, e.Retry = x.eventID.ID, x.eventID.HasID, x.eventID.Retry
	}
	return e
}

// pull reads one event of the server into x.rest. If the event has no message and client and server
// have the same revision, pull returns the event unchanged, with ok true.
func (x *exchange) pull() (e sse.Event, ok bool, err error) {
	if cap(x.buf) > maxPooled {
		x.buf = nil // the previous message was large
	}
	x.clock.Start()
	e, err = server.Next(x.stream, x.srv.Host)
	x.clock.Lap(&x.clock.Upstream)
	if c, ok := x.s.Conn.(*restart.HTTP); err != nil && ok && x.call != nil && !x.resent && x.send.Body != nil && restart.IsLost(err) {
		if x.crossing.StopsBeingAlone() {
			return sse.Event{}, false, sse.ErrInterrupted
		}
		return sse.Event{}, false, x.sendAgain(c)
	}
	if err != nil {
		return sse.Event{}, false, x.ended(err)
	}
	x.resumes = 0
	x.eventID = sse.Event{ID: e.ID, HasID: e.HasID, Retry: e.Retry}
	if e.HasID {
		x.resumeAt = append(x.resumeAt[:0], e.ID...)
	}
	if e.Retry > 0 {
		x.retry = e.Retry
	}
	x.rest, x.at = x.rest[:0], 0
	switch {
	case len(bytes.TrimSpace(e.Data)) == 0:
		e.Data = e.Data[:0]
		return e, x.s.Down.Identity(), nil
	case wire.IsArray(e.Data):
		if x.rest, err = wire.AppendElements(x.rest, e.Data, x.srv.Now().Config.Limits.Batch); err != nil {
			x.bad = x.srv.Host.Report.Malformed(err, e.Data, x.from)
			x.rest = x.rest[:0]
		}
	default:
		x.rest = append(x.rest, e.Data)
	}
	return sse.Event{}, false, nil
}

// ended returns the error for a stream that has ended with err, or nil if the stream was resumed.
func (x *exchange) ended(err error) error {
	switch {
	case x.call == nil:
		return err
	case x.call.Cancelled.Load(), errors.Is(err, requests.ErrCancelled):
		return io.EOF // no answer is owed
	case x.ctx.Err() != nil:
		return context.Cause(x.ctx)
	case !errors.Is(err, io.EOF):
		return err
	case x.bad != nil:
		return x.bad
	case len(x.resumeAt) == 0 || x.resumes >= maxResumes || x.s.Direct != nil:
		return mcp.Fail(mcp.UpstreamSilent, "")
	case x.crossing.StopsBeingAlone():
		return sse.ErrInterrupted
	}
	return x.resume()
}

// sendAgain sends x's request in another server session: the server does not know the session of
// the request, and so has not processed it.
func (x *exchange) sendAgain(c *restart.HTTP) error {
	x.resent = true
	x.seen.Note(observe.Note{By: observe.Restart, What: "sent_again", Detail: "the server did not know the session: the request is sent again in a new one"})
	if err := c.Renew(x.ctx, x.began, x.from); err != nil {
		return x.ended(err)
	}
	if x.call.Cancelled.Load() {
		return io.EOF
	}
	st, err := c.Send(x.ctx, &x.send)
	if err != nil {
		return x.ended(err)
	}
	x.stream.Close()
	x.attach(st)
	return nil
}

// forwardKept is forward for a body that may be overwritten before the response comes.
func (x *exchange) forwardKept(body []byte) (upstream.Stream, error) {
	body, err := x.keepBody(body)
	if err != nil {
		return nil, err
	}
	return x.forward(body)
}

// keepBody copies the body to send into a buffer of x, if it may have to be sent again after the
// client's message is gone.
func (x *exchange) keepBody(body []byte) ([]byte, error) {
	_, again := x.s.Conn.(*restart.HTTP)
	switch {
	case !again || x.call == nil || sameMemory(x.buf, body):
		return body, nil
	case len(body) > large.Size:
		return x.srv.Host.Memory().Clone(x.ctx, large.RequestWait, large.RequestCopy, body)
	}
	x.buf = append(x.buf[:0], body...)
	x.large = x.large || cap(x.buf) > maxPooled
	return x.buf, nil
}

// resume reopens a stream that the server closed before it sent the response. The client does not
// notice. See "Resumability and Redelivery",
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery.
func (x *exchange) resume() error {
	x.resumes++
	wait := resumeWait
	if x.retry > 0 {
		wait = min(x.retry, maxRetryWait)
	}
	if err := server.Sleep(x.ctx, wait); err != nil {
		return x.ended(err)
	}
	st, err := x.s.Conn.Listen(x.ctx, upstream.ListenOptions{LastEventID: string(x.resumeAt), Header: x.from})
	if err != nil {
		if errors.Is(err, upstream.ErrNoStream) {
			return mcp.Fail(mcp.UpstreamSilent, "")
		}
		return err
	}
	x.stream.Close()
	x.attach(st)
	return nil
}

// headers notes the client's headers that are passed to the server: its credentials, and its trace
// (https://www.w3.org/TR/trace-context/).
func (x *exchange) headers(r *downstream.Request) {
	x.from = x.from[:0]
	if r.Header != nil {
		x.from = x.srv.AppendPassed(x.from, r.Header)
		x.clock.Asked = r.Header(trace.TimingHeader) != ""
		x.peer = r.Peer
		x.sender = downstream.SenderOf(r.Guest, r.Header, x.srv.Adapters.CallerHeaders())
		if x.srv.Now().Shaping != nil {
			x.maxTokens = shape.Budget(r.Header(shape.BudgetHeader))
		}
	}
}

// requestInfo returns what is known of x's message.
func (x *exchange) requestInfo() report.At {
	at := report.At{Header: x.from}
	if x.call != nil {
		at.Method = x.call.Method.String()
	}
	if x.s != nil {
		at.Client, at.Server, at.Session = x.s.ClientRevision, x.s.ServerRevision, x.s.Named
	}
	return at
}

// outlives returns the error that ends x's session if err says that the server no longer has sessions; else
// it returns err.
func (x *exchange) outlives(err error) error {
	if _, bridged := x.s.Conn.(*legacyclient.Conn); bridged || x.s.Piped || x.s.ID == "" && x.s.Pipe == 0 || !era.Doubtful(false, err) {
		return err
	}
	if x.srv.Eras.Changed(x.ctx, x.from, false, err) {
		return era.Outlived()
	}
	return err
}
