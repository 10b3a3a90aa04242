package web

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients"
	"github.com/dragoman-proxy/dragoman/proxy/session/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/session/handshake"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// With session.without: open, requests of a handshake revision that name no session are answered by a pooled session, which
// dragoman begins for them. Its id is never told, and no client that sends initialize gets it.

// pooledSessions are the sessions for requests without one. Each counts for session.max, and ends like other sessions.
type pooledSessions struct {
	mu    sync.Mutex
	byKey map[poolKey]*pooledSession // those for new requests
}

// poolKey separates requests that must not share a session.
type poolKey struct {
	principal string
	address   string              // the peer's, if there is no principal
	revision  *translate.Revision // of the requests
}

type pooledSession struct {
	opened chan struct{} // closed when s or err is set
	s      *session.Session
	err    error
}

// RetirePooled makes later requests without a session begin new ones at the server.
func (f *Face) RetirePooled() {
	f.pooled.mu.Lock()
	defer f.pooled.mu.Unlock()
	clear(f.pooled.byKey)
}

// Pooled returns how many sessions there are for requests without one.
func (f *Face) Pooled() int {
	f.pooled.mu.Lock()
	defer f.pooled.mu.Unlock()
	return len(f.pooled.byKey)
}

// drop makes later requests with this key begin another session than p.
func (all *pooledSessions) drop(key poolKey, p *pooledSession) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.byKey[key] == p {
		delete(all.byKey, key)
	}
}

// answersWithoutSession reports whether the requests of clients without a session are answered.
func (f *Face) answersWithoutSession() bool {
	return f.Now().Config.Session.Without == config.WithoutOpen
}

// namesNoSession reports whether the message, which is scanned into x, or the batch is one of a client of a handshake revision that
// begins no session with it.
func (f *Face) namesNoSession(x *exchange.Exchange, req *downstream.Request) bool {
	switch m := &x.Msg; {
	case stateless.NamesModern(req.Version):
		return false
	case wire.IsArray(req.Body):
		return true
	case m.Scan(req.Body, nil) != nil:
		return false
	default:
		return m.Kind != wire.Request || m.Method != wire.Initialize && !stateless.IsModern(m)
	}
}

// lostPooled returns err, the error of a request in a pooled session. One that says that a session has ended does not concern a client
// without a session: the next request begins another one.
func lostPooled(err error) error {
	f := report.FailureOf(err)
	if f.Cause != mcp.SessionUnknown && !f.UnknownSession() {
		return f
	}
	own := *f
	own.Status, own.Text = 200, "the server has ended the session for requests without one; send the request again"
	return &own
}

// postWithoutSession handles a message, or a batch, that names no session and is not initialize. done is true if it gets a response
// without the server. Otherwise x has a session.
func (f *Face) postWithoutSession(x *exchange.Exchange, req *downstream.Request, resp *downstream.Response) (done bool, err error) {
	if !wire.IsArray(req.Body) {
		if x.Msg.Kind != wire.Request {
			resp.Status = 202
			return true, nil
		}
		if f := clients.NeedsSession(&x.Msg); f != nil {
			return true, f
		}
	}
	key := poolKey{x.Principal, "", cmp.Or(translate.WithHandshake(req.Version), translate.WithoutHeader())}
	if key.principal == "http " {
		key.address = req.Peer
	}
	for range 2 { // the first may have ended just now
		p := f.pooledFor(key, x)
		select {
		case <-p.opened:
		case <-x.Ctx.Done():
			return true, context.Cause(x.Ctx)
		}
		if p.err != nil {
			own := *report.FailureOf(p.err) // each request has an id of its own
			own.ID = nil
			return true, own.About(exchange.IDOf(req.Body))
		}
		if f.Table.Use(p.s) {
			x.Session = p.s
			return false, nil
		}
		f.pooled.drop(key, p)
	}
	return true, mcp.Fail(mcp.UpstreamLost, "").About(exchange.IDOf(req.Body))
}

// pooledFor returns the session for requests with this key, which x may be the first one of.
func (f *Face) pooledFor(key poolKey, x *exchange.Exchange) *pooledSession {
	f.pooled.mu.Lock()
	defer f.pooled.mu.Unlock()
	p := f.pooled.byKey[key]
	if p != nil {
		return p
	}
	p = &pooledSession{opened: make(chan struct{})}
	if f.pooled.byKey == nil {
		f.pooled.byKey = make(map[poolKey]*pooledSession)
	}
	f.pooled.byKey[key] = p
	of := f.New(context.WithCancelCause(f.Host.Serving))
	of.From, of.Heard, of.Sender, of.Peer = append(of.From, x.From...), slices.Clone(x.Heard), x.Sender, x.Peer
	of.Principal, of.Owner, of.RunsFor = x.Principal, x.Owner, x.RunsFor
	f.Host.Spawn(func() {
		defer of.Done()
		defer close(p.opened)
		defer func() {
			if p.err != nil {
				f.pooled.drop(key, p)
			}
		}()
		p.err = mcp.Fail(mcp.Panicked, "") // unless it returns
		p.err = f.openPooled(of, key, p)
	})
	return p
}

// openPooled begins the session of p.
func (f *Face) openPooled(x *exchange.Exchange, key poolKey, p *pooledSession) error {
	tried := time.Now()
	us := append(wire.AppendQuoted([]byte(`{"name":"dragoman","version":`), mcp.Version()), '}')
	raw := mcp.Initialize([]byte(`"dragoman:0"`), key.revision.Name, []byte("{}"), us)
	if err := x.Msg.Scan(raw, nil); err != nil {
		return err
	}
	if err := f.reserve(x); err != nil {
		return err
	}
	s, answer, early, _, err := f.begin(x, raw)
	if s == nil {
		f.Table.Release(x.Owner)
		if err == nil {
			err = handshake.RefusedHandshake(answer)
		}
		return err
	}
	s.Pooled, s.Local, s.Principal, s.ClientName = true, true, "without a session "+x.Principal+key.address+key.revision.Name, clients.WithoutSession
	switch {
	case s.Bridge != nil: // a server without a handshake has no session in which ids could be equal
	case s.Lanes != nil:
		s.Lanes.WithoutStanding()
	default:
		s.Renamed = &pipes.Renamed{Of: f.Host}
	}
	ended := s.Ended
	s.Ended = func() {
		f.pooled.drop(key, p)
		if ended != nil {
			ended()
		}
	}
	if p.s = s; s.Serverless {
		time.AfterFunc(pipes.ServerAgain(time.Since(tried)), func() { f.pooled.drop(key, p) })
	}
	f.add(x, s)
	f.Host.Log.Debug("a session for requests without one begins", zap.String("client", key.revision.Name))
	s.Enter()
	x.Session = s
	for _, message := range early {
		x.FromServer(message)
	}
	if !s.Greeted {
		if _, err = s.Conn.Send(x.Ctx, &upstream.Outgoing{Body: mcp.Notification(wire.Initialized, ""), Header: x.From}); err != nil {
			f.Forget(s, err)
		}
	}
	return err
}
