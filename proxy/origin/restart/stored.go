package restart

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// The server has the log level and the subscriptions of a session, until it loses the session. If replicas share a store, they are there as
// well, since the client may have sent them through any replica: a change is written before the server gets it, and the replicas read all of
// them when they go on in another session.

const (
	stateKind = "server_session_state" // of the keys
	// storePause is how long a change that could not be stored waits before it is tried again.
	storePause = 2 * time.Second
	// storeTries bounds how often a change is tried while other replicas store theirs.
	storeTries = 8
)

// unstored is what the client has changed through this replica and the store may lack.
type unstored struct {
	turn    chan struct{} // holds a value while the changes are being stored
	changes []*change     // the newest last, of those about the same only one
	size    int           // bytes of their messages
	waits   bool          // they are tried again later
	stored  bool          // the store has had some
}

// change is a message of the client.
type change struct {
	about   string
	message []byte
}

// shared returns the store that has the session's state; nil if there is none.
func (c *HTTP) shared() *store.Store {
	if c.was.Local {
		return nil
	}
	return c.host.Shared()
}

// key returns the key of what the store has of the session that the client's session began with.
func (c *HTTP) key(kind string) store.Key {
	mark := sealed.ServerMark(c.host.Config().Upstream)
	return store.Key{Kind: kind, Name: string(mark[:]) + c.was.Named}
}

// life returns how long the store has to know of the session.
func (c *HTTP) life() time.Duration {
	return time.Until(c.was.Made.Add(min(c.host.Config().Session.MaxAge, store.MaxTTL)))
}

// note remembers a message of the client, and reports whether there is something to store.
func (c *HTTP) note(body []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	about := c.memory.Note(body)
	if about == "" || c.shared() == nil {
		return false
	}
	c.toStore(about, body)
	return true
}

// toStore adds a message to those that the store may lack; c.mu must be held.
func (c *HTTP) toStore(about string, message []byte) {
	u := &c.unstored
	c.drop(func(other *change) bool { return other.about == about })
	if u.size+len(message) > pipes.MaxSubscriptions || c.memory.Kept.Keep(len(message)) != nil {
		c.host.Log.Debug("no room for a change of a session that waits for the store: another replica does not restore it")
		return
	}
	u.size += len(message)
	u.changes = append(u.changes, &change{about, bytes.Clone(message)})
}

// drop removes changes; c.mu must be held.
func (c *HTTP) drop(which func(*change) bool) {
	u := &c.unstored
	u.changes = slices.DeleteFunc(u.changes, func(one *change) bool {
		if !which(one) {
			return false
		}
		u.size -= len(one.message)
		c.memory.Kept.Drop(len(one.message))
		return true
	})
}

// store writes the changes that the store lacks. If that fails, they are tried again later.
func (c *HTTP) store() {
	if err := c.storeNow(); err != nil {
		c.host.Log.Debug("cannot store the log level and the subscriptions of a session: another replica may not restore the last change", zap.Error(err))
		c.storeLater()
	}
}

// storeNow is store, and fails once.
func (c *HTTP) storeNow() error {
	u := &c.unstored
	u.turn <- struct{}{}
	defer func() { <-u.turn }()
	c.mu.Lock()
	changes := slices.Clone(u.changes)
	c.mu.Unlock()
	s, life := c.shared(), c.life()
	if s == nil || len(changes) == 0 || life < time.Second {
		return nil
	}
	err := error(nil)
	for range storeTries {
		var there []byte
		if there, err = s.Get(c.host.Serving, c.key(stateKind)); err != nil && !errors.Is(err, store.ErrAbsent) {
			return err
		}
		absent := err != nil
		now := pipes.Memory{NoAnswers: true}
		now.Become(requestsIn(there))
		for _, one := range changes {
			now.Note(one.message)
		}
		value, done := slices.Concat([]byte("["), bytes.Join(now.State(), []byte(",")), []byte("]")), false
		if absent {
			done, err = s.Add(c.host.Serving, c.key(stateKind), value, life)
		} else {
			done, err = s.Swap(c.host.Serving, c.key(stateKind), there, value, life)
		}
		if err != nil {
			return err
		}
		if done {
			c.mu.Lock()
			defer c.mu.Unlock()
			u.stored = true
			c.drop(func(one *change) bool { return slices.Contains(changes, one) })
			return nil
		}
	}
	return errors.New("other replicas change it again and again")
}

// requestsIn returns the requests in what the store has.
func requestsIn(value []byte) (all [][]byte) {
	for _, m := range gjson.ParseBytes(value).Array() {
		all = append(all, []byte(m.Raw))
	}
	return all
}

// storeLater tries again, until the store has all changes or the session is over.
func (c *HTTP) storeLater() {
	u := &c.unstored
	c.mu.Lock()
	defer c.mu.Unlock()
	if u.waits {
		return
	}
	u.waits = true
	c.host.Spawn(func() {
		for again := true; again; {
			over := pipes.Sleep(c.host.Draining, storePause) != nil || c.session.Over()
			if !over {
				_ = c.storeNow()
			}
			c.mu.Lock()
			again = !over && len(u.changes) > 0
			u.waits = again
			c.mu.Unlock()
		}
	})
}

// storeAgain writes all that this replica knows.
func (c *HTTP) storeAgain() {
	if c.shared() == nil {
		return
	}
	c.mu.Lock()
	for _, m := range c.memory.State() {
		c.toStore(c.memory.Note(m), m)
	}
	c.mu.Unlock()
	c.store()
}

// recall makes what the store has, with the changes that it lacks, what a new session has to know. Without an answer of the store, that is
// what the client has sent through this replica.
func (c *HTTP) recall(ctx context.Context) {
	s := c.shared()
	if s == nil {
		return
	}
	value, err := s.Get(ctx, c.key(stateKind))
	switch {
	case errors.Is(err, store.ErrAbsent): // it may have lost it
		c.storeAgain()
		return
	case err != nil:
		c.host.Log.Debug("cannot read the log level and the subscriptions of a session that the server has lost: those that this replica knows are restored", zap.Error(err))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory.Become(requestsIn(value))
	for _, one := range c.unstored.changes {
		c.memory.Note(one.message)
	}
	c.partial, c.unstored.stored = false, true
}

// forget deletes what the store has of a session that its client has ended.
func (c *HTTP) forget(ctx context.Context) {
	c.mu.Lock()
	stored := c.unstored.stored
	c.mu.Unlock()
	s := c.shared()
	if s == nil || !stored {
		return
	}
	if err := s.Delete(ctx, c.key(stateKind)); err != nil {
		c.host.Log.Debug("cannot delete the state of an ended session: it expires", zap.Error(err))
	}
}
