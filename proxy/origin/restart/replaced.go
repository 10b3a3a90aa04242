package restart

import (
	"context"
	"encoding/json"
	"errors"
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
// which session has replaced the lost one. They look only when the server has refused a session.

// lockLife is how long the lock of a replica that has died lasts. While it lives, it renews the lock.
const lockLife = 10 * time.Second

// replacement is what the store has of a lost session.
type replacement struct {
	Session string `json:"session"`           // the server's id of the session that has replaced it
	Partial bool   `json:"partial"`           // the log level and the subscriptions were not restored
	Cookies []byte `json:"cookies,omitempty"` // in base64, as they need not be UTF-8
}

// share lets one replica at a time begin another session. It calls begin unless another replica has begun one, which it
// uses then. Without the store, each replica begins one of its own.
func (c *HTTP) share(ctx context.Context, header []mcp.Header, begin func() error) error {
	s := c.host.Shared()
	if s == nil {
		return begin()
	}
	lock, err := s.Lock(ctx, c.key("server_session_lock"), lockLife)
	if err != nil {
		c.notShared(err)
		return begin()
	}
	defer lock.Unlock()
	var there replacement
	value, err := s.Get(ctx, c.key("server_session"))
	switch {
	case errors.Is(err, store.ErrAbsent):
	case err != nil:
		c.notShared(err)
	case json.Unmarshal(value, &there) == nil && there.Session != "" && there.Session != c.SessionID() && c.use(ctx, there, header):
		return nil
	}
	if err := begin(); err != nil {
		return err
	}
	life := c.life()
	if life < time.Second || c.SessionID() == "" {
		return nil
	}
	c.mu.Lock()
	there = replacement{Session: c.SessionID(), Partial: c.lacks, Cookies: []byte(c.Cookies(sealed.MaxCookies))}
	c.mu.Unlock()
	value, err = json.Marshal(there)
	if err == nil {
		err = s.Set(ctx, c.key("server_session"), value, life)
	}
	if err != nil {
		c.notShared(err)
	}
	return nil
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
func (c *HTTP) there(ctx context.Context) (there replacement) {
	if value, err := c.host.Store.Get(ctx, c.key("server_session")); err != nil || json.Unmarshal(value, &there) != nil {
		return replacement{}
	}
	return there
}

// Delete ends the current session at the server. If the server does not know it, and another replica has replaced it,
// the other one is ended. told is as in [upstream.Outgoing].
func (c *HTTP) Delete(ctx context.Context, header []mcp.Header, told *[]mcp.Header) error {
	c.forget(ctx)
	err := c.HTTPSession.Delete(ctx, header, told)
	if err == nil || !IsLost(err) || c.host.Shared() == nil {
		return err
	}
	there := c.there(ctx)
	if there.Session == "" || there.Session == c.SessionID() {
		return err
	}
	c.SetSession(there.Session, c.was.ServerRevision.HeaderName())
	c.AddCookies(string(there.Cookies))
	return c.HTTPSession.Delete(ctx, header, told)
}
