package proxy

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/adapters"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/ended"
	"github.com/dragoman-proxy/dragoman/proxy/era"
	"github.com/dragoman-proxy/dragoman/proxy/footprint"
	"github.com/dragoman-proxy/dragoman/proxy/host"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/restart"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/setup"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

var errTooManySessions = errors.New("too many sessions")

// A session is one client's session with its server.
type session struct {
	of             *sessions
	id             string // the Mcp-Session-Id that HTTP clients get; "" for a client on a pipe
	sealed.Session        // what the id holds
	conn           upstream.Conn
	piped          bool   // all messages of the server come on one stream
	owner          string // the text that who returns for a modern client's session; "" for others
	clientName     string // name and version, as the client has introduced itself; "" if it has not
	serverName     string // that of the server
	runsFor        string // the client that its process is counted for
	pipe           int64  // a number of its own for a session of a client on a pipe; 0 for others

	direct *directSession // not nil if both ends are modern

	up   *translate.Translator // client to server
	down *translate.Translator // server to client

	open  *calls // requests of the client
	asked *calls // requests of the server

	tools     toolindex.Index // the server's tools
	catalogue footprint.List  // the list that the client has
	greeted   bool            // the server has already received notifications/initialized; set before the session is used

	again   atomic.Bool // the server's process was started again
	deaf    atomic.Bool // the client receives no more messages that it could answer
	unknown atomic.Bool // a response to an unknown request was received, and logged
	used    atomic.Int64
	busy    atomic.Int32 // exchanges and streams under way
	closing sync.Once
	counted func(why error)                  // counts the session when it ends, in this process or elsewhere
	ended   func()                           // called when the session ends in this process; may be nil
	marks   atomic.Pointer[marks]            // of the session's ids, once a span has needed them
	sender  downstream.Sender                // that began the session here, without its headers
	seen    atomic.Pointer[seenPeers]        // of its last calls, if a reader has seen them
	told    atomic.Pointer[owntools.Edition] // the edition of dragoman's own tools that the client knows; nil if there are none
}

// who returns a text that identifies the session and that only its client knows.
func (s *session) who() string {
	if s.owner != "" {
		return s.owner
	}
	if s.id == "" {
		return "pipe " + strconv.FormatInt(s.pipe, 10)
	}
	return s.id
}

// enter marks the session as in use until leave.
func (s *session) enter() { s.busy.Add(1) }

func (s *session) leave() {
	s.used.Store(time.Now().UnixNano())
	s.busy.Add(-1)
}

// idle reports whether the session was not used since t.
func (s *session) idle(t time.Time) bool {
	return s.busy.Load() == 0 && s.used.Load() < t.UnixNano()
}

// release ends every open request with the error why, and leaves the session at the
// server as it is.
func (s *session) release(why error) {
	s.closing.Do(func() { s.stopWaits(why) })
}

func (s *session) stopWaits(why error) {
	for _, c := range s.open.Drain() {
		if c.Stop != nil {
			c.Stop(why)
		}
	}
	s.asked.Drain()
	if s.ended != nil {
		s.ended()
	}
}

// end ends every open request with the error why, and closes the connection to the
// server. It may be called more than once.
func (s *session) end(ctx context.Context, why error, log *zap.Logger) {
	s.closing.Do(func() {
		s.stopWaits(why)
		s.counted(why)
		if err := s.conn.Close(ctx); err != nil {
			log.Debug("cannot close the upstream session", zap.Error(err))
		}
	})
}

// sessions holds the sessions of HTTP clients in this process, by the id that dragoman gave
// them. Only this type makes and opens ids.
//
// The number of sessions is bounded, and so is how long one may be idle. If the session is not local to
// this process, the bounds only limit memory: the session's id resumes it, here and in
// every other process with the same key.
type sessions struct {
	host     *host.Host
	setup    *setup.Current
	metrics  *metrics.Metrics
	tracer   *telemetry.Tracer // nil if no traces are sent
	observer observe.Observer
	eras     *era.Cache           // which era the server is of
	legacy   *legacyclient.Bridge // to modern servers, for handshake clients
	adapters *adapters.Adapters   // nil if there are none
	personal atomic.Bool          // there is one client, on stdio: a login that its user makes is for this client only

	watchedPipes sync.Map     // keys: *session, one for each client on a pipe
	pipes        atomic.Int64 // the number of sessions of clients on pipes so far
	kept         atomic.Int64 // the number of bytes of events that are kept for replay

	max    int
	sealer *sealed.Sealer
	resume func(sealed.Session, *downstream.Sender) *session // resumes a session that is not local

	mu   sync.Mutex
	byID map[string]*session
	held int          // places that are reserved, without a session yet
	last ended.Serial // of the newest session that began here
	over *ended.Set   // sessions that have ended although their ids could still be opened, in this process
}

func newSessions(max int, by *sealed.Sealer, resume func(sealed.Session, *downstream.Sender) *session) *sessions {
	t := &sessions{max: max, sealer: by, resume: resume, byID: make(map[string]*session), over: ended.New(ended.DefaultBlocks)}
	var process [8]byte
	rand.Read(process[:]) // never fails
	t.last.Process = binary.BigEndian.Uint64(process[:])
	return t
}

// renew changes the bounds and the sealer. If afresh is true, the server is now reached in
// another way, and renew forgets the sessions that can be resumed.
func (t *sessions) renew(max int, by *sealed.Sealer, afresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.max, t.sealer = max, by
	for id, s := range t.byID {
		if afresh && !s.Local {
			delete(t.byID, id)
			if c, ok := s.conn.(*legacyclient.Conn); ok {
				c.Unwatch()
			}
		}
	}
}

// reserve keeps a place for a new session, and returns false if there is no place. The caller calls add or
// release once for each place.
func (t *sessions) reserve() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.room() {
		return false
	}
	t.held++
	return true
}

func (t *sessions) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held--
}

// room reports whether there is a place, and makes one if it can: of a few unused
// sessions that can be resumed, it drops the one that was not used for the longest time. The caller
// holds t.mu.
func (t *sessions) room() bool {
	if len(t.byID)+t.held < t.max {
		return true
	}
	const few = 32
	var oldest *session
	seen := 0
	for _, s := range t.byID { // in random order
		if seen++; seen > few && oldest != nil {
			break
		}
		if !s.Local && s.busy.Load() == 0 && (oldest == nil || s.used.Load() < oldest.used.Load()) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	delete(t.byID, oldest.id)
	if c, ok := oldest.conn.(*legacyclient.Conn); ok {
		c.End()
	}
	return true
}

// add gives s an id and adds it, in a reserved place.
func (t *sessions) add(s *session) {
	s.used.Store(time.Now().UnixNano())
	t.mu.Lock()
	defer t.mu.Unlock()
	if !s.Local {
		t.last.Number++
		s.Serial = t.last
	}
	s.id = t.sealer.SealSession(s.Session)
	t.held--
	t.byID[s.id] = s
}

// find returns the session of an id, marked as in use. It returns nil if there is none, or if it
// belongs to another owner. A session that this process does not hold is resumed if its id allows that. The
// only error is errTooManySessions.
func (t *sessions) find(id string, owner sealed.Owner) (*session, error) {
	return t.findFor(id, owner, &downstream.Sender{})
}

// findFor does what find does for a request of this sender.
func (t *sessions) findFor(id string, owner sealed.Owner, from *downstream.Sender) (*session, error) {
	now := time.Now()
	t.mu.Lock()
	s := t.byID[id]
	if s != nil && s.Owner.Is(owner) {
		defer t.mu.Unlock()
		if t.sealer.Expired(s.Made, now) {
			return nil, nil
		}
		s.enter()
		return s, nil
	}
	by := t.sealer
	t.mu.Unlock()
	what, ok := by.OpenSession(id, now)
	if !ok || t.over.Has(what.Serial) || !what.Owner.Is(owner) || what.Local || t.resume == nil {
		return nil, nil
	}
	s = t.resume(what, from)
	s.id = id
	s.used.Store(now.UnixNano())

	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.byID[id]; other != nil {
		s = other // another goroutine was faster
	} else if t.over.Has(what.Serial) {
		return nil, nil // another goroutine has ended it since
	} else if !t.room() {
		return nil, errTooManySessions
	}
	t.byID[id] = s
	s.enter()
	return s, nil
}

// ownerReplica returns the owner replica of a session that this process does not hold: the process with
// the state that an id cannot hold. ok is false if this process holds the session, if the session has no
// owner replica, or if it belongs to another owner.
func (t *sessions) ownerReplica(id string, owner sealed.Owner) (home sealed.ID, ok bool) {
	t.mu.Lock()
	held, by := t.byID[id] != nil, t.sealer
	t.mu.Unlock()
	if held {
		return home, false
	}
	what, ok := by.OpenSession(id, time.Now())
	return what.Home, ok && what.Owner.Is(owner) && what.Home != sealed.ID{}
}

// drop forgets s and reports whether it was known.
func (t *sessions) drop(s *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[s.id] != s {
		return false
	}
	delete(t.byID, s.id)
	return true
}

// dropForGood drops s: its id cannot resume the session any more, in this process.
func (t *sessions) dropForGood(s *session) {
	if !s.Local {
		t.over.Add(s.Serial, s.Made)
	}
	t.drop(s)
}

// dropIdle forgets and returns the sessions that were not used since then, and those whose ids have
// expired and that have no open requests.
func (t *sessions) dropIdle(then time.Time) []*session {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over.Sweep(now.Add(-t.sealer.MaxAge))
	var out []*session
	for id, s := range t.byID {
		if s.idle(then) || t.sealer.Expired(s.Made, now) && s.open.None() {
			delete(t.byID, id)
			out = append(out, s)
		}
	}
	return out
}

// each calls do with every session.
func (t *sessions) each(do func(*session)) {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.byID))
	t.mu.Unlock()
	for _, s := range all {
		do(s)
	}
}

// dropAll forgets and returns every session.
func (t *sessions) dropAll() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*session, 0, len(t.byID))
	for _, s := range t.byID {
		out = append(out, s)
	}
	clear(t.byID)
	return out
}

func (t *sessions) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// Restarted implements [restart.Session].
func (s *session) Restarted() (open []string) {
	s.again.Store(true)
	for _, c := range s.asked.List() {
		open = append(open, c.ID)
	}
	return open
}

// DropRequests implements [restart.Session].
func (s *session) DropRequests() (open []string) {
	for _, c := range s.asked.Drain() {
		open = append(open, c.ID)
	}
	return open
}

// stand opens the standing stream of the session.
func (s *session) stand(ctx context.Context, o upstream.ListenOptions) (upstream.Stream, error) {
	if c, ok := s.conn.(*restart.HTTP); ok {
		return c.Stand(ctx, o)
	}
	return s.conn.Listen(ctx, o)
}
