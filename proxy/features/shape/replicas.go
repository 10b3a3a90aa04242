package shape

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// originalKind is the kind of the keys of cut results' originals.
const originalKind = "original"

// originals keeps the originals of cut results in the store that replicas share. It implements
// [transform.Replicas].
type originals struct {
	store *store.Store
	host  atomic.Pointer[host.Host] // nil until the proxy runs
}

// newOriginals returns nil if s is not shared with other replicas.
func newOriginals(s *store.Store) *originals {
	if s == nil || !s.Shared() {
		return nil
	}
	return &originals{store: s}
}

// Put keeps an original.
func (o *originals) Put(ctx context.Context, name string, value []byte, ttl time.Duration) error {
	err := o.store.Set(ctx, store.Key{Kind: originalKind, Name: name}, value, ttl)
	if h := o.host.Load(); h != nil && errors.Is(err, store.ErrTooLarge) {
		h.Log.Debug("the original of a cut result is too large for the store: only this replica can serve the rest", zap.Error(err))
	}
	return err
}

// Get returns an original, or nil.
func (o *originals) Get(ctx context.Context, name string) ([]byte, error) {
	value, err := o.store.Get(ctx, store.Key{Kind: originalKind, Name: name})
	if errors.Is(err, store.ErrAbsent) {
		return nil, nil
	}
	return value, err
}

// Delete removes originals.
func (o *originals) Delete(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := o.store.Delete(ctx, store.Key{Kind: originalKind, Name: name}); err != nil {
			return err
		}
	}
	return nil
}

// Skipped notes that an original was not written.
func (o *originals) Skipped() {
	if h := o.host.Load(); h != nil {
		h.Log.Debug("too many originals of cut results are being written: only this replica can serve the rest of one of them")
	}
}

// beside runs a write beside the answer that it belongs to.
func (o *originals) beside(task func()) {
	h := o.host.Load()
	if h == nil {
		task()
		return
	}
	h.Spawn(task)
}
