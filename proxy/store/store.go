package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// The defaults of [Options].
const (
	DefaultTimeout  = 200 * time.Millisecond
	DefaultMaxValue = 8 << 20
	DefaultAtOnce   = 512
)

// MaxTTL bounds every expiry.
const MaxTTL = 400 * 24 * time.Hour

// Options says how a Store uses its engine.
type Options struct {
	Keys     [][]byte      // the first one names and seals, each of them opens; none leaves names and values open
	Prefix   string        // of all keys
	Timeout  time.Duration // for one operation; 0 means DefaultTimeout
	MaxValue int           // the largest value; 0 means DefaultMaxValue
	AtOnce   int           // operations at one time, of which more wait; 0 means DefaultAtOnce

	Observe func(Operation)          // is told of each operation; may be nil
	Changed func(up bool, err error) // is told when the engine goes down, and when it is there again; may be nil
}

// Operation is one use of the engine, as metrics and tests see it.
type Operation struct {
	Name    string // such as "get"
	Kind    string // of the key; "" for none
	Outcome Outcome
	Took    time.Duration
}

// Outcome says how an operation ended.
type Outcome string

// The outcomes, as metrics name them.
const (
	OK          Outcome = "ok"
	Absent      Outcome = "absent"
	Refused     Outcome = "refused"    // by a limit, a lock, or because the value is another one
	Unreadable  Outcome = "unreadable" // not sealed by us for this key
	Unavailable Outcome = "unavailable"
	Skipped     Outcome = "skipped" // the engine is known to be down, and was not asked
	Full        Outcome = "full"
	TooLarge    Outcome = "too_large"
	Cancelled   Outcome = "cancelled" // by the caller
	Failed      Outcome = "failed"
)

// Store keeps values in an engine. It is safe for concurrent use. Each method asks the engine once, but for those whose
// comment says otherwise; while there are two keys, a value that the first one does not name is looked for with the second.
type Store struct {
	engine  Engine
	vault   atomic.Pointer[vault]
	options Options
	health  health
	room    chan struct{} // holds a value for each operation under way

	mu      sync.Mutex
	renewed chan struct{} // is closed when vault is replaced
}

// New returns a Store over engine, which [Store.Close] closes.
func New(engine Engine, o Options) *Store {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxValue <= 0 {
		o.MaxValue = DefaultMaxValue
	}
	if o.AtOnce <= 0 {
		o.AtOnce = DefaultAtOnce
	}
	s := &Store{engine: engine, options: o, room: make(chan struct{}, o.AtOnce), renewed: make(chan struct{})}
	s.vault.Store(newVault(o.Keys, o.Prefix))
	s.health.begin(s.Ping, o.Changed)
	return s
}

// Shared reports whether other processes may have the same store. A store without keys is this process's own.
func (s *Store) Shared() bool { return len(s.vault.Load().secrets) > 0 }

// Renew takes other keys into use.
func (s *Store) Renew(keys [][]byte) {
	v := newVault(keys, s.options.Prefix)
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.is(s.vault.Load()) {
		return
	}
	s.vault.Store(v)
	close(s.renewed)
	s.renewed = make(chan struct{})
}

// current returns the vault, and what is closed when it is replaced.
func (s *Store) current() (*vault, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.vault.Load(), s.renewed
}

// Close ends all subscriptions and closes the engine.
func (s *Store) Close() error {
	s.health.end()
	return s.engine.Close()
}

// Up reports whether the engine answered last.
func (s *Store) Up() bool { return !s.health.down.Load() }

// Ping asks the engine whether it is there, also if it is known to be down.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	return classified(s.engine.Ping(ctx))
}

// ask runs one operation on the engine, within the time for one, and counts it.
func (s *Store) ask(ctx context.Context, name string, key Key, do func(ctx context.Context) error) error {
	began := time.Now()
	err := s.asked(ctx, do)
	if s.options.Observe != nil {
		s.options.Observe(Operation{Name: name, Kind: key.Kind, Outcome: outcome(ctx, err), Took: time.Since(began)})
	}
	switch {
	case err == nil, err == errRefused, err == errUnreadable, errors.Is(err, errSkipped):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s %s: %w", name, key.Kind, err)
}

func (s *Store) asked(ctx context.Context, do func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.health.down.Load() {
		return errSkipped
	}
	within, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	select {
	case s.room <- struct{}{}: // also where the process got no processor for so long that the time is over
	default:
		select {
		case s.room <- struct{}{}:
		case <-within.Done():
			return cmp.Or(ctx.Err(), errBusy)
		}
	}
	err := classified(do(within))
	<-s.room
	if ctx.Err() == nil {
		s.health.saw(err)
	}
	return err
}

func outcome(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, errRefused):
		return Refused
	case errors.Is(err, errUnreadable):
		return Unreadable
	case errors.Is(err, ErrAbsent):
		return Absent
	case ctx.Err() != nil:
		return Cancelled
	case errors.Is(err, errSkipped):
		return Skipped
	case errors.Is(err, ErrRejected):
		return Failed
	case errors.Is(err, ErrUnavailable):
		return Unavailable
	case errors.Is(err, ErrFull):
		return Full
	case errors.Is(err, ErrTooLarge):
		return TooLarge
	}
	return Failed
}
