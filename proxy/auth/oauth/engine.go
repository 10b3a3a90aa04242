package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// NewShared returns a store of kind [Shared]. It calls open when it is first used, unless Use was called before.
func NewShared(open func() (*store.Store, error), log *zap.Logger) *Store {
	return &Store{kind: Shared, open: open, log: log, entries: map[string]*entry{}}
}

// Use makes a store of kind [Shared] keep its tokens in engine, which the caller closes. Other stores stay as they are.
func (s *Store) Use(engine *store.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine = engine
}

// shared returns the engine, which it opens if there is none.
func (s *Store) shared() (*store.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil {
		engine, err := s.open()
		if err != nil {
			return nil, err
		}
		s.engine, s.opened = engine, engine
	}
	return s.engine, nil
}

const (
	firstEngineRetry = 250 * time.Millisecond
	lastEngineRetry  = 5 * time.Second
	engineRetryTime  = 24 * time.Hour // then data is given up

	// engineLock is how long the lock of a replica that has died lasts. While it lives, it renews the lock.
	engineLock = 15 * time.Second

	// accountsID is the entry with the ids of all others, for lists.
	accountsID   = "accounts"
	maxAccounts  = 1000
	listAttempts = 16
)

// errReplaced says that another replica has written the account since it was read here.
var errReplaced = errors.New("another replica has replaced the stored tokens in the meantime: those are used from now on")

// engineEntry is an account that a call of Locked holds in the engine.
type engineEntry struct {
	store *Store
	entry *entry
	id    string
	ctx   context.Context // does not end with the caller: what was received must be stored

	known bool
	last  []byte // what is stored, if known
}

func (s *Store) lockedInEngine(ctx context.Context, e *entry, id string, do func(Entry)) error {
	engine, err := s.shared()
	if err != nil {
		return fmt.Errorf("cannot lock the stored tokens: %w", err)
	}
	lock, err := engine.Lock(ctx, store.Key{Kind: "token_lock", Name: id}, engineLock)
	switch {
	case errors.Is(err, store.ErrHeld):
		return fmt.Errorf("another replica has locked the stored tokens: %w", err)
	case err != nil:
		return fmt.Errorf("cannot lock the stored tokens: %w", err)
	}
	defer lock.Unlock()
	do(&engineEntry{store: s, entry: e, id: id, ctx: context.WithoutCancel(ctx)})
	return nil
}

// Get returns the data that could not be written, as long as no other replica has written.
func (h *engineEntry) Get() ([]byte, error) {
	e := h.entry
	data, err := h.store.fetch(h.ctx, h.id)
	if err != nil {
		if e.unsaved != nil {
			return e.unsaved, nil
		}
		return nil, fmt.Errorf("cannot read the stored tokens: %w", err)
	}
	h.known, h.last = true, data
	if e.unsaved != nil && bytes.Equal(data, e.instead) {
		return e.unsaved, nil
	}
	e.unsaved, e.instead = nil, nil
	return data, nil
}

func (h *engineEntry) Put(data []byte) error {
	if !h.known {
		last, err := h.store.fetch(h.ctx, h.id)
		if err != nil {
			return h.keep(data, err)
		}
		h.known, h.last = true, last
	}
	ok, err := h.store.replace(h.ctx, h.id, h.last, data)
	switch {
	case err != nil:
		return h.keep(data, err)
	case !ok:
		h.known = false
		h.entry.unsaved, h.entry.instead = nil, nil
		h.store.log.Warn("cannot store tokens", zap.String("for", label(h.id)), zap.Error(errReplaced))
		return errReplaced
	}
	h.last = data
	h.written()
	return nil
}

// fetch returns what is stored of an account; nil if there is nothing.
func (s *Store) fetch(ctx context.Context, id string) ([]byte, error) {
	engine, err := s.shared()
	if err != nil {
		return nil, err
	}
	data, err := engine.Get(ctx, tokenKey(id))
	if errors.Is(err, store.ErrAbsent) {
		return nil, nil
	}
	return data, err
}

// exchange puts data in the place of old, in one step; nil stands for nothing. It reports false if something else is
// stored by now.
func (s *Store) exchange(ctx context.Context, id string, old, data []byte) (bool, error) {
	engine, err := s.shared()
	if err != nil {
		return false, err
	}
	switch key := tokenKey(id); {
	case old == nil && data == nil:
		return true, nil
	case old == nil:
		return engine.Add(ctx, key, data, store.MaxTTL)
	case data == nil:
		return engine.Drop(ctx, key, old)
	default:
		return engine.Swap(ctx, key, old, data, store.MaxTTL)
	}
}

func tokenKey(id string) store.Key { return store.Key{Kind: "token", Name: id} }

// replace is exchange, and keeps the list of accounts.
func (s *Store) replace(ctx context.Context, id string, old, data []byte) (bool, error) {
	ok, err := s.exchange(ctx, id, old, data)
	if ok && (old == nil) != (data == nil) {
		if err := s.list(ctx, id, data != nil); err != nil {
			s.log.Info("dragoman login --list may not be complete", zap.Error(err))
		}
	}
	return ok, err
}

// keep keeps data in memory until the engine takes it.
func (h *engineEntry) keep(data []byte, err error) error {
	e := h.entry
	if data == nil { // nothing is as good as what is stored, and a person has asked for it
		return fmt.Errorf("cannot delete the stored tokens: %w", err)
	}
	e.unsaved, e.instead = data, h.last
	if !e.failed {
		h.store.log.Warn("tokens cannot be stored: they are kept in memory, and stored as soon as the engine takes them", zap.String("for", label(h.id)), zap.Error(err))
	}
	e.failed = true
	h.store.later(e, h.id, h.known, firstEngineRetry, time.Now())
	return fmt.Errorf("cannot store tokens: %w", err)
}

func (h *engineEntry) written() {
	e := h.entry
	e.unsaved, e.instead = nil, nil
	if e.failed {
		h.store.log.Info("tokens are stored again", zap.String("for", label(h.id)))
	}
	e.failed = false
}

// later writes what could not be written. known says that the engine then had what the entry says.
func (s *Store) later(e *entry, id string, known bool, wait time.Duration, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if e.retry != nil {
		e.retry.Stop()
	}
	e.retry = time.AfterFunc(wait, func() {
		again := func() { s.later(e, id, known, min(2*wait, lastEngineRetry), since) }
		e.lock <- struct{}{}
		defer func() { <-e.lock }()
		if e.unsaved == nil || time.Since(since) > engineRetryTime {
			return
		}
		ctx, stop := context.WithTimeout(context.Background(), lockWait)
		defer stop()
		h := &engineEntry{store: s, entry: e, id: id, ctx: ctx}
		if !known { // it was not even read: what is there stays
			data, err := s.fetch(ctx, id)
			if err != nil {
				again()
				return
			}
			if data != nil {
				e.unsaved, e.instead = nil, nil
				return
			}
		}
		ok, err := s.replace(ctx, id, e.instead, e.unsaved)
		switch {
		case err != nil:
			again()
		case ok:
			h.written()
		default: // another replica has written
			e.unsaved, e.instead, e.failed = nil, nil, false
		}
	})
}

// Close gives up what could not be written, and closes the engine if the store has opened it.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, e := range s.entries {
		if e.retry != nil {
			e.retry.Stop()
		}
	}
	if s.opened != nil {
		s.opened.Close()
	}
}

func (s *Store) peekEngine(id string) []byte {
	data, err := s.fetch(context.Background(), id)
	if err != nil {
		s.log.Debug("cannot read the stored tokens", zap.Error(err))
	}
	return data
}

// list adds an id to those of all accounts, or removes it.
func (s *Store) list(ctx context.Context, id string, add bool) error {
	for range listAttempts {
		old, err := s.fetch(ctx, accountsID)
		if err != nil {
			return err
		}
		var all []string
		_ = json.Unmarshal(old, &all) // what cannot be read is written again
		all = slices.DeleteFunc(all, func(other string) bool { return other == id })
		if add && len(all) < maxAccounts {
			all = append(all, id)
		}
		slices.Sort(all)
		text, err := json.Marshal(all)
		if err != nil {
			return err
		}
		if ok, err := s.exchange(ctx, accountsID, old, text); err != nil || ok {
			return err
		}
	}
	return errReplaced
}

func (s *Store) listEngine() (all []kept, err error) {
	text, err := s.fetch(context.Background(), accountsID)
	if err != nil {
		return nil, fmt.Errorf("cannot read the stored tokens: %w", err)
	}
	var ids []string
	if text != nil && json.Unmarshal(text, &ids) != nil {
		return nil, errors.New("the list of accounts in the store is damaged")
	}
	for _, id := range ids {
		all = append(all, kept{Version: fileVersion, For: id, Sealed: []byte{}})
	}
	return all, nil
}

// label returns the first line of an account's id, for people.
func label(id string) string {
	line, _, _ := bytes.Cut([]byte(id), []byte("\n"))
	return string(line[:min(len(line), maxLabel)])
}
