package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// endTimeout bounds how long the sessions' ends may take, all together.
const endTimeout = 10 * time.Second

var errShutdown = errors.New("shutting down")

// origin is where connections to the server come from.
type origin struct {
	// open begins a conversation; nothing was said on it.
	open func(ctx context.Context) (upstream.Conn, error)
	// piped says that all the server says comes by one Listen.
	piped bool
	// close ends what conversations share; may be nil.
	close func()
}

// Server stands between clients and one MCP server. Make it with [New]; then
// [Server.Serve] or [Server.ServePipe] is called, once.
type Server struct {
	cfg      Config
	log      *zap.Logger
	table    *translate.Table
	origin   origin
	passed   []string // names of the client's headers that go on to the server
	sessions *sessions
	metrics  *metrics
	losses   *lossLog

	inHand   atomic.Int64   // messages of HTTP clients
	tasks    sync.WaitGroup // all goroutines that outlive a request
	draining context.Context
	drain    context.CancelFunc
}

// New makes a server for cfg, which must be valid and name an upstream. It
// connects to nothing yet. What it has to say goes to log.
func New(cfg Config, log *zap.Logger) (*Server, error) {
	o, err := originOf(cfg, log)
	if err != nil {
		return nil, err
	}
	return newServer(cfg, log, o)
}

// NewDemo is like [New], with a small server of the oldest revision in this
// process in the place of cfg.Upstream.
func NewDemo(cfg Config, log *zap.Logger) (*Server, error) { return newServer(cfg, log, demoOrigin()) }

func newServer(cfg Config, log *zap.Logger, o origin) (*Server, error) {
	table, err := translate.NewTable(cfg.Contract)
	if err != nil {
		return nil, fmt.Errorf("contract.%w", err)
	}
	srv := &Server{
		cfg:      cfg,
		log:      log,
		table:    table,
		origin:   o,
		passed:   []string{"traceparent", "tracestate", "baggage"},
		sessions: newSessions(cfg.Session.Max),
	}
	fixed := false
	for name := range cfg.Upstream.Headers {
		fixed = fixed || strings.EqualFold(name, "Authorization")
	}
	if !fixed {
		srv.passed = append(srv.passed, "Authorization")
	}
	if cfg.Contract != DefaultConfig().Contract {
		log.Info("translation differs from the default", zap.Any("contract", cfg.Contract))
	}
	srv.metrics = newMetrics(func() float64 { return float64(srv.sessions.count()) })
	srv.losses = newLossLog(log, srv.metrics.losses, cfg.Log.Losses == "every")
	srv.draining, srv.drain = context.WithCancel(context.Background())
	return srv, nil
}

// originOf is the upstream that cfg names.
func originOf(cfg Config, log *zap.Logger) (origin, error) {
	switch {
	case cfg.Upstream.URL != "":
		return httpOrigin(cfg)
	case len(cfg.Upstream.Command) > 0:
		return stdioOrigin(cfg, log), nil
	}
	return origin{}, errors.New("upstream: neither url nor command is set")
}

func httpOrigin(cfg Config) (origin, error) {
	u := cfg.Upstream
	c := upstream.HTTPConfig{
		URL:              u.URL,
		DialTimeout:      u.ConnectTimeout,
		FirstByteTimeout: u.SilenceTimeout,
		IdleTimeout:      u.SilenceTimeout,
		MaxMessage:       int(cfg.Limits.UpstreamMessage),
	}
	for name, value := range u.Headers {
		c.Header = append(c.Header, upstream.Header{Name: name, Value: value})
	}
	h, err := upstream.NewHTTP(c)
	if err != nil {
		return origin{}, fmt.Errorf("upstream: %w", err)
	}
	return origin{
		open:  func(context.Context) (upstream.Conn, error) { return h.Session("", ""), nil },
		close: func() { h.Close() },
	}, nil
}

func stdioOrigin(cfg Config, log *zap.Logger) origin {
	child := upstream.Stdio{
		Command:    cfg.Upstream.Command,
		Env:        childEnv(cfg.Upstream, os.Environ()),
		Dir:        cfg.Upstream.Dir,
		MaxMessage: int(cfg.Limits.UpstreamMessage),
		StderrLine: func(line []byte) { log.Info("upstream stderr", zap.ByteString("line", line)) },
	}
	return origin{piped: true, open: func(ctx context.Context) (upstream.Conn, error) {
		c, err := child.Start(ctx)
		if err != nil {
			return nil, err // not a *Child that is nil
		}
		return c, nil
	}}
}

// childEnv is the environment of a child: what it may inherit, and what was
// set for it.
func childEnv(u UpstreamConfig, ours []string) []string {
	pass := make(map[string]bool, len(u.PassEnv))
	for _, name := range u.PassEnv {
		pass[strings.ToUpper(name)] = true
	}
	var env []string
	for _, kv := range ours {
		name, _, _ := strings.Cut(kv, "=")
		name = strings.ToUpper(name)
		if pass[name] || pass["*"] && !strings.HasPrefix(name, "DRAGOMAN_") {
			env = append(env, kv)
		}
	}
	for name, value := range u.Env {
		env = append(env, name+"="+value)
	}
	return env
}

// connect begins a conversation for a client that needs a stream per request.
func (srv *Server) connect(ctx context.Context) (upstream.Conn, error) {
	conn, err := srv.origin.open(ctx)
	if err != nil || !srv.origin.piped {
		return conn, err
	}
	l, err := openLanes(conn, srv.cfg.Limits, srv)
	if err != nil {
		srv.endConn(conn)
		return nil, err
	}
	return l, nil
}

// newSession is the session that a finished handshake leads to.
func (srv *Server) newSession(h *handshake, vu *translate.Revision) *session {
	s := &session{
		vc: h.vc, vu: vu, facts: h.facts, conn: h.conn, named: h.named != "",
		up:    srv.table.Between(h.vc, vu),
		down:  srv.table.Between(vu, h.vc),
		open:  newCalls(srv.cfg.Limits.OpenRequests, h.pipe),
		asked: newCalls(srv.cfg.Limits.OpenRequests, srv.origin.piped),
	}
	if c, ok := h.conn.(interface{ SetSession(id, version string) }); ok {
		version := ""
		if vu.VersionHeader {
			version = vu.Name
		}
		c.SetSession(h.named, version)
	}
	srv.greet(s)
	return s
}

// greet counts a handshake and says once what is deprecated about it.
func (srv *Server) greet(s *session) {
	deprecated := "no"
	for _, side := range []struct {
		name string
		rev  *translate.Revision
	}{{"client", s.vc}, {"server", s.vu}} {
		if side.rev.Deprecated {
			deprecated = side.name
			srv.log.Info("deprecated revision", zap.String("peer", side.name), zap.String("revision", side.rev.Name))
		}
	}
	srv.metrics.peers.WithLabelValues(s.vc.Name, s.vu.Name, deprecated).Inc()
	srv.log.Debug("session", zap.String("client", s.vc.Name), zap.String("server", s.vu.Name))
}

// forget ends a session that can no longer be used. It does not wait.
func (srv *Server) forget(s *session, why error) {
	srv.sessions.drop(s)
	srv.spawn(func() { srv.endSession(s, why) })
}

func (srv *Server) endSession(s *session, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	s.end(ctx, why, srv.log)
}

func (srv *Server) endConn(c upstream.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		srv.log.Debug("closing the connection upstream", zap.Error(err))
	}
}

// answerFor is what x's client is told when err came in the place of an answer.
// A session that err has ended is forgotten; that of a client on a pipe ends with
// the pipe.
func (srv *Server) answerFor(x *exchange, err error) *failure {
	f := asFailure(err)
	if x.call != nil {
		f.about([]byte(x.call.id))
		x.s.open.end(x.call)
	}
	switch {
	case f.cause == upstreamLost && x.s.id != "":
		srv.forget(x.s, err)
	case f.cause == upstreamRefused && f.status == 404 && x.s.named:
		if x.s.id != "" {
			srv.forget(x.s, err)
		}
	case f.cause == upstreamRefused && f.status == 404:
		f.status, f.code, f.text, f.data = 502, -32603, "upstream endpoint not found", nil
	}
	x.outcome = failed
	if f.status >= 500 && !x.clientLeft() {
		srv.log.Warn("request failed", zap.Error(f))
	}
	return f
}

// unwanted counts a message that nobody gets.
func (srv *Server) unwanted(reason string) {
	srv.metrics.unwanted.WithLabelValues(reason).Inc()
	if reason == "queue_full" {
		srv.log.Warn("client does not read; its oldest notification was dropped")
	}
}

// badUpstream notes a text from the server that is no message.
func (srv *Server) badUpstream(err error) {
	srv.metrics.unwanted.WithLabelValues("malformed").Inc()
	srv.log.Warn("upstream sent no message", zap.Error(err))
}

// unknownAnswer notes a response to nobody's request, aloud once per session.
func (srv *Server) unknownAnswer(s *session, m *wire.Message) {
	srv.metrics.unwanted.WithLabelValues("unknown_id").Inc()
	if s == nil || s.unknown.CompareAndSwap(false, true) {
		srv.log.Info("answer to a request that is not open here", zap.String("guess", m.Method.String()))
	}
}

// spawn runs a task that close waits for. Whoever calls it is waited for too, so
// that no task begins after the last one has ended.
func (srv *Server) spawn(task func()) { srv.tasks.Go(task) }

// panicked logs a panic that was kept from going further.
func (srv *Server) panicked(p any) {
	srv.log.Error("panic", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
}

// tend does what is to be done from time to time, until ctx ends.
func (srv *Server) tend(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			srv.losses.flush()
			for _, s := range srv.sessions.dropIdle(time.Now().Add(-srv.cfg.Session.IdleTimeout)) {
				srv.spawn(func() { srv.endSession(s, errShutdown) })
			}
		}
	}
}

// Serve answers HTTP clients on ln until ctx ends or ln fails, and returns when
// all it started has ended: it stops accepting, ends standing streams, lets calls
// in flight finish within the drain time, ends the sessions and stops child
// processes. ln is closed in any case. A nil error says that ctx was the reason.
func (srv *Server) Serve(ctx context.Context, ln net.Listener) error {
	face := srv.httpFace(ln.Addr())
	ended := make(chan error, 1)
	go func() { ended <- face.Serve(ln) }()
	tending, stop := context.WithCancel(context.Background())
	srv.spawn(func() { srv.tend(tending) })

	var err error
	select {
	case err = <-ended:
		ended <- nil
	case <-ctx.Done():
	}
	srv.drain()
	grace, cancel := context.WithTimeout(context.Background(), srv.cfg.Shutdown.Drain)
	if e := face.Shutdown(grace); e != nil {
		srv.log.Info("calls were cut off", zap.Error(e))
	}
	cancel()
	<-ended
	stop()
	srv.close()
	return err
}

// close ends all sessions and waits for what goes on behind them.
func (srv *Server) close() {
	srv.drain()
	for _, s := range srv.sessions.dropAll() {
		srv.spawn(func() { srv.endSession(s, errShutdown) })
	}
	srv.tasks.Wait()
	if srv.origin.close != nil {
		srv.origin.close()
	}
	srv.losses.flush()
}
