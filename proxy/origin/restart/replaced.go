package restart

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The id of a client's session contains the server's session id. If the server loses that session, each replica that
// serves the client would begin another one. If the replicas share a store, one of them does, and the others read there
// which session has replaced the lost one. They look when the server has refused a session, and one that has a standing stream also when it is
// told: such a stream may stay open although its session is lost.

const (
	replacedKind = "server_session" // of the keys
	lockKind     = "server_session_lock"
)

// lockLife is how long the lock of a replica that has died lasts. While it lives, it renews the lock.
const lockLife = 10 * time.Second

// replacement is what the store has of a lost session.
type replacement struct {
	Session string `json:"session"`           // the server's id of the session that has replaced it
	Partial bool   `json:"partial"`           // the log level and the subscriptions were not restored
	Cookies []byte `json:"cookies,omitempty"` // in base64, as they need not be UTF-8
}

// share lets one replica at a time begin another session in the place of the one with the number was. It calls begin unless another replica
// has begun one, which it uses then. Without the store, each replica begins one of its own, until they agree.
func (c *HTTP) share(ctx context.Context, was uint64, header []mcp.Header, begin func() error) error {
	s := c.shared()
	if s == nil {
		return begin()
	}
	lock, err := s.Lock(ctx, c.key(lockKind), lockLife)
	if err != nil {
		c.notShared(err)
		defer c.agreeLater(header)
		return begin()
	}
	defer lock.Unlock()
	if c.Number() != was { // outdated has done it
		return nil
	}
	used, err := c.follow(ctx, header)
	if used {
		return nil
	}
	if err != nil {
		c.notShared(err)
	}
	if err := begin(); err != nil {
		return err
	}
	if err := c.tell(ctx); err != nil {
		c.notShared(err)
		c.agreeLater(header)
	}
	return nil
}

// follow continues in the session that another replica has begun, if the store has one that the server knows, and reports whether it does.
// The caller holds the lock.
func (c *HTTP) follow(ctx context.Context, header []mcp.Header) (used bool, err error) {
	there, err := c.there(ctx)
	if err != nil || there.Session == "" || there.Session == c.SessionID() {
		return false, err
	}
	return c.use(ctx, there, header), nil
}

// tell makes the current session that of all replicas. The caller holds the lock.
func (c *HTTP) tell(ctx context.Context) error {
	life := c.life()
	if life < time.Second || c.SessionID() == "" {
		return nil
	}
	c.mu.Lock()
	here := replacement{Session: c.SessionID(), Partial: c.lacks, Cookies: []byte(c.Cookies(sealed.MaxCookies))}
	c.mu.Unlock()
	value, err := json.Marshal(here)
	if err == nil {
		err = c.host.Store.Set(ctx, c.key(replacedKind), value, life)
	}
	if err == nil {
		err = c.host.Changes.Tell(ctx, c.key(replacedKind).Name)
	}
	return err
}

// agreeLater makes the replicas agree as soon as the store can be used.
func (c *HTTP) agreeLater(header []mcp.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agreeing.due = true; c.agreeing.runs {
		return
	}
	c.agreeing.runs = true
	c.host.Spawn(func() {
		for {
			over := pipes.Sleep(c.host.Draining, storePause) != nil || c.session.Over()
			c.mu.Lock()
			if over || !c.agreeing.due {
				c.agreeing.runs = false
				c.mu.Unlock()
				return
			}
			c.agreeing.due = false
			c.mu.Unlock()
			if c.agree(header) != nil {
				c.mu.Lock()
				c.agreeing.due = true
				c.mu.Unlock()
			}
		}
	})
}

// agree makes the session that this replica has begun that of all, unless another one has told its own, and the server knows that.
func (c *HTTP) agree(header []mcp.Header) error {
	ctx, cancel := context.WithTimeout(c.host.Serving, c.host.Config().Upstream.HandshakeTimeout)
	defer cancel()
	lock, err := c.host.Store.Lock(ctx, c.key(lockKind), lockLife)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	used, err := c.follow(ctx, header)
	if err == nil && !used {
		err = c.tell(ctx)
	}
	return err
}

// stands says that a standing stream is open, or being opened, until done is called: only then a session learns from other replicas what they
// have begun in its place. A message that it sends shows that as well.
func (c *HTTP) stands() (done func()) {
	if c.host.Changes == nil || c.was.Local {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stood++; c.stood == 1 {
		c.unwatch = c.host.Changes.Watch(c.key(replacedKind).Name, c.outdated)
	}
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.stood--; c.stood == 0 {
			c.unwatch()
		}
	})
}

// outdated continues in the session that another replica has begun. If the store has lost the one that this replica is in, it gets that again.
func (c *HTTP) outdated() {
	if c.host.Draining.Err() != nil {
		return
	}
	c.host.Spawn(func() {
		there, err := c.there(c.host.Serving)
		first := there.Session == "" && c.Number() == 0 // nothing has replaced it
		if err == nil && !first && there.Session != c.SessionID() && !c.session.Over() && c.agree(c.headerOfStanding()) != nil {
			c.agreeLater(c.headerOfStanding())
		}
	})
}

// headerOfStanding returns the headers of the client's request for its standing stream.
func (c *HTTP) headerOfStanding() []mcp.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.standing) > 0 {
		return c.standing[0].header
	}
	return c.Authorization()
}

func (c *HTTP) notShared(err error) {
	c.host.Log.Info("the replicas cannot agree on the session that replaces one which the server has lost: each of them begins its own", zap.Error(err))
}

// use continues in the session that another replica has begun. It reports false if the server does not know that one
// either.
func (c *HTTP) use(ctx context.Context, there replacement, header []mcp.Header) bool {
	version := c.was.ServerRevision.HeaderName()
	next := c.resume()(there.Session, version)
	if next.Web == nil {
		return false
	}
	next.Web.ShareCookies(c.HTTPSession)
	next.Web.AddCookies(string(there.Cookies))
	h := &pipes.Opening{Of: c.host, Begun: *next, Header: header, ID: mcp.OwnID()}
	if err := c.resend(ctx, h, mcp.Request(h.ID, wire.Ping, "")); err != nil && IsLost(err) {
		return false
	}
	c.mu.Lock()
	complete := there.Partial && !c.partial
	messages, _ := c.memory.Replay()
	c.mu.Unlock()
	if complete && len(messages) > 0 {
		c.resendAll(ctx, h, messages[1:]) // without notifications/initialized
		c.storeAgain()
	}
	c.recall(ctx)
	c.continueIn(there.Session, version, nil, nil)
	c.host.Log.Info("server lost the session; another replica has begun a new one, which is used here as well")
	return true
}

// there returns the session that a replica has begun in the place of the one that c had first, by the store; the zero value for none.
func (c *HTTP) there(ctx context.Context) (there replacement, err error) {
	value, err := c.host.Store.Get(ctx, c.key(replacedKind))
	switch {
	case errors.Is(err, store.ErrAbsent):
		return there, nil
	case err != nil:
		return there, err
	}
	if json.Unmarshal(value, &there) != nil {
		return replacement{}, nil
	}
	return there, nil
}

// Delete ends the current session at the server. If the server does not know it, and another replica has replaced it,
// the other one is ended. told is as in [upstream.Outgoing].
func (c *HTTP) Delete(ctx context.Context, header []mcp.Header, told *[]mcp.Header) error {
	c.forget(ctx)
	err := c.HTTPSession.Delete(ctx, header, told)
	if err == nil || !IsLost(err) || c.shared() == nil {
		return err
	}
	there, failed := c.there(ctx)
	if failed != nil || there.Session == "" || there.Session == c.SessionID() {
		return err
	}
	c.SetSession(there.Session, c.was.ServerRevision.HeaderName())
	c.AddCookies(string(there.Cookies))
	return c.HTTPSession.Delete(ctx, header, told)
}
