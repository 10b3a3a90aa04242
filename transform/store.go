package transform

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Store keeps the originals of results that were cut, up to a number of bytes
// and for a time. A handle is a MAC over the session, the caller and the original:
// the same result has the same handle for the same caller, and is kept once. It
// opens only for the session and caller that it was made for. If there is no
// room, the caller that takes most of it loses the entry that it has not read
// for longest. A Store is safe for concurrent use.
//
// With [Options.Replicas], each original is also written where the other replicas
// find it, as long as this Store keeps it, and a handle that is not known here is
// looked up there.
type Store struct {
	limits StoreConfig
	keys   [][]byte // the first makes handles, all recognize them
	now    func() time.Time
	shelf  *shelf // nil if originals are not shared

	mu      sync.Mutex
	entries map[string]*list.Element
	order   *list.List // of *entry, last used first
	owners  map[string]int
	size    int
}

// NewStore makes a store. keys are as in [Options].
func NewStore(limits StoreConfig, keys [][]byte, now func() time.Time) (*Store, error) {
	s := &Store{limits: limits, keys: keys, now: now, entries: make(map[string]*list.Element), order: list.New(), owners: make(map[string]int)}
	if now == nil {
		s.now = time.Now
	}
	for i, key := range keys {
		if len(key) != keyBytes {
			return nil, fmt.Errorf("key %d does not have %d bytes", i, keyBytes)
		}
	}
	if len(keys) == 0 {
		key := make([]byte, keyBytes)
		rand.Read(key) // never fails
		s.keys = [][]byte{key}
	}
	return s, nil
}

// takes reports whether an original of that many bytes can be kept.
func (s *Store) takes(n int) bool {
	return n <= s.limits.EntryMaxBytes && n+entryCost <= s.limits.MaxBytes
}

// handle returns the handle of a result for a caller; sum is the result's
// digest.
func (s *Store) handle(session, caller, sum string) string {
	return handleOf(s.keys[0], session, caller, sum)
}

func handleOf(key []byte, session, caller, sum string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(owner(session, caller) + sum))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:handleBytes])
}

// made reports whether one of the store's keys made a handle.
func (s *Store) made(session, caller, sum, handle string) bool {
	return slices.ContainsFunc(s.keys, func(key []byte) bool {
		return hmac.Equal([]byte(handleOf(key, session, caller, sum)), []byte(handle))
	})
}

// keep keeps a copy of an original that the store takes.
func (s *Store) keep(e entry) {
	e.original = bytes.Clone(e.original)
	e.call.Schema = bytes.Clone(e.call.Schema)
	e.expires = s.now().Add(s.limits.TTL)
	evicted := s.hold(&e)
	if s.shelf != nil {
		s.write(&e, evicted)
	}
}

// hold takes an entry into memory. It returns the names under which the replicas
// share the originals that made room for it, as far as this Store wrote them.
func (s *Store) hold(e *entry) (evicted []string) {
	e.owner, e.payer = owner(e.call.Session, e.call.Caller), e.call.Caller
	e.payer = cmp.Or(e.payer, "session "+e.call.Session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.entries[e.handle]; at != nil {
		s.forget(at)
	}
	for at := s.order.Back(); at != nil; {
		before := at.Prev()
		if !s.now().Before(at.Value.(*entry).expires) {
			s.forget(at)
		}
		at = before
	}
	s.entries[e.handle] = s.order.PushFront(e)
	s.size += e.cost()
	s.owners[e.payer] += e.cost()
	for s.size > s.limits.MaxBytes {
		at := s.oldestOfLargest()
		if old := at.Value.(*entry); s.shelf != nil && !old.found && old != e {
			evicted = append(evicted, nameOf(old.owner, old.handle))
		}
		s.forget(at)
	}
	return evicted
}

// oldestOfLargest returns the entry to drop next. The caller holds the lock,
// and the store is not empty.
func (s *Store) oldestOfLargest() *list.Element {
	most := 0
	for _, n := range s.owners {
		most = max(most, n)
	}
	for at := s.order.Back(); ; at = at.Prev() {
		if s.owners[at.Value.(*entry).payer] == most {
			return at
		}
	}
}

// forget drops an entry. The caller holds the lock.
func (s *Store) forget(at *list.Element) {
	e := s.order.Remove(at).(*entry)
	delete(s.entries, e.handle)
	s.size -= e.cost()
	if s.owners[e.payer] -= e.cost(); s.owners[e.payer] <= 0 {
		delete(s.owners, e.payer)
	}
}

// Open returns the original of a handle. The caller must not change it. The
// error is [ErrGone] or [ErrUnavailable].
func (s *Store) Open(ctx context.Context, session, caller, handle string) ([]byte, error) {
	e, err := s.open(ctx, session, caller, handle)
	if err != nil {
		return nil, err
	}
	return e.original, nil
}

func (s *Store) open(ctx context.Context, session, caller, handle string) (*entry, error) {
	e, err := s.held(session, caller, handle)
	if err != nil && s.shelf != nil {
		return s.find(ctx, session, caller, handle)
	}
	return e, err
}

// held returns an entry that is in memory.
func (s *Store) held(session, caller, handle string) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.entries[handle]
	if at == nil {
		return nil, ErrGone
	}
	e := at.Value.(*entry)
	if e.owner != owner(session, caller) {
		return nil, ErrGone
	}
	if !s.now().Before(e.expires) {
		s.forget(at)
		return nil, ErrGone
	}
	s.order.MoveToFront(at)
	return e, nil
}

// owner returns the session and the caller to which a handle is bound, as one
// string.
func owner(session, caller string) string {
	b := append([]byte("fetch_more"), binary.BigEndian.AppendUint64(nil, uint64(len(session)))...)
	return string(append(append(b, session...), caller...))
}

// find returns the original of a handle that another replica made.
func (s *Store) find(ctx context.Context, session, caller, handle string) (*entry, error) {
	if !isHandle(handle) {
		return nil, errGoneEverywhere
	}
	who := owner(session, caller)
	value, err := s.shelf.replicas.Get(ctx, nameOf(who, handle))
	if err == nil && value == nil {
		wait := time.NewTimer(lateWrite)
		defer wait.Stop()
		select {
		case <-wait.C:
			value, err = s.shelf.replicas.Get(ctx, nameOf(who, handle))
		case <-ctx.Done():
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w (%w)", ErrUnavailable, err)
	case value == nil:
		return nil, errGoneEverywhere
	}
	e, err := decodeEntry(value, s.limits.EntryMaxBytes)
	if err != nil || !s.now().Before(e.expires) {
		return nil, errGoneEverywhere
	}
	e.handle, e.found = handle, true
	e.call.Session, e.call.Caller = session, caller
	s.hold(e)
	return e, nil
}

// write shares e, and removes the originals that had to make room for it. The
// answer does not wait for that: a client that reads on at once, at another
// replica, is why find looks twice.
func (s *Store) write(e *entry, evicted []string) {
	if s.shelf.writing.Add(1) > maxWriting {
		s.shelf.writing.Add(-1)
		s.shelf.replicas.Skipped()
		return
	}
	task := func() {
		defer s.shelf.writing.Add(-1)
		ctx := context.Background() // the call that made it may end before
		value, err := e.encode()
		if err != nil {
			s.shelf.replicas.Skipped()
			return
		}
		// What could not be written or removed is counted where that happens; the engine
		// forgets by itself what was not removed.
		_ = s.shelf.replicas.Put(ctx, nameOf(e.owner, e.handle), value, s.limits.TTL)
		if len(evicted) > 0 {
			_ = s.shelf.replicas.Delete(ctx, evicted...)
		}
	}
	if s.shelf.run == nil {
		task()
		return
	}
	s.shelf.run(task)
}
