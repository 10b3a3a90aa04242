package credential

import (
	"context"
	"sync"
)

// Store keeps what a login or a refresh brought.
type Store interface {
	// Locked runs do while no other call, of this process or another, holds the account
	// id. After an error do did not run. The first line of id is for people.
	Locked(ctx context.Context, id string, do func(Entry)) error
}

// Entry is an account while it is locked.
type Entry = interface {
	// Get returns what is kept, nil for nothing.
	Get() ([]byte, error)
	// Put keeps data, which is JSON; nil removes what is kept. After an error data is
	// kept until the process ends.
	Put(data []byte) error
}

// memory is a Store that ends with the process.
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
