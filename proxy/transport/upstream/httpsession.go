package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// closeTimeout bounds the DELETE that ends a session which no client asks to end.
const closeTimeout = 2 * time.Second

// Session returns the session with this id and this MCP-Protocol-Version. Requests omit
// each of them while it is "". The session costs nothing until it is used.
func (h *HTTP) Session(id, version string) *HTTPSession {
	s := &HTTPSession{http: h, id: id, version: version}
	s.cookies = &s.own
	return s
}

// In returns another session of the same server and client, with this id.
func (s *HTTPSession) In(id string) *HTTPSession {
	_, version := s.session()
	other := s.http.Session(id, version)
	other.ShareCookies(s)
	return other
}

// unknownSession is the id of a session that no server has begun.
const unknownSession = "no-session-of-dragoman"

// Unknown returns a session that the server has not begun, for a request that belongs to none, such as a ping to see whether there is a
// server. It is answered, or refused as that of an unknown session. A request without an id does harm at some servers: those that have
// one connection for all sessions, such as server-everything 2025.4, take it for a new client, and answer the others no more.
func (h *HTTP) Unknown() *HTTPSession { return h.Session(unknownSession, "") }

// HTTPSession is one session with a server over HTTP.
type HTTPSession struct {
	http *HTTP

	mu          sync.RWMutex
	id, version string

	authorization Authorization // which Close sends

	cookies *jar // own, or that of the session which this one replaces
	own     jar
}

// SetSession changes what later requests are sent with: the Mcp-Session-Id that
// the server gave on initialize, and the MCP-Protocol-Version agreed upon.
func (s *HTTPSession) SetSession(id, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.version = id, version
}

// SessionID returns the server's id of the session; "" for none.
func (s *HTTPSession) SessionID() string {
	id, _ := s.session()
	return id
}

func (s *HTTPSession) session() (id, version string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.id, s.version
}

// Listen opens the stream of a GET. It returns when the server has granted it.
func (s *HTTPSession) Listen(ctx context.Context, o ListenOptions) (Stream, error) {
	r := request{kind: listen, header: o.Header, lastEventID: o.LastEventID, repeats: true, told: o.Told}
	open := func(r request) (*exchange, error) {
		x, err := s.exchange(ctx, r)
		if err != nil {
			return nil, err
		}
		x.parks = o.Parks
		return x, x.open()
	}
	x, err := open(r)
	if err != nil {
		return nil, err
	}
	return s.http.orPlain(x, func() (*exchange, error) { return open(r.plainly()) }), nil
}

// Delete asks the server to end the session, with these further headers. It waits as long as for
// any other answer. If the server refuses, the error is a *StatusError. Without a session id, and in the session that
// [HTTP.Unknown] returns, there is nothing to end, and no request is sent. told is as in [Outgoing].
func (s *HTTPSession) Delete(ctx context.Context, header []mcp.Header, told *[]mcp.Header) error {
	if id, _ := s.session(); id == "" || id == unknownSession {
		return nil
	}
	x, err := s.exchange(ctx, request{kind: end, header: header, told: told})
	if err != nil {
		return err
	}
	return x.settle()
}

// Notes remembers the Authorization of a message of the session; also of one that the server does not get.
func (s *HTTPSession) Notes(header []mcp.Header) { s.authorization.Note(header) }

// Authorization returns the header with the last Authorization of a message of the session; nil for none.
func (s *HTTPSession) Authorization() []mcp.Header { return s.authorization.Header() }

// Close ends the session by a DELETE, with the last Authorization of a message of the
// session. It is no error if the server does not know the session, or does not let
// clients end one. Streams of the session stay open until they are closed.
func (s *HTTPSession) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	err := s.Delete(ctx, s.Authorization(), nil)
	if status, ok := errors.AsType[*StatusError](err); ok && (status.Code == 404 || status.Code == 405) {
		return nil
	}
	return err
}

// Send delivers one message by a POST. A message that was written is never sent
// a second time.
func (s *HTTPSession) Send(ctx context.Context, m *Outgoing) (Stream, error) {
	x, err := s.send(ctx, m)
	if err != nil {
		return nil, err
	}
	if m.Request {
		return x, nil
	}
	return nil, x.settle()
}

// send writes a message.
func (s *HTTPSession) send(ctx context.Context, m *Outgoing) (*exchange, error) {
	kind := notice
	if m.Request {
		kind = call
	}
	return s.exchange(ctx, request{
		kind: kind, header: m.Header, content: m.Body, repeats: m.Repeats,
		firstByte: m.FirstByte, silence: m.Silence, told: m.Told,
	})
}

// exchange writes one request of the session.
func (s *HTTPSession) exchange(ctx context.Context, r request) (*exchange, error) {
	r.id, r.version = s.session()
	r.jar = s.cookies
	s.authorization.Note(r.header)
	return s.http.exchange(ctx, r)
}
