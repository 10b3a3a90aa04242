package restart

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/processes"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A Pipe is the connection of a session whose server is a child process. When
// the process ends by itself, Pipe starts another one after a delay, and sends it what the
// first one knew: the client's initialize, its log level and its subscriptions. The reader of the
// stream receives one [pipes.RestartError], after which the stream continues. Messages to be sent
// in the meantime wait.
//
// It does the same for a session over HTTP+SSE, which a server loses when it restarts. Such a server may
// be unreachable for a long time: the number of attempts has no limit unless it is 0, and a message to be sent waits
// for one attempt only.
type Pipe struct {
	remote bool

	host    *host.Host
	eras    *era.Cache
	connect func(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error)
	hello   []byte  // initialize, or server/discover where there is no handshake, as it was sent, or as much as is kept of it
	short   bool    // hello is not all that was sent
	id      []byte  // the request id of hello
	version string  // the revision that the server answered
	session Session // of the client; nil for a shared process
	life    context.Context
	end     context.CancelFunc

	// Used by Events only.
	backoff pipes.Backoff
	began   time.Time       // when the process was started or became ready
	early   [][]byte        // messages that Events gives before anything else
	own     map[string]bool // the ids of replayed requests, whose responses are not for the client

	mu       sync.Mutex
	state    processState
	conn     upstream.Conn
	st       upstream.Stream
	why      error          // how the process ended; in processGone also why no other one could be started
	ready    chan struct{}  // in processStarts and processRecalls: closed when messages may be sent, or never may, or an attempt failed
	kept     *large.Holding // counts hello and memory
	memory   pipes.Memory
	exempted map[string]int // requests that are not sent yet, by key

	// Used if remote is true.
	header  []mcp.Header  // the headers of the client's last message
	refused error         // not nil if the server does not know the session any more
	sending int           // how many messages are on their way
	sent    chan struct{} // closed when none is any more; nil if that is not awaited
	failed  int           // the number of failed attempts
	kick    chan struct{} // a value asks for an attempt now
}

// Options say how a [Pipe] starts its process again.
type Options struct {
	// Connect begins a session with the server, by the configuration in force.
	Connect func(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error)
	Version string // the revision that the server has answered
	RunsFor string // the client that the process is counted for
}

// Over returns a Pipe for the process behind o, which has answered o's request. If the process restarts with another
// revision, the Pipe makes eras forget the server's era.
func Over(h *host.Host, eras *era.Cache, o *pipes.Opening, how Options) *Pipe {
	cfg := h.Config().Upstream.Restart
	r := &Pipe{
		host: h, eras: eras, connect: how.Connect,
		kept: h.Memory().Holding(), version: how.Version,
		backoff: pipes.Backoff{First: cfg.Wait, Last: cfg.MaxWait, Max: cfg.Max},
		began:   time.Now(), conn: o.Conn, st: o.Standing,
		exempted: make(map[string]int), kick: make(chan struct{}, 1),
	}
	r.memory.Kept = r.kept
	r.keepHello(o)
	if r.remote = o.Transport == upstream.HTTPWithSSE; r.remote {
		r.header = cloneHeaders(o.Header)
		if cfg.Max > 0 {
			r.backoff.Max = math.MaxInt
		}
	}
	life, end := context.WithCancel(processes.For(context.Background(), how.RunsFor))
	r.life, r.end = life, func() {
		end()
		r.kept.Close()
	}
	return r
}

// keepHello keeps the first request, of a large initialize only what fits. A server/discover is never large.
func (r *Pipe) keepHello(o *pipes.Opening) {
	r.hello, r.id = o.Sent, o.ID
	params := gjson.Get(wire.View(o.Sent), "params")
	proposed := params.Get("protocolVersion").String()
	if len(o.Sent) > mcp.MaxSelf && proposed != "" {
		self := mcp.Self{Client: wire.Bytes(params.Get("clientInfo").Raw), Capabilities: wire.Bytes(params.Get("capabilities").Raw)}
		self.Shorten()
		r.shorten(proposed, self)
	}
	if r.kept.Keep(len(r.hello)) != nil && proposed != "" {
		r.shorten(proposed, mcp.Self{})
	}
}

// shorten makes hello an initialize that says only this of the client.
func (r *Pipe) shorten(proposed string, self mcp.Self) {
	if len(self.Client) == 0 {
		self.Client = []byte(mcp.Unnamed)
	}
	if len(self.Capabilities) == 0 {
		self.Capabilities = []byte("{}")
	}
	r.short, r.id = true, []byte(`"dragoman:0"`)
	r.hello = mcp.Initialize(r.id, proposed, self.Capabilities, self.Client)
}

// Bind says which session the server belongs to. It must be called before Events of the stream.
func (r *Pipe) Bind(s Session) { r.session = s }

// Stream returns the stream of all messages of the server.
func (r *Pipe) Stream() upstream.Stream { return pipeStream{Pipe: r} }

// Send sends one message to the running process. While the process is being restarted, Send waits, at
// most for the time that a handshake may take. If a server that is remote loses the session meanwhile, it gets in the next one what it
// cannot have had, and what it may get twice.
func (r *Pipe) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	if r.remote && m.Ours && m.Header == nil { // dragoman answers in the client's place
		own := *m
		r.mu.Lock()
		own.Header = r.header
		r.mu.Unlock()
		m = &own
	}
	conn, err := r.current(ctx, m)
	if conn == nil {
		return nil, err
	}
	release := func() {}
	repeats := r.remote && m.Repeats
	if repeats {
		release = r.exempt(m)
	}
	st, err := r.sendOn(ctx, conn, m)
	if err != nil && r.remote && (IsLost(err) || errors.Is(err, upstream.ErrLost) && (upstream.NeverSent(err) || repeats)) {
		if !repeats {
			release = r.exempt(m)
		}
		r.refuse(conn, err)
		conn, err = r.current(ctx, m)
		release() // from here on the server may have it
		if conn == nil || isOfLost(m) {
			return nil, err
		}
		m.SentAgain()
		st, err = r.sendOn(ctx, conn, m)
	} else if release(); repeats && err == nil {
		return st, r.lostAfter(conn)
	}
	if h, waits := err.(*upstream.Handed); waits { //nolint:errorlint // a Conn returns it as it is
		h.Wrap(r.unsent)
		return nil, h
	}
	if err == nil {
		return st, nil
	}
	return nil, r.unsent(err)
}

// sendOn sends m on conn.
func (r *Pipe) sendOn(ctx context.Context, conn upstream.Conn, m *upstream.Outgoing) (upstream.Stream, error) {
	if !r.remote {
		return conn.Send(ctx, m)
	}
	r.mu.Lock()
	r.sending++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.sending--; r.sending == 0 && r.sent != nil {
			close(r.sent)
			r.sent = nil
		}
	}()
	return conn.Send(ctx, m)
}

// unsent returns the error for a message that was not sent because of err.
func (r *Pipe) unsent(err error) error {
	if r.life.Err() != nil {
		return err
	}
	exit, gone := errors.AsType[*upstream.ExitError](err)
	if !gone && errors.Is(err, upstream.ErrClosed) { // conn is the old process's connection
		r.mu.Lock()
		exit, gone = errors.AsType[*upstream.ExitError](r.why)
		r.mu.Unlock()
	}
	if gone {
		return &pipes.RestartError{Err: exit}
	} else if r.remote && errors.Is(err, upstream.ErrLost) {
		return &pipes.RestartError{Err: err}
	}
	return err
}

// lostAfter returns the error for a request that conn has sent, if its session was lost before the request was no more exempt.
func (r *Pipe) lostAfter(conn upstream.Conn) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == conn && r.state == processRuns {
		return nil
	}
	return &pipes.RestartError{Err: cmp.Or(r.why, r.refused)}
}

// exempt excludes the request m from the failure of all open requests at a restart, until release is
// called.
func (r *Pipe) exempt(m *upstream.Outgoing) (release func()) {
	var scanned wire.Message
	if !m.Request || scanned.Scan(bytes.Clone(m.Body), nil) != nil {
		return func() {}
	}
	key := string(wire.AppendIDKey(nil, scanned.ID()))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exempted[key]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.exempted[key]--; r.exempted[key] == 0 {
			delete(r.exempted, key)
		}
	}
}

// isExempt reports whether the request with this key still waits to be sent.
func (r *Pipe) isExempt(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exempted[key] > 0
}

// current returns the connection of the running process to send m on, and notes m for a replay. While the
// process restarts, current waits. It returns nil without an error if m answers a process that has ended, and so is not to be sent.
func (r *Pipe) current(ctx context.Context, m *upstream.Outgoing) (upstream.Conn, error) {
	var timeout <-chan time.Time
	var first upstream.Conn
	failed := -1
	for {
		r.mu.Lock()
		if r.remote && !slices.Equal(r.header, m.Header) {
			r.header = cloneHeaders(m.Header)
		}
		state, conn, why, ready := r.state, r.conn, r.why, r.ready
		if failed < 0 {
			failed = r.failed
		}
		if first == nil {
			first = conn
		}
		replaced := state == processStarts || conn != first
		away := r.remote && state == processStarts && r.failed != failed
		stale := state == processRuns && timeout != nil && m.Stale != nil && m.Stale()
		if state == processRuns && !stale {
			r.memory.Note(m.Body)
		}
		r.mu.Unlock()
		switch {
		case replaced && isResponse(m):
			return nil, nil
		case stale:
			return nil, &pipes.RestartError{Err: why}
		case state == processRuns:
			return conn, nil
		case state == processGone, away:
			return nil, why
		}
		if timeout == nil {
			defer r.exempt(m)()
			select {
			case r.kick <- struct{}{}:
			default: // there is an attempt already
			}
			timer := time.NewTimer(r.host.Config().Upstream.HandshakeTimeout)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-ready:
		case <-timeout:
			f := mcp.Fail(mcp.UpstreamStarting, "")
			f.Err = why
			return nil, f
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func isResponse(m *upstream.Outgoing) bool {
	var message wire.Message
	return !m.Request && message.Scan(bytes.Clone(m.Body), nil) == nil && message.Kind.Response()
}

// Listen returns upstream.ErrNoStream: the stream of this connection is a pipeStream.
func (r *Pipe) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

// Close stops the process, or cancels its restart.
func (r *Pipe) Close(ctx context.Context) error {
	r.end()
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	return conn.Close(ctx)
}

// A pipeStream is the stream of a Pipe: the messages of its processes, one after the other.
type pipeStream struct {
	upstream.Plain
	*Pipe
}

// Events gives the messages of the processes. A [pipes.RestartError] says that the messages sent before get no further
// answer; those of the next process follow.
func (v pipeStream) Events(yield func(sse.Event, error) bool) {
	for v.restarted(yield) && v.read(yield) {
	}
}

// restarted starts another process if there is none, and gives what comes before anything else. It returns false if no more
// follows.
func (r *Pipe) restarted(yield func(sse.Event, error) bool) bool {
	r.mu.Lock()
	gone := r.state == processStarts && r.refused == nil
	r.mu.Unlock()
	for len(r.early) > 0 || gone {
		if len(r.early) == 0 {
			if err := r.restart(); err != nil {
				yield(sse.Event{}, err)
				return false
			}
			gone = false
			continue
		}
		m := r.early[0]
		if r.early = r.early[1:]; !yield(sse.Event{Data: m}, nil) {
			return false
		}
	}
	return true
}

// read gives the messages of the process until its end. It returns false if no more follows.
func (r *Pipe) read(yield func(sse.Event, error) bool) bool {
	r.mu.Lock()
	st := r.st
	r.mu.Unlock()
	for e, err := range st.Events {
		switch {
		case err == nil:
			if e.Data = r.heard(e.Data); e.Data != nil && !yield(e, nil) {
				return false
			}
		default:
			why := r.endOf(err)
			if again := why != nil && r.life.Err() == nil && r.noteEnd(why); again {
				return yield(sse.Event{}, &pipes.RestartError{Err: why, Held: r.isExempt})
			}
			if why != nil && r.remote {
				err = why // the stream may only say that refuse has closed it
			}
			if !yield(sse.Event{}, err) {
				return false
			}
		}
	}
	return false
}

// heard returns what the client gets of a message of the server, or of an array of them: not the responses to requests that start has
// replayed. nil stands for nothing.
func (r *Pipe) heard(data []byte) []byte {
	if !wire.IsArray(data) {
		if r.isForUs(data) {
			return nil
		}
		return data
	}
	all, err := wire.AppendElements(nil, data, r.host.Config().Limits.Batch)
	if err != nil {
		return data // the caller reads it again and reports the error
	}
	theirs := slices.DeleteFunc(slices.Clone(all), r.isForUs)
	switch len(theirs) {
	case len(all):
		return data
	case 0:
		return nil
	}
	return slices.Concat([]byte{'['}, bytes.Join(theirs, []byte{','}), []byte{']'})
}

// isForUs reports whether a message is the response to a request that start has replayed, and notes what it says of a subscription.
func (r *Pipe) isForUs(message []byte) bool {
	if len(r.own) > 0 && r.answersOwn(message) {
		return true
	}
	r.noteAnswer(message)
	return false
}

// noteAnswer makes the memory forget a subscription that the server has refused.
func (r *Pipe) noteAnswer(message []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory.Waits() {
		r.memory.Answered(message)
	}
}

// Close ends the stream, and so the session.
func (v pipeStream) Close() error {
	v.end()
	v.mu.Lock()
	st := v.st
	v.mu.Unlock()
	return st.Close()
}

// endOf returns how the process, or the session over HTTP+SSE, has ended. It returns nil if err does
// not say that it has.
func (r *Pipe) endOf(err error) error {
	if exit, ok := errors.AsType[*upstream.ExitError](err); ok {
		return exit
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.remote:
		return nil
	case r.refused != nil:
		return r.refused
	case errors.Is(err, upstream.ErrLost):
		return err
	}
	return nil
}

// noteEnd notes the end of a process and reports whether another one will be started. The client
// receives a cancellation for each open question of the process.
func (r *Pipe) noteEnd(why error) bool {
	again := r.backoff.Another(time.Since(r.began))
	r.mu.Lock()
	switch r.state {
	case processGone: // Close was called meanwhile, which recall has noticed first
		r.mu.Unlock()
		return false
	case processRuns: // else there is a channel that messages wait for
		r.ready = make(chan struct{})
	}
	r.state = processStarts
	r.why, r.refused = why, nil
	if !again {
		r.state = processGone
		close(r.ready)
	}
	r.mu.Unlock()
	clear(r.own)
	if again && r.session != nil {
		for _, id := range r.session.Restarted() {
			r.early = append(r.early, mcp.Cancelled(id, "the server was started again"))
		}
	}
	return again
}
