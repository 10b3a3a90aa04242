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
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/memo"
)

// Bridge has what all sessions of a proxy share. Make it with [New].
type Bridge struct {
	host     *host.Host
	eras     *era.Cache
	results  *results.Cache
	lists    *memo.Memo
	finished *finishedTasks
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
