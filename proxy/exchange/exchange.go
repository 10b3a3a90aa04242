// Package exchange carries one message of a client to the server, and the server's messages about it back.
//
//	[Exchange.FromClient] ─► translate ─► [Exchange.Forward] ─► the session's connection
//	[Exchange.Answer] ◄─ FromServer ◄─ translate ◄─ the stream of the request
//
// An [Exchange] is taken from a pool ([Common.New]) and given back with Done; it owns the buffers of both directions. It
// runs on the goroutine of the client's request, which gets what comes before the response as a [mcp.Peer].
//
//   - exchange.go sends, answer.go reads, pipeline.go has the two directions of translation, client.go what an HTTP client gets;
//   - own.go, gates.go, schemas.go, lists.go, shaped.go and direct.go are where features take part: each asks its own
//     package, and does nothing if that has nothing to do;
//   - askagain.go and sealedquestion.go are about questions of the server;
//   - resume.go continues streams that have broken off and sends requests again, listen.go opens standing streams;
//   - outcome.go says how the exchange ended; observed.go and spans.go tell the observer and the tracer;
//   - panics.go answers a message whose handling panicked, and memory.go bounds what large messages take.
//
// The package does not know how clients reach dragoman, nor how a session begins.
package exchange

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/footprint"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/memo"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/replay"
	"github.com/dragoman-proxy/dragoman/proxy/results"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/trace"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxPooled is the largest buffer that goes back to the pool, in bytes.
const maxPooled = 64 << 10

// Common has what all exchanges share.
type Common struct {
	*session.Table
	Results   *results.Cache
	Lists     *memo.Memo
	ToolsSize footprint.Gauge
	shadows   sync.Map     // names of the server's tools that a tool of dragoman hides, once logged
	Streams   atomic.Int64 // the number of open event streams of HTTP clients
}

// Exchange carries one message of a client to the server and the server's messages about it back,
// or it reads one standing stream. It owns the buffers of both directions; what it returns is valid
// until the next call. Only one goroutine at a time may use it.
type Exchange struct {
	// These fields keep their memory when the exchange is used again.
	Msg      wire.Message
	buf      []byte // the buffer for translated messages
	key      []byte
	id       []byte                      // the id of the current message
	From     []upstream.Header           // headers passed to the server; they may be secrets
	rest     [][]byte                    // the messages of the last event
	ResumeAt []byte                      // the id of the last event that had one
	Release  func()                      // the method Done, bound once
	isStale  func() bool                 // the method IsStale, bound once
	receive  func(sse.Event, error) bool // the method event, bound once

	state
}

// state is the part of an exchange that is cleared before the exchange is used again.
type state struct {
	Common  *Common
	Session *session.Session
	Ctx     context.Context
	Stop    context.CancelCauseFunc // ends ctx; nil if the exchange does not wait for the server
	Free    func() bool             // stops another function that would end ctx; nil for none

	Call     *session.Call     // nil if the message is not a request
	OwnCall  *owntools.Request // nil if dragoman does not answer the request itself
	Batch    *session.Batch
	Slot     int
	Cancels  bool // the message is notifications/cancelled for the request in key
	Outgoing upstream.Outgoing
	Lasts    bool          // the client's message must stay as it is
	Spare    []byte        // memory for what a large message of the client becomes; nil for none
	Scanned  *wire.Message // the client's message, scanned before; nil for none

	Clock     trace.Stopwatch
	Span      *telemetry.Call // of the client's message; nil for none
	Peer      string          // the client's address; "" on a pipe
	Principal string          // the principal that sent initialize, as far as it is known
	Owner     sealed.Owner
	RunsFor   string // the client that its process is counted for
	MaxTokens int    // the budget that the request asked for with a header
	Sender    downstream.Sender

	Stream upstream.Stream
	reading
	at       int       // how many messages of rest were translated
	eventID  sse.Event // the ID and Retry of the last event
	Retry    time.Duration
	Resumes  int
	began    uint64       // the number of the server session that the request was sent in
	resent   bool         // the request was sent once more, in another server session
	bad      *mcp.Failure // the last data of the server that was not a message
	answered bool
	Final    bool          // the last message was the response
	Met      *session.Call // the call that the last message answers, if it is not x's own

	injected *injected        // adds dragoman's own messages to those of the stream; nil for none
	buffer   *replay.Buffer   // keeps the events sent to the client; nil for none
	replay   []sse.Event      // kept events to send again before any others
	Resumed  bool             // another exchange counts the call
	Tally    *stateless.Tally // the tally of a modern client's call; nil for others
	Crossing *bridge.Crossing // set between a modern client and a handshake server; else nil

	observation

	client   httpClient      // receives what comes before the response; unused on pipes
	Streamed bool            // the client's response is an event stream
	large    bool            // a message was too large to keep the buffers
	Verdict  metrics.Outcome // the outcome of the last response
	Outcome  metrics.Outcome
	Fault    metrics.Fault // why the outcome or the verdict is a failure
}

var pool = sync.Pool{New: func() any { return new(Exchange) }}

// New takes an exchange from the pool. The caller ends it with done. stop ends ctx; it is
// nil if the exchange does not wait for the server.
func (all *Common) New(ctx context.Context, stop context.CancelCauseFunc) *Exchange {
	x := pool.Get().(*Exchange)
	if x.Release == nil {
		x.Release, x.isStale, x.receive = x.Done, x.IsStale, x.event
	}
	x.Common, x.Ctx, x.Stop = all, ctx, stop
	return x
}

// log returns the logger for lines about x's message.
func (x *Exchange) log() *zap.Logger { return x.Common.Host.Log.With(trace.Fields(x.From)...) }

// Done ends the exchange and returns it to the pool.
func (x *Exchange) Done() {
	gone := x.ClientLeft()
	x.injected.end()
	if st, ok := x.Stream.(upstream.Releaser); ok {
		st.Release()
	}
	parked := x.buffer != nil && x.buffer.Detach(gone)
	x.clear()
	if x.Stream != nil && !parked { // the stream of a parked call goes on
		x.Stream.Close()
	}
	if x.Stop != nil {
		x.Stop(nil)
	}
	if x.Free != nil {
		x.Free()
	}
	if x.Call != nil {
		if parked || gone && len(x.ResumeAt) > 0 {
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
		x.Session.Leave()
	}
	if x.Streamed {
		x.Common.Streams.Add(-1)
	}
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

// clear forgets all messages, so that their memory can be freed.
func (x *Exchange) clear() {
	x.Msg.Raw, x.Outgoing.Body = nil, nil
	clear(x.rest[:cap(x.rest)])
	x.rest, x.at = x.rest[:0], 0
	x.replay = nil
}

// IsStale reports whether x's request was answered or cancelled before it was sent.
func (x *Exchange) IsStale() bool { return x.Call != nil && !x.Session.Open.Has(x.Call) }

// StartStream notes that the response is an event stream. The client's message is not available any more.
func (x *Exchange) StartStream() {
	x.Streamed, x.Outgoing.Body = true, nil
	x.Common.Streams.Add(1)
}

// Attach makes st the stream that Answer reads.
func (x *Exchange) Attach(st upstream.Stream) { x.Stream = st }

// Forward sends a message to the server. The stream is nil if no response is expected.
func (x *Exchange) Forward(body []byte) (upstream.Stream, error) {
	if x.OwnCall != nil {
		return x.startHere(), nil
	}
	marked, header := x.Span.Sent(body, x.From)
	x.observeForward(marked)
	x.Outgoing = upstream.Outgoing{Body: marked, Request: x.Call != nil, Header: header, Stale: x.isStale, Logs: x.Crossing.WantsLogs()}
	if x.Call != nil {
		limit := x.Common.Now().Silence[x.Call.Method]
		x.Outgoing.FirstByte, x.Outgoing.Silence = limit.FirstByte, limit.Silence
		if x.Call.Method == wire.SubscriptionsListen {
			x.Outgoing.Silence = bridge.MaxQuiet
		}
		if more := x.Crossing.Patience(); more > 0 {
			x.Outgoing.FirstByte, x.Outgoing.Silence = lengthened(limit.FirstByte, more), lengthened(limit.Silence, more)
		}
	}
	var over *session.Call // the cancelled call, whose id the client may use again once the server has the cancellation
	if x.Cancels {
		over = x.Session.Open.Newest(x.key)
	}
	st, err := upstream.Stream(nil), error(nil)
	if e := x.enquire(body); e != nil {
		st, err = x.sendKept(e, marked)
	} else {
		if c := x.Session.Renewing; c != nil {
			x.began = c.Number()
		}
		if x.bridged() && sameMemory(marked, x.Msg.Raw) && len(marked) == len(x.Msg.Raw) {
			x.Outgoing.Scanned = &x.Msg
		}
		st, err = x.Session.Conn.Send(x.seenWithin(), &x.Outgoing)
		x.Outgoing.Scanned = nil
	}
	x.Clock.Lap(&x.Clock.Upstream)
	if err != nil && x.Ctx.Err() != nil {
		err = context.Cause(x.Ctx)
	}
	if err != nil && x.listAlone(body, err) {
		return x.startHere(), nil
	}
	if err == nil && over != nil && x.Session.Open.CancelThis(over) && over.Stop == nil {
		o := x.Session.Operation(over, metrics.Cancelled, metrics.Fault{})
		x.Common.EndCall(over, &o)
	}
	return st, err
}

// lengthened returns limit extended by the given time. 0 means no limit and stays 0.
func lengthened(limit, by time.Duration) time.Duration {
	if limit <= 0 {
		return limit
	}
	return limit + by
}

// Leg returns an exchange for one request of the POST.
func (x *Exchange) Leg() *Exchange {
	ctx, stop := context.WithCancelCause(x.Ctx)
	leg := x.Common.New(ctx, stop)
	leg.Session = x.Session
	leg.Session.Enter()
	leg.From = append(leg.From[:0], x.From...)
	leg.Sender = x.Sender
	return leg
}

// Keep returns a copy of a message.
func (x *Exchange) Keep(message []byte) ([]byte, error) {
	return x.Common.Host.Memory().Clone(x.Ctx, large.AnswerWait, large.Copy, message)
}
