package legacyclient

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/ended"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A modern server has no sessions, so that the log level and the subscriptions of a client's session are in the Conn. If
// replicas share a store, they are there as well: written when they change, and read when another replica takes the
// session over. While several replicas serve one session, each is told of the changes of the others, and reads them
// before the next request.

const (
	stateKind = "session_state" // of the keys
	// readPause is how long a session whose state could not be read waits before it is tried again.
	readPause = 2 * time.Second
	// stateTries bounds how often a change is tried while other replicas change the state.
	stateTries = 8
	// keptMarks bounds the marks in a stored state, and the writes without an answer that a session remembers.
	keptMarks = 8
)

// Named tells the session what its id contains. From now on, other replicas can take it over.
func (c *Conn) Named(t *sealed.Session) {
	if c.host.Changes == nil || t.Local || t.Serial == (ended.Serial{}) {
		return
	}
	name := string(appendSerial(nil, t.Serial))
	c.shared.store, c.shared.turn = c.host.Store, make(chan struct{}, 1)
	c.shared.key = store.Key{Kind: stateKind, Name: name}
	c.shared.until = t.Made.Add(min(c.host.Config().Session.MaxAge, store.MaxTTL))
	context.AfterFunc(c.life, c.host.Changes.Watch(name, c.outdated))
}

// Resumed is Named for a session that began in another process: what that one has stored is read before the next message.
func (c *Conn) Resumed(t *sealed.Session) {
	c.Named(t)
	c.shared.stale.Store(c.shared.store != nil)
}

// outdated makes the session read its state: before its next request, or now if its client has a standing stream, which
// may be all that it uses here.
func (c *Conn) outdated() {
	c.shared.stale.Store(true)
	if c.news.standing() != nil && c.host.Draining.Err() == nil {
		c.host.Spawn(func() { c.refresh(c.life) })
	}
}

// refresh reads the state if another replica may have changed it.
func (c *Conn) refresh(ctx context.Context) {
	s := &c.shared
	if !s.stale.Load() {
		return
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	switch {
	case !s.stale.Load():
		return
	case time.Now().Before(s.pause):
		c.refreshLater()
		return
	}
	s.stale.Store(false) // before it is read, so that no later change is missed
	value, err := s.store.Get(context.WithoutCancel(ctx), s.key)
	switch {
	case errors.Is(err, store.ErrAbsent):
		value = nil
	case err != nil:
		s.stale.Store(true)
		s.pause = time.Now().Add(readPause)
		c.refreshLater()
		c.host.Log.Debug("cannot read the log level and the subscriptions of a session that another replica may have changed: tried again", zap.Error(err))
		return
	}
	if s.behind || value == nil && s.known != nil { // not written before, or lost with the store
		c.write(context.WithoutCancel(ctx), value)
		return
	}
	var before state
	_ = json.Unmarshal(s.known, &before)
	if !bytes.Equal(value, s.known) {
		c.adopt(before, value)
	}
}

// refreshLater reads or writes the state after the pause. Without that, a client that only listens would wait for its
// subscriptions, or other replicas for a change, until the next request. c.shared.turn must be held.
func (c *Conn) refreshLater() {
	s := &c.shared
	if s.waits || !s.behind && c.news.standing() == nil {
		return
	}
	s.waits = true
	pause := time.Until(s.pause)
	c.host.Spawn(func() {
		ctx, cancel := context.WithCancel(c.life)
		defer cancel()
		defer context.AfterFunc(c.host.Draining, cancel)()
		err := pipes.Sleep(ctx, pause)
		s.turn <- struct{}{}
		s.waits = false
		<-s.turn
		if err == nil {
			c.refresh(ctx)
		}
	})
}

// adopt makes what is different in a stored value from what the session was before, because other replicas have changed it, the
// state of the session. What its client has changed here since then stays: it may have been told so. c.shared.turn must be held.
func (c *Conn) adopt(before state, value []byte) {
	var now state
	if json.Unmarshal(value, &now) != nil {
		return
	}
	c.shared.known = value
	c.mu.Lock()
	if level := gjson.ParseBytes(c.level).String(); level == before.Level {
		if c.level = nil; mcp.LogLevelOf(now.Level) != mcp.NoLogLevel {
			c.level = wire.AppendQuoted(nil, now.Level)
		}
	}
	var gone []string
	for _, uri := range before.Subscriptions {
		if _, there := slices.BinarySearch(now.Subscriptions, uri); !there {
			gone = append(gone, uri)
		}
	}
	for _, uri := range now.Subscriptions[:min(len(now.Subscriptions), maxWatched)] {
		_, had := slices.BinarySearch(before.Subscriptions, uri)
		if _, watched := c.subs.watched[uri]; !had && !watched && !slices.Contains(c.shared.wanted, uri) {
			c.shared.wanted = append(c.shared.wanted, uri)
		}
	}
	c.mu.Unlock()
	for _, uri := range gone {
		c.unsubscribe(uri)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restore()
}

// save writes the state of the session after a change.
func (c *Conn) save(ctx context.Context) {
	if c.shared.store == nil {
		return
	}
	c.shared.turn <- struct{}{}
	defer func() { <-c.shared.turn }()
	c.write(context.WithoutCancel(ctx), c.shared.known)
}

// write replaces the stored value there by the state of the session, and tells the other replicas. Where another
// replica has written meanwhile, the last change of a subscription or the level wins. c.shared.turn must be held.
func (c *Conn) write(ctx context.Context, there []byte) {
	s := &c.shared
	life := time.Until(s.until)
	if life < time.Second {
		return
	}
	var err error
	for try := range stateTries {
		var value []byte
		next, here := c.merged(there)
		if value, err = json.Marshal(next); err != nil {
			break
		}
		var done bool
		if there == nil {
			done, err = s.store.Add(ctx, s.key, value, life)
		} else {
			done, err = s.store.Swap(ctx, s.key, there, value, life)
		}
		if err != nil { // the store may have the value all the same
			s.unsure = append(s.unsure[max(0, len(s.unsure)+1-keptMarks):], next)
			break
		}
		if done {
			if s.behind, s.unsure = false, nil; try > 0 || !bytes.Equal(there, s.known) {
				c.adopt(here, value)
			}
			s.known = value
			if err = c.host.Changes.Tell(ctx, s.key.Name); err == nil {
				return
			}
			break
		}
		if there, err = s.store.Get(ctx, s.key); errors.Is(err, store.ErrAbsent) {
			there, err = nil, nil
		}
		if err != nil {
			break
		}
	}
	s.behind = true
	s.stale.Store(true)
	s.pause = time.Now().Add(readPause)
	c.refreshLater()
	c.host.Log.Debug("cannot store the log level and the subscriptions of a session: another replica may not have the last change", zap.Error(err))
}

// merged returns the state of the session, with what other replicas have changed in the value there since this one
// last saw it; and here, which is the state without that.
func (c *Conn) merged(there []byte) (next, here state) {
	var before, other state
	_ = json.Unmarshal(c.shared.known, &before)
	_ = json.Unmarshal(there, &other)
	for _, one := range c.shared.unsure {
		if slices.Contains(other.Marks, one.Marks[0]) { // it was stored, and others have changed it since
			before = one
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	level := gjson.ParseBytes(c.level).String()
	here.Level = level
	if level == before.Level && there != nil {
		level = other.Level
	}
	now := map[string]bool{}
	for uri := range c.subs.watched {
		now[uri] = true
	}
	for _, uri := range c.shared.wanted {
		now[uri] = true
	}
	here.Subscriptions = slices.Sorted(maps.Keys(now))
	if there != nil {
		for _, uri := range other.Subscriptions {
			if _, had := slices.BinarySearch(before.Subscriptions, uri); !had {
				now[uri] = true
			}
		}
		for _, uri := range before.Subscriptions {
			if _, has := slices.BinarySearch(other.Subscriptions, uri); !has {
				delete(now, uri)
			}
		}
	}
	if there == nil { // perhaps the store has lost what this is based on
		other.Marks = before.Marks
	}
	marks := append([]string{rand.Text()[:8]}, other.Marks...)
	return state{Level: level, Subscriptions: slices.Sorted(maps.Keys(now)), Marks: marks[:min(len(marks), keptMarks)]}, here
}

// forgetState deletes the stored state of a session that has ended.
func (c *Conn) forgetState(ctx context.Context) {
	s := &c.shared
	if s.store == nil {
		return
	}
	s.turn <- struct{}{}
	known := s.known
	<-s.turn
	if known == nil {
		return
	}
	if err := s.store.Delete(ctx, s.key); err != nil {
		c.host.Log.Debug("cannot delete the state of an ended session: it expires", zap.Error(err))
	}
}

// Subscriptions returns the URIs of the resources that the session is subscribed to here, in order, with spaces between.
func (c *Conn) Subscriptions() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(c.subs.watched)), " ")
}

func appendSerial(dst []byte, s ended.Serial) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, s.Process), s.Number)
}
