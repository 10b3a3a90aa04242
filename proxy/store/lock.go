package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Lock is a lock that this process holds until Unlock, as long as it can be renewed. It lasts for the ttl that it was taken with
// if this process dies.
type Lock struct {
	store *Store
	key   Key
	name  string
	token []byte
	ttl   time.Duration

	ctx    context.Context
	lost   context.CancelCauseFunc
	unlock sync.Once
	ended  chan struct{} // when it is no longer renewed
}

// ErrLost is the cause of the end of a lock's context.
var ErrLost = errors.New("the lock was lost")

// Lock takes a lock and renews it. It waits until ctx ends while another process holds it, and then returns ErrHeld.
func (s *Store) Lock(ctx context.Context, key Key, ttl time.Duration) (*Lock, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		l, err := s.TryLock(ctx, key, ttl)
		if !errors.Is(err, ErrHeld) {
			return l, err
		}
		select {
		case <-time.After(pause/2 + shorter(pause)):
		case <-ctx.Done():
			return nil, fmt.Errorf("lock %s: %w: %w", key.Kind, ErrHeld, context.Cause(ctx))
		}
	}
}

// shorter returns a random time that is shorter than d. It comes from crypto/rand, whose bytes a test can make known.
func shorter(d time.Duration) time.Duration {
	var n [8]byte
	rand.Read(n[:])
	return time.Duration(binary.BigEndian.Uint64(n[:]) % uint64(d))
}

// TryLock takes a lock, or returns ErrHeld at once if another process or goroutine holds it.
func (s *Store) TryLock(ctx context.Context, key Key, ttl time.Duration) (*Lock, error) {
	names, err := s.vault.Load().names(key)
	if err != nil {
		return nil, err
	}
	if err := lasts(ttl); err != nil {
		return nil, err
	}
	l := &Lock{store: s, key: key, name: names[0], token: make([]byte, tagBytes), ttl: ttl, ended: make(chan struct{})}
	rand.Read(l.token)
	began := time.Now()
	ok, err := s.add(ctx, "lock", key, names, l.token, ttl)
	if err != nil {
		if errors.Is(err, ErrUnavailable) || ctx.Err() != nil { // it may have been taken
			s.health.spawn(func(ctx context.Context) { l.release(ctx) })
		}
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("lock %s: %w", key.Kind, ErrHeld)
	}
	l.ctx, l.lost = context.WithCancelCause(s.health.ctx)
	if !s.health.spawn(func(context.Context) { l.renew(began) }) {
		l.lost(context.Canceled)
		l.release(ctx) // another process would wait until it expires
		return nil, fmt.Errorf("lock %s: %w: it is closed", key.Kind, ErrUnavailable)
	}
	return l, nil
}

// Context ends when the lock is unlocked, or has been lost because it could not be renewed in time.
func (l *Lock) Context() context.Context { return l.ctx }

// Unlock gives the lock back. What another process holds by now stays.
func (l *Lock) Unlock() {
	l.unlock.Do(func() {
		l.lost(context.Canceled)
		<-l.ended
		l.release(context.Background())
	})
}

func (l *Lock) release(ctx context.Context) {
	_ = l.store.ask(ctx, "unlock", l.key, func(ctx context.Context) error {
		return told(l.store.engine.Swap(ctx, l.name, [][]byte{l.token}, nil, l.ttl))
	}) // otherwise it expires
}

// renew keeps the lock. A lock that could not be renewed counts as lost before it expires at the engine.
func (l *Lock) renew(until time.Time) {
	defer close(l.ended)
	until = until.Add(l.ttl * 9 / 10)
	every := time.NewTicker(max(l.ttl/3, time.Millisecond))
	defer every.Stop()
	for {
		over := time.NewTimer(time.Until(until))
		select {
		case <-every.C:
			over.Stop()
		case <-over.C:
			l.lost(ErrLost)
			return
		case <-l.ctx.Done():
			over.Stop()
			return
		}
		began := time.Now()
		within, cancel := context.WithDeadline(l.ctx, until)
		ok, err := done(l.store.ask(within, "renew", l.key, func(ctx context.Context) error {
			return told(l.store.engine.Extend(ctx, l.name, l.token, l.ttl))
		}))
		cancel()
		switch {
		case ok:
			until = began.Add(l.ttl * 9 / 10)
		case err == nil:
			l.lost(ErrLost)
			return
		}
	}
}
