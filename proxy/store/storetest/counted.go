package storetest

import (
	"maps"
	"sync"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// Counter counts the uses of a store.
type Counter struct {
	mu   sync.Mutex
	uses map[string]int
}

// Observe is the Options.Observe of the store to count.
func (c *Counter) Observe(op store.Operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uses == nil {
		c.uses = make(map[string]int)
	}
	c.uses[op.Name+" "+op.Kind]++
}

// Uses returns how often each operation was used, as "get original", and forgets it.
func (c *Counter) Uses() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	uses := maps.Clone(c.uses)
	c.uses = nil
	return uses
}

// Total returns the number of all uses since the last call of Uses.
func (c *Counter) Total() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, uses := range c.uses {
		n += uses
	}
	return n
}

// Memory returns stores that share one memory, as replicas share an engine, with one counter for each. They are closed with
// the test.
func Memory(t testing.TB, n int) (stores []*store.Store, counters []*Counter) {
	t.Helper()
	engine := store.NewMemory(store.Bounds{})
	for range n {
		c := new(Counter)
		s := store.New(engine, store.Options{Keys: Keys(1), Observe: c.Observe})
		t.Cleanup(func() { s.Close() })
		stores, counters = append(stores, s), append(counters, c)
	}
	return stores, counters
}
