package modernclient

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Bridge serves modern clients at a server that has a handshake. It is safe for concurrent use.
type Bridge struct {
	host     *host.Host
	proxy    Proxy
	results  *results.Cache
	streams  *atomic.Int64
	memories sync.Pool // of *memory: its own pool, since timers are not to be used by another clock's bridge

	Waits Waits // may be changed before the first request

	pool   *sessionPool // sessions with the server
	parked *parkedCalls // calls that wait for their client
	tasks  *pooledTasks
}

// New returns a Bridge without sessions.
func New(o Options) *Bridge {
	br := &Bridge{host: o.Host, proxy: o.Proxy, results: o.Results, streams: o.Streams, Waits: Waits{looseTime, fullTime, acceptTime}}
	br.tasks = newPooledTasks(&o)
	br.pool = newSessionPool(shared{&o, &br.Waits, br.tasks})
	br.tasks.pool = br.pool
	br.parked = newParkedCalls(&o, br.pool)
	return br
}

// Tend ends what has expired: tasks, and sessions that were not used for bridge.idle_timeout.
func (br *Bridge) Tend(now time.Time) {
	br.tasks.expire(now)
	br.pool.endIdleSince(now.Add(-br.host.Config().Bridge.IdleTimeout))
}

// Retire makes later calls open new sessions.
func (br *Bridge) Retire() { br.pool.retire() }

// Close abandons all calls, and ends all tasks and sessions.
func (br *Bridge) Close() {
	br.parked.close()
	br.tasks.close()
	br.pool.close()
}

// Counts returns what br holds now.
func (br *Bridge) Counts() (c Counts) {
	br.pool.count(&c)
	br.parked.count(&c)
	br.tasks.count(&c)
	return c
}

// AwaitParked waits until no call waits for its client, or until ctx ends.
func (br *Bridge) AwaitParked(ctx context.Context) { br.parked.awaitNone(ctx) }

// Parked returns the questions that wait for their clients.
func (br *Bridge) Parked() []Parked { return br.parked.asked() }

// Pass forwards one request to a modern server, which needs no session, with its bytes and headers unchanged, and returns
// the response.
func (br *Bridge) Pass(req *downstream.Request, q *stateless.Request, who string, header []mcp.Header, resp *downstream.Response) error {
	c := caller{req.Ctx, q, who, header}
	key := poolKey{principal: who}
	if who == "" && br.host.Config().Upstream.Cookies == config.AllCookies { // a login of the server's is not for others
		key = keyOf(c)
	}
	key.kind = WithoutHandshake
	b, err := br.pool.hold(c, key)
	if err != nil {
		return report.FailureOf(err).About(q.ID)
	}
	if q.Method == wire.SubscriptionsListen {
		br.pool.listens(b, 1)
		return b.s.Pass(req, q, header, resp, func() { br.pool.stopListening(b) })
	}
	return b.s.Pass(req, q, header, resp, func() { br.pool.release(b) })
}

// EachIdle calls note for each unused session whose process is counted for one of these clients: with the time of its
// last use, and a function that ends it, which returns false if it is in use again.
func (br *Bridge) EachIdle(of func(client string) bool, note func(since time.Time, end func() bool)) {
	p := br.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := range p.all {
		if b.uses == 0 && !b.gone && b.s != nil && b.key.kind != OnlyAdapters && of(b.s.RunsFor()) {
			note(b.since, func() bool { return p.endIdle(b) })
		}
	}
}

// HandOver ends the subscriptions in a session that calls do not get any more, whose process is counted for one of these clients, if nothing else
// keeps it: their clients listen in another one. It returns false if there is none, and does not wait until the process has ended.
func (br *Bridge) HandOver(of func(client string) bool) bool {
	p := br.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := range p.all {
		kept := !b.dead || b.gone || b.s == nil || !b.isOver() || b.uses == 0 || b.uses > b.stands
		if !kept && b.key.kind != OnlyAdapters && !b.s.Serverless() && of(b.s.RunsFor()) && p.handOver(b) {
			return true
		}
	}
	return false
}

// httpClient is a client over HTTP, whose response becomes an event stream when it receives the first message.
type httpClient struct {
	mcp.Peer
	streams  *atomic.Int64 // counts the event streams
	streamed bool
}

// Send implements [mcp.Peer].
func (c *httpClient) Send(e sse.Event) error {
	if !c.streamed {
		c.streamed = true
		c.streams.Add(1)
	}
	return c.Peer.Send(e)
}

func (c *httpClient) leave() {
	if c.streamed {
		c.streams.Add(-1)
	}
}
