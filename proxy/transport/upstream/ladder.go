package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	// ladderTime bounds how long a server may take to name the endpoint of HTTP+SSE.
	ladderTime = 10 * time.Second
	// endpointWait is how long a server that has refused the POST, but not as a URL does that takes none, may take to name the
	// endpoint of HTTP+SSE: it is the first thing that such a server sends. A server of Streamable HTTP may open a stream as well,
	// and be silent on it.
	endpointWait = 3 * time.Second
	// endpointPause is how long a server that has named no endpoint is not asked again. A handshake may propose several
	// revisions, and each wait is the client's.
	endpointPause = 15 * time.Second
	// startPause is the same for a URL that takes no POST: a server that starts with the first request may be ready soon.
	startPause = 5 * time.Second
	// peekPause is how long after Peek no session opens a stream: the server may only then notice that the other one has ended.
	peekPause = 100 * time.Millisecond
)

// Dialer begins sessions with a server at a URL, over the transport that the server
// speaks. It remembers the transport, and finds it out again if the remembered one no
// longer works.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#backwards-compatibility.
type Dialer struct {
	http      *HTTP
	transport Transport
	limit     time.Duration
	found     atomic.Value // the Transport that the server spoke last
	mute      atomic.Pointer[muteStream]

	streamed atomic.Bool  // a session has asked for a stream of HTTP+SSE
	peeking  sync.RWMutex // locked while Peek does
}

// muteStream says that the server has opened a stream, and named no endpoint on it.
type muteStream struct {
	until time.Time // it is not asked again
	err   error
}

// NewDialer returns a Dialer for the server that c describes; its URL is that
// of the MCP endpoint, or of the stream of HTTP+SSE. Nothing is connected yet.
func NewDialer(c HTTPConfig, t Transport) (*Dialer, error) {
	switch t {
	case Auto, StreamableHTTP, HTTPWithSSE:
	default:
		return nil, fmt.Errorf("upstream transport: %.20q is none of %s, %s and %s", t, Auto, StreamableHTTP, HTTPWithSSE)
	}
	h, err := NewHTTP(c)
	if err != nil {
		return nil, err
	}
	return &Dialer{http: h, transport: t, limit: ladderTime}, nil
}

// HTTP returns the server and the connections that the sessions share.
func (d *Dialer) HTTP() *HTTP { return d.http }

// Transport returns the transport of the server if it is known, and Auto otherwise.
func (d *Dialer) Transport() Transport {
	if d.transport != Auto {
		return d.transport
	}
	if t, ok := d.found.Load().(Transport); ok {
		return t
	}
	return Auto
}

// ReplacedBy is [HTTP.ReplacedBy] for the connections of d and next, which must lead to the same server.
func (d *Dialer) ReplacedBy(next *Dialer) { d.http.ReplacedBy(next.http) }

// Close closes all connections, as [HTTP.Close] does.
func (d *Dialer) Close() error { return d.http.Close() }

// TransportError says that a server at a URL speaks none of the known transports. It
// unwraps to the error of the POST.
type TransportError struct {
	Post, Get error
}

func (e *TransportError) Error() string {
	return fmt.Sprintf("neither Streamable HTTP (POST: %v) nor HTTP+SSE (GET: %v)", e.Post, e.Get)
}

func (e *TransportError) Unwrap() error { return e.Post }

// Connect begins a session. If the transport is not known, it posts initialize to the
// URL, and if the server does not take the POST, it requests an event stream there: at
// most three requests, and 10 s for the endpoint of HTTP+SSE, or 3 s if the refusal may be
// that of a server of Streamable HTTP. For that it returns when the server has begun to
// answer. ctx bounds Connect, with the answer to the POST, and the stream Answer, but not
// Conn and Standing. If an error is returned, nothing is left open.
func (d *Dialer) Connect(ctx context.Context, initialize *Outgoing) (*Begun, error) {
	switch d.transport {
	case StreamableHTTP:
		return d.post(ctx, initialize)
	case HTTPWithSSE:
		return d.get(ctx, initialize, climb{time.Now().Add(d.http.endpoint), d.http.endpoint})
	}
	known := d.Transport()
	if known == HTTPWithSSE {
		begun, getErr := d.get(ctx, initialize, climb{time.Now().Add(d.limit), d.limit})
		if getErr == nil || !noStreamThere(getErr) {
			return begun, getErr
		}
		begun, postErr := d.post(ctx, initialize)
		if postErr == nil || !noTaker(postErr) {
			return begun, postErr
		}
		return nil, &TransportError{postErr, getErr}
	}
	begun, postErr := d.post(ctx, initialize)
	if postErr == nil || !noTaker(postErr) || known == StreamableHTTP && isRPC(postErr) {
		return begun, postErr
	}
	begun, getErr := d.getAfterPost(ctx, initialize, postErr)
	if getErr == nil || !noStreamThere(getErr) && !isSilence(getErr) {
		return begun, getErr
	}
	return nil, &TransportError{postErr, getErr}
}

// getAfterPost tries HTTP+SSE at a server that has refused the POST with postErr.
func (d *Dialer) getAfterPost(ctx context.Context, initialize *Outgoing, postErr error) (*Begun, error) {
	if m := d.mute.Load(); m != nil && time.Now().Before(m.until) {
		return nil, m.err
	}
	wait, pause := endpointWait, endpointPause
	if TakesNoPost(postErr) {
		wait, pause = d.limit, startPause
	}
	begun, err := d.get(ctx, initialize, climb{time.Now().Add(wait), wait})
	if isSilence(err) {
		d.mute.Store(&muteStream{time.Now().Add(pause), err})
	} else {
		d.mute.Store(nil)
	}
	return begun, err
}

// climb is the time that is left for HTTP+SSE.
type climb struct {
	deadline time.Time
	limit    time.Duration // the whole time, for error messages
}

// post tries Streamable HTTP. No other transport is tried at a server that does not answer: it may take as long as ctx lets it.
func (d *Dialer) post(ctx context.Context, initialize *Outgoing) (*Begun, error) {
	s := d.http.Session("", "")
	m := *initialize
	m.Request = true
	x, err := s.send(ctx, &m)
	if err != nil {
		return nil, err
	}
	if err := x.open(); err != nil {
		return nil, err
	}
	d.found.Store(StreamableHTTP)
	return &Begun{Conn: s, Web: s, Transport: StreamableHTTP, Answer: x}, nil
}

// get tries HTTP+SSE.
func (d *Dialer) get(ctx context.Context, initialize *Outgoing, c climb) (*Begun, error) {
	d.streamed.Store(true)
	d.peeking.RLock() // some servers have room for one stream
	d.peeking.RUnlock()
	s := d.http.SSESession()
	// The stream is to outlive ctx, which only bounds its beginning.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, end)
	st, err := s.join(life, initialize.Header, c.deadline, c.limit)
	if err == nil {
		d.found.Store(HTTPWithSSE)
		_, err = s.Send(ctx, initialize)
	}
	if !unwatch() && (err == nil || life.Err() != nil) {
		err = ctx.Err()
	}
	if err != nil {
		s.Close(ctx) //nolint:errcheck // it has none
		end()
		return nil, err
	}
	return &Begun{Conn: s, Transport: HTTPWithSSE, Standing: st}, nil //nolint:govet // life ends with the Conn
}

// Peek opens the stream of HTTP+SSE at the URL, and closes it when the server has named its endpoint; the error says that there is no
// such stream. It does nothing if a session has asked for one, since some servers have room for one only; a session that asks for one
// meanwhile waits for its end.
func (d *Dialer) Peek(ctx context.Context) error {
	d.peeking.Lock()
	defer d.peeking.Unlock()
	if d.streamed.Load() {
		return nil
	}
	s := d.http.SSESession()
	if _, err := s.Listen(ctx, ListenOptions{}); err != nil {
		return err
	}
	err := s.Close(ctx)
	time.Sleep(peekPause)
	return err
}

// noTaker reports whether a POST has failed as it does at servers that take no POST at
// this URL, or none without a session over HTTP+SSE.
func noTaker(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	if !ok {
		return false
	}
	switch status.Code {
	case 400, 404, 405:
		return true // as the specification says, whatever the body is
	}
	return notHere(status.Code) && !isRPC(err)
}

// TakesNoPost reports whether a POST has failed as it does at the URL of a stream of HTTP+SSE. There a server of Streamable HTTP
// takes the POST, and refuses what is in it.
func TakesNoPost(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && (status.Code == 404 || status.Code == 405) && !isRPC(err)
}

// notHere reports whether a status may mean that the URL is of another kind than the
// request expects. Statuses about the client's rights and rate, and the host's name, are not such:
// the client gets them.
func notHere(code int) bool {
	switch code {
	case 401, 403, 408, 421, 429:
		return false
	}
	return code >= 400 && code < 500
}

// isRPC reports whether a refusal holds a JSON-RPC error.
func isRPC(err error) bool {
	var m wire.Message
	status, ok := errors.AsType[*StatusError](err)
	return ok && m.Scan(status.Body, nil) == nil && m.Kind == wire.Error
}

// noStreamThere reports whether a GET has failed as it does at servers that do not
// speak HTTP+SSE.
func noStreamThere(err error) bool {
	status, refused := errors.AsType[*StatusError](err)
	_, other := errors.AsType[*ContentTypeError](err)
	return refused && notHere(status.Code) || errors.Is(err, errNoEndpoint) || other
}

// isSilence reports whether a server that was reached has not sent in time what it has to send.
func isSilence(err error) bool {
	_, ok := errors.AsType[*silence](err)
	return ok && !NeverSent(err)
}
