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
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// backing is a session with a server, held for clients that have none: their
// requests go out on it under ids of ours, and several clients may share it, as
// long as they are the same principal and declare the same of themselves.
type pooledSession struct {
	key     poolKey
	realm   string // who hears of changes together with it
	s       *session
	said    profile
	opening chan struct{} // closed when s stands, or err says why there will be none
	err     error
	hearing sync.Once       // of the standing stream
	settled chan struct{}   // closed when there is one, or none is waited for any more
	life    context.Context // of what is heard on the session's standing stream
	end     context.CancelFunc

	leveling chan struct{} // holds one while the level is looked at
	level    mcp.LogLevel  // of log messages that the server was asked for; mcp.NoLogLevel before

	questions atomic.Int64 // of the server that wait for the client's answer
	asking    atomic.Int64 // how often there were more of them, or fewer

	mu            sync.Mutex
	heard         bool // there is a standing stream
	lastID        int64
	unattributed  []serverQuestion             // asked while no call could be; bounded
	inFlight      []*parkedCall                // calls in flight in which the server may ask, oldest first
	joined        int                          // how many there have been
	parkedCalls   map[*parkedCall]bool         // in flight
	pendingURLs   map[*parkedCall]*pendingURLs // what parked calls wait for
	subscriptions map[*subscription]bool
	watched       map[string]*resourceWatch // resources subscribed to, by URI
	leaving       map[string]chan struct{}  // those that were; closed when the server knows

	// Guarded by the pool's mutex.
	holder quota.Holder // whose share of the sessions it is while in use
	opener quota.Holder // the party that opened it
	uses   int          // requests, parked calls and listens on it
	since  time.Time    // when uses fell to 0
	dead   bool         // no other call gets it
	lost   bool         // and who has it cannot use it
	gone   bool         // it was taken out of the pool
}

// profile is what a server says of itself in its handshake, as clients of the
// newest revision get it.
type profile struct {
	capabilities []byte
	server       []byte // serverInfo
	instructions []byte // a JSON string, nil for none
}

// backingKind is what a session is to those who have none.
type poolKind uint8

const (
	withHandshake    poolKind = iota // one that began with a handshake
	onlyAdapters                     // without a server: only adapter tools are there
	withoutHandshake                 // none: the server needs it as little as they do
)

// backingKey tells apart who must not share a session.
type poolKey struct {
	kind         poolKind
	principal    string
	address      string // of the peer, where the principal is not identified
	client       string // clientInfo
	capabilities string
}

// open begins the session of b.
func (p *sessionPool) open(b *pooledSession, q *modernRequest, header []upstream.Header) {
	defer close(b.opening)
	ctx, cancel := context.WithTimeout(p.srv.host.Draining, p.srv.now().cfg.Upstream.HandshakeTimeout)
	defer cancel()
	if b.err = p.begin(ctx, b, q, header); b.err != nil {
		f := clienterror.Of(b.err) // each call that waits for the session reports it
		f.Why = string(report.CauseOf(&p.srv.now().cfg, f, report.At{Method: wire.Initialize.String()}))
		p.srv.metrics.Handshake(translate.Lookup(translate.Modern()), nil, report.Outcome(f), failures.Cause(f.Why))
		p.discard(b)
	}
}

func (p *sessionPool) begin(ctx context.Context, b *pooledSession, q *modernRequest, header []upstream.Header) (err error) {
	defer func() {
		if r := recover(); r != nil {
			p.srv.host.Report.Panicked(r)
			err = mcp.Fail(mcp.Panicked, "")
		}
	}()
	h := &handshake{srv: p.srv, runsFor: q.runsFor, Opening: server.Opening{Of: p.srv.host, Header: header, ID: []byte("1")}}
	ctx = processes.For(ctx, q.runsFor)
	var s *session
	var known *era.Era
	if b.key.kind != onlyAdapters {
		if known, err = p.srv.eras.Of(ctx, header); err != nil {
			return err
		}
		defer func() {
			if err != nil { // it may have been replaced by another
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
	s.ended = nil // what our tools kept for the principal outlives one session of several
	if s.piped {
		l := p.srv.openLanes(h.Conn, h.Standing)
		l.WhenLost(func() { p.discard(b) })
		if s.conn = l; b.key.kind == withoutHandshake {
			s.conn = share.NewRemapper(p.srv.host, l)
		}
	}
	if b.key.kind != withoutHandshake && !s.catalogue.greeted {
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
	if gone { // everybody has left outbox.Kept
		p.srv.endSession(s, clienterror.ErrShutdown)
		return clienterror.ErrShutdown
	}
	return nil
}

// shake goes through the handshake of b's session, with the server or without one.
func (p *sessionPool) shakeHands(ctx context.Context, h *handshake, b *pooledSession, q *modernRequest, known *era.Era) (s *session, err error) {
	var answer []byte
	if b.key.kind == onlyAdapters {
		h.vc, h.facts = translate.Lookup(translate.Modern()), q.facts
		s, answer, err = h.settleAlone()
	} else {
		s, answer, err = h.initializeFor(ctx, q.client, q.capabilities, known)
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
	s.catalogue.instructions = len(result.Get("instructions").Str)
	return s, nil
}

// represent says initialize in the name of a client that has no such word. The
// answer is an InitializeResult as the newest revision would have it.
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

// refusedHandshake is the server's refusal of an initialize that was ours.
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

// nextID is the id of the next request on the session.
func (b *pooledSession) nextID() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastID++
	return strconv.AppendInt(nil, b.lastID, 10)
}

// setLevel asks the server for log messages of this level, if it has not been
// asked for less severe ones already, and waits until it knows. A request wants them
// at its own level, and gets no others.
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
		srv.host.Log.Debug("log level", zap.Error(err)) // who comes next asks again
		return
	}
	b.level = level
}

// list asks the server for a page of its tools. params is what is within the braces.
func (b *pooledSession) list(ctx context.Context, srv *Server, params string, header []upstream.Header) ([]byte, error) {
	if b.s.direct != nil {
		return b.s.inquire(ctx, srv, wire.ToolsList, params, header)
	}
	return b.inquire(ctx, srv, wire.ToolsList, []byte("{"+params+"}"), header)
}

// ask is inquire for who has no use for the answer.
func (b *pooledSession) ask(ctx context.Context, srv *Server, method wire.Method, params []byte, header []upstream.Header) error {
	_, err := b.inquire(ctx, srv, method, params, header)
	return err
}

// inquire sends the server a request of ours and waits for its answer, for as long as
// a handshake may take. The error is that of the server, too; the result is the
// caller's.
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
			interested(b, &modernRequest{level: mcp.NoLogLevel}, &x.msg, e.Data)
		}
	}
}

// asks notes that there are n more questions, or fewer.
func (b *pooledSession) asks(n int) {
	if n != 0 {
		b.questions.Add(int64(n))
		b.asking.Add(1)
	}
}

// limit ends a request of ours when the server has not answered for as long as a
// handshake may take. The time that its client takes for a question does not count:
// the answer may wait for that.
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
