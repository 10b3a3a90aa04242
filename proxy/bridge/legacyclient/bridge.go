// Package legacyclient lets a client that begins with initialize use a server of a revision without a
// handshake.
//
// To the client's session, a [Conn] is a connection to a server of the client's own revision. What such a
// server would remember is in the Conn: who the client is, its log level, its subscriptions, and the
// questions that it was asked.
//
//   - pass.go: where each message of the client goes, and the requests that are answered without the server, as
//     answeredhere.go does it; introduce.go: initialize, answered from server/discover;
//   - reading.go: a request as the client reads it; receive.go: what the server says about it; rounds.go: its questions, in
//     rounds; send.go: what the server gets; headers.go: the headers of a tools/call; call.go: what these know of a request;
//   - listen.go: how the client's standing stream begins; news.go: what waits for it; subscribe.go: the subscriptions behind it;
//   - tasks.go, taskwait.go: tasks, whose messages differ between the two revisions; finished.go: tasks that
//     the server did not make;
//   - shared.go: the log level and the subscriptions, and sharedtasks.go: finished tasks, in a store that replicas share, which
//     sharing.go hears of;
//   - conn.go: the session; own.go: requests of dragoman's own; toclient.go: translated notifications and results; ask.go: one
//     question and its answer, which are of question.go.
package legacyclient

import (
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/host"
	"github.com/dragoman-proxy/dragoman/proxy/results"
)

// Bridge has what all sessions of a proxy share. Make it with [New].
type Bridge struct {
	host     *host.Host
	eras     *era.Cache
	results  *results.Cache
	finished *finishedTasks
	sharing  sharing

	// Waits may be changed before the first request.
	Waits struct {
		Shed time.Duration // before a call is sent again because the server asked for a later attempt, doubled each time
	}
}

// New returns a Bridge whose sessions keep results in cache.
func New(h *host.Host, eras *era.Cache, cache *results.Cache) *Bridge {
	b := &Bridge{host: h, eras: eras, results: cache, finished: newFinishedTasks()}
	b.Waits.Shed = 250 * time.Millisecond
	return b
}

// Expire forgets the finished tasks that have expired at the time now.
func (b *Bridge) Expire(now time.Time) { b.finished.expire(now) }

// Reach is how a session reaches the server.
type Reach uint8

const (
	ByHTTP          Reach = iota // messages have headers
	ByOwnProcess                 // the standing stream of the process belongs to the session
	BySharedProcess              // the process serves other sessions as well
)
