package adapters

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// The kinds of the keys of adapters.
const (
	limitKind        = "limit"
	confirmationKind = "confirmation"
)

// usedFor is how long the store knows that a confirmation token was used: longer than one is valid.
const usedFor = 10 * time.Minute

// used is the value of a confirmation token that was used.
var used = []byte("used")

// shared decides with the other replicas, in their store. It implements [adapterrt.Replicas].
type shared struct {
	store   *store.Store
	metrics *metrics.Metrics
	log     *zap.Logger
	alone   atomic.Bool // the last limit was decided by this replica alone
}

// newShared returns nil if s is not shared with other replicas.
func newShared(s *store.Store, m *metrics.Metrics, log *zap.Logger) guard.Replicas {
	if s == nil || !s.Shared() {
		return nil
	}
	return &shared{store: s, metrics: m, log: log}
}

func limitKey(account string) store.Key { return store.Key{Kind: limitKind, Name: account} }

func limitsOf(limits []guard.Limit) []store.Limit {
	out := make([]store.Limit, len(limits))
	for i, l := range limits {
		out[i] = store.Limit{ID: l.ID, Rate: l.Rate, Burst: l.Burst, Window: l.Window, Most: l.Most, Ahead: l.Ahead}
	}
	return out
}

// Charge takes n from each of the limits of an account, or from none of them.
func (s *shared) Charge(ctx context.Context, account string, n int64, limits []guard.Limit) (ok bool, states []guard.State, err error) {
	c, err := s.store.Charge(ctx, limitKey(account), n, limitsOf(limits)...)
	if s.counted(ctx, err); err != nil {
		return false, nil, err
	}
	states = make([]guard.State, len(c.States))
	for i, st := range c.States {
		states[i] = guard.State{Left: st.Left, Used: st.Used, Wait: st.Wait, Told: st.Told, Reset: st.Reset}
	}
	return c.OK, states, nil
}

// counted notes whether the replicas counted a call together.
func (s *shared) counted(ctx context.Context, err error) {
	switch {
	case err == nil:
		if s.alone.Load() && s.alone.Swap(false) {
			s.log.Info("limits of adapters are counted by all replicas together again")
		}
	case ctx.Err() == nil:
		s.metrics.AdapterAlone.WithLabelValues().Inc()
		if !s.alone.Swap(true) {
			s.log.Warn("limits of adapters are counted by this replica alone until the store can be used again: all replicas together may exceed them", zap.Error(err))
		}
	}
}

// Adjust counts n calls more.
func (s *shared) Adjust(ctx context.Context, account string, n int64, limits []guard.Limit) error {
	_, err := s.store.Adjust(ctx, limitKey(account), n, limitsOf(limits)...)
	return err
}

// Correct takes over what an API says.
func (s *shared) Correct(ctx context.Context, account string, limits []guard.Limit, to []guard.Correction) error {
	all := make([]store.Correction, len(to))
	for i, c := range to {
		all[i] = store.Correction{ID: c.ID, AtMost: c.AtMost, For: min(c.For, store.MaxTTL)}
	}
	return s.store.Correct(ctx, limitKey(account), limitsOf(limits), all...)
}

// Keep keeps a confirmation token.
func (s *shared) Keep(ctx context.Context, token string, value []byte, ttl time.Duration) error {
	return s.store.Set(ctx, store.Key{Kind: confirmationKind, Name: token}, value, ttl)
}

// Redeem marks a confirmation token as used. It takes a second look only at one that it refuses.
func (s *shared) Redeem(ctx context.Context, token string, value []byte) (guard.Redeemed, error) {
	key := store.Key{Kind: confirmationKind, Name: token}
	if ok, err := s.store.Swap(ctx, key, value, used, usedFor); ok || err != nil {
		return guard.Valid, err
	}
	is, err := s.store.Get(ctx, key)
	switch {
	case errors.Is(err, store.ErrAbsent):
		return guard.Unknown, nil
	case err != nil:
		return guard.Unknown, err
	case string(is) == string(used):
		return guard.Used, nil
	}
	return guard.OfAnother, nil
}

// Drop removes confirmation tokens.
func (s *shared) Drop(ctx context.Context, tokens []string) {
	for _, token := range tokens {
		if s.store.Delete(ctx, store.Key{Kind: confirmationKind, Name: token}) != nil {
			return // they expire
		}
	}
}
