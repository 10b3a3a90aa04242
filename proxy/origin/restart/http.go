package restart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

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
	if isOfLost(m) {
		return nil, nil
	}
	return c.HTTPSession.Send(ctx, m)
}

// isOfLost reports whether a message of the client is about a session that was lost, and not about the one that has replaced it: it
// answers a question of the lost one, or says that the client is initialized, which the new one has been told when it began.
func isOfLost(m *upstream.Outgoing) bool {
	var message wire.Message
	return message.Scan(bytes.Clone(m.Body), nil) == nil && (message.Kind.Response() || message.Method == wire.Initialized)
}

// Listen opens the standing stream, in a new session if the server has lost the old one. If o asks to
// resume a stream and the session is lost, the error is a replacedError, since the stream belonged to
// the lost session.
func (c *HTTP) Listen(ctx context.Context, o upstream.ListenOptions) (upstream.Stream, error) {
	st, _, err := c.listen(ctx, o)
	return st, err
}

// Resume goes on with the stream of a request in the session that had this number. If another session has replaced that one, the error is a
// [pipes.RestartError]: in another session, the server would begin a standing stream.
func (c *HTTP) Resume(ctx context.Context, number uint64, o upstream.ListenOptions) (upstream.Stream, error) {
	st, err := upstream.Stream(nil), error(&replacedError{})
	if c.Number() == number {
		st, err = c.Listen(ctx, o)
	}
	if _, replaced := errors.AsType[*replacedError](err); replaced {
		return nil, &pipes.RestartError{Err: upstream.ErrLost}
	}
	return st, err
}

// mostLost is how many sessions may be lost while one standing stream is opened. A server may be slow to open it, and lose the next
// session meanwhile.
const mostLost = 2

// listen is Listen. number is that of the session in which it has opened the stream.
func (c *HTTP) listen(ctx context.Context, o upstream.ListenOptions) (_ upstream.Stream, number uint64, err error) {
	for lost := 0; ; {
		st, number, err := c.listenOnce(ctx, o)
		switch replaced := c.Number() != number && context.Cause(ctx) == nil; {
		case err == nil:
			return st, number, nil
		case replaced:
		case lost == mostLost, !IsLost(err) && !c.saysLost(ctx, err, o.Header):
			return nil, 0, err
		default:
			lost++
			if renewed := c.Renew(ctx, number, o.Header); renewed != nil {
				return nil, 0, renewed
			}
		}
		if o.LastEventID != "" {
			return nil, 0, &replacedError{}
		}
	}
}

// listenOnce opens the standing stream in the current session. If another session replaces that one before the server has answered,
// listenOnce ends with an error: a server that has forgotten the session may never answer.
func (c *HTTP) listenOnce(ctx context.Context, o upstream.ListenOptions) (_ upstream.Stream, number uint64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &pendingListen{cancel}
	c.mu.Lock()
	number = c.Number()
	c.listening = append(c.listening, p)
	c.mu.Unlock()
	st, err := c.HTTPSession.Listen(ctx, o)
	c.mu.Lock()
	if i := slices.Index(c.listening, p); i >= 0 {
		c.listening = slices.Delete(c.listening, i, i+1)
	}
	c.mu.Unlock()
	if err != nil {
		cancel()
		return nil, number, err
	}
	return &listened{st, cancel}, number, nil
}

// listened is a standing stream with a context of its own.
type listened struct {
	upstream.Stream
	end context.CancelFunc
}

// Close implements upstream.Stream.
func (l *listened) Close() error {
	defer l.end()
	return l.Stream.Close()
}

// saysLost reports whether the server answers a GET with JSON instead of a stream, and a ping with an error that says that it has
// lost the session.
func (c *HTTP) saysLost(ctx context.Context, err error, header []mcp.Header) bool {
	content, other := errors.AsType[*upstream.ContentTypeError](err)
	if !other || !strings.HasPrefix(content.Type, "application/json") {
		return false
	}
	session := c.SessionID()
	fault := ping(ctx, c.HTTPSession, header)
	if fault == nil || !SaysLost(fault, session) {
		return false
	}
	c.host.Quirk(mcp.LostAs200)
	return true
}

// Stand opens the standing stream like Listen, but the stream is opened again whenever it breaks off,
// until ctx ends.
func (c *HTTP) Stand(ctx context.Context, o upstream.ListenOptions) (_ upstream.Stream, err error) {
	resumed := o.LastEventID != ""
	done := c.stands()
	defer func() {
		if err != nil {
			done()
		}
	}()
	st, number, err := c.listen(ctx, o)
	if _, replaced := errors.AsType[*replacedError](err); replaced {
		o.LastEventID, resumed = "", false
		st, number, err = c.listen(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	out := &stream{
		c: c, ctx: ctx, header: cloneHeaders(o.Header), lastID: o.LastEventID, resumed: resumed, parks: o.Parks, number: number, st: st, done: done, changed: make(chan struct{}, 1), replaced: make(chan struct{}, 1),
	}
	out.again.Opened()
	c.mu.Lock()
	c.standing = append(c.standing, out)
	outdated := c.Number() != number
	c.mu.Unlock()
	if outdated { // another session has replaced it meanwhile, and did not know this stream yet
		out.interrupt()
	}
	return out, nil
}

// takeNews removes and returns the first message that waits for a standing stream. It returns nil if there is none. What the client
// may have missed is found out only now: it may have waited for long, and is told once, however often that has happened.
func (c *HTTP) takeNews() (m []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.news) > 0 {
		m, c.news = c.news[0], c.news[1:]
		c.memory.Kept.Drop(len(m))
		return m
	}
	if c.missed {
		c.missed, c.updates = false, c.memory.Updates()
	}
	if len(c.updates) > 0 {
		m, c.updates = c.updates[0], c.updates[1:]
	}
	return m
}

// Events implements upstream.Stream.
func (s *stream) Events(yield func(sse.Event, error) bool) {
	for {
		for m := s.c.takeNews(); m != nil; m = s.c.takeNews() {
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
		why := error(upstream.ErrClosed)
		for e, err := range s.events(st) {
			if why = err; err != nil && !passes(err) {
				break
			}
			if e.HasID {
				s.lastID = string(e.ID)
			}
			if e.Retry > 0 {
				s.retry = e.Retry
			}
			if s.again.Heard(); !yield(e, err) {
				return
			}
		}
		err, wanted := why, true
		if s.ctx.Err() == nil && err != sse.ErrInterrupted && !s.ends(err) {
			if err, wanted = s.reopen(why, yield); !wanted {
				return
			}
		}
		if err != nil {
			yield(sse.Event{}, err)
			return
		}
	}
}

// afresh makes the stream begin anew, in another session.
func (s *stream) afresh() { s.lastID, s.resumed = "", false }

// ends reports whether the stream ends with err for the client as well: it has resumed the stream, which the server has closed in order. That
// may be the stream of a call, which has nothing more to say, and ends at once however often it is opened again.
func (s *stream) ends(err error) bool {
	return s.resumed && err == io.EOF && s.c.Number() == s.number
}

// events returns those of st, or none while the stream that replaces st is being opened.
func (s *stream) events(st upstream.Stream) iter.Seq2[sse.Event, error] {
	if s.opening != nil {
		return func(func(sse.Event, error) bool) {}
	}
	return st.Events
}

// passes reports whether err is about one message that is known to be too large, behind which the stream goes on. Opened again, it
// might begin with that message again.
func passes(err error) bool {
	large := pipes.Skipped(err)
	return large != nil && (large.Asks || large.Answers != nil)
}

// reopen opens the stream again; in the same server session, after the last event received. why is
// the error to return if the stream is not wanted any more. yield gets what waits for the client if the server hesitates; wanted is
// false once it has returned false.
func (s *stream) reopen(why error, yield func(sse.Event, error) bool) (err error, wanted bool) {
	for {
		if s.opening == nil {
			select {
			case <-s.changed: // a new session: do not wait
				s.afresh()
			default:
				if wait := min(max(s.again.Next(), s.retry), pipes.LastReopen); !s.pause(wait) {
					return why, true
				}
			}
			if s.isClosed() || s.c.session.Over() {
				return upstream.ErrClosed, true
			}
			s.opening = s.open()
		}
		if !s.tellMeanwhile(yield) {
			return nil, false
		}
		o := s.opening
		s.opening = nil
		_, replaced := errors.AsType[*replacedError](o.err)
		switch {
		case o.err == nil:
			s.again.Opened()
			switch same := o.number == s.number; {
			case s.isClosed(), s.isOutdated(o.number):
				o.st.Close()
			case same && s.lastID == "", o.told: // the server cannot send again what the client has missed
				s.c.MayHaveMissed()
			}
			s.number = o.number
			return nil, true
		case replaced:
			s.afresh()
		case s.ctx.Err() != nil, errors.Is(o.err, upstream.ErrClosed), errors.Is(o.err, upstream.ErrNoStream), isFinal(o.err) && !upstream.IsConflict(o.err):
			return o.err, true
		}
	}
}

// hesitation is how long what waits for the client is kept for the standing stream of the server: some servers begin their response
// with the first event, which may come late or never.
const hesitation = 500 * time.Millisecond

// open begins to open the stream again. When the server has answered, the new stream replaces the old one.
func (s *stream) open() *opening {
	o := &opening{done: make(chan struct{}), err: mcp.Fail(mcp.Panicked, "")}
	with := upstream.ListenOptions{LastEventID: s.lastID, Header: s.header, Parks: s.parks}
	s.c.host.Spawn(func() {
		defer close(o.done)
		if o.st, o.number, o.err = s.c.listen(s.ctx, with); o.err != nil {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.st.Close()
		if s.st = o.st; s.closed {
			s.st.Close()
		}
	})
	return o
}

// tellMeanwhile waits until the stream is open, or cannot be opened. If that takes long, yield gets what waits for the client; false
// is what yield has returned.
func (s *stream) tellMeanwhile(yield func(sse.Event, error) bool) bool {
	late := time.NewTimer(hesitation)
	defer late.Stop()
	for {
		select {
		case <-s.opening.done:
			return true
		case <-s.replaced:
			late.Reset(hesitation)
			continue
		case <-late.C:
		}
		for m := s.c.takeNews(); m != nil; m = s.c.takeNews() {
			if s.opening.told = true; !yield(sse.Event{Data: m}, nil) {
				return false
			}
		}
	}
}

// isOutdated reports whether another session has replaced the one with this number, in which the stream is open. If not, what
// was signalled before is settled.
func (s *stream) isOutdated(number uint64) bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.c.Number() != number {
		return true
	}
	select {
	case <-s.changed:
		s.afresh()
	default:
	}
	return false
}

// pause waits, and reports whether the stream is still wanted. A new session ends the wait.
func (s *stream) pause(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.changed:
		s.afresh()
		return !s.isClosed()
	case <-s.ctx.Done():
		return false
	}
	return true
}

func (s *stream) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Park implements upstream.Stream.
func (s *stream) Park(w mcp.Waker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parks = s.parks && w != nil
	return s.st.Park(w)
}

// Close implements upstream.Stream.
func (s *stream) Close() error {
	s.c.mu.Lock()
	if i := slices.Index(s.c.standing, s); i >= 0 {
		s.c.standing = slices.Delete(s.c.standing, i, i+1)
	}
	s.c.mu.Unlock()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.done()
	s.interrupt()
	return nil
}

// Renew begins another session to replace the one with the number was. Concurrent callers share one
// renewal.
func (c *HTTP) Renew(ctx context.Context, was uint64, header []mcp.Header) error {
	if c.session.Over() {
		return mcp.Fail(mcp.SessionUnknown, "")
	}
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
			r.err = c.replace(was, header)
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

// First returns the server's id of the session with which the client's session began.
func (c *HTTP) First() string { return c.was.Named }

// Answer sends the answer to a question of this session of the server. It may be one that c is not in any more, or one that another replica
// has begun: a server counts its questions anew in each, so that the answer goes to that one alone. If the server has lost it, the answer
// is lost as well.
func (c *HTTP) Answer(ctx context.Context, session string, m *upstream.Outgoing) error {
	was, current := c.Number(), c.SessionID()
	_, err := c.HTTPSession.In(session).Send(ctx, m)
	switch {
	case err == nil || !IsLost(err):
		return err
	case session == current:
		return c.Renew(ctx, was, m.Header)
	}
	return nil
}

// replace begins another session, or uses the one that another replica has begun.
func (c *HTTP) replace(was uint64, header []mcp.Header) error {
	ctx, cancel := context.WithTimeout(c.host.Serving, c.host.Config().Upstream.HandshakeTimeout)
	defer cancel()
	return c.share(ctx, was, header, func() error { return c.begin(ctx, header) })
}

// begin begins another session. An error with the cause mcp.SessionUnknown says that the server
// refuses to.
func (c *HTTP) begin(ctx context.Context, header []mcp.Header) error {
	version := c.was.ServerRevision.HeaderName()
	next := c.resume()("", "")
	if next.Web == nil {
		return mcp.Fail(mcp.SessionUnknown, "")
	}
	next.Web.ShareCookies(c.HTTPSession)
	h := &pipes.Opening{Of: c.host, Begun: *next, Header: header, ID: []byte(`"dragoman:0"`)}
	m, named, err := initializeAgain(ctx, h, c.was)
	if err != nil {
		c.host.Report.ServerFailed("server has lost the session and does not begin another", failures.SessionLost, err, header)
		if refused, _ := era.RefusesProposal(nil, err); refused && isStatus(err) {
			f := mcp.Fail(mcp.SessionUnknown, "the server refuses a new one; initialize again")
			f.Err = fmt.Errorf("%w: %w", report.ErrNoNewSession, err)
			return f
		}
		return err
	}
	if m.Kind == wire.Error || gjson.Get(wire.View(m.Result()), "protocolVersion").String() != c.was.ServerRevision.Name {
		c.host.Spawn(func() { pipes.End(next.Conn, c.host.Log) })
		f := mcp.Fail(mcp.SessionUnknown, "the server refuses a new one; initialize again")
		f.Err = fmt.Errorf("%w: %.300s", report.ErrNoNewSession, m.Raw)
		c.host.Report.ServerFailed("server has lost the session and does not begin another", failures.SessionLost, f.Err, header)
		return f
	}
	next.Web.SetSession(named, version)
	if c.restore(ctx, h) {
		c.host.Log.Info("the session began in another process: log level and subscriptions are not restored")
	}
	c.continueIn(named, version, h.Early, listChanges(m.Result()))
	c.host.Report.Restarted()
	c.host.Report.FailedAs("server lost the session; a new one is open", upstream.ErrLost, report.At{Client: c.was.ClientRevision, Server: c.was.ServerRevision, Session: c.was.Named, Header: header})
	return nil
}
