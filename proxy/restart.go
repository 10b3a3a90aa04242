package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// healthy is how long a process has to live for the ends of those before it to
// be forgotten.
const healthy = time.Minute

// restartError says that the server's process has ended and that another one is
// about to take its place. What it was asked is lost; the session goes on.
type restartError struct {
	err error // how the process ended
}

func (e *restartError) Error() string { return "started again: " + e.err.Error() }
func (e *restartError) Unwrap() error { return e.err }

// restarts reports whether err is the end of a process and not of a session.
func restarts(err error) bool {
	_, ok := errors.AsType[*restartError](err)
	return ok
}

var errOtherRevision = errors.New("it now speaks another revision")

// revival is the connection of a session whose server is a child process. When
// the process ends by itself another one is started after a while, and told what
// the first one knew: the client's initialize, its log level and what it has
// subscribed to. Whoever listens hears of it by one restartError, behind which
// the stream goes on; what is to be sent meanwhile waits.
type revival struct {
	srv     *Server
	connect func(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error)
	hello   []byte   // initialize, or server/discover where there is no handshake, as it was sent
	id      []byte   // of it
	version string   // that it was answered with
	s       *session // whose server it is; nil for several
	life    context.Context
	end     context.CancelFunc

	// For Next only.
	backoff backoff
	began   time.Time // the process, or was ready
	early   [][]byte  // to be heard before anything else
	own     map[string]bool

	mu     sync.Mutex
	state  vitality
	conn   upstream.Conn
	st     upstream.Stream
	why    error         // how the process ended; where over, what else went wrong
	ready  chan struct{} // while starting: closed when a process is there, or none will be
	memory memory
}

// vitality is what there is of the process.
type vitality uint8

const (
	alive    vitality = iota
	starting          // another one; who has something to say waits
	over              // there will be no other
)

// newRevival watches over the process behind b, which has answered hello.
func newRevival(srv *Server, h *handshake, version string) *revival {
	cfg := srv.now().cfg.Upstream.Restart
	r := &revival{
		srv: srv, connect: srv.connect,
		hello: h.sent, id: h.id, version: version,
		backoff: backoff{first: cfg.Wait, last: cfg.MaxWait, max: cfg.Max},
		began:   time.Now(), conn: h.conn, st: h.standing,
	}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// connect begins a session with the server, as it is reached now, in the process
// that was asked who it is where that waits for one.
func (srv *Server) connect(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error) {
	if b := srv.eras.take(); b != nil {
		if _, err := b.Conn.Send(ctx, initialize); err == nil {
			return b, nil
		}
		srv.spawn(func() { srv.endBegun(b) })
	}
	return srv.now().origin.connect(ctx, initialize)
}

// Send sends to the process that is there. While another one is started it waits
// for that, within the time that a handshake has.
func (r *revival) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	conn, err := r.current(ctx, m)
	if err != nil {
		return nil, err
	}
	st, err := conn.Send(ctx, m)
	if err == nil || r.life.Err() != nil {
		return st, err
	}
	exit, gone := errors.AsType[*upstream.ExitError](err)
	if !gone && errors.Is(err, upstream.ErrClosed) { // what was left of the old process
		r.mu.Lock()
		exit, gone = errors.AsType[*upstream.ExitError](r.why)
		r.mu.Unlock()
	}
	if gone {
		err = &restartError{exit}
	}
	return nil, err
}

// current is the process that m is for, which it is to remember.
func (r *revival) current(ctx context.Context, m *upstream.Outgoing) (upstream.Conn, error) {
	var timeout <-chan time.Time
	for {
		r.mu.Lock()
		state, conn, why, ready := r.state, r.conn, r.why, r.ready
		stale := state == alive && timeout != nil && m.Stale != nil && m.Stale()
		if state == alive && !stale {
			r.memory.note(m.Body)
		}
		r.mu.Unlock()
		switch {
		case stale:
			return nil, &restartError{why}
		case state == alive:
			return conn, nil
		case state == over:
			return nil, why
		}
		if timeout == nil {
			timer := time.NewTimer(r.srv.now().cfg.Upstream.HandshakeTimeout)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-ready:
		case <-timeout:
			f := fail(upstreamStarting, "")
			f.err = why
			return nil, f
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Listen is for connections that began in another way.
func (r *revival) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

// Close stops the process, or that there will be one.
func (r *revival) Close(ctx context.Context) error {
	r.end()
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	return conn.Close(ctx)
}

// voice is all that the processes of a revival say, one after the other.
type voice struct{ *revival }

// Next waits for what is said next. A restartError says that nothing will be
// heard any more about what was sent before, and that Next may be called again.
func (v voice) Next() (sse.Event, error) {
	r := v.revival
	for {
		if len(r.early) > 0 {
			m := r.early[0]
			r.early = r.early[1:]
			return sse.Event{Data: m}, nil
		}
		r.mu.Lock()
		state, st := r.state, r.st
		r.mu.Unlock()
		if state == starting {
			if err := r.restart(); err != nil {
				return sse.Event{}, err
			}
			continue
		}
		e, err := st.Next()
		if err == nil {
			if len(r.own) > 0 && r.forUs(e.Data) {
				continue
			}
			return e, nil
		}
		exit, ended := errors.AsType[*upstream.ExitError](err)
		if !ended || r.life.Err() != nil || !r.died(exit) {
			return sse.Event{}, err
		}
		return sse.Event{}, &restartError{exit}
	}
}

// Close ends the stream, and so the session.
func (v voice) Close() error {
	v.end()
	v.mu.Lock()
	st := v.st
	v.mu.Unlock()
	return st.Close()
}

// died takes down the end of a process and reports whether there will be
// another one. What it had asked the client is void.
func (r *revival) died(exit *upstream.ExitError) bool {
	again := r.backoff.another(time.Since(r.began))
	r.mu.Lock()
	r.why, r.state, r.ready = exit, starting, make(chan struct{})
	if !again {
		r.state = over
	}
	r.mu.Unlock()
	clear(r.own)
	if again && r.s != nil {
		r.s.again.Store(true)
		for _, c := range r.s.asked.list() {
			r.early = append(r.early, []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+c.id+`,"reason":"the server was started again"}}`))
		}
	}
	return again
}

// restart starts a process in the place of one that has ended, as often as it
// takes and is allowed.
func (r *revival) restart() error {
	r.mu.Lock()
	old, err := r.conn, r.why
	r.mu.Unlock()
	r.srv.endConn(old)
	for {
		wait := r.backoff.wait()
		r.srv.metrics.restarts.Inc()
		r.srv.log.Warn("upstream process is started again", zap.Error(err), zap.Duration("in", wait), zap.Int("attempt", r.backoff.tries))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-r.life.Done():
			timer.Stop()
			return r.give(upstream.ErrClosed)
		}
		if err = r.start(); err == nil {
			r.began = time.Now()
			r.srv.log.Info("upstream process is back")
			return nil
		}
		switch {
		case r.life.Err() != nil:
			return r.give(upstream.ErrClosed)
		case errors.Is(err, errOtherRevision):
			r.srv.eras.forget() // the next session finds out
			return r.give(err)
		case !r.backoff.another(0):
			return r.give(err)
		}
	}
}

// give ends the attempts.
func (r *revival) give(why error) error {
	if why != upstream.ErrClosed {
		f := fail(upstreamLost, reason(why))
		f.err = why
		why = f
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.why = over, why
	close(r.ready)
	return why
}

// start starts a process and tells it what the one before knew.
func (r *revival) start() (err error) {
	ctx, cancel := context.WithTimeout(r.life, r.srv.now().cfg.Upstream.HandshakeTimeout)
	defer cancel()
	b, err := r.connect(ctx, &upstream.Outgoing{Body: r.hello, Request: true})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			b.Standing.Close()
			r.srv.endConn(b.Conn)
		}
	}()
	h := &handshake{srv: r.srv, conn: b.Conn, standing: b.Standing, id: r.id}
	m, err := h.await(ctx, b.Standing)
	if err != nil {
		return err
	}
	if said := r.speaks(m); said != r.version {
		if m.Kind == wire.Error {
			return fmt.Errorf("refused its first request: %.200s", gjson.Get(view(m.Error()), "message").String())
		}
		return fmt.Errorf("%w (%.32q, was %s)", errOtherRevision, said, r.version)
	}
	r.mu.Lock()
	again, own := r.memory.replay()
	r.mu.Unlock()
	for _, message := range again {
		if _, err := b.Conn.Send(ctx, &upstream.Outgoing{Body: message}); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life.Err() != nil {
		return upstream.ErrClosed // nobody will close what we have opened
	}
	r.early, r.own = h.early, own
	r.conn, r.st, r.state = b.Conn, b.Standing, alive
	close(r.ready)
	return nil
}

// speaks is the revision that an answer to hello settles on.
func (r *revival) speaks(m *wire.Message) string {
	if modern, _, _ := spokenOf(gjson.Get(view(m.Result()), "supportedVersions")); modern != nil && modern.Name == r.version {
		return r.version
	}
	return gjson.Get(view(m.Result()), "protocolVersion").String()
}

// forUs reports whether a message answers one of ours.
func (r *revival) forUs(message []byte) bool {
	var m wire.Message
	if m.Scan(message, nil) != nil || !m.Kind.Response() || !r.own[string(m.ID())] {
		return false
	}
	delete(r.own, string(m.ID()))
	return true
}

// backoff decides how often and how soon a process is started again.
type backoff struct {
	first, last time.Duration
	max, tries  int
}

// another reports whether a process that lived so long may be followed by one
// more.
func (b *backoff) another(lived time.Duration) bool {
	if lived >= healthy {
		b.tries = 0
	}
	if b.tries >= b.max {
		return false
	}
	b.tries++
	return true
}

// wait is how long to wait before the next one.
func (b *backoff) wait() time.Duration {
	wait := b.first
	for i := 1; i < b.tries && wait < b.last; i++ {
		wait *= 2
	}
	return min(wait, b.last)
}

// What a memory holds at most. The messages it is about are short.
const (
	maxSubscriptions = 256
	maxMemorable     = 8 << 10
)

// memory is what a server knows of its client beside initialize.
type memory struct {
	initialized bool
	level       []byte // params of the last logging/setLevel
	subscribed  map[string][]byte
}

// note takes down what a message of the client changes.
func (y *memory) note(message []byte) {
	if len(message) > maxMemorable || !bytes.Contains(message, []byte("initialized")) &&
		!bytes.Contains(message, []byte("setLevel")) && !bytes.Contains(message, []byte("subscribe")) {
		return
	}
	var m wire.Message
	if m.Scan(message, nil) != nil {
		return
	}
	if m.Method == wire.Initialized {
		y.initialized = true
		return
	}
	if m.Kind != wire.Request || len(m.Params()) == 0 {
		return
	}
	switch uri := gjson.Get(view(m.Params()), "uri"); m.Method {
	case wire.LoggingSetLevel:
		y.level = bytes.Clone(m.Params())
	case wire.ResourcesSubscribe:
		if y.subscribed == nil {
			y.subscribed = make(map[string][]byte)
		}
		if len(y.subscribed) < maxSubscriptions {
			y.subscribed[strings.Clone(uri.String())] = bytes.Clone(m.Params())
		}
	case wire.ResourcesUnsubscribe:
		delete(y.subscribed, uri.String())
	}
}

// replay is what another server has to be told behind initialize, and the ids of
// our requests in it, whose answers are for nobody.
func (y *memory) replay() (messages [][]byte, own map[string]bool) {
	if !y.initialized {
		return nil, nil // nothing else may come before it
	}
	messages = append(messages, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	own = make(map[string]bool)
	ask := func(method wire.Method, params []byte) {
		id := `"dragoman:` + strconv.Itoa(len(own)+1) + `"`
		own[id] = true
		messages = append(messages, []byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"`+method.String()+`","params":`+string(params)+`}`))
	}
	if y.level != nil {
		ask(wire.LoggingSetLevel, y.level)
	}
	for _, params := range y.subscribed {
		ask(wire.ResourcesSubscribe, params)
	}
	return messages, own
}
