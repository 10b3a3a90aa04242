// Package legacyclient lets a client that begins with initialize use a server of a revision without a
// handshake.
//
// To the client's session, a [Conn] is a connection to a server of the client's own revision. What such a
// server would remember is in the Conn: who the client is, its log level, its subscriptions, and the
// questions that it was asked.
//
//   - pass.go: where each message of the client goes, the requests that are answered without the server, as answeredhere.go does
//     it, and how the standing stream begins; introduce.go: initialize, answered from server/discover;
//   - reading.go: a request as the client reads it; receive.go: what the server says about it; rounds.go: what the server
//     gets, and the questions in between; call.go: what these know of a request;
//   - news.go: what waits for the standing stream; heard.go: how a notification gets there; listenrequest.go: the requests for
//     notifications, and subscribe.go: those for resources;
//   - tasks.go, taskwait.go: tasks, whose messages differ between the two revisions; finished.go: tasks that
//     the server did not make;
//   - shared.go: the log level and the subscriptions, and sharedtasks.go: finished tasks, in a store that replicas share;
//   - conn.go: the session; own.go: requests of dragoman's own; ask.go: one question and its answer, which question.go defines.
package legacyclient

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/memo"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/ended"
)

// Bridge has what all sessions of a proxy share. Make it with [New].
type Bridge struct {
	host     *host.Host
	eras     *era.Cache
	results  *results.Cache
	lists    *memo.Memo
	finished *finishedTasks
	sharing  sharing
	streams  streams

	// Waits may be changed before the first request.
	Waits struct {
		Shed time.Duration // before a call is sent again because the server asked for a later attempt, doubled each time
	}
}

// New returns a Bridge whose sessions keep results in cache, and the translations of lists in lists.
func New(h *host.Host, eras *era.Cache, cache *results.Cache, lists *memo.Memo) *Bridge {
	b := &Bridge{host: h, eras: eras, results: cache, lists: lists, finished: newFinishedTasks()}
	b.finished.max = min(b.finished.max, int(h.Memory().Budget.Size()/doneShare))
	b.Waits.Shed = 250 * time.Millisecond
	return b
}

// Expire forgets the finished tasks that have expired at the time now.
func (b *Bridge) Expire(now time.Time) { b.finished.expire(now) }

// streams counts the requests for subscriptions that are open at the server, each of which is a connection.
type streams struct {
	mu   sync.Mutex
	fair quota.Fair
}

// Subscriptions returns how many requests for subscriptions are open at the server.
func (b *Bridge) Subscriptions() int {
	b.streams.mu.Lock()
	defer b.streams.mu.Unlock()
	return b.streams.fair.Held()
}

// enter counts one more of a client. The error says that the client has its share.
func (s *streams) enter(who quota.Holder, cfg *config.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.fair.Acquire(who, cfg.Limits.OpenStreams()) {
		return mcp.Fail(mcp.TooManyOpen, "too many subscriptions of this client are open at the server: it has to end others first")
	}
	return nil
}

func (s *streams) leave(who quota.Holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fair.Release(who)
}

// Reach is how a session reaches the server.
type Reach uint8

const (
	ByHTTP          Reach = iota // messages have headers
	ByOwnProcess                 // the standing stream of the process belongs to the session
	BySharedProcess              // the process serves other sessions as well
)

// stateChannel is where replicas tell each other of changes.
const stateChannel = "session_state"

// sharer is a session whose state is shared.
type sharer interface {
	// outdated says that another replica may have changed the state.
	outdated()
}

// sharing are the sessions of a Bridge whose state is shared.
type sharing struct {
	store *store.Store
	self  []byte // tells the messages of this process from others
	stop  func()

	mu    sync.Mutex
	conns map[ended.Serial]sharer
}

// changed receives the number of a session that a replica has changed.
func (s *sharing) changed(message []byte) {
	if len(message) < 16 || bytes.Equal(message[16:], s.self) {
		return
	}
	s.mu.Lock()
	c := s.conns[ended.Serial{Process: binary.BigEndian.Uint64(message), Number: binary.BigEndian.Uint64(message[8:])}]
	s.mu.Unlock()
	if c != nil {
		c.outdated()
	}
}

// missed notes that changes may have been missed.
func (s *sharing) missed() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.conns))
	s.mu.Unlock()
	for _, c := range all {
		c.outdated()
	}
}

// Share makes the sessions keep their state in s as well, and calls missed when what others have written there may have been missed,
// or lost with the store. missed must not wait. Share must be called before the first use.
func (b *Bridge) Share(s *store.Store, missed func()) {
	b.sharing.store = s
	b.sharing.self = []byte(rand.Text())
	b.sharing.conns = make(map[ended.Serial]sharer)
	b.sharing.stop = s.Subscribe(stateChannel, b.sharing.changed, func() {
		missed()
		b.sharing.missed()
	})
}

// Close ends what Share has begun.
func (b *Bridge) Close() {
	if b.sharing.stop != nil {
		b.sharing.stop()
	}
}
