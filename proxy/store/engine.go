package store

import (
	"context"
	"time"
)

// Engine keeps what a [Store] gives it: names that mean nothing, and sealed bytes. It is safe for concurrent use, does each
// operation at once or not at all, and returns an error that errors.Is one of ErrAbsent, ErrFull, ErrTooLarge and ErrRejected,
// or any other if it cannot be reached.
type Engine interface {
	Ping(ctx context.Context) error

	Get(ctx context.Context, key string) ([]byte, error)
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// Add sets a value where there is none, and reports whether it has.
	Add(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error)
	// Swap replaces a value that begins with one of these tags, which are of one length; without a value, it deletes it.
	Swap(ctx context.Context, key string, tags [][]byte, value []byte, ttl time.Duration) (bool, error)
	// Extend sets the expiry of a value that begins with tag.
	Extend(ctx context.Context, key string, tag []byte, ttl time.Duration) (bool, error)
	Take(ctx context.Context, key string) ([]byte, error)
	Delete(ctx context.Context, key string) error

	// Count adds n to a number that expires at the end of the window, which begins with the first use.
	Count(ctx context.Context, key string, n int64, window time.Duration) (int64, error)
	Charge(ctx context.Context, key string, c *Charge) (Charged, error)
	Correct(ctx context.Context, key string, limits []Limit, to []Correction) error

	// Join puts a member into a set until its expiry; of more than most members, those that would expire first leave.
	Join(ctx context.Context, set string, member []byte, ttl time.Duration, most int) error
	Leave(ctx context.Context, set string, members ...[]byte) error
	// Members returns up to count members, the one that expires last first, after skipping skip.
	Members(ctx context.Context, set string, skip, count int) ([]Member, error)

	Publish(ctx context.Context, channel string, message []byte) error
	// Subscribe calls message for each message, and connected each time that it begins to listen. It listens again after a
	// failure. It returns when ctx ends.
	Subscribe(ctx context.Context, channel string, message func([]byte), connected func())

	Close() error
}

// Member is a member of a set.
type Member struct {
	Name    []byte
	Expires time.Time // by the engine's clock
}
