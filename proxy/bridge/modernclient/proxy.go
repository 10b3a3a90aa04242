package modernclient

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Proxy is the rest of dragoman, as a Bridge sees it.
type Proxy interface {
	// Open begins a session with the server. answer is its InitializeResult, translated to the newest revision; nil
	// for a session without a handshake.
	Open(ctx context.Context, o Opening) (s Session, answer []byte, err error)
	// IsDirect reports whether the server needs no session. The error is that it took too long to find out.
	IsDirect(ctx context.Context, header []mcp.Header, q *stateless.Request) (bool, error)
	// IsOurs reports whether a request calls one of dragoman's own tools.
	IsOurs(q *stateless.Request) bool
	// HasReplicas reports whether other replicas can be found.
	HasReplicas() bool
	// Forward lets another replica answer a request, and reports whether it did. The error is for the client.
	Forward(to sealed.ID, req *downstream.Request, resp *downstream.Response) (done bool, err error)

	// Reopen returns the session that another replica has begun for the principal, which was sealed there. It reports false
	// if only that replica can use it. Its End leaves the session at the server as it is, as after Leave.
	Reopen(session string, q *stateless.Request, principal string) (Session, bool)

	Sealer() *sealed.Sealer
	Silence(m wire.Method) config.TimeLimit // how long the server may be silent about a request
	Login() string                          // whose credential requests to the server carry now
}

// ToolLister asks the server for its tools.
type ToolLister interface {
	// List asks for a page of them. params are without the braces.
	List(ctx context.Context, params string) (result []byte, err error)
}

// Opening says which session to begin.
type Opening struct {
	Kind      Kind
	Principal string // the client's; dragoman's own tools keep their state for it
	Realm     string // separates cached results from those of other sessions
	For       *stateless.Request
	Header    []mcp.Header
	Lost      func() // called when the connection of a server on a pipe is lost

	// Tasked is called with the id of each task that the process of a modern server on a pipe has made: no other process knows it.
	Tasked func(task string)
}

// Kind says what a pooled session stands for.
type Kind uint8

const (
	WithHandshake    Kind = iota // a session that began with a handshake
	OnlyAdapters                 // a session without a server: it has only adapter tools
	WithoutHandshake             // no session: the server is modern
)

// Session is a session with the server.
type Session interface {
	About() *sealed.Session      // the revisions and facts of both sides, which never change
	ForReplicas() sealed.Session // what another process needs to know to serve the session
	Tools() *toolindex.Index     // the server's tools
	Down() *translate.Translator // from the server's revision to the client's
	Piped() bool                 // all messages of the server come on one stream
	Serverless() bool            // there is no server, only dragoman's own tools
	RunsFor() string             // the client that its process is counted for

	// CheckCall compares the headers of a tool call with its arguments. tools reads the server's list.
	CheckCall(ctx context.Context, tools ToolLister, q *stateless.Request) error
	// Pass forwards a request that needs no translation to a server without a handshake, and returns the response. It calls
	// release when the request needs the session no more.
	Pass(req *downstream.Request, q *stateless.Request, header []mcp.Header, resp *downstream.Response, release func()) error
	// Send sends a message that needs no translation.
	Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error)
	// Listen opens the standing stream.
	Listen(ctx context.Context, o upstream.ListenOptions) (upstream.Stream, error)
	// Begin returns an exchange. stop ends ctx; it is nil if the exchange does not wait for the server. asked is the
	// client's request, or nil for a request of dragoman's own.
	Begin(ctx context.Context, stop context.CancelCauseFunc, header []mcp.Header, c *crossing.Crossing, asked *stateless.Request) Exchange
	// Observe begins the observation of a request that dragoman answers itself, which has a header of from. It returns nil
	// if nothing observes it.
	Observe(asked *stateless.Request, from []mcp.Header) *observe.Call
	// Cancel sends the server notifications/cancelled for the request with this id. It does not wait.
	Cancel(id string, header []mcp.Header, reason string)
	// Retire ends the subscriptions that Pass has forwarded, and those to come.
	Retire()
	// End ends the session. why is the error of its open requests.
	End(why error)
	// Leave makes End leave the session at the server as it is, for another replica.
	Leave()
}

// Message is a message of a client.
type Message struct {
	Text    []byte        // it stays as it is
	Spare   []byte        // memory for what a large message becomes; nil for none
	Scanned *wire.Message // Text, scanned before; nil for none
}

// Exchange carries one message to the server, and the server's messages about it back. What it returns is valid until
// the next call. Only one goroutine at a time may use it. The caller ends it with Done.
type Exchange interface {
	// Translate translates a message of the client for the server. If the verdict is Answer, out is the response.
	Translate(m Message) (out []byte, v wire.Verdict, err error)
	// Forward sends the translated message. The stream is nil if no response is expected.
	Forward(out []byte) (upstream.Stream, error)
	// Read makes st the stream that Answer reads. Answer replaces it only if the client lets it wait.
	Read(st upstream.Stream)
	// Answer sends client what the server says about the message, and returns the response. The error is io.EOF if
	// none is owed, and bridge.ErrURLs if the response requires that the user opens URLs. If it is
	// sse.ErrInterrupted, Answer may be called again.
	Answer(client crossing.Client) (response []byte, err error)
	// Message returns what the client was sent last, or the response, as it was scanned.
	Message() *wire.Message
	// LastEvent returns the id of the last event that the server has sent, after which another stream can go on; "" if none had one.
	LastEvent() string

	Own() bool                    // dragoman itself answers the request
	Limits() config.TimeLimit     // how long the server may be silent about the request
	Left() bool                   // the context has ended because the client has left
	Unbegun(err error) bool       // err shows that the server has not processed the request
	Fail(err error) *mcp.Failure  // reports err, which came instead of a response, and returns the failure for the client
	Settle(how metrics.Outcome)   // sets how the request is counted
	CountLater()                  // another exchange counts the request
	Unsent()                      // the server does not have the request: it is not cancelled there, and another exchange counts it
	CancelAtServer(reason string) // unless it was cancelled before, or the server does not have it
	At() report.At
	Seen() *observe.Call // the observation of the request; nil if the call is not observed
	AppendTiming(header []mcp.Header) []mcp.Header
	Done()
}

// Options is what a Bridge shares with the rest of the proxy.
type Options struct {
	Host     *host.Host
	Proxy    Proxy
	Results  *results.Cache
	Streams  *atomic.Int64 // counts the open event streams of HTTP clients
	Instance sealed.ID     // the id of this process
}

// Counts says what a Bridge holds.
type Counts struct {
	Sessions int  // sessions with the server
	Alone    int  // sessions without one, for adapter tools
	Uses     int  // requests, parked calls, tasks and subscriptions that use them
	Waiting  bool // a request waits for room in the pool
	Parked   int  // calls that wait for their client
	Answered int  // those of Parked whose response has come
	Opening  int  // calls that wait until the user has opened URLs
	Tasks    int
	Watchers int // subscriptions to tasks
	Shares   int // shares of what clients have in common: of sessions, parked calls and tasks
}

// Waits are times that a Bridge waits.
type Waits struct {
	Unattributed time.Duration // how long questions that name no call wait for one
	Room         time.Duration // how long calls wait for room in the pool
	Accepted     time.Duration // how long the acknowledgement of a subscription waits for the server to accept it
}

// Parked is a question that waits for the answer of a modern client.
type Parked struct {
	Method      wire.Method
	Since, Ends time.Time
	Seen        *observe.Call // the observation of the call; nil if nothing observed it
}
