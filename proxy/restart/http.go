package restart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/host"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// An HTTP is the connection of a client's session with a server over Streamable
// HTTP. A server that restarts loses its sessions and answers 404 to their requests. Then HTTP
// begins another session, with the same initialize, log level and subscriptions, and sends once more
// what the server refused. The client keeps its session id.
// See "Session Management",
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management.
//
// For a request the 404 may appear only when its stream is read: then the exchange calls Renew.
type HTTP struct {
	*upstream.HTTPSession
	host    *host.Host
	resume  func() func(id, version string) upstream.Conn
	was     sealed.Session
	session Session

	renewals atomic.Uint64 // the number of sessions begun to replace a lost one

	mu       sync.Mutex
	renewing *renewal      // under way; nil if there is none
	memory   server.Memory // the client's messages that a new session needs again
	partial  bool          // the session began in another process: memory is not complete
	lacks    bool          // the current session was begun with a memory that was not complete
	news     [][]byte      // messages that wait for the standing stream
	standing map[*stream]struct{}
}

// A renewal is the beginning of another session. All callers of Renew wait for it.
type renewal struct {
	done chan struct{} // closed when err is set
	err  error
}

// maxNews bounds how many messages wait for a standing stream.
const maxNews = 64

// A replacedError says that the server has lost the session, that another session has replaced it,
// and that the request belonged to the lost one.
type replacedError struct{}

func (*replacedError) Error() string {
	return "the server has lost the session, and the request with it; another session has begun"
}

// OverHTTP returns an HTTP around conn for the session t. It returns nil if the server has given no session id, or if there
// is no way to begin another session. resume returns the function that makes the connection of another session, or nil.
func OverHTTP(h *host.Host, t sealed.Session, conn upstream.Conn, resume func() func(id, version string) upstream.Conn) *HTTP {
	c, ok := conn.(*upstream.HTTPSession)
	if !ok || t.Named == "" || t.ClientRevision.Modern || t.ServerRevision.Modern || resume() == nil {
		return nil
	}
	return &HTTP{HTTPSession: c, host: h, was: t, resume: resume, standing: make(map[*stream]struct{})}
}

// Bind says which session the server belongs to. began says that the session began in this process, so that all of the
// client's messages are known. It must be called before the first Send.
func (c *HTTP) Bind(s Session, began bool) { c.session, c.partial = s, !began }

// Number returns the number of the current session, in which the next message is sent.
func (c *HTTP) Number() uint64 { return c.renewals.Load() }

// Remember notes what a new session has to know of a message of the client, and returns Number. It must be called before the
// message is sent by HTTPSession.Send: for a request that is the same as Send, since only its stream can say that the session
// is lost.
func (c *HTTP) Remember(body []byte) uint64 {
	if server.Memorable(body) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.memory.Note(body)
	}
	return c.Number()
}

// Send sends one message, as HTTPSession does. If the server refuses it because the session is lost,
// Send begins a new session and sends the message once more.
func (c *HTTP) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	was := c.Remember(m.Body)
	st, err := c.HTTPSession.Send(ctx, m)
	if err == nil || !IsLost(err) {
		return st, err
	}
	if err := c.Renew(ctx, was, m.Header); err != nil {
		return nil, err
	}
	var message wire.Message
	if message.Scan(bytes.Clone(m.Body), nil) == nil && message.Kind.Response() {
		return nil, nil // it answers a question of the lost session
	}
	return c.HTTPSession.Send(ctx, m)
}

// Renew begins another session to replace the one with the number was. Concurrent callers share one
// renewal.
func (c *HTTP) Renew(ctx context.Context, was uint64, header []upstream.Header) error {
	c.mu.Lock()
	if c.Number() != was {
		c.mu.Unlock()
		return nil
	}
	r := c.renewing
	if r == nil {
		r = &renewal{done: make(chan struct{}), err: mcp.Fail(mcp.Panicked, "")}
		c.renewing = r
		header := cloneHeaders(header)
		c.host.Spawn(func() {
			defer func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.renewing = nil
				close(r.done)
			}()
			r.err = c.replace(header)
		})
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// replace begins another session, or uses the one that another replica has begun.
func (c *HTTP) replace(header []upstream.Header) error {
	ctx, cancel := context.WithTimeout(c.host.Draining, c.host.Config().Upstream.HandshakeTimeout)
	defer cancel()
	return c.share(ctx, header, func() error { return c.begin(ctx, header) })
}

// begin begins another session. An error with the cause mcp.SessionUnknown says that the server
// refuses to.
func (c *HTTP) begin(ctx context.Context, header []upstream.Header) error {
	version := c.was.ServerRevision.HeaderName()
	next, ok := c.resume()("", "").(*upstream.HTTPSession)
	if !ok {
		return mcp.Fail(mcp.SessionUnknown, "")
	}
	h := &server.Opening{Of: c.host, Conn: next, Header: header, ID: []byte(`"dragoman:0"`)}
	m, named, err := initializeAgain(ctx, h, c.was)
	if err != nil {
		c.host.Report.ServerFailed("server has lost the session and does not begin another", failures.SessionLost, err, header)
		if refused, _ := era.RefusesProposal(nil, err); refused && isStatus(err) {
			f := mcp.Fail(mcp.SessionUnknown, "the server refuses a new one; initialize again")
			f.Err = fmt.Errorf("%w: %w", clienterror.ErrNoNewSession, err)
			return f
		}
		return err
	}
	if m.Kind == wire.Error || gjson.Get(wire.View(m.Result()), "protocolVersion").String() != c.was.ServerRevision.Name {
		c.host.Spawn(func() { server.End(next, c.host.Log) })
		f := mcp.Fail(mcp.SessionUnknown, "the server refuses a new one; initialize again")
		f.Err = fmt.Errorf("%w: %.300s", clienterror.ErrNoNewSession, m.Raw)
		c.host.Report.ServerFailed("server has lost the session and does not begin another", failures.SessionLost, f.Err, header)
		return f
	}
	next.SetSession(named, version)
	if c.restore(ctx, h) {
		c.host.Log.Info("the session began in another process: log level and subscriptions are not restored")
	}
	c.continueIn(named, version, h.Early, listChanges(m.Result()))
	c.host.Report.Restarted()
	c.host.Report.FailedAs("server lost the session; a new one is open", upstream.ErrLost, report.At{Client: c.was.ClientRevision, Server: c.was.ServerRevision, Session: c.was.Named, Header: header})
	return nil
}

// restore sends what the server has to know of the client in a new session. It reports whether that is not complete.
func (c *HTTP) restore(ctx context.Context, h *server.Opening) (partial bool) {
	c.mu.Lock()
	c.memory.Initialized = true
	messages, own := c.memory.Replay()
	partial = c.partial
	c.partial, c.lacks = false, partial
	c.mu.Unlock()
	c.resendAll(ctx, h, messages, own)
	return partial
}

func (c *HTTP) resendAll(ctx context.Context, h *server.Opening, messages [][]byte, own map[string]bool) {
	for _, message := range messages {
		if err := c.resend(ctx, h, message, own); err != nil {
			c.host.Report.ServerFailed("cannot restore a message in the new upstream session", failures.SessionLost, fmt.Errorf("%.200s: %w", message, err), h.Header)
		}
	}
}

// continueIn makes a session the current one. early and changes are messages for the client's standing stream.
func (c *HTTP) continueIn(named, version string, early, changes [][]byte) {
	news := early
	for _, id := range c.session.DropRequests() {
		news = append(news, mcp.Cancelled(id, "the server has lost the session"))
	}
	news = append(news, changes...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.SetSession(named, version)
	c.renewals.Add(1)
	c.news = append(c.news, news[:min(len(news), maxNews-len(c.news))]...)
	for st := range c.standing {
		st.interrupt()
	}
}

// initializeAgain sends initialize in the name of the session's client, and waits for the
// response.
func initializeAgain(ctx context.Context, h *server.Opening, t sealed.Session) (m *wire.Message, named string, err error) {
	client, can := t.ClientInfo, t.Capabilities
	if client == "" {
		client = `{"name":"unknown-client","version":"0.0.0"}`
	}
	if can == "" {
		can = string(mcp.CapabilitiesOf(t.Facts))
	}
	h.Sent = mcp.Initialize(h.ID, t.ServerRevision.Name, can, client)
	o := &upstream.Outgoing{Body: h.Sent, Request: true, Header: h.Header}
	span := telemetry.Ask(ctx, o, t.ServerRevision.Name)
	defer func() {
		span.Answered(m)
		span.Done(err)
	}()
	st, err := h.Conn.Send(ctx, o)
	if err != nil {
		return nil, "", err
	}
	defer st.Close()
	if m, err = h.Await(ctx, st); err != nil {
		return nil, "", err
	}
	if s, ok := st.(upstream.SessionStream); ok {
		if named = s.SessionID(); len(named) > sealed.MaxNamed {
			return nil, "", sealed.ErrNamedTooLong
		}
	}
	return m, named, nil
}

// resend sends one of the client's messages in the new session, and waits for the response
// if the message is a request.
func (c *HTTP) resend(ctx context.Context, h *server.Opening, message []byte, own map[string]bool) error {
	id := gjson.GetBytes(message, "id")
	st, err := h.Conn.Send(ctx, &upstream.Outgoing{Body: message, Request: id.Exists(), Header: h.Header})
	if err != nil || st == nil {
		return err
	}
	defer st.Close()
	m, err := h.AwaitAny(ctx, st, []byte(id.Raw))
	if err == nil && m.Kind == wire.Error {
		err = errors.New(gjson.Get(wire.View(m.Error()), "message").String())
	}
	return err
}

// Listen opens the standing stream, in a new session if the server has lost the old one. If o asks to
// resume a stream and the session is lost, the error is a replacedError, since the stream belonged to
// the lost session.
func (c *HTTP) Listen(ctx context.Context, o upstream.ListenOptions) (upstream.Stream, error) {
	was := c.Number()
	st, err := c.HTTPSession.Listen(ctx, o)
	if err != nil && IsLost(err) {
		if renewed := c.Renew(ctx, was, o.Header); renewed != nil {
			return nil, renewed
		}
		if o.LastEventID != "" {
			return nil, &replacedError{}
		}
		st, err = c.HTTPSession.Listen(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	return st, nil
}

// Stand opens the standing stream like Listen, but the stream is opened again whenever it breaks off,
// until ctx ends.
func (c *HTTP) Stand(ctx context.Context, o upstream.ListenOptions) (upstream.Stream, error) {
	st, err := c.Listen(ctx, o)
	if _, replaced := errors.AsType[*replacedError](err); replaced {
		o.LastEventID = ""
		st, err = c.Listen(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	out := &stream{c: c, ctx: ctx, header: cloneHeaders(o.Header), lastID: o.LastEventID, st: st, changed: make(chan struct{}, 1), gone: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.standing[out] = struct{}{}
	return out, nil
}

// takeListChanges removes and returns the first message that waits for a standing stream. It returns nil
// if there is none.
func (c *HTTP) takeListChanges() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.news) == 0 {
		return nil
	}
	m := c.news[0]
	c.news = c.news[1:]
	return m
}

// A stream is the standing stream of a client's session. It continues when another server
// session replaces a lost one.
type stream struct {
	c       *HTTP
	ctx     context.Context
	header  []upstream.Header
	changed chan struct{} // receives a value when the server session was replaced

	mu   sync.Mutex
	st   upstream.Stream
	gone chan struct{} // closed by Close

	lastID string // used only by Events, as is retry
	retry  time.Duration
}

// interrupt makes Events open the stream again, in the current server session.
func (s *stream) interrupt() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.Close()
}

// Events implements upstream.Stream.
func (s *stream) Events(yield func(sse.Event, error) bool) {
	wait := time.Duration(0)
	for {
		for m := s.c.takeListChanges(); m != nil; m = s.c.takeListChanges() {
			if !yield(sse.Event{Data: m}, nil) {
				return
			}
		}
		s.mu.Lock()
		st := s.st
		s.mu.Unlock()
		if s.isClosed() {
			yield(sse.Event{}, upstream.ErrClosed)
			return
		}
		var why error
		for e, err := range st.Events {
			if why = err; err != nil {
				break
			}
			if e.HasID {
				s.lastID = string(e.ID)
			}
			if e.Retry > 0 {
				s.retry = e.Retry
			}
			if wait = 0; !yield(e, nil) {
				return
			}
		}
		err := why
		if s.ctx.Err() == nil {
			wait, err = s.reopen(wait, why)
		}
		if err != nil {
			yield(sse.Event{}, err)
			return
		}
	}
}

// reopen opens the stream again; in the same server session, after the last event received. why is
// the error to return if the stream is not wanted any more. reopen returns how long it has waited, for
// the case that the new stream breaks off at once.
func (s *stream) reopen(wait time.Duration, why error) (time.Duration, error) {
	for {
		select {
		case <-s.changed: // a new session: do not wait
			s.lastID = ""
		default:
			if wait = min(max(2*wait, server.FirstReopen, s.retry), server.LastReopen); !s.pause(wait) {
				return wait, why
			}
		}
		if s.isClosed() {
			return wait, upstream.ErrClosed
		}
		st, err := s.c.Listen(s.ctx, upstream.ListenOptions{LastEventID: s.lastID, Header: s.header})
		_, replaced := errors.AsType[*replacedError](err)
		switch {
		case err == nil:
			s.mu.Lock()
			s.st.Close()
			s.st = st
			s.mu.Unlock()
			if s.isClosed() {
				st.Close()
			}
			return wait, nil
		case replaced:
			s.lastID = ""
		case s.ctx.Err() != nil, errors.Is(err, upstream.ErrClosed), errors.Is(err, upstream.ErrNoStream), isFinal(err):
			return wait, err
		}
	}
}

// pause waits, and reports whether the stream is still wanted. A new session ends the wait.
func (s *stream) pause(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.changed:
		s.lastID = ""
	case <-s.gone:
		return false
	case <-s.ctx.Done():
		return false
	}
	return true
}

func (s *stream) isClosed() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// Close implements upstream.Stream.
func (s *stream) Close() error {
	s.c.mu.Lock()
	delete(s.c.standing, s)
	s.c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isClosed() {
		close(s.gone)
	}
	return s.st.Close()
}

func isStatus(err error) bool {
	_, ok := errors.AsType[*upstream.StatusError](err)
	return ok
}
