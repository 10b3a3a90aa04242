package credential

import (
	"context"
	"sync"
)

// Store keeps the tokens of logins and refreshes.
type Store interface {
	// Locked locks the account id and runs do. No other call, in this process or another one,
	// runs for the same account meanwhile. If Locked returns an error, do did not run. The
	// first line of id is a text by which people recognize the account.
	Locked(ctx context.Context, id string, do func(Entry)) error
}

// Entry is an account while it is locked.
type Entry = interface {
	// Get returns the stored data, or nil if there is none.
	Get() ([]byte, error)
	// Put stores data, which is JSON; nil removes the stored data. After an error, data is
	// kept in memory until the process ends.
	Put(data []byte) error
}

// memory is a Store that keeps tokens in memory, until the process ends.
type memory struct {
	mu  sync.Mutex
	all map[string]*memoryEntry
}

type memoryEntry struct {
	lock chan struct{}
	data []byte
}

func (m *memory) Locked(ctx context.Context, id string, do func(Entry)) error {
	m.mu.Lock()
	e := m.all[id]
	if e == nil {
		e = &memoryEntry{lock: make(chan struct{}, 1)}
		m.all[id] = e
	}
	m.mu.Unlock()
	select {
	case e.lock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-e.lock }()
	do(e)
	return nil
}

func (e *memoryEntry) Get() ([]byte, error) { return e.data, nil }

func (e *memoryEntry) Put(data []byte) error {
	e.data = data
	return nil
}
