package world

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// engine is the store of the world, which all replicas share, and which can be away.
type engine struct {
	mu     sync.Mutex
	memory *store.Memory
	away   time.Time     // until when it is away
	slow   time.Duration // how long each operation takes
	killed map[string]int
	parts  chan struct{} // closed, and replaced, when processes may lose it

	wrong func(text string) // is told of a key that never ends
}

// ends checks that what a process writes has an end, or the store would keep it for ever.
func (s *seen) ends(what, key string, ttl time.Duration) {
	if ttl <= 0 || ttl > longest {
		s.e.wrong(fmt.Sprintf("%s: %s writes a key %.20q into the store that ends in %v", s.name, what, key, ttl))
	}
}

// longest is more than anything that dragoman keeps in a store.
const longest = 60 * 24 * time.Hour

func newEngine(wrong func(text string)) *engine {
	return &engine{memory: store.NewMemory(store.Bounds{}), killed: map[string]int{}, parts: make(chan struct{}), wrong: wrong}
}

var errAway = errors.New("dial tcp 127.0.0.1:1: connect: connection refused")

// fail makes the store fail: "away" for d, "empty" as after a restart, "slow" by d.
func (e *engine) fail(how string, d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch how {
	case "away":
		e.away = time.Now().Add(d)
		e.part()
	case "slow":
		e.slow = d
	case "empty":
		e.memory = store.NewMemory(store.Bounds{})
		e.part()
	}
}

// parting returns what is closed when processes may lose the store.
func (e *engine) parting() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.parts
}

// part closes it. The lock is held.
func (e *engine) part() {
	close(e.parts)
	e.parts = make(chan struct{})
}

func (e *engine) heal() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away, e.slow = time.Time{}, 0
}

// kill makes all that a process does with the store fail. A new one of its name is not affected.
func (e *engine) kill(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.killed[name]++
	e.part()
}

// of returns the store as a process of that name sees it, which begins now.
func (e *engine) of(name string) store.Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &seen{e: e, name: name, life: e.killed[name]}
}

// seen is the store as one process sees it.
type seen struct {
	e    *engine
	name string
	life int
}

var _ store.Engine = (*seen)(nil)

// there returns the memory of now, after the time that an operation takes, or an error if the store is away.
func (s *seen) there(ctx context.Context) (*store.Memory, error) {
	s.e.mu.Lock()
	away := time.Now().Before(s.e.away) || s.e.killed[s.name] != s.life
	slow, memory := s.e.slow, s.e.memory
	s.e.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if away {
		return nil, errAway
	}
	return memory, ctx.Err()
}

// with does an operation that has a result.
func with[T any](ctx context.Context, s *seen, do func(*store.Memory) (T, error)) (T, error) {
	m, err := s.there(ctx)
	if err != nil {
		return *new(T), err
	}
	return do(m)
}

// on does an operation that has none.
func (s *seen) on(ctx context.Context, do func(*store.Memory) error) error {
	m, err := s.there(ctx)
	if err != nil {
		return err
	}
	return do(m)
}

func (s *seen) Ping(ctx context.Context) error {
	return s.on(ctx, func(*store.Memory) error { return nil })
}

func (s *seen) Get(ctx context.Context, key string) ([]byte, error) {
	return with(ctx, s, func(m *store.Memory) ([]byte, error) { return m.Get(ctx, key) })
}

func (s *seen) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	s.ends("Set", key, ttl)
	return s.on(ctx, func(m *store.Memory) error { return m.Set(ctx, key, value, ttl) })
}

func (s *seen) Add(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	s.ends("Add", key, ttl)
	return with(ctx, s, func(m *store.Memory) (bool, error) { return m.Add(ctx, key, value, ttl) })
}

func (s *seen) Swap(ctx context.Context, key string, tags [][]byte, value []byte, ttl time.Duration) (bool, error) {
	if value != nil {
		s.ends("Swap", key, ttl)
	}
	return with(ctx, s, func(m *store.Memory) (bool, error) { return m.Swap(ctx, key, tags, value, ttl) })
}

func (s *seen) Extend(ctx context.Context, key string, tag []byte, ttl time.Duration) (bool, error) {
	s.ends("Extend", key, ttl)
	return with(ctx, s, func(m *store.Memory) (bool, error) { return m.Extend(ctx, key, tag, ttl) })
}

func (s *seen) Take(ctx context.Context, key string) ([]byte, error) {
	return with(ctx, s, func(m *store.Memory) ([]byte, error) { return m.Take(ctx, key) })
}

func (s *seen) Delete(ctx context.Context, key string) error {
	return s.on(ctx, func(m *store.Memory) error { return m.Delete(ctx, key) })
}

func (s *seen) Count(ctx context.Context, key string, n int64, window time.Duration) (int64, error) {
	s.ends("Count", key, window)
	return with(ctx, s, func(m *store.Memory) (int64, error) { return m.Count(ctx, key, n, window) })
}

func (s *seen) Charge(ctx context.Context, key string, c *store.Charge) (store.Charged, error) {
	return with(ctx, s, func(m *store.Memory) (store.Charged, error) { return m.Charge(ctx, key, c) })
}

func (s *seen) Correct(ctx context.Context, key string, limits []store.Limit, to []store.Correction) error {
	return s.on(ctx, func(m *store.Memory) error { return m.Correct(ctx, key, limits, to) })
}

func (s *seen) Join(ctx context.Context, set string, member []byte, ttl time.Duration, most int) error {
	s.ends("Join", set, ttl)
	return s.on(ctx, func(m *store.Memory) error { return m.Join(ctx, set, member, ttl, most) })
}

func (s *seen) Leave(ctx context.Context, set string, members ...[]byte) error {
	return s.on(ctx, func(m *store.Memory) error { return m.Leave(ctx, set, members...) })
}

func (s *seen) Members(ctx context.Context, set string, skip, count int) ([]store.Member, error) {
	return with(ctx, s, func(m *store.Memory) ([]store.Member, error) { return m.Members(ctx, set, skip, count) })
}

func (s *seen) Publish(ctx context.Context, channel string, message []byte) error {
	return s.on(ctx, func(m *store.Memory) error { return m.Publish(ctx, channel, message) })
}

// Subscribe listens, but for the time when the store is away, and begins anew when it was emptied, as it was started again then.
func (s *seen) Subscribe(ctx context.Context, channel string, message func([]byte), connected func()) {
	for ctx.Err() == nil {
		parts := s.e.parting()
		if m, err := s.there(ctx); err == nil {
			s.listen(ctx, m, parts, channel, message, connected)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// listen subscribes at m until the store is another one, or away, which it finds out within a second. It does not look each second, as that
// would be a tenth of what a world costs.
func (s *seen) listen(ctx context.Context, m *store.Memory, parts <-chan struct{}, channel string, message func([]byte), connected func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun := time.Now()
	go func() {
		defer cancel()
		for {
			select {
			case <-parts:
			case <-ctx.Done():
				return
			}
			select {
			case <-time.After(time.Second - time.Since(begun)%time.Second):
			case <-ctx.Done():
				return
			}
			parts = s.e.parting()
			if now, err := s.there(ctx); err != nil || now != m {
				return
			}
		}
	}()
	m.Subscribe(ctx, channel, message, connected)
}

func (s *seen) Close() error { return nil }
