package proxy

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

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/processes"
	"github.com/dragoman-proxy/dragoman/proxy/quota"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/share"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// pooledSession is a session with a server for modern clients. Their requests use ids that dragoman
// makes. Several clients may share it if they are the same principal and declare the same
// clientInfo and capabilities.
type pooledSession struct {
	key     poolKey
	realm   string // identifies the cached results that the session's change notifications invalidate
	s       *session
	said    profile
	opening chan struct{} // closed when s is set, or when err says why there is no session
	err     error
	hearing sync.Once       // opens the standing stream
	settled chan struct{}   // closed when there is a standing stream, or no more time to wait for it
	life    context.Context // ends with the session's standing stream
	end     context.CancelFunc

	leveling chan struct{} // has a value while a goroutine reads or sets level
	level    mcp.LogLevel  // the level of log messages that the server was asked for; mcp.NoLogLevel before

	questions atomic.Int64 // questions of the server that wait for the client's answer
	asking    atomic.Int64 // how often the number of questions has changed

	mu            sync.Mutex
	heard         bool // there is a standing stream
	lastID        int64
	unattributed  []serverQuestion             // asked while no call was open that may ask; bounded
	inFlight      []*parkedCall                // open calls in which the server may ask, oldest first
	joined        int                          // how many calls have been in inFlight
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
}

// profile holds what the server's InitializeResult says of it, translated to the newest revision.
type profile struct {
	capabilities []byte
	server       []byte // the serverInfo
	instructions []byte // the instructions as a JSON string; nil for none
}

// poolKind says what a pooledSession stands for.
type poolKind uint8

const (
	withHandshake    poolKind = iota // a session that began with a handshake
	onlyAdapters                     // a session without a server: it has only adapter tools
	withoutHandshake                 // no session: the server is modern
)

// poolKey separates clients that must not share a session.
type poolKey struct {
	kind         poolKind
	principal    string
	address      string // the peer's address, if the principal is not identified
	client       string // the clientInfo
	capabilities string
}

// open begins b's session.
func (p *sessionPool) open(b *pooledSession, q *stateless.Request, header []upstream.Header) {
	defer close(b.opening)
	ctx, cancel := context.WithTimeout(p.srv.host.Draining, p.srv.now().cfg.Upstream.HandshakeTimeout)
	defer cancel()
	if b.err = p.begin(ctx, b, q, header); b.err != nil {
		f := clienterror.Of(b.err) // each call that waits for the session reports the failure
		f.Why = string(report.CauseOf(&p.srv.now().cfg, f, report.At{Method: wire.Initialize.String()}))
		p.srv.metrics.Handshake(translate.Lookup(translate.Modern()), nil, report.Outcome(f), failures.Cause(f.Why))
		p.discard(b)
	}
}

func (p *sessionPool) begin(ctx context.Context, b *pooledSession, q *stateless.Request, header []upstream.Header) (err error) {
	defer func() {
		if r := recover(); r != nil {
			p.srv.host.Report.Panicked(r)
			err = mcp.Fail(mcp.Panicked, "")
		}
	}()
	h := &handshake{srv: p.srv, runsFor: q.RunsFor, Opening: server.Opening{Of: p.srv.host, Header: header, ID: []byte("1")}}
	ctx = processes.For(ctx, q.RunsFor)
	var s *session
	var known *era.Era
	if b.key.kind != onlyAdapters {
		if known, err = p.srv.eras.Of(ctx, header); err != nil {
			return err
		}
		defer func() {
			if err != nil { // the server may have been replaced
				p.srv.eras.Drop(header, known)
				err = p.srv.eras.OrChanged(ctx, header, known, err)
			}
		}()
	}
	if b.key.kind == withoutHandshake {
		if s, err = h.directly(ctx, q, known); err == nil {
			s.direct.realm = b.realm
		}
	} else {
		s, err = p.shakeHands(ctx, h, b, q, known)
	}
	if err != nil {
		return err
	}
	s.owner = "modern " + b.key.principal
	s.ended = nil // the state of own tools belongs to the principal, which may have several sessions
	if s.piped {
		l := p.srv.openLanes(h.Conn, h.Standing)
		l.WhenLost(func() { p.discard(b) })
		if s.conn = l; b.key.kind == withoutHandshake {
			s.conn = share.NewRemapper(p.srv.host, l)
		}
	}
	if b.key.kind != withoutHandshake && !s.greeted {
		_, err = s.conn.Send(ctx, &upstream.Outgoing{Body: mcp.Notification(wire.Initialized, ""), Header: header})
	}
	if err != nil {
		p.srv.endSession(s, err)
		return err
	}
	if known != nil && known.Unsure {
		p.srv.eras.Note(header, &era.Era{Handshake: true, Newest: s.ServerRevision})
	}
	p.mu.Lock()
	b.s = s
	gone := b.gone
	p.mu.Unlock()
	if gone { // the pool has dropped b in the meantime
		p.srv.endSession(s, clienterror.ErrShutdown)
		return clienterror.ErrShutdown
	}
	return nil
}

// shakeHands does the handshake of b's session, with the server or, for onlyAdapters, without one.
func (p *sessionPool) shakeHands(ctx context.Context, h *handshake, b *pooledSession, q *stateless.Request, known *era.Era) (s *session, err error) {
	var answer []byte
	if b.key.kind == onlyAdapters {
		h.vc, h.facts = translate.Lookup(translate.Modern()), q.Facts
		s, answer, err = h.settleAlone()
	} else {
		s, answer, err = h.initializeFor(ctx, q.ClientInfo, q.Capabilities, known)
	}
	if s == nil {
		if h.Conn != nil {
			p.srv.host.Spawn(func() { p.srv.endConn(h.Conn) })
		}
		if err == nil {
			err = refusedHandshake(answer)
		}
		return nil, err
	}
	b.lastID = 1
	result := gjson.GetBytes(answer, "result")
	b.said = profile{
		capabilities: []byte(cmp.Or(result.Get("capabilities").Raw, "{}")),
		server:       []byte(cmp.Or(result.Get("serverInfo").Raw, `{"name":"unknown-server","version":"0.0.0"}`)),
		instructions: []byte(result.Get("instructions").Raw),
	}
	s.catalogue.Introduce(answer)
	return s, nil
}

// initializeFor sends initialize on behalf of a modern client. The returned response is an
// InitializeResult in the newest revision.
func (h *handshake) initializeFor(ctx context.Context, client, capabilities []byte, known *era.Era) (*session, []byte, error) {
	if !known.Handshake {
		return nil, nil, mcp.Fail(mcp.UpstreamModern, known.Revision.Name)
	}
	h.vc = translate.Lookup(translate.Modern())
	h.facts = mcp.ClientFacts(gjson.ParseBytes(capabilities))
	if client == nil {
		client = []byte(`{"name":"unknown-client","version":"0.0.0"}`)
	}
	return h.propose(ctx, mcp.Initialize("1", h.vc.Name, capabilities, client), known.Newest)
}

// refusedHandshake returns the error for the server's refusal of an initialize that dragoman made.
func refusedHandshake(answer []byte) error {
	e := gjson.GetBytes(answer, "error")
	f := mcp.Fail(mcp.UpstreamRefused, "")
	f.Err = clienterror.ErrHandshakeRefused
	if m := e.Get("message").String(); m != "" {
		f.Text += ": " + m
	}
	if d := e.Get("data"); d.Exists() {
		f.Data = []byte(d.Raw)
	}
	return f
}

// nextID returns a new request id for the session.
func (b *pooledSession) nextID() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastID++
	return strconv.AppendInt(nil, b.lastID, 10)
}

// setLevel sends logging/setLevel, unless the server was already asked for this level or a less
// severe one, and waits for the response. Each client receives only messages at its own level.
func (b *pooledSession) setLevel(ctx context.Context, srv *Server, level mcp.LogLevel, header []upstream.Header) {
	if level == mcp.NoLogLevel || !b.s.Facts.Has(wire.ServerLogging) {
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
	if err := b.ask(ctx, srv, wire.LoggingSetLevel, params, header); err != nil {
		srv.host.Log.Debug("cannot set the server's log level", zap.Error(err)) // the next call tries again
		return
	}
	b.level = level
}

// list asks the server for a page of its tools. params are without the braces.
func (b *pooledSession) list(ctx context.Context, srv *Server, params string, header []upstream.Header) ([]byte, error) {
	if b.s.direct != nil {
		return b.s.inquire(ctx, srv, wire.ToolsList, params, header)
	}
	return b.inquire(ctx, srv, wire.ToolsList, []byte("{"+params+"}"), header)
}

// ask is inquire without the result.
func (b *pooledSession) ask(ctx context.Context, srv *Server, method wire.Method, params []byte, header []upstream.Header) error {
	_, err := b.inquire(ctx, srv, method, params, header)
	return err
}

// inquire sends the server one of dragoman's own requests and waits for the response, as long as a
// handshake may take. The error may be the server's own; the caller owns the result.
func (b *pooledSession) inquire(ctx context.Context, srv *Server, method wire.Method, params []byte, header []upstream.Header) ([]byte, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer b.limit(srv, stop)()
	id := b.nextID()
	st, err := b.s.conn.Send(ctx, &upstream.Outgoing{Body: mcp.Request(id, method, params), Request: true, Header: header})
	if err != nil {
		return nil, err
	}
	x := srv.newExchange(ctx, stop)
	defer x.done()
	defer context.AfterFunc(ctx, func() { st.Close() })()
	x.s = b.s
	x.s.enter()
	x.from = append(x.from[:0], header...)
	x.crossing = &crossing{down: wire.Stamp{ServerInfo: b.said.server}, opened: b.opened, tasks: srv.heldTasks.receiver(b), lacks: b.lacks}
	own := &untilAnswer{Stream: st, key: wire.AppendIDKey(nil, id)}
	x.attach(own)
	for {
		e, err := x.nextRecovered()
		switch {
		case errors.Is(err, errAsked):
			b.attribute(srv, x.crossing.takeQuestions(), header)
		case own.answer != nil:
			return server.ResultIn(own.answer)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return nil, mcp.Fail(mcp.UpstreamSilent, "")
		case err != nil:
			return nil, err
		default:
			interested(b, &stateless.Request{LogLevel: mcp.NoLogLevel}, &x.msg, e.Data)
		}
	}
}

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
func (b *pooledSession) limit(srv *Server, stop context.CancelCauseFunc) (free func()) {
	cfg := srv.now().cfg
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
