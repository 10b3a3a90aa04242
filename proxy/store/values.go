package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Get returns a value, or ErrAbsent.
func (s *Store) Get(ctx context.Context, key Key) ([]byte, error) {
	return s.read(ctx, "get", key, s.engine.Get)
}

// Take returns a value and deletes it; of several callers, one gets it, and the others ErrAbsent.
func (s *Store) Take(ctx context.Context, key Key) ([]byte, error) {
	return s.read(ctx, "take", key, s.engine.Take)
}

func (s *Store) read(ctx context.Context, op string, key Key, get func(context.Context, string) ([]byte, error)) (value []byte, err error) {
	names, err := s.vault.Load().names(key)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		err = s.ask(ctx, op, key, func(ctx context.Context) error {
			kept, err := get(ctx, name)
			if err != nil {
				return err
			}
			value, err = s.vault.Load().open(key, kept)
			return err
		})
		if !errors.Is(err, ErrAbsent) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return value, nil
}

// Set keeps a value until ttl is over, in place of what was there.
func (s *Store) Set(ctx context.Context, key Key, value []byte, ttl time.Duration) error {
	names, err := s.writable(ctx, "set", key, value, ttl)
	if err != nil {
		return err
	}
	kept := s.vault.Load().seal(key, value)
	if err := s.ask(ctx, "set", key, func(ctx context.Context) error { return s.engine.Set(ctx, names[0], kept, ttl) }); err != nil {
		return err
	}
	return s.forget(ctx, key, names[1:])
}

// Add keeps a value where there is none. It reports whether it has.
func (s *Store) Add(ctx context.Context, key Key, value []byte, ttl time.Duration) (bool, error) {
	names, err := s.writable(ctx, "add", key, value, ttl)
	if err != nil {
		return false, err
	}
	return s.add(ctx, "add", key, names, s.vault.Load().seal(key, value), ttl)
}

func (s *Store) add(ctx context.Context, op string, key Key, names []string, kept []byte, ttl time.Duration) (bool, error) {
	for _, other := range names[1:] {
		err := s.ask(ctx, "get", key, func(ctx context.Context) error {
			_, err := s.engine.Get(ctx, other)
			return err
		})
		if !errors.Is(err, ErrAbsent) {
			return false, err
		}
	}
	return done(s.ask(ctx, op, key, func(ctx context.Context) error {
		return told(s.engine.Add(ctx, names[0], kept, ttl))
	}))
}

// Swap replaces the value old by value. It reports false if another value is there, or none.
func (s *Store) Swap(ctx context.Context, key Key, old, value []byte, ttl time.Duration) (bool, error) {
	names, err := s.writable(ctx, "swap", key, value, ttl)
	if err != nil {
		return false, err
	}
	return s.swap(ctx, "swap", key, names, old, s.vault.Load().seal(key, value), ttl)
}

// Drop deletes the value old. It reports false if another value is there, or none.
func (s *Store) Drop(ctx context.Context, key Key, old []byte) (bool, error) {
	names, err := s.vault.Load().names(key)
	if err != nil {
		return false, err
	}
	return s.swap(ctx, "drop", key, names, old, nil, time.Second)
}

func (s *Store) swap(ctx context.Context, op string, key Key, names []string, old, kept []byte, ttl time.Duration) (ok bool, err error) {
	tags := s.vault.Load().tags(key, old)
	for _, name := range names {
		ok, err = done(s.ask(ctx, op, key, func(ctx context.Context) error {
			return told(s.engine.Swap(ctx, name, tags, kept, ttl))
		}))
		if ok || err != nil {
			break
		}
	}
	return ok, err
}

// Delete removes a value, if there is one.
func (s *Store) Delete(ctx context.Context, key Key) error {
	names, err := s.vault.Load().names(key)
	if err != nil {
		return err
	}
	return s.forget(ctx, key, names)
}

func (s *Store) forget(ctx context.Context, key Key, names []string) error {
	for _, name := range names {
		if err := s.ask(ctx, "delete", key, func(ctx context.Context) error { return s.engine.Delete(ctx, name) }); err != nil {
			return err
		}
	}
	return nil
}

// Count adds n to a number and returns the sum. The number is 0 again when window has passed since its first use.
func (s *Store) Count(ctx context.Context, key Key, n int64, window time.Duration) (total int64, err error) {
	names, err := s.vault.Load().names(key)
	if err != nil {
		return 0, err
	}
	if err := lasts(window); err != nil {
		return 0, err
	}
	err = s.ask(ctx, "count", key, func(ctx context.Context) (err error) {
		total, err = s.engine.Count(ctx, names[0], n, window)
		return err
	})
	return total, err
}

// writable returns the names of key if value may be kept there.
func (s *Store) writable(ctx context.Context, op string, key Key, value []byte, ttl time.Duration) ([]string, error) {
	names, err := s.vault.Load().names(key)
	if err != nil {
		return nil, err
	}
	if err := lasts(ttl); err != nil {
		return nil, err
	}
	if len(value) > s.options.MaxValue {
		if s.options.Observe != nil {
			s.options.Observe(Operation{Name: op, Kind: key.Kind, Outcome: TooLarge})
		}
		return nil, fmt.Errorf("%s %s: %w: %d bytes, of at most %d", op, key.Kind, ErrTooLarge, len(value), s.options.MaxValue)
	}
	return names, ctx.Err()
}

func lasts(ttl time.Duration) error {
	if ttl < time.Millisecond || ttl > MaxTTL {
		return fmt.Errorf("store: an expiry of %s", ttl)
	}
	return nil
}

// told and done carry an answer of yes or no through ask, so that a no is counted as one.
func told(ok bool, err error) error {
	if err == nil && !ok {
		return errRefused
	}
	return err
}

func done(err error) (bool, error) {
	if errors.Is(err, errRefused) {
		return false, nil
	}
	return err == nil, err
}
