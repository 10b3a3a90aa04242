package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/unpack"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxEndpoint is the longest address in an endpoint event that is accepted, in bytes.
const maxEndpoint = 8 << 10

// ErrLost says that a session over HTTP+SSE is over because its stream has ended. An
// *Error wraps it.
var ErrLost = errors.New("the session's stream has ended")

var (
	errNotJoined  = errors.New("a message was sent before Listen opened the session")
	errJoined     = errors.New("a session over HTTP+SSE can be listened to only once")
	errNoEndpoint = errors.New("the stream does not begin with an endpoint event")
	errEndpoint   = errors.New("malformed endpoint event")
	errOrigin     = errors.New("the endpoint event has a URL at another origin")
)

// SSESession is one session with a server that speaks HTTP+SSE, the transport of the
// oldest revision. Its caller uses it as a pipe: Listen begins it and returns a stream
// of all messages of the server; Send posts a message, and never returns a Stream. When
// the stream ends, the session is lost.
//
// See https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse.
type SSESession struct {
	http *HTTP

	mu     sync.Mutex
	taken  bool   // Listen was called
	closed bool   // Close was called
	feed   *feed  // nil until the server has said where to post
	target string // path and query to post to; it names the session and may be a secret

	cookies jar
}

var _ Conn = (*SSESession)(nil)

// SSESession returns a session over HTTP+SSE that has not begun. The URL is that of the
// stream, which names the address for messages.
func (h *HTTP) SSESession() *SSESession { return &SSESession{http: h} }

// Listen begins the session: it opens the stream and returns when the server has sent
// the address to post messages to. o.LastEventID is not used.
func (s *SSESession) Listen(ctx context.Context, o ListenOptions) (Stream, error) {
	f, err := s.join(ctx, o.Header, time.Now().Add(s.http.endpoint), s.http.endpoint)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// join does what Listen does, with a deadline for the endpoint event. limit is the time
// until then, for error messages.
func (s *SSESession) join(ctx context.Context, header []mcp.Header, deadline time.Time, limit time.Duration) (*feed, error) {
	s.mu.Lock()
	taken, closed := s.taken, s.closed
	s.taken = true
	s.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case taken:
		return nil, fmt.Errorf("upstream %s: %w", s.http.addr, errJoined)
	}
	target := ""
	open := func(r request) (*exchange, error) {
		x, err := s.http.exchange(ctx, r)
		if err != nil {
			return nil, err
		}
		at, err := x.endpoint()
		if err != nil {
			x.Close()
			return nil, err
		}
		target = at
		return x, nil
	}
	r := request{kind: join, header: header, jar: &s.cookies, repeats: true, firstByte: limit, silence: limit, deadline: deadline}
	x, err := open(r)
	if err != nil {
		return nil, err
	}
	f := newFeed(s.http.orPlain(x, func() (*exchange, error) { return open(r.plainly()) }))
	s.cookies.postTo(target)
	s.mu.Lock()
	s.target, s.feed, closed = target, f, s.closed
	s.mu.Unlock()
	if closed {
		f.Close()
		return nil, ErrClosed
	}
	return f, nil
}

// endpoint reads the first message, which must name the address to post to. Events of other types and those without data, such
// as a reconnection time, are none; one with an id begins a stream of Streamable HTTP. From then on the stream may be silent.
func (x *exchange) endpoint() (target string, err error) {
	var e sse.Event
	for message := false; !message; {
		e, err = x.event()
		switch name := string(e.Name); {
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) && x.phase == events:
			return "", x.fail(errNoEndpoint)
		case err != nil:
			return "", err
		case name == "endpoint":
			message = true
		case name == sse.Message, name == "" && (len(e.Data) > 0 || e.HasID):
			return "", x.fail(errNoEndpoint)
		}
	}
	if target, err = resolve(x.http.url, e.Data); err != nil {
		return "", x.fail(err)
	}
	c := x.current()
	if c == nil {
		return "", x.fail(ErrClosed)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return "", x.fail(err)
	}
	return target, nil
}

// resolve returns path and query of the address in an endpoint event. The address must
// be at the origin of the stream, because the client's credentials are sent there.
func resolve(base *url.URL, address []byte) (string, error) {
	if len(address) == 0 || len(address) > maxEndpoint {
		return "", errEndpoint
	}
	u, err := base.Parse(string(address))
	if err != nil {
		return "", errEndpoint
	}
	if !strings.EqualFold(u.Scheme, base.Scheme) || !strings.EqualFold(hostPort(u), hostPort(base)) || u.User != nil {
		return "", errOrigin
	}
	target := u.RequestURI()
	if u.Opaque != "" || strings.Contains(target, " ") || !validValue(target) {
		return "", errEndpoint
	}
	return target, nil
}

// Send posts one message, and returns when the server has accepted it. Some servers
// answer in the body of the response: the stream returns such an answer like its own
// messages.
func (s *SSESession) Send(ctx context.Context, m *Outgoing) (Stream, error) {
	return nil, s.post(ctx, m, time.Time{})
}

func (s *SSESession) post(ctx context.Context, m *Outgoing, deadline time.Time) error {
	s.mu.Lock()
	f, target, closed := s.feed, s.target, s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case f == nil:
		return fmt.Errorf("upstream %s: %w", s.http.addr, errNotJoined)
	}
	if err := f.over(); err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			err = &Error{Op: "connect", Addr: e.Addr, Err: e.Err} // the message was not sent
		}
		return err
	}
	err := s.postOnce(ctx, f, target, m, deadline)
	if !dial.IsDead(err) || errors.Is(err, ErrLost) {
		return err
	}
	select {
	case <-f.done:
		return f.over()
	case <-ctx.Done():
		return err
	case <-time.After(streamGrace):
	}
	if m.Repeats {
		m.SentAgain()
		return s.postOnce(ctx, f, target, m, deadline)
	}
	return err
}

// streamGrace is how long a POST whose connection was dead waits for the end of the session's stream, which most likely died with it: what is
// sent once more in a session that is lost has no answer.
const streamGrace = 5 * time.Second

// postOnce posts one message.
func (s *SSESession) postOnce(ctx context.Context, f *feed, target string, m *Outgoing, deadline time.Time) error {
	x, err := s.http.exchange(ctx, request{
		kind: post, target: target, header: m.Header, jar: &s.cookies, content: m.Body,
		firstByte: m.FirstByte, silence: m.Silence, deadline: deadline, told: m.Told,
	})
	if err != nil {
		return err
	}
	defer x.Close() //nolint:errcheck // it has none
	defer context.AfterFunc(f.life, x.abort)()
	answer, err := x.answer()
	if err != nil && ctx.Err() != nil {
		return nil // the server has the message
	}
	switch {
	case err == ErrClosed && f.over() != nil:
		return f.over()
	case err != nil || answer == nil:
		return err
	}
	select {
	case f.posted <- answer:
		return nil
	case <-f.done:
		return f.over()
	case <-ctx.Done():
		return nil
	}
}

// answer returns the message or the batch in the body of an accepted POST, or nil if
// there is none.
func (x *exchange) answer() ([]byte, error) {
	if err := x.open(); err != nil {
		return nil, err
	}
	if x.phase != object {
		return nil, nil
	}
	e, err := x.event()
	switch {
	case errors.Is(err, errNoBody) || errors.As(err, new(*unpack.Error)):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var m wire.Message
	if !wire.IsArray(e.Data) && m.Scan(e.Data, nil) != nil {
		return nil, nil // such as {"ok":true}
	}
	return x.http.memory.Clone(x.ctx, pipeWait, large.Copy, e.Data)
}

// Close ends the session by closing its stream.
func (s *SSESession) Close(context.Context) error {
	s.mu.Lock()
	s.closed = true
	f := s.feed
	s.mu.Unlock()
	if f != nil {
		return f.Close()
	}
	return nil
}

// maxPosted is how many messages from the bodies of POSTs wait for Events.
const maxPosted = 16

// feed is the Stream of all messages of the server in a session over HTTP+SSE. A
// goroutine reads the event stream, because messages come from the bodies of POSTs,
// too.
type feed struct {
	Plain
	x      *exchange
	heard  chan heard    // events of the reader, one at a time
	again  chan struct{} // the caller of Events no longer needs the last event
	posted chan []byte
	done   chan struct{} // closed when the reader has ended, and err is set
	err    error
	life   context.Context // ends when the reader has ended

	lent bool // the last message belongs to the reader; for Events only

	once    sync.Once
	closing chan struct{}
}

// heard is one event, or the error for one that was too large.
type heard struct {
	event sse.Event
	err   error
}

func newFeed(x *exchange) *feed {
	f := &feed{
		x:     x,
		heard: make(chan heard), again: make(chan struct{}), posted: make(chan []byte, maxPosted),
		done: make(chan struct{}), closing: make(chan struct{}),
	}
	life, end := context.WithCancel(context.Background())
	f.life = life
	go f.read(end)
	return f
}

// read hands over one message after the other, and calls end when it returns.
func (f *feed) read(end func()) {
	defer end()
	defer close(f.done)
	for {
		e, err := f.x.event()
		switch {
		case err != nil && !skipped(err):
			f.err = f.x.lost(err)
			return
		case err != nil:
		case len(e.Data) == 0, len(e.Name) > 0 && string(e.Name) != sse.Message:
			continue
		}
		select {
		case f.heard <- heard{e, err}:
		case <-f.closing:
			f.err = ErrClosed
			return
		}
		select {
		case <-f.again:
		case <-f.closing:
			f.err = ErrClosed
			return
		}
	}
}

// lost returns the error for a session whose stream has ended with err.
func (x *exchange) lost(err error) error {
	if err == ErrClosed || x.ctx.Err() != nil {
		return err
	}
	if e, ok := errors.AsType[*Error](err); ok {
		err = e.Err
	}
	if err == io.EOF {
		return &Error{Op: "read", Addr: x.http.addr, Err: ErrLost}
	}
	return &Error{Op: "read", Addr: x.http.addr, Err: fmt.Errorf("%w: %w", ErrLost, err)}
}

// over returns why no more messages come, or nil if they may.
func (f *feed) over() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

// Events implements Stream.
func (f *feed) Events(yield func(sse.Event, error) bool) {
	for {
		if e, err := f.event(); !yield(e, err) || err != nil && !skipped(err) {
			return
		}
	}
}

// event returns the next event.
func (f *feed) event() (sse.Event, error) {
	if f.lent {
		f.lent = false
		select {
		case f.again <- struct{}{}:
		case <-f.done:
		}
	}
	select {
	case s := <-f.heard:
		f.lent = true
		return s.event, s.err
	case m := <-f.posted:
		return sse.Event{Data: m}, nil
	case <-f.done:
	}
	if f.err == ErrClosed {
		return sse.Event{}, f.err
	}
	select {
	case m := <-f.posted: // it came before the end
		return sse.Event{Data: m}, nil
	default:
		return sse.Event{}, f.err
	}
}

// Close implements Stream. It ends the session.
func (f *feed) Close() error {
	f.once.Do(func() {
		close(f.closing)
		f.x.Close()
	})
	<-f.done
	return nil
}
