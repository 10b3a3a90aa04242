package session

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store/ended"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// NewTable returns a table of at most max sessions, whose ids by seals. resume makes a session that this process does not
// hold of what its id holds; nil if that is impossible.
func NewTable(max int, by *sealed.Sealer, resume func(sealed.Session, *downstream.Sender) *Session) *Table {
	t := &Table{max: max, nonce: rand.Text(), sealer: by, Resume: resume, byID: make(map[string]*Session), places: make(map[sealed.Owner]int), over: ended.New(ended.DefaultBlocks)}
	var process [8]byte
	rand.Read(process[:]) // never fails
	t.end = t.over.Add
	t.last.Process = binary.BigEndian.Uint64(process[:])
	return t
}

// Renew changes the bounds and the sealer. If afresh is true, the server is now reached in
// another way, and Renew forgets the sessions that can be resumed.
func (t *Table) Renew(max int, by *sealed.Sealer, afresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.max, t.sealer = max, by
	for id, s := range t.byID {
		if afresh && !s.Local {
			delete(t.byID, id)
			s.over.Store(true)
			if s.Bridge != nil {
				s.Bridge.Unwatch()
			}
		}
	}
}

// Reserve keeps a place for a new session of an owner, and returns false if there is no place. The caller calls Add or
// Release once for each place.
func (t *Table) Reserve(owner sealed.Owner) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.room(owner) {
		return false
	}
	t.places[owner]++
	return true
}

// Release gives a place back that Reserve has kept for this owner.
func (t *Table) Release(owner sealed.Owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.release(owner)
}

func (t *Table) release(owner sealed.Owner) {
	if t.places[owner]--; t.places[owner] == 0 {
		delete(t.places, owner)
	}
}

// room reports whether there is a place for a session of an owner, and makes one if it can: of a few unused
// sessions that can be resumed, it drops the one that was not used for the longest time. If it cannot, an owner may still have as many as
// are left of a quarter more. The caller holds t.mu.
func (t *Table) room(owner sealed.Owner) bool {
	taken := len(t.byID)
	for _, n := range t.places {
		taken += n
	}
	if taken < t.max {
		return true
	}
	const few = 32
	var oldest *Session
	seen := 0
	for _, s := range t.byID { // in random order
		if seen++; seen > few && oldest != nil {
			break
		}
		if !s.Local && s.Busy.Load() == 0 && (oldest == nil || s.Used.Load() < oldest.Used.Load()) {
			oldest = s
		}
	}
	if oldest == nil {
		own := t.places[owner]
		for _, s := range t.byID {
			if s.Owner == owner {
				own++
			}
		}
		return own < t.max+t.max/4-taken
	}
	delete(t.byID, oldest.ID)
	oldest.over.Store(true)
	if oldest.Bridge != nil {
		oldest.Bridge.End()
	}
	return true
}

// Add gives s an id and adds it, in a reserved place.
func (t *Table) Add(s *Session) {
	s.Used.Store(time.Now().UnixNano())
	t.mu.Lock()
	defer t.mu.Unlock()
	if !s.Local {
		t.last.Number++
		s.Serial = t.last
	}
	s.ID = t.sealer.SealSession(s.ForReplicas())
	if s.Bridge != nil {
		s.Bridge.Named(&s.Session)
	}
	t.release(s.Owner)
	t.byID[s.ID] = s
	s.KeepAlive()
}

// Find returns the session of an id, marked as in use, for a request of this sender. It returns nil if there is none, or
// if it belongs to another owner. A session that this process does not hold is resumed if its id allows that. The only error
// is errTooManySessions.
func (t *Table) Find(id string, owner sealed.Owner, from *downstream.Sender) (*Session, error) {
	now := time.Now()
	t.mu.Lock()
	s := t.byID[id]
	if s != nil && s.Owner.Is(owner) {
		defer t.mu.Unlock()
		if t.sealer.Expired(s.Made, now) {
			return nil, nil
		}
		s.Enter()
		return s, nil
	}
	by := t.sealer
	t.mu.Unlock()
	what, ok := by.OpenSession(id, now)
	if !ok || t.over.Has(what.Serial) || !what.Owner.Is(owner) || what.Local || t.Resume == nil {
		return nil, nil
	}
	sender := *from // from itself would be allocated for each request
	s = t.Resume(what, &sender)
	s.ID = id
	s.Used.Store(now.UnixNano())

	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.byID[id]; other != nil {
		s = other // another goroutine was faster
	} else if t.over.Has(what.Serial) {
		return nil, nil // another goroutine has ended it since
	} else if !t.room(owner) {
		return nil, ErrTooMany
	}
	if t.byID[id] != s {
		if s.Bridge != nil {
			s.Bridge.Resumed(&s.Session)
		}
		s.KeepAlive()
	}
	t.byID[id] = s
	s.Enter()
	return s, nil
}

// Held returns the session of an id if this process holds it, else nil.
func (t *Table) Held(id string) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// Use marks s as in use, and reports false if this process no longer holds it.
func (t *Table) Use(s *Session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[s.ID] != s {
		return false
	}
	s.Enter()
	return true
}

// OwnerReplica returns the owner replica of a session: the process in which it began, with the state that an id cannot hold. ok is
// false if the session has no owner replica, or if it belongs to another owner. held is the session as this process holds it, nil if
// it does not.
func (t *Table) OwnerReplica(id string, owner sealed.Owner) (home sealed.ID, held *Session, ok bool) {
	t.mu.Lock()
	held, by := t.byID[id], t.sealer
	t.mu.Unlock()
	if held != nil {
		return held.Home, held, held.Owner.Is(owner) && held.Home != sealed.ID{}
	}
	what, ok := by.OpenSession(id, time.Now())
	return what.Home, nil, ok && what.Owner.Is(owner) && what.Home != sealed.ID{}
}

// Drop forgets s and reports whether it was known.
func (t *Table) Drop(s *Session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.drop(s)
}

// Yield forgets s unless it is in use, and reports whether it has.
func (t *Table) Yield(s *Session) bool {
	t.mu.Lock() // as Find, which marks s as in use, does
	defer t.mu.Unlock()
	return s.MayYield() && t.drop(s)
}

func (t *Table) drop(s *Session) bool {
	if t.byID[s.ID] != s {
		return false
	}
	delete(t.byID, s.ID)
	return true
}

// DropForGood drops s: its id cannot resume the session any more, in this process and in those that share a store.
func (t *Table) DropForGood(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !s.Local {
		t.end(s.Serial, s.Made)
	}
	t.drop(s) // under the same lock, or endShared may take it for one that another replica has ended, and leave its connection open
}

// DropIdle forgets and returns the sessions that were not used since then, and those whose ids have
// expired and that have no open requests.
func (t *Table) DropIdle(then time.Time) []*Session {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over.Sweep(now.Add(-t.sealer.MaxAge))
	var out []*Session
	for id, s := range t.byID {
		if s.idle(then) || t.sealer.Expired(s.Made, now) && s.Open.None() {
			delete(t.byID, id)
			out = append(out, s)
		}
	}
	return out
}

// AddPipe notes the session of a client on a pipe until it ends, for EachPipe.
func (t *Table) AddPipe(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.piped == nil {
		t.piped = make(map[*Session]struct{})
	}
	t.piped[s] = struct{}{}
	s.KeepAlive()
}

func (t *Table) dropPipe(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.piped, s)
}

// EachPipe calls do with every session of a client on a pipe.
func (t *Table) EachPipe(do func(*Session)) {
	t.mu.Lock()
	all := slices.Collect(maps.Keys(t.piped))
	t.mu.Unlock()
	for _, s := range all {
		do(s)
	}
}

// Each calls do with every other session.
func (t *Table) Each(do func(*Session)) {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.byID))
	t.mu.Unlock()
	for _, s := range all {
		do(s)
	}
}

// DropAll forgets and returns every session.
func (t *Table) DropAll() []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Collect(maps.Values(t.byID))
	clear(t.byID)
	return out
}

// Len returns the number of sessions that this process holds.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

var ErrTooMany = errors.New("too many sessions")

// AppendPassed appends the headers of a request that are passed to the server.
func (t *Table) AppendPassed(dst []mcp.Header, header func(name string) string) []mcp.Header {
	for _, name := range t.Now().Passed {
		if v := header(name); v != "" {
			dst = append(dst, mcp.Header{Name: name, Value: v})
		}
	}
	return dst
}

// OwnerOf returns the owner mark of the client that sent req.
func (t *Table) OwnerOf(req *downstream.Request) sealed.Owner {
	return t.Now().OwnerOf(req.Guest, req.Header)
}

// Connected tells the metrics how clients and the server are connected.
func (t *Table) Connected() {
	e := metrics.Ends{Client: "tcp", Server: "pipe"}
	if t.Personal.Load() {
		e.Client = "pipe"
	}
	if host, _, err := net.SplitHostPort(t.Now().Address); err == nil {
		e.Server, e.Address = "tcp", host
	}
	t.Metrics.Connect(e)
}
