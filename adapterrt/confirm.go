package adapterrt

import (
	"container/list"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// How long a confirmation may be given, and how many may be outstanding.
const (
	confirmTime          = 300 * time.Second
	confirmTimeForbidden = 120 * time.Second
	maxConfirmations     = 4096
	longestToken         = 80
)

// confirmations are the tokens that operations wait for. They live in this process
// alone: another replica knows nothing of them.
type confirmations struct {
	mu      sync.Mutex
	byToken map[string]*list.Element
	order   list.List // the oldest first
	ran     map[*operation]time.Time
}

type confirmation struct {
	token   string
	session string
	adapter *Adapter
	scope   [sha256.Size]byte // session, operation and parameters
	expires time.Time
	used    bool
}

// confirm lets a call through that may run, or says what it waits for.
func (c *call) confirm(rt *Runtime, req *Request) *Failure {
	d := &c.op.danger
	now := rt.opt.Now()
	switch {
	case d.verdict == deny:
		return c.op.denied()
	case d.verdict == confirm:
		scope := c.scope(req)
		if c.token == nil && req.Confirmation != "" {
			c.token = []byte(req.Confirmation)
		}
		if c.token == nil {
			return c.confirmationRequired(rt, req, scope, now)
		}
		if f := rt.confirmations.redeem(string(c.token), scope, now); f != nil {
			return f
		}
	}
	if d.cooldown > 0 {
		return rt.confirmations.cool(c.op, now)
	}
	return nil
}

// scope is a hash of all that a confirmation is given for.
func (c *call) scope(req *Request) (sum [sha256.Size]byte) {
	h := sha256.New()
	part := func(b []byte) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		h.Write(size[:])
		h.Write(b)
	}
	kind := "session"
	who := req.Session
	if who == "" {
		kind, who = "caller", req.Caller
	}
	for _, s := range [...]string{kind, who, c.op.adapter.Name, c.op.name} {
		part([]byte(s))
	}
	h.Write(c.op.adapter.digest[:])
	for i, p := range c.op.params {
		if v := c.values[i]; v.kind != wire.Absent {
			part([]byte(p.name))
			part(wire.AppendCompact(nil, v.raw))
		}
	}
	h.Sum(sum[:0])
	return sum
}

func (c *call) confirmationRequired(rt *Runtime, req *Request, scope [sha256.Size]byte, now time.Time) *Failure {
	d := &c.op.danger
	ttl := confirmTime
	if d.level == forbidden {
		ttl = confirmTimeForbidden
	}
	expires := now.Add(ttl)
	token := rt.confirmations.issue(&confirmation{session: req.Session, adapter: c.op.adapter, scope: scope, expires: expires})
	message := d.message
	if message == "" {
		message = "Operation '" + c.op.name + "' is " + d.level.String() + ". Confirm by repeating the request with params._confirmation."
	}
	reasons := d.reasons
	if reasons == nil {
		reasons = []string{"danger level " + d.level.String()}
	}
	until := expires.UTC().Format(time.RFC3339)
	beside := wire.Members(nil).Str("token", token).Str("expires_at", until).Str("message", message).Strs("reasons", reasons).End()
	return &Failure{
		Code: ConfirmationRequired, Message: "Operation '" + c.op.name + "' needs confirmation",
		Details: wire.Members(nil).Str("operation", c.op.name).Str("danger_level", d.level.String()).Strs("reasons", reasons).
			Str("confirmation_message", message).Str("confirmation_token", token).Str("expires_at", until).End(),
		beside: append([]byte(`,"confirmation":`), beside...),
	}
}

// issue makes a token; the oldest goes when there are too many.
func (s *confirmations) issue(c *confirmation) string {
	var b [16]byte
	rand.Read(b[:])
	c.token = "conf_" + hex.EncodeToString(b[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byToken == nil {
		s.byToken = map[string]*list.Element{}
	}
	s.byToken[c.token] = s.order.PushBack(c)
	if s.order.Len() > maxConfirmations {
		s.remove(s.order.Front())
	}
	return c.token
}

func (s *confirmations) remove(e *list.Element) {
	delete(s.byToken, s.order.Remove(e).(*confirmation).token)
}

// redeem uses a token up. It is spent before anything happens, so that nothing
// happens twice.
func (s *confirmations) redeem(token string, scope [sha256.Size]byte, now time.Time) *Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byToken[token]
	if e == nil || len(token) > longestToken {
		return &Failure{Code: TokenInvalid, Message: "Confirmation token is unknown here. Tokens live in one process: it may be another replica's, or one of before a reload. Ask again without it."}
	}
	c := e.Value.(*confirmation)
	switch {
	case c.scope != scope:
		return &Failure{Code: TokenScopeMismatch, Message: "Confirmation token was given for another session, operation or parameters"}
	case !now.Before(c.expires):
		return &Failure{Code: TokenExpired, Message: "Confirmation token has expired"}
	case c.used:
		return &Failure{Code: TokenAlreadyUsed, Message: "Confirmation token was used already"}
	}
	c.used = true
	return nil
}

// cool refuses an operation that ran a moment ago.
func (s *confirmations) cool(op *operation, now time.Time) *Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := time.Duration(op.danger.cooldown) * time.Second
	if wait := s.ran[op].Add(pause).Sub(now); wait > 0 && !s.ran[op].IsZero() {
		return &Failure{
			Code: RateLimitExceeded, RetryAfter: wait, Message: "Rate limit exceeded: operation '" + op.name + "' ran a moment ago",
			Details: wire.Members(nil).Str("operation", op.name).Int("retry_after_seconds", int64((wait+time.Second-1)/time.Second)).
				Str("resets_at", now.Add(wait).UTC().Format(time.RFC3339)).End(),
		}
	}
	if s.ran == nil {
		s.ran = map[*operation]time.Time{}
	}
	s.ran[op] = now
	return nil
}

// drop forgets the tokens that gone says so of.
func (s *confirmations) drop(gone func(*confirmation) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.order.Front(); e != nil; {
		next := e.Next()
		if gone(e.Value.(*confirmation)) {
			s.remove(e)
		}
		e = next
	}
}

// EndSession forgets what was kept for a session.
func (rt *Runtime) EndSession(id string) {
	rt.confirmations.drop(func(c *confirmation) bool { return c.session == id && id != "" })
}

func (s *confirmations) forget(a *Adapter) {
	s.drop(func(c *confirmation) bool { return c.adapter == a })
	s.mu.Lock()
	defer s.mu.Unlock()
	for op := range s.ran {
		if op.adapter == a {
			delete(s.ran, op)
		}
	}
}

// noteToken keeps the tokens that a request carries. It reports false when the
// member is something else.
func (c *call) noteToken(m *entry) bool {
	if string(m.key) == "_quota_continue" && m.kind == wire.String {
		c.goOn = wire.Unquoted(m.raw)
		return true
	}
	if c.op.danger.verdict != confirm || m.kind != wire.String {
		return false
	}
	if string(m.key) != "_confirmation" && string(m.key) != "confirmation_token" {
		return false
	}
	c.token = []byte(strings.TrimSpace(string(wire.Unquoted(m.raw))))
	return true
}
