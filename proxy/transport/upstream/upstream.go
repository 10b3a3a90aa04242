// Package upstream carries messages to an MCP server, and the server's messages back.
//
// It transports messages and does not interpret them: a [Conn] is one session with a
// server, over Streamable HTTP ([HTTPSession]), over HTTP+SSE ([SSESession]) or over the
// pipes of a child process ([Stdio]). A [Dialer] finds out the transport of a server at a
// URL. The caller decides what a message means and which client gets an answer.
//
//   - upstream.go: what callers see; connect.go: how a session begins, and ladder.go: with a server whose transport is not known;
//   - httpsession.go, http.go: a session, and what all sessions with a server share;
//   - exchange.go: one request and its response; reading.go: how that is read; response.go, body.go: its parts;
//     request.go: the head of a request; credential.go: a request that is sent again with another credential;
//   - parked.go: a stream that waits without a goroutine;
//   - pool.go: connections; dial.go: how they are made;
//   - cookies.go, jar.go: the cookies of a session; sse.go: a session over HTTP+SSE;
//   - output.go, stdio.go: the messages of a process, and the process; input.go, handed.go: what waits for it to read; tail.go: what it writes that is no message; env.go: what
//     it gets of the environment.
//
// The server is not trusted: whatever it sends is bounded in size and time, and
// it can fail in any way without taking more than its own exchange with it.
package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Outgoing is one message for the server. Its slices are the caller's: they are
// neither changed nor kept after Send has returned.
type Outgoing struct {
	Body    []byte       // one JSON text, written as it is
	Request bool         // an answer is expected
	Repeats bool         // the server may get it twice: over HTTP it is sent again, once, if its connection was dead
	Again   *atomic.Bool // set before the server, which may have it, gets it once more over HTTP+SSE; nil for none
	Header  []mcp.Header // further headers of this message (Authorization, traceparent …): HTTP only

	// Told receives those headers of the response that [HTTPConfig].Pass names, when its head was read: in Send, or while Events waits
	// for the first event. They do not change. nil for none.
	Told *[]mcp.Header

	// How long the server may take to begin its response, and how long it may be silent
	// within it; 0 for the limits that the Conn was made with. Every byte ends a
	// silence, that of a comment too. The limits apply to HTTP only, and for HTTP+SSE
	// until the message is accepted: on a pipe only the caller knows what belongs to
	// which request.
	FirstByte, Silence time.Duration

	// Scanned is Body, scanned by the caller, for a Conn that reads it; nil for none. It is valid during Send.
	Scanned *wire.Message

	// Logs says that log messages that name no request may be about this one. It matters
	// to callers that sort the messages of a pipe.
	Logs bool

	// Ours says that the message is dragoman's own, not one of the client. Callers that sort the messages of a pipe give what the
	// server asks to the stream of another request.
	Ours bool

	// Waits says that Send may return a [*Handed] if the message has to wait for a child process that is busy, so that what its client
	// sends next, such as a cancellation, is read meanwhile. It counts what waits. nil: Send waits.
	Waits *Waiting

	// Stale is called by a Conn that has kept a message back for a while, before it
	// sends the message: true says that the exchange is cancelled. It may be nil.
	Stale func() bool
}

// SentAgain says that the message is about to be sent once more.
func (m *Outgoing) SentAgain() {
	if m.Again != nil {
		m.Again.Store(true)
	}
}

// ListenOptions say how a standing stream begins. They matter to HTTP only.
type ListenOptions struct {
	LastEventID string        // resume behind this event; "" for a fresh stream
	Header      []mcp.Header  // further headers, as in Outgoing
	Told        *[]mcp.Header // as in Outgoing

	// Parks says that the caller uses Park: if nothing comes for a while, Events ends with sse.ErrInterrupted. A Stream that
	// cannot be parked ignores it.
	Parks bool
}

// Conn is one session with the server. It is safe for concurrent use.
type Conn interface {
	// Send delivers one message. It returns when the message was written, and for a
	// notification or a response over HTTP, and for any message over HTTP+SSE, when the
	// server has accepted it.
	//
	// For a request over Streamable HTTP the Stream has everything that the
	// server says on that POST, and Events reads the head of the response
	// first. In every other case, and always on a pipe (as HTTP+SSE is to
	// its user), the Stream is nil. ctx bounds the whole exchange: when it ends,
	// Events gives its error. On a pipe, an error of ctx says that the server does not
	// get the message; if ctx ends after the message was handed over, the error is nil.
	Send(ctx context.Context, m *Outgoing) (Stream, error)

	// Listen opens the standing stream. Over HTTP that is the stream of a GET;
	// ErrNoStream says that the server offers none, which is final. On a pipe it has all
	// messages of the server, and can be opened once per Conn. When ctx ends, Events
	// gives its error.
	Listen(ctx context.Context, o ListenOptions) (Stream, error)

	// Close ends the session: over HTTP by a DELETE, with best effort and bounded in
	// time; a child process is stopped in order. If ctx ends before that is done, the
	// rest is done by force.
	Close(ctx context.Context) error
}

// Stream has the server's messages.
type Stream interface {
	// Events calls yield with one message after the other, on the goroutine of the caller, until yield returns false or the
	// stream has ended: then the last call has the error. io.EOF is the regular end; a caller that still waits for an answer
	// then has to judge for itself. After the error for one message that was skipped, further messages may follow.
	//
	// After yield has returned false, Events may be called again, and goes on behind that event. An event may be changed in
	// place, and is valid until yield has returned true or Events is called again. Events must not be called concurrently
	// with itself, nor by yield.
	Events(yield func(sse.Event, error) bool)

	// Release says that the last event is no longer needed. After that Close may use its memory for other messages, whichever
	// goroutine calls it.
	Release()

	// CanInterrupt reports whether Interrupt has an effect from now on. It must not be called while Events waits.
	CanInterrupt() bool
	// Interrupt makes the next wait of Events, or the one under way, end with sse.ErrInterrupted, and Events with it, so that
	// another goroutine can call Events. Nothing of the stream is lost. It may be called at any time.
	Interrupt()

	// Park makes the stream wait without a goroutine, after Events has ended with sse.ErrInterrupted because of
	// [ListenOptions].Parks. It calls w once, as soon as Events would not wait, because something has come or because the stream
	// has ended; that may be before Park returns. Events must not be called from Park until then. If Park returns false, w
	// is not called, and Events can be called at once. If w is nil, the stream is not parked any more: Park returns false, and
	// Events waits. That may also be called while Events gives an event.
	Park(w mcp.Waker) bool

	// SessionID returns the Mcp-Session-Id of the response over HTTP, and "" for none and before the first event. It must not
	// be called while Events waits.
	SessionID() string
	// Whole reports whether the message that Events has given last is a whole response over HTTP, a body of JSON. It must not
	// be called while Events waits.
	Whole() bool

	// Close ends the stream. It may be called at any time, more than once, and also
	// during Events, which then gives ErrClosed. The error says what is known of a process
	// that has written no message yet; it is nil for all others.
	Close() error
}

// Plain is embedded by a Stream that keeps no memory for its events, cannot be interrupted or parked, and is not a response over
// HTTP.
type Plain struct{}

// Release does nothing.
func (Plain) Release() {}

// CanInterrupt returns false.
func (Plain) CanInterrupt() bool { return false }

// Interrupt does nothing.
func (Plain) Interrupt() {}

// Park returns false.
func (Plain) Park(mcp.Waker) bool { return false }

// SessionID returns "".
func (Plain) SessionID() string { return "" }

// Whole returns false.
func (Plain) Whole() bool { return false }

// First returns the next event of st, and Events goes on behind it.
func First(st Stream) (e sse.Event, err error) {
	for e, err = range st.Events {
		break
	}
	return e, err
}

// Answered returns the Stream of a request whose response is known.
func Answered(response []byte) Stream { return &answered{response: response} }

type answered struct {
	Plain
	response []byte // nil once it was given
}

func (a *answered) Events(yield func(sse.Event, error) bool) {
	e := sse.Event{Data: a.response}
	if a.response = nil; e.Data == nil || yield(e, nil) {
		yield(sse.Event{}, io.EOF)
	}
}

func (a *answered) Close() error { return nil }

var (
	// ErrNoStream is returned by Listen when the server offers no standing stream.
	ErrNoStream = errors.New("upstream offers no standing stream")

	// ErrSilence is matched by a timeout after the server had begun to answer.
	ErrSilence = errors.New("the response is not complete")

	// ErrClosed is returned for what this side has closed: a Stream, a Conn, or all
	// connections to the server.
	ErrClosed = errors.New("upstream connection was closed by this side")
)

// hostPort returns host and port of a URL, which may omit the default port.
func hostPort(u *url.URL) string {
	port := "80"
	if u.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
}

func tlsConfig(c *tls.Config, host string) *tls.Config {
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c = c.Clone()
	c.ServerName = cmp.Or(c.ServerName, host)
	c.NextProtos = []string{"http/1.1"}
	return c
}
