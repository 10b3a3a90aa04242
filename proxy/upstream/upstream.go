// Package upstream carries messages to an MCP server and brings back what the
// server says.
//
// It knows how messages travel and nothing of what they mean: a [Conn] is one
// session with a server, whether over Streamable HTTP ([HTTPSession]), over
// HTTP+SSE ([SSESession]) or over the pipes of a child process ([Stdio]). A
// [Connector] begins one; [Dialer] finds out how a server at a URL is spoken to.
// What a message says is decided above, and so is to whom an answer goes.
//
// The server is not trusted: whatever it sends is bounded in size and time, and
// it can fail in any way without taking more than its own exchange with it.
package upstream

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/sse"
)

// Outgoing is one message for the server. Its slices are the caller's: they are
// neither changed nor kept after Send has returned.
type Outgoing struct {
	Body    []byte   // one JSON text, written as it is
	Request bool     // an answer is expected
	Header  []Header // further headers of this message (Authorization, traceparent …): HTTP only

	// How long the server may take to begin its response, and how long it may
	// be silent within it; 0 for what the Conn was made with. Every byte ends a
	// silence, that of a comment too. They matter to HTTP only, and to HTTP+SSE
	// as far as the message is accepted: on a pipe it is the caller who knows
	// what belongs to which request.
	FirstByte, Silence time.Duration

	// Logs says that log messages that name no request may be about this one. It
	// matters to those who sort what a pipe brings.
	Logs bool

	// Stale is asked by a Conn that has to keep a message back for a while, before
	// it is sent: true says that the exchange is cancelled. It may be nil.
	Stale func() bool
}

// Header is one header field of HTTP. Its value may be a secret and never
// appears in an error.
type Header struct{ Name, Value string }

// HeaderValue is the value of the first header of that name, "" for none.
func HeaderValue(list []Header, name string) string {
	for _, h := range list {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// ListenOptions say how a standing stream begins. They matter to HTTP only.
type ListenOptions struct {
	LastEventID string   // resume behind this event; "" for a fresh stream
	Header      []Header // further headers, as in Outgoing
}

// Conn is one session with the server. It is safe for concurrent use.
type Conn interface {
	// Send delivers one message. It returns when the message was written; for
	// a notification or a response over HTTP, and for any message over
	// HTTP+SSE, when the server has accepted it.
	//
	// For a request over Streamable HTTP the Stream yields everything that the
	// server says on that POST, and the head of the response is read by the
	// first Next. In every other case, and always on a pipe (as HTTP+SSE is to
	// its user), the Stream is nil. ctx bounds the whole exchange: when it ends,
	// Next returns its error.
	Send(ctx context.Context, m *Outgoing) (Stream, error)

	// Listen opens the standing stream: over HTTP that of a GET, and
	// ErrNoStream says that the server offers none, which is final; on a pipe
	// everything that the server says, once per Conn. When ctx ends, Next
	// returns its error.
	Listen(ctx context.Context, o ListenOptions) (Stream, error)

	// Close ends the session: over HTTP by a DELETE, with best effort and
	// bounded in time; a child process is stopped in order. When ctx ends
	// before, what is left is done by force.
	Close(ctx context.Context) error
}

// Stream is what the server says, message by message.
type Stream interface {
	// Next blocks until there is a message. io.EOF ends the stream well; a
	// caller that still waits for an answer then has to judge for itself. The
	// event is valid until the next call of Next, and may be changed in place
	// until then. It is not to be called concurrently with itself.
	Next() (sse.Event, error)

	// Close gives the stream up. It may be called at any time, more than once,
	// and also during Next, which then returns ErrClosed.
	Close() error
}

// Releaser is a Stream that can be told that its last event is needed no more.
// After that Close may use its memory for other messages, whichever goroutine calls it.
type Releaser interface {
	Stream
	Release()
}

// SessionStream is the Stream that Send returns for a request over HTTP.
type SessionStream interface {
	Stream

	// SessionID is the Mcp-Session-Id of the response, "" when it had none or
	// before the first Next has returned. It is not to be called during Next.
	SessionID() string

	// Whole reports whether the message that Next has returned is all of the
	// response, a body of JSON. It is not to be called during Next.
	Whole() bool
}

var (
	// ErrNoStream is returned by Listen when the server offers no standing stream.
	ErrNoStream = errors.New("upstream offers no standing stream")

	// ErrSilence is what a timeout is that ran out after the server had begun to answer.
	ErrSilence = errors.New("nothing further came")

	// ErrClosed is returned for what was given up by this side: a Stream, a
	// Conn, or all connections to the server.
	ErrClosed = errors.New("upstream connection was closed by this side")
)
