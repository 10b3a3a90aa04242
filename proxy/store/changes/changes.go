// Package changes is how replicas tell each other that another one has changed what the store has of a session.
package changes

import (
	"bytes"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// channel is where the changes are told.
const channel = "session_state"

// Channel tells and hears of changes. Make it with [Open].
type Channel struct {
	store *store.Store
	self  string // ends the messages of this process
	stop  func()

	mu      sync.Mutex
	watches map[string]*watch // by the name of the session
}

// watch is a session of this process.
type watch struct{ outdated func() }

// Open listens. missed is called when changes may have been missed, or lost with the store, before all sessions are told so. It must not wait.
func Open(s *store.Store, missed func()) *Channel {
	c := &Channel{store: s, self: rand.Text(), watches: make(map[string]*watch)}
	c.stop = s.Subscribe(channel, c.changed, func() {
		missed()
		c.mu.Lock()
		all := slices.Collect(maps.Values(c.watches))
		c.mu.Unlock()
		for _, w := range all {
			w.outdated()
		}
	})
	return c
}

// Close ends what Open has begun.
func (c *Channel) Close() { c.stop() }

// Watch makes outdated be called when another replica may have changed what the store has of this session, until stop is called. It replaces
// what has watched the session before. outdated must not wait.
func (c *Channel) Watch(session string, outdated func()) (stop func()) {
	w := &watch{outdated}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches[session] = w
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.watches[session] == w {
			delete(c.watches, session)
		}
	}
}

// Tell tells the other replicas that this one has changed what the store has of a session.
func (c *Channel) Tell(ctx context.Context, session string) error {
	return c.store.Publish(ctx, channel, []byte(session+c.self))
}

// changed receives what a replica has told.
func (c *Channel) changed(message []byte) {
	at := len(message) - len(c.self)
	if at < 0 || bytes.HasSuffix(message, []byte(c.self)) {
		return
	}
	c.mu.Lock()
	w := c.watches[string(message[:at])]
	c.mu.Unlock()
	if w != nil {
		w.outdated()
	}
}
