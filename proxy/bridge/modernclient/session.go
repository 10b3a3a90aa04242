package modernclient

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/quota"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// pooledSession is a session with a server for modern clients. Their requests use ids that dragoman
// makes. Several clients may share it if they are the same principal and declare the same
// clientInfo and capabilities.
type pooledSession struct {
	br      *Bridge
	key     poolKey
	realm   string // identifies the cached results that the session's change notifications invalidate
	s       Session
	said    profile
	opening chan struct{} // closed when s is set, or when err says why there is no session
	err     error
	hearing sync.Once       // opens the standing stream
	settled chan struct{}   // closed when there is a standing stream, or no more time to wait for it
	life    context.Context // ends with the session's standing stream
	end     context.CancelFunc

	leveling chan struct{} // has a value while a goroutine reads or sets level
	level    mcp.LogLevel  // the level of log messages that the server was asked for; mcp.NoLogLevel before

	hasOpened func(notification []byte) // the method opened, bound once
	taskNews  func(notification []byte) // receives the server's notifications about tasks

	questions atomic.Int64 // questions of the server that wait for the client's answer
	asking    atomic.Int64 // how often the number of questions has changed

	mu            sync.Mutex
	heard         bool // there is a standing stream
	lastID        int64
	unattributed  []bridge.Question            // asked while no call was open that may ask; bounded
	inFlight      []*parkedCall                // open calls in which the server may ask, oldest first
	joined        int                          // how many calls have been in inFlight
	lent          int                          // how many goroutines use calls that lend or about has returned
	parkedCalls   map[*parkedCall]bool         // open calls
	pendingURLs   map[*parkedCall]*pendingURLs // the URLs that parked calls wait for
	subscriptions map[*subscription]bool
	watched       map[string]*resourceWatch // subscribed resources, by URI
	leaving       map[string]chan struct{}  // resources whose subscription ends; closed when the server has answered

	// These fields are guarded by the pool's mutex.
	holder quota.Holder // the client whose share the session counts for while it is in use
	opener quota.Holder // the client that has opened it
	uses   int          // how many requests, parked calls and subscriptions use it
	since  time.Time    // when uses became 0
	dead   bool         // new calls do not get it
	lost   bool         // calls that have it cannot use it either
	gone   bool         // it was removed from the pool

	adopted string // the server's id of the session, if another replica has begun it; "" otherwise
}

// unknownServer is the serverInfo of a server that names none.
const unknownServer = `{"name":"unknown-server","version":"0.0.0"}`

// profile holds what the server's InitializeResult says of it, translated to the newest revision.
type profile struct {
	capabilities []byte
	server       []byte // the serverInfo
	instructions []byte // the instructions as a JSON string; nil for none
}

// poolKey separates clients that must not share a session.
type poolKey struct {
	kind         Kind
	principal    string
	address      string // the peer's address, if the principal is not identified
	client       string // the clientInfo
	capabilities string
}

// open begins b's session.
func (p *sessionPool) open(b *pooledSession, q *stateless.Request, header []upstream.Header) {
	defer close(b.opening)
	ctx, cancel := context.WithTimeout(q.Counts.Span().Within(p.br.host.Draining), p.br.host.Config().Upstream.HandshakeTimeout)
	defer cancel()
	if b.err = p.begin(ctx, b, q, header); b.err != nil {
		p.discard(b)
	}
}

func (p *sessionPool) begin(ctx context.Context, b *pooledSession, q *stateless.Request, header []upstream.Header) error {
	s, answer, err := p.br.proxy.Open(ctx, Opening{
		Kind: b.key.kind, Principal: b.key.principal, Realm: b.realm, For: q, Header: header, Lost: func() { p.discard(b) },
	})
	if err != nil {
		return err
	}
	if answer != nil {
		result := gjson.GetBytes(answer, "result")
		b.said = profile{
			capabilities: []byte(cmp.Or(result.Get("capabilities").Raw, "{}")),
			server:       []byte(cmp.Or(result.Get("serverInfo").Raw, unknownServer)),
			instructions: []byte(result.Get("instructions").Raw),
		}
	}
	p.mu.Lock()
	b.s = s
	gone := b.gone
	p.mu.Unlock()
	if gone { // the pool has dropped b in the meantime
		s.End(clienterror.ErrShutdown)
		return clienterror.ErrShutdown
	}
	return nil
}

// idRoom is enough for a request id and for the progress token behind it, which holds the id again.
const idRoom = 48

// nextID returns a new request id for the session.
func (b *pooledSession) nextID() []byte { return b.appendID(make([]byte, 0, idRoom)) }

// appendID appends a new request id to dst.
func (b *pooledSession) appendID(dst []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastID++
	return strconv.AppendInt(dst, b.lastID, 10)
}

// setLevel sends logging/setLevel, unless the server was already asked for this level or a less
// severe one, and waits for the response. Each client receives only messages at its own level.
func (b *pooledSession) setLevel(ctx context.Context, level mcp.LogLevel, header []upstream.Header) {
	if level == mcp.NoLogLevel || !b.s.About().Facts.Has(wire.ServerLogging) {
		return
	}
	select {
	case b.leveling <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-b.leveling }()
	if b.level != mcp.NoLogLevel && b.level <= level {
		return
	}
	params := []byte(`{"level":"` + level.String() + `"}`)
	if err := b.ask(ctx, wire.LoggingSetLevel, params, header); err != nil {
		b.br.host.Log.Debug("cannot set the server's log level", zap.Error(err)) // the next call tries again
		return
	}
	b.level = level
}

// lists returns a function that asks the server for a page of its tools. Its params are without the braces.
func (b *pooledSession) lists(header []upstream.Header) func(ctx context.Context, params string) ([]byte, error) {
	return func(ctx context.Context, params string) ([]byte, error) {
		return b.inquire(ctx, wire.ToolsList, []byte("{"+params+"}"), header)
	}
}

// ask is inquire without the result.
func (b *pooledSession) ask(ctx context.Context, method wire.Method, params []byte, header []upstream.Header) error {
	_, err := b.inquire(ctx, method, params, header)
	return err
}

// crossing returns what translation needs to know of messages that are about no request of a client.
func (b *pooledSession) crossing() *bridge.Crossing {
	return &bridge.Crossing{Down: wire.Stamp{ServerInfo: b.said.server}, Opened: b.opened, Tasks: b.taskNews, Lacks: b.lacks}
}

// inquire sends the server one of dragoman's own requests and waits for the response, as long as a
// handshake may take. The error may be the server's own; the caller owns the result.
func (b *pooledSession) inquire(ctx context.Context, method wire.Method, params []byte, header []upstream.Header) (result []byte, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer b.limit(stop)()
	id := b.nextID()
	o := &upstream.Outgoing{Body: mcp.Request(id, method, params), Request: true, Header: header}
	span := telemetry.Ask(ctx, o, b.s.About().ServerRevision.Name)
	defer func() { span.Done(err) }()
	st, err := b.s.Send(ctx, o)
	if err != nil {
		return nil, err
	}
	crossing := b.crossing()
	crossing.Own = &bridge.OwnRequest{ID: id}
	x := b.s.Begin(ctx, stop, header, crossing, nil)
	defer x.Done()
	defer context.AfterFunc(ctx, func() { st.Close() })()
	x.Read(st)
	response, err := x.Answer(&bystander{b, x, header})
	switch {
	case err == nil:
		return server.ResultIn(response)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return nil, mcp.Fail(mcp.UpstreamSilent, "")
	}
	return nil, err
}

// bystander is the [bridge.Client] of an exchange that is about no request of a client.
type bystander struct {
	b    *pooledSession
	x    Exchange
	from []upstream.Header
}

// Send implements [bridge.Client]: subscriptions get what they have asked for.
func (s *bystander) Send(e sse.Event) error {
	interested(s.b, &stateless.Request{LogLevel: mcp.NoLogLevel}, s.x.Message(), e.Data)
	return nil
}

// Ask implements [bridge.Client].
func (s *bystander) Ask(list []bridge.Question) { s.b.attribute(list, s.from) }

// asks notes that the number of questions has changed by n.
func (b *pooledSession) asks(n int) {
	if n != 0 {
		b.questions.Add(int64(n))
		b.asking.Add(1)
	}
}

// limit ends one of dragoman's own requests if the server does not answer as long as a handshake
// may take. The time in which a client answers a question does not count, since the response may
// depend on it.
func (b *pooledSession) limit(stop context.CancelCauseFunc) (free func()) {
	cfg := b.br.host.Config()
	until := time.Now().Add(cfg.Bridge.ParkTimeout)
	var mu sync.Mutex
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	before := b.asking.Load()
	timer = time.AfterFunc(cfg.Upstream.HandshakeTimeout, func() {
		mu.Lock()
		defer mu.Unlock()
		changes := b.asking.Load()
		if (b.questions.Load() > 0 || changes != before) && time.Now().Before(until) {
			before = changes
			timer.Reset(cfg.Upstream.HandshakeTimeout)
			return
		}
		stop(context.DeadlineExceeded)
	})
	return func() { timer.Stop() }
}
