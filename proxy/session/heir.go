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
func (t *Table) Heir(ctx context.Context, id string, gone, self sealed.ID) sealed.ID {
	s := t.Host.Shared()
	what, ok := t.Now().Sealer.OpenSession(id, time.Now())
	if s == nil || !ok || what.Local {
		return self
	}
	key, life := store.Key{Kind: "heir", Name: Fingerprint(id)}, min(t.Now().Sealer.MaxAge, store.MaxTTL)
	if first, err := s.Add(ctx, key, self[:], life); first || err != nil {
		return self
	}
	value, err := s.Get(ctx, key)
	if err != nil || len(value) != len(self) {
		return self
	}
	heir := sealed.ID(value)
	if heir != gone {
		return heir
	}
	if now, err := s.Swap(ctx, key, gone[:], self[:], life); now || err != nil {
		return self
	}
	if value, err = s.Get(ctx, key); err != nil || len(value) != len(self) { // another process was faster
		return self
	}
	return sealed.ID(value)
}
