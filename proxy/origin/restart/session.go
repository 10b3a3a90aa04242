package restart

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
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
	resume  func() func(id, version string) *upstream.Begun
	was     sealed.Session
	session Session

	renewals atomic.Uint64 // the number of sessions begun to replace a lost one

	mu       sync.Mutex
	renewing *renewal     // under way; nil if there is none
	memory   pipes.Memory // the client's messages that a new session needs again
	unstored unstored     // those of them that the store lacks
	partial  bool         // the session began in another process: memory is not complete
	lacks    bool         // the current session was begun with a memory that was not complete
	news     [][]byte     // messages that wait for the standing stream
	missed   bool         // the client may have missed updates of what it has subscribed to, and is to be told
	updates  [][]byte     // the rest of what tells it
	standing []*stream    // the open ones
	agreeing agreement
	stood    int    // the number of standing streams that are open, or are being opened
	unwatch  func() // set while stood is not 0
	// listening are the requests for standing streams in the current session that the server has not answered.
	listening []*pendingListen
}

// A renewal is the beginning of another session. All callers of Renew wait for it.
type renewal struct {
	done chan struct{} // closed when err is set
	err  error
}

// agreement is what is left to do of telling the other replicas.
type agreement struct {
	due  bool // the store lacks the session that this replica has begun, or others were not told of it
	runs bool // a goroutine tries that
}

// maxNews bounds how many messages wait for a standing stream.
const maxNews = 512

// A replacedError says that the server has lost the session, that another session has replaced it,
// and that the request belonged to the lost one.
type replacedError struct{}

func (*replacedError) Error() string {
	return "the server has lost the session, and the request with it; another session has begun"
}

// OverHTTP returns an HTTP around conn for the session t, in which both sides have the handshake. It returns nil if conn is
// nil, if the server has given no session id, or if there is no way to begin another session. resume returns the function
// that makes the connection of another session, or nil.
func OverHTTP(h *host.Host, t sealed.Session, conn *upstream.HTTPSession, resume func() func(id, version string) *upstream.Begun) *HTTP {
	if conn == nil || t.Named == "" || resume() == nil {
		return nil
	}
	return &HTTP{
		HTTPSession: conn, host: h, was: t, resume: resume, memory: pipes.Memory{NoAnswers: true, Kept: h.Memory().Holding()},
		unstored: unstored{turn: make(chan struct{}, 1)},
	}
}

// Bind says which session the server belongs to. began says that the session began in this process, so that all of the
// client's messages are known. It must be called before the first Send.
func (c *HTTP) Bind(s Session, began bool) { c.session, c.partial = s, !began }

// Close ends the session at the server.
func (c *HTTP) Close(ctx context.Context) error {
	c.Release()
	return c.HTTPSession.Close(ctx)
}

// Release gives back the bytes that are kept for another session: this process goes on with none.
func (c *HTTP) Release() { c.memory.Kept.Close() }

// Number returns the number of the current session, in which the next message is sent.
func (c *HTTP) Number() uint64 { return c.renewals.Load() }

// Remember notes what a new session has to know of a message of the client, here and in the store, and returns Number. It must be
// called before the message is sent by HTTPSession.Send: for a request that is the same as Send, since only its stream can say that
// the session is lost.
func (c *HTTP) Remember(body []byte) uint64 {
	if pipes.Memorable(body) && c.note(body) {
		c.store()
	}
	return c.Number()
}

// restore sends what the server has to know of the client in a new session. It reports whether that is not complete.
func (c *HTTP) restore(ctx context.Context, h *pipes.Opening) (partial bool) {
	c.recall(ctx)
	c.mu.Lock()
	c.memory.Initialized = true
	messages, _ := c.memory.Replay()
	unkept := c.memory.Unkept()
	partial = c.partial
	c.partial, c.lacks = false, partial
	c.mu.Unlock()
	reportUnkept(c.host, unkept)
	c.resendAll(ctx, h, messages)
	return partial
}

func (c *HTTP) resendAll(ctx context.Context, h *pipes.Opening, messages [][]byte) {
	for _, message := range messages {
		if err := c.resend(ctx, h, message); err != nil {
			c.host.Report.ServerFailed("cannot restore a message in the new upstream session", failures.SessionLost, fmt.Errorf("%.200s: %w", message, err), h.Header)
		}
	}
}

// continueIn makes a session the current one. early and changes are messages for the client's standing stream, which also learns
// that the resources which it has subscribed to may have changed.
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
	c.addNews(news)
	c.missed = true
	for _, p := range c.listening {
		p.cancel()
	}
	c.listening = nil
	for _, st := range c.standing {
		select {
		case st.replaced <- struct{}{}:
		default:
		}
		st.interrupt()
	}
}

// MayHaveMissed tells the client, on its standing stream, that the resources which it has subscribed to may have changed while that
// was away. Lists may have changed, too, but many servers end an idle stream every minute, and lists are large.
func (c *HTTP) MayHaveMissed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missed = true
}

// addNews adds messages for the client's standing stream; c.mu must be held.
func (c *HTTP) addNews(news [][]byte) {
	for _, m := range news {
		if len(c.news) == maxNews || c.memory.Kept.Keep(len(m)) != nil {
			c.host.Report.Dropped("queue_full")
			continue
		}
		c.news = append(c.news, m)
	}
}

// initializeAgain sends initialize in the name of the session's client, and waits for the
// response.
func initializeAgain(ctx context.Context, h *pipes.Opening, t sealed.Session) (m *wire.Message, named string, err error) {
	client, can := t.ClientInfo, t.Capabilities
	if client == "" {
		client = mcp.Unnamed
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
	if named = st.SessionID(); len(named) > sealed.MaxNamed {
		return nil, "", sealed.ErrNamedTooLong
	}
	return m, named, nil
}

// resend sends one of the client's messages in the new session, and waits for the response
// if the message is a request.
func (c *HTTP) resend(ctx context.Context, h *pipes.Opening, message []byte) error {
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

// A stream is the standing stream of a client's session. It continues when another server
// session replaces a lost one.
type stream struct {
	upstream.Plain
	c        *HTTP
	ctx      context.Context
	header   []mcp.Header
	done     func()        // of [HTTP.stands]
	changed  chan struct{} // receives a value when the server session was replaced, or the stream closed
	replaced chan struct{} // receives a value when the server session was replaced

	mu     sync.Mutex
	st     upstream.Stream
	closed bool

	// The rest is used only by Events and Park.
	parks   bool     // as in [upstream.ListenOptions]
	opening *opening // the stream is being opened again; nil if it is not
	lastID  string
	resumed bool   // the client has named an event after which it begins
	number  uint64 // of the session in which the stream was opened last
	retry   time.Duration
	again   pipes.Reopening
}

// opening is a standing stream that is being opened.
type opening struct {
	done chan struct{} // closed when st and number, or err, are set
	told bool          // the client has been told meanwhile what it may have missed

	st     upstream.Stream
	number uint64
	err    error
}

// pendingListen is a request for the standing stream that the server has not answered.
type pendingListen struct{ cancel context.CancelFunc }

// interrupt makes Events open the stream again, in the current server session, or end if the stream was closed.
func (s *stream) interrupt() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st.Close()
}

func isStatus(err error) bool {
	_, ok := errors.AsType[*upstream.StatusError](err)
	return ok
}
