// Package share lets several clients use one process of the server.
//
//   - process.go: one process for all sessions, with one handshake, for a server that keeps no state of a session
//     (upstream.share_child); conn.go: how a session joins, and its connection to the process; share.go: what both know;
//   - modern.go: the same for a modern server, which has no sessions;
//   - remap.go: a process that serves requests of several modern clients.
package share

import (
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/host"
	"github.com/dragoman-proxy/dragoman/proxy/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A Sharing lets all sessions share one process, for a server that is known to keep no
// state of a session. There is one handshake with the process, in which dragoman declares no
// capabilities: so the process may ask a client nothing, and each of its messages either belongs to a request
// or concerns all sessions. All other messages are dropped, mainly log messages: they may be
// about another client's call.
type Sharing struct {
	turn chan struct{} // has a value while a goroutine looks for the process or starts it

	mu          sync.Mutex
	process     *process  // nil while there is no process
	modern      *Remapper // the process if it is a modern server; else nil
	modernConns int       // the number of connections to modern
	draining    bool      // joinModern accepts no more sessions
	retired     bool      // the process ends when its last session ends
}

// New returns a Sharing without a process.
func New() *Sharing { return &Sharing{turn: make(chan struct{}, 1)} }

// Proxy is what a Sharing needs of the proxy.
type Proxy struct {
	Host *host.Host
	Eras *era.Cache
	// Connect begins a session with the server, and Open opens a connection without sending a message, both by the
	// configuration in force.
	Connect func(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error)
	Open    func(ctx context.Context) (*upstream.Begun, error)
	// Streams returns the connection to a modern server whose requests have streams of their own.
	Streams func(conn upstream.Conn, standing upstream.Stream) Streams
}

// A process is the process while it runs, with the sessions that it serves.
type process struct {
	host   *host.Host
	of     *Sharing
	conn   upstream.Conn
	st     upstream.Stream
	result []byte        // the InitializeResult that sessions get
	ended  chan struct{} // closed when read has returned

	msg wire.Message // used by read only

	mu         sync.Mutex
	err        error // why the process has ended; nil while it runs
	conns      map[*Conn]struct{}
	asked      idmap.Table[*Conn] // the open requests; of a nil Conn: dragoman's own
	subscribed map[string]map[*Conn]struct{}
}

// A Conn is the connection of one session with a shared process.
type Conn struct {
	process *process

	open int // the number of open requests; guarded by process.mu

	signal chan struct{} // receives a value when queue or err may have changed

	mu    sync.Mutex
	queue server.Queue
	err   error // set when no more messages will come
}

// A stream is the stream of one session with a shared process.
type stream struct {
	upstream.Plain
	*Conn
}

// Events gives the messages for this session, and at last the error that ended the session.
func (e stream) Events(yield func(sse.Event, error) bool) {
	for {
		e.mu.Lock()
		message, ok := e.queue.Pop()
		err := e.err
		e.mu.Unlock()
		switch {
		case ok:
			if !yield(sse.Event{Data: message}, nil) {
				return
			}
		case err != nil:
			yield(sse.Event{}, err)
			return
		default:
			<-e.signal
		}
	}
}

// Close ends the stream. The session itself ends with Close of the Conn.
func (e stream) Close() error {
	e.finish(upstream.ErrClosed)
	return nil
}

// enqueue gives the session a message, whose bytes the session then owns. If the queue is full, only a
// message that is not firm may be dropped.
func (m *Conn) enqueue(message []byte, firm bool) {
	m.mu.Lock()
	dropped := m.queue.Put(message, firm)
	m.mu.Unlock()
	m.wake()
	for range dropped {
		m.process.host.Report.Dropped("queue_full")
	}
}

func (m *Conn) finish(err error) {
	m.mu.Lock()
	if m.err == nil {
		m.err = err
	}
	m.mu.Unlock()
	m.wake()
}

func (m *Conn) wake() {
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

// gone forgets a process that has ended.
func (sh *Sharing) gone(h *process) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.process == h {
		sh.process = nil
	}
}

func (sh *Sharing) isRetired() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.retired
}
