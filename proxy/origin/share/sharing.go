package share

import (
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/processes"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// A Sharing lets all sessions share one process, for a server that is known to keep no
// state of a session. There is one handshake with the process, in which dragoman declares no
// capabilities: so the process may ask a client nothing, and each of its messages either belongs to a request
// or concerns all sessions. All other messages are dropped, mainly log messages: they may be
// about another client's call.
type Sharing struct {
	turn    chan struct{} // has a value while a goroutine looks for the process or starts it
	waiting waiting       // messages for the modern process

	mu       sync.Mutex
	process  *process       // nil while there is no process
	modern   *modernProcess // the process if it is a modern server; else nil
	draining bool           // joinModern accepts no more sessions
	retired  bool           // the process ends when its last session ends
}

// A modernProcess is the process, from its first session on, if it is a modern server.
type modernProcess struct {
	*Remapper
	conns int             // to it; guarded by Sharing.mu
	life  context.Context // ends when the process has ended by itself, and is not started again
}

// New returns a Sharing without a process.
func New() *Sharing { return &Sharing{turn: make(chan struct{}, 1)} }

// Join begins a session with the process, and starts the process for the first session. The
// session's initialize is answered without the process.
func (sh *Sharing) Join(ctx context.Context, proxy *Proxy, initialize *upstream.Outgoing) (*upstream.Begun, error) {
	select {
	case sh.turn <- struct{}{}:
		defer func() { <-sh.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	sh.mu.Lock()
	h := sh.process
	sh.mu.Unlock()
	for range 2 {
		if h == nil {
			var err error
			if h, err = sh.start(ctx, proxy); err != nil {
				return nil, report.FailureOf(err).WithoutID() // the id in it is of our own initialize
			}
		}
		if m := h.newConn(processes.ClientOf(ctx)); m != nil {
			if _, err := m.Send(ctx, initialize); err != nil {
				pipes.End(m, proxy.Host.Log)
				return nil, err
			}
			return &upstream.Begun{Conn: m, Standing: stream{Conn: m}}, nil
		}
		h = nil // the process has just ended
	}
	return nil, upstream.ErrClosed
}

// start starts the process. The caller holds the turn.
func (sh *Sharing) start(ctx context.Context, proxy *Proxy) (*process, error) {
	h, err := newProcess(ctx, proxy)
	if err != nil {
		return nil, err
	}
	h.of = sh
	sh.mu.Lock()
	sh.process = h
	sh.mu.Unlock()
	go h.read()
	return h, nil
}

// gone forgets a process that has ended.
func (sh *Sharing) gone(h *process) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.process == h {
		sh.process = nil
	}
}

// Retire makes the process end with the last session that it serves.
func (sh *Sharing) Retire() {
	sh.mu.Lock()
	sh.retired = true
	h := sh.process
	sh.endModern()
	sh.mu.Unlock()
	if h != nil && h.isUnused() {
		h.host.Spawn(h.close)
	}
}

func (sh *Sharing) isRetired() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.retired
}

// Close ends the process.
func (sh *Sharing) Close() {
	sh.mu.Lock()
	h := sh.process
	plain := sh.modern
	sh.modern = nil
	sh.mu.Unlock()
	if h != nil {
		h.close()
	}
	if plain != nil {
		pipes.End(plain, plain.host.Log)
	}
}

// endModern ends the process if it has no sessions. The caller holds sh.mu.
func (sh *Sharing) endModern() {
	if plain := sh.modern; plain != nil && plain.conns == 0 {
		sh.modern = nil
		plain.host.Spawn(func() { pipes.End(plain, plain.host.Log) })
	}
}
