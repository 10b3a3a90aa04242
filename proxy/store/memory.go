package store

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Bounds limits what [Memory] keeps.
type Bounds struct {
	Bytes   int // of all values; 0 means 64 MiB
	Entries int // 0 means 65,536
}

// Memory is an engine in this process. Several Stores may share it.
type Memory struct {
	bounds Bounds

	mu       sync.Mutex
	entries  map[string]*entry
	bytes    int
	swept    time.Time
	channels map[string]map[*listener]struct{}
}

// entry is a value, a number, an account or a set.
type entry struct {
	expires time.Time
	value   []byte
	number  int64
	account account
	members map[string]time.Time
	names   int // bytes of the names of members
	size    int
}

// entrySize is about what an entry needs beside its value, and a member of a set or a limit beside its name.
const entrySize = 128

type listener struct {
	messages chan []byte
	missed   bool // messages was full
}

// NewMemory returns an empty engine.
func NewMemory(b Bounds) *Memory {
	if b.Bytes <= 0 {
		b.Bytes = 64 << 20
	}
	if b.Entries <= 0 {
		b.Entries = 1 << 16
	}
	return &Memory{bounds: b, entries: make(map[string]*entry), channels: make(map[string]map[*listener]struct{})}
}

// Ping implements [Engine].
func (m *Memory) Ping(ctx context.Context) error { return ctx.Err() }

// Close implements [Engine]. The memory stays, for the other Stores.
func (m *Memory) Close() error { return nil }

// get returns an entry that has not expired, or nil. m.mu must be held.
func (m *Memory) get(key string, now time.Time) *entry {
	e := m.entries[key]
	if e != nil && !now.Before(e.expires) {
		m.remove(key)
		return nil
	}
	return e
}

func (m *Memory) remove(key string) {
	if e := m.entries[key]; e != nil {
		m.bytes -= e.size
		delete(m.entries, key)
	}
}

// put keeps an entry, if there is room for it at its present size. m.mu must be held.
func (m *Memory) put(key string, e *entry, now time.Time) error {
	size := entrySize + len(key) + len(e.value) + entrySize*(len(e.account)+len(e.members)) + e.names
	had := m.entries[key]
	grown, more := size, 1
	if had != nil {
		grown, more = size-had.size, 0
	}
	full := func() bool {
		return (grown > 0 && m.bytes+grown > m.bounds.Bytes) || len(m.entries)+more > m.bounds.Entries
	}
	if full() || now.Sub(m.swept) > time.Minute {
		m.sweep(now)
		if m.entries[key] != had {
			had, grown, more = nil, size, 1
		}
		if full() {
			return ErrFull
		}
	}
	e.size = size
	m.bytes += grown
	m.entries[key] = e
	return nil
}

// sweep removes what has expired.
func (m *Memory) sweep(now time.Time) {
	if now.Sub(m.swept) < 100*time.Millisecond {
		return
	}
	m.swept = now
	for key, e := range m.entries {
		if !now.Before(e.expires) {
			m.remove(key)
		}
	}
}

// Get implements [Engine].
func (m *Memory) Get(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.get(key, time.Now()); e != nil {
		return bytes.Clone(e.value), nil
	}
	return nil, ErrAbsent
}

// Take implements [Engine].
func (m *Memory) Take(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.get(key, time.Now())
	if e == nil {
		return nil, ErrAbsent
	}
	m.remove(key)
	return e.value, nil
}

// Set implements [Engine].
func (m *Memory) Set(_ context.Context, key string, value []byte, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	return m.put(key, &entry{expires: now.Add(ttl), value: bytes.Clone(value)}, now)
}

// Add implements [Engine].
func (m *Memory) Add(_ context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.get(key, now) != nil {
		return false, nil
	}
	err := m.put(key, &entry{expires: now.Add(ttl), value: bytes.Clone(value)}, now)
	return err == nil, err
}

// Swap implements [Engine].
func (m *Memory) Swap(_ context.Context, key string, tags [][]byte, value []byte, ttl time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if e := m.get(key, now); e == nil || !slices.ContainsFunc(tags, func(tag []byte) bool { return bytes.HasPrefix(e.value, tag) }) {
		return false, nil
	}
	if value == nil {
		m.remove(key)
		return true, nil
	}
	err := m.put(key, &entry{expires: now.Add(ttl), value: bytes.Clone(value)}, now)
	return err == nil, err
}

// Extend implements [Engine].
func (m *Memory) Extend(_ context.Context, key string, tag []byte, ttl time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	e := m.get(key, now)
	if e == nil || !bytes.HasPrefix(e.value, tag) {
		return false, nil
	}
	e.expires = now.Add(ttl)
	return true, nil
}

// Delete implements [Engine].
func (m *Memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(key)
	return nil
}

// Count implements [Engine].
func (m *Memory) Count(_ context.Context, key string, n int64, window time.Duration) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	e := m.get(key, now)
	if e == nil {
		e = &entry{expires: now.Add(window)}
		if err := m.put(key, e, now); err != nil {
			return 0, err
		}
	}
	e.number += n
	return e.number, nil
}

// Charge implements [Engine].
func (m *Memory) Charge(_ context.Context, key string, c *Charge) (out Charged, err error) {
	now := cmp.Or(c.Now, time.Now())
	err = m.balance(key, func(a account) (expires float64) {
		out, expires = a.charge(c, float64(now.UnixMicro()))
		return expires
	})
	return out, err
}

// Correct implements [Engine].
func (m *Memory) Correct(_ context.Context, key string, limits []Limit, to []Correction) error {
	return m.balance(key, func(a account) float64 { return a.correct(limits, to, float64(time.Now().UnixMicro())) })
}

// balance changes the account of a key. change returns until when the account is needed, in microseconds.
func (m *Memory) balance(key string, change func(account) float64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	e := m.get(key, now)
	if e == nil {
		e = &entry{account: account{}}
	}
	if until := change(e.account); until > float64(e.expires.UnixMicro()) {
		e.expires = time.UnixMicro(min(int64(until)+1, now.Add(MaxTTL).UnixMicro()))
	}
	if len(e.account) == 0 {
		return nil
	}
	return m.put(key, e, now)
}

// Join implements [Engine].
func (m *Memory) Join(_ context.Context, set string, member []byte, ttl time.Duration, most int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	e := m.get(set, now)
	if e == nil {
		e = &entry{members: make(map[string]time.Time)}
	}
	until := now.Add(ttl)
	_, was := e.members[string(member)]
	e.join(string(member), until)
	if err := m.put(set, e, now); err != nil {
		if !was {
			e.leave(string(member))
		}
		return err
	}
	if until.After(e.expires) {
		e.expires = until
	}
	if len(e.members) > most {
		for _, first := range e.sorted(now)[most:] {
			e.leave(string(first.Name))
		}
	}
	return nil
}

func (e *entry) join(name string, until time.Time) {
	if _, was := e.members[name]; !was {
		e.names += len(name)
	}
	e.members[name] = until
}

func (e *entry) leave(name string) {
	if _, was := e.members[name]; was {
		e.names -= len(name)
		delete(e.members, name)
	}
}

// Leave implements [Engine].
func (m *Memory) Leave(_ context.Context, set string, members ...[]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	e := m.get(set, now)
	if e == nil {
		return nil
	}
	for _, member := range members {
		e.leave(string(member))
	}
	if len(e.members) == 0 {
		m.remove(set)
		return nil
	}
	return m.put(set, e, now)
}

// Members implements [Engine].
func (m *Memory) Members(_ context.Context, set string, skip, count int) ([]Member, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	e := m.get(set, now)
	if e == nil {
		return nil, nil
	}
	all := e.sorted(now)
	return all[min(skip, len(all)):min(skip+count, len(all))], nil
}

// sorted removes the members that have expired, and returns the others, the one that expires last first.
func (e *entry) sorted(now time.Time) []Member {
	var all []Member
	for name, until := range e.members {
		if !now.Before(until) {
			e.leave(name)
			continue
		}
		all = append(all, Member{[]byte(name), until})
	}
	slices.SortFunc(all, func(a, b Member) int {
		return cmp.Or(b.Expires.Compare(a.Expires), bytes.Compare(b.Name, a.Name))
	})
	return all
}

// Publish implements [Engine].
func (m *Memory) Publish(_ context.Context, channel string, message []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for l := range m.channels[channel] {
		select {
		case l.messages <- bytes.Clone(message):
		default:
			l.missed = true
		}
	}
	return nil
}

// Subscribe implements [Engine].
func (m *Memory) Subscribe(ctx context.Context, channel string, message func([]byte), connected func()) {
	l := &listener{messages: make(chan []byte, 256)}
	m.mu.Lock()
	if m.channels[channel] == nil {
		m.channels[channel] = make(map[*listener]struct{})
	}
	m.channels[channel][l] = struct{}{}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if delete(m.channels[channel], l); len(m.channels[channel]) == 0 {
			delete(m.channels, channel)
		}
	}()
	connected()
	for {
		select {
		case <-ctx.Done():
			return
		case text := <-l.messages:
			message(text)
		}
		m.mu.Lock()
		missed := l.missed
		l.missed = false
		m.mu.Unlock()
		if missed {
			connected()
		}
	}
}
