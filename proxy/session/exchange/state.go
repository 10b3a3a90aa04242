package exchange

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/features/footprint"
	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/features/replay"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/memo"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/requests"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
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
	From     []mcp.Header                // headers passed to the server; they may be secrets
	rest     [][]byte                    // the messages of the last event
	ResumeAt []byte                      // the id of the last event that had one
	Release  func()                      // the method Done, bound once
	isStale  func() bool                 // the method IsStale, bound once
	receive  func(sse.Event, error) bool // the method event, bound once
	insert   func(m []byte)              // the method sendOwn, bound once

	state
}

// state is the part of an exchange that is cleared before the exchange is used again.
type state struct {
	Common  *Common
	Heard   []mcp.Header // headers of the client's request that the observer keeps; nil if nothing observes, and on a pipe
	Session *session.Session
	Ctx     context.Context
	Stop    context.CancelCauseFunc // ends ctx; nil if the exchange does not wait for the server
	Free    func() bool             // stops another function that would end ctx; nil for none

	Call    *session.Call     // nil if the message is not a request
	OwnCall *owntools.Request // nil if dragoman does not answer the request itself
	// emptyCursor says that the client asks for the page that the server names with an empty cursor; see [owntools.LeadsOn].
	emptyCursor bool
	Batch       *session.Batch
	Slot        int
	renamed     *pipes.RenamedCall // x's request, if the server knows it by another id in a pooled session; else nil
	Cancels     bool               // the message is notifications/cancelled for the request in key
	Outgoing    upstream.Outgoing
	Waiting     *upstream.Waiting // as in Outgoing; of a client on a pipe
	Handed      *upstream.Handed  // the message, if it waits for a busy server; else nil
	tells       *[]mcp.Header     // told, if the client gets headers of the server's response; else nil
	told        []mcp.Header
	Lasts       bool          // the client's message must stay as it is
	Spare       []byte        // memory for what a large message of the client becomes; nil for none
	Scanned     *wire.Message // the client's message, scanned before; nil for none

	Clock     trace.Stopwatch
	Span      *telemetry.Call // of the client's message; nil for none
	Peer      string          // the client's address; "" on a pipe
	Principal string          // the principal that sent initialize, as far as it is known
	Owner     sealed.Owner
	RunsFor   string // the client that its process is counted for
	MaxTokens int    // the budget that the request asked for with a header
	Sender    downstream.Sender

	Stream upstream.Stream
	lane   *pipes.Stream          // Stream, or what it is made of, if the server is on a pipe; else nil
	across legacyclient.Answering // Stream, if it comes from the other era; else nil
	reading
	at       int       // how many messages of rest were translated
	came     sse.Event // the last event, without its data
	Retry    time.Duration
	Resumes  int
	began    uint64       // the number of the server session that the request was sent in
	within   string       // the server's id of that session, or of that whose question the client's message answers; "" for none
	resent   bool         // the request was sent once more, in another server session
	doubted  bool         // the server has said that it has lost the session
	bad      *mcp.Failure // the last data of the server that was not a message
	hopeless bool         // it was meant as the response
	answered bool
	Final    bool          // the last message was the response
	Met      *session.Call // the call that the last message answers, if it is not x's own

	injected *injected                              // adds dragoman's own messages to those of the stream; nil for none
	buffer   *replay.Buffer[*session.ResumableCall] // keeps the events sent to the client; nil for none
	replay   []sse.Event                            // kept events to send again before any others
	Resumed  bool                                   // another exchange counts the call
	Tally    *stateless.Tally                       // the tally of a modern client's call; nil for others
	Crossing *crossing.Crossing                     // set between a modern client and a handshake server; else nil

	observation

	client   httpClient      // receives what comes before the response; unused on pipes
	Streamed bool            // the client's response is an event stream
	large    bool            // a message was too large to keep the buffers
	Verdict  metrics.Outcome // the outcome of the last response
	Outcome  metrics.Outcome
	Fault    metrics.Fault // why the outcome or the verdict is a failure
}

// reading is the state of Answer.
type reading struct {
	to      mcp.Peer        // gets the messages; nil while Answer does not run
	asker   crossing.Client // to, if it is the client of a crossing; nil for others
	last    sse.Event       // what Answer returns
	failure error
	broken  error // how the stream has ended; nil if it has not, or if another one was opened
}

// log returns the logger for lines about x's message.
func (x *Exchange) log() *zap.Logger { return x.Common.Host.Log.With(trace.Fields(x.From)...) }

// IsStale reports whether x's request was answered or cancelled before it was sent.
func (x *Exchange) IsStale() bool {
	return x.Call != nil && (x.Recalled() || !x.Session.Open.Has(x.Call))
}

// Recalled reports whether the client has cancelled x's request: no response is owed any more. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation#behavior-requirements.
func (x *Exchange) Recalled() bool { return x.Call != nil && x.Call.Cancelled.Load() }

// Unowed reports whether no response is owed to x's request, which was not sent because of err: it was cancelled.
func (x *Exchange) Unowed(err error) bool {
	return x.Recalled() || x.Call != nil && errors.Is(err, requests.ErrCancelled)
}

// StartStream notes that the response is an event stream. The client's message is not available any more.
func (x *Exchange) StartStream() {
	x.Streamed, x.Outgoing.Body = true, nil
	x.Common.Streams.Add(1)
}

// clear forgets all messages, so that their memory can be freed.
func (x *Exchange) clear() {
	x.Msg.Raw, x.Outgoing.Body = nil, nil
	clear(x.rest[:cap(x.rest)])
	x.rest, x.at = x.rest[:0], 0
	x.replay = nil
}

// observation is what an exchange keeps for package observe.
type observation struct {
	Seen     *observe.Call // of the client's message, or of the question that it answers; nil if it is not observed
	lent     bool          // seen is that of a question, and does not end with the exchange
	kept     observe.Copy  // the message under way as it came, if there is a reader
	lost     []wire.Loss   // what the translation of the message under way has lost
	question *session.Call // the server's question under way
	counted  [2]int        // the tokens of the result under way as it came and as it goes; 0 if they were not counted
}

// httpClient is the client of an exchange over HTTP. The first message that it receives makes the response an event
// stream, and what it receives is kept for replay.
type httpClient struct {
	x     *Exchange
	to    mcp.Peer
	resp  *downstream.Response // nil if the response is an event stream already
	await func(id string)      // as in [downstream.Request]
}
