package transform

import (
	"bytes"
	"container/list"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Why a handle opens nothing.
var (
	// ErrGone is for handles that are not ours, not this caller's, or too old;
	// nobody can tell which.
	ErrGone = errors.New("this cursor has expired")
	// ErrElsewhere is for a handle that this caller got from another process with
	// the same key.
	ErrElsewhere = errors.New("this cursor belongs to another replica of the proxy, which holds the rest: calls of one session have to go to one replica")
)

// A Store keeps the originals of results that were cut, up to a number of bytes
// and for a time; what was not read for longest goes first. A handle opens for
// the session and caller that it was made for, and for nobody else: it is sealed
// with AES-GCM, bound to both. A Store is safe for concurrent use.
type Store struct {
	limits  StoreConfig
	keys    []cipher.AEAD // the first seals, all open
	replica uint64        // this process
	now     func() time.Time

	mu      sync.Mutex
	last    uint64
	entries map[uint64]*list.Element
	order   *list.List // of *entry, last used first
	size    int
}

type entry struct {
	id       uint64
	original []byte
	expires  time.Time
}

const (
	handlePrefix = "c1_"
	handlePlain  = 8 + 8 // replica, entry
	keyBytes     = 32
	entryCost    = 256 // what an entry takes beside its bytes, about
)

// handleText has one text for the same bytes.
var handleText = base64.RawURLEncoding.Strict()

// NewStore makes a store. keys are as in [Options].
func NewStore(limits StoreConfig, keys [][]byte, now func() time.Time) (*Store, error) {
	s := &Store{limits: limits, now: now, entries: make(map[uint64]*list.Element), order: list.New()}
	if now == nil {
		s.now = time.Now
	}
	var random [keyBytes + 8]byte
	rand.Read(random[:]) // never fails
	s.replica = binary.BigEndian.Uint64(random[keyBytes:])
	if len(keys) == 0 {
		keys = [][]byte{random[:keyBytes]}
	}
	for i, key := range keys {
		if len(key) != keyBytes {
			return nil, fmt.Errorf("key %d is not of %d bytes", i, keyBytes)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, aead)
	}
	return s, nil
}

// takes reports whether an original of that many bytes can be kept.
func (s *Store) takes(n int) bool {
	return n <= s.limits.EntryMaxBytes && n+entryCost <= s.limits.MaxBytes
}

// A ticket is a handle that has been given a number and nothing to open yet.
type ticket struct {
	id      uint64
	handle  string // URL-safe, of less than 120 characters
	expires time.Time
}

// reserve makes a handle.
func (s *Store) reserve(session, caller string) ticket {
	s.mu.Lock()
	s.last++
	id := s.last
	s.mu.Unlock()
	plain := binary.BigEndian.AppendUint64(make([]byte, 0, handlePlain), s.replica)
	plain = binary.BigEndian.AppendUint64(plain, id)
	box := s.keys[0].Seal(nil, nil, plain, owner(session, caller))
	return ticket{id, handlePrefix + handleText.EncodeToString(box), s.now().Add(s.limits.TTL)}
}

// keep keeps a copy of an original that the store takes.
func (s *Store) keep(t ticket, original []byte) {
	e := &entry{t.id, bytes.Clone(original), t.expires}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[t.id] = s.order.PushFront(e)
	s.size += len(e.original) + entryCost
	now := s.now()
	for last := s.order.Back(); last != nil; last = s.order.Back() {
		if s.size <= s.limits.MaxBytes && now.Before(last.Value.(*entry).expires) {
			break
		}
		s.forget(last)
	}
}

// forget drops an entry. The lock is held.
func (s *Store) forget(at *list.Element) {
	e := s.order.Remove(at).(*entry)
	delete(s.entries, e.id)
	s.size -= len(e.original) + entryCost
}

// Open returns the original behind a handle, which must not be changed. The error
// is [ErrGone] or [ErrElsewhere].
func (s *Store) Open(session, caller, handle string) ([]byte, error) {
	replica, id, ok := s.unseal(session, caller, handle)
	switch {
	case !ok:
		return nil, ErrGone
	case replica != s.replica:
		return nil, ErrElsewhere
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.entries[id]
	if at == nil {
		return nil, ErrGone
	}
	e := at.Value.(*entry)
	if !s.now().Before(e.expires) {
		s.forget(at)
		return nil, ErrGone
	}
	s.order.MoveToFront(at)
	return e.original, nil
}

// unseal is what a handle holds; ok is false when it was not made for them with
// one of our keys.
func (s *Store) unseal(session, caller, handle string) (replica, id uint64, ok bool) {
	text, ours := strings.CutPrefix(handle, handlePrefix)
	over := s.keys[0].Overhead()
	if !ours || handleText.DecodedLen(len(text)) != handlePlain+over || strings.ContainsAny(text, "\r\n") {
		return 0, 0, false // the decoder would pass over line breaks
	}
	box, err := handleText.DecodeString(text)
	if err != nil {
		return 0, 0, false
	}
	for _, key := range s.keys {
		if plain, err := key.Open(nil, nil, box, owner(session, caller)); err == nil {
			return binary.BigEndian.Uint64(plain), binary.BigEndian.Uint64(plain[8:]), true
		}
	}
	return 0, 0, false
}

// Size returns how many bytes and entries the store holds.
func (s *Store) Size() (bytes, entries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size, len(s.entries)
}

// owner is whom a handle is bound to.
func owner(session, caller string) []byte {
	b := append([]byte("fetch_more"), binary.BigEndian.AppendUint64(nil, uint64(len(session)))...)
	return append(append(b, session...), caller...)
}
