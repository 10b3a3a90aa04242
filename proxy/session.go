package proxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// session is one client's conversation with its server.
type session struct {
	id     string              // what HTTP clients call it; "" for a client on a pipe
	vc, vu *translate.Revision // spoken with the client, with the server
	facts  wire.Facts
	conn   upstream.Conn
	named  bool // the server gave the session an id of its own, so its 404 ends it

	up   *translate.Translator // client to server
	down *translate.Translator // server to client

	open  *calls // requests of the client
	asked *calls // requests of the server

	unknown atomic.Bool // an answer to nobody was seen, and logged
	used    atomic.Int64
	busy    atomic.Int32 // exchanges and streams under way
	closing sync.Once
}

// enter marks the session as in use until leave.
func (s *session) enter() { s.busy.Add(1) }

func (s *session) leave() {
	s.used.Store(time.Now().UnixNano())
	s.busy.Add(-1)
}

// idle reports whether nothing was heard of the session since t.
func (s *session) idle(t time.Time) bool {
	return s.busy.Load() == 0 && s.used.Load() < t.UnixNano()
}

// end stops every wait, which fails with why, and closes the connection to the server. It may be
// called more than once.
func (s *session) end(ctx context.Context, why error, log *zap.Logger) {
	s.closing.Do(func() {
		for _, c := range s.open.drain() {
			if c.stop != nil {
				c.stop(why)
			}
		}
		s.asked.drain()
		if err := s.conn.Close(ctx); err != nil {
			log.Debug("closing the session upstream", zap.Error(err))
		}
	})
}

// sessions are those of HTTP clients, by the id we gave them. How an id comes
// to be and what it leads to is known here only.
type sessions struct {
	max int

	mu   sync.Mutex
	byID map[string]*session
	held int // reserved and not yet added
}

func newSessions(max int) *sessions { return &sessions{max: max, byID: make(map[string]*session)} }

// reserve keeps a place for a session that is about to be; false when all are
// taken. Each is followed by one add or release.
func (t *sessions) reserve() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID)+t.held >= t.max {
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

// add gives s an id and takes it in.
func (t *sessions) add(s *session) {
	var random [16]byte
	rand.Read(random[:])
	s.id = hex.EncodeToString(random[:])
	s.used.Store(time.Now().UnixNano())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held--
	t.byID[s.id] = s
}

// find returns the session of an id, marked as in use; nil when there is none.
func (t *sessions) find(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	if s != nil {
		s.enter()
	}
	return s
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

// dropIdle forgets the sessions that nothing was heard of since then.
func (t *sessions) dropIdle(then time.Time) []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*session
	for id, s := range t.byID {
		if s.idle(then) {
			delete(t.byID, id)
			out = append(out, s)
		}
	}
	return out
}

// dropAll forgets every session.
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
