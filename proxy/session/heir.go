package session

import (
	"context"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// Heir returns the process that goes on with the session of an id, whose process gone cannot be reached: the first one that
// asks, for all replicas that share a store. It is self if there is no store or it does not answer, and for a session that
// has ended with its process. Requests to the client that are open, and calls that it may cancel, are then in one process again.
// agreed is false if the store did not answer, so that other replicas may go on with the session as well: the next request has to ask
// again.
func (t *Table) Heir(ctx context.Context, id string, gone, self sealed.ID) (heir sealed.ID, agreed bool) {
	s := t.Host.Shared()
	what, ok := t.Now().Sealer.OpenSession(id, time.Now())
	if s == nil || !ok || what.Local {
		return self, true
	}
	key, life := heirKey(id), min(t.Now().Sealer.MaxAge, store.MaxTTL)
	if first, err := s.Add(ctx, key, self[:], life); first || err != nil {
		return self, err == nil
	}
	value, err := s.Get(ctx, key)
	if err != nil || len(value) != len(self) {
		return self, false
	}
	if heir = sealed.ID(value); heir != gone {
		return heir, true
	}
	if now, err := s.Swap(ctx, key, gone[:], self[:], life); now || err != nil {
		return self, err == nil
	}
	if value, err = s.Get(ctx, key); err != nil || len(value) != len(self) { // another process was faster
		return self, false
	}
	return sealed.ID(value), true
}

func heirKey(id string) store.Key { return store.Key{Kind: "heir", Name: Fingerprint(id)} }

// HeirOf returns the process that has gone on with the session of an id while the one in which it began could not be reached. ok is false
// if the store knows of none, or does not answer.
func (t *Table) HeirOf(ctx context.Context, id string) (heir sealed.ID, ok bool) {
	s := t.Host.Shared()
	if s == nil {
		return heir, false
	}
	value, err := s.Get(ctx, heirKey(id))
	if err != nil || len(value) != len(heir) {
		return heir, false
	}
	return sealed.ID(value), true
}

// doubtHeirs makes the next request of each session that began in another process ask again which process goes on with it: the
// store may have lost what it knew of that.
func (t *Table) doubtHeirs() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.byID {
		s.Taken.Store(false)
	}
}
