package guard

import (
	"container/heap"
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// How long a confirmation token is valid, how many may be outstanding, and how many runs of operations
// with a cooldown are known.
const (
	confirmTime          = 300 * time.Second
	confirmTimeForbidden = 120 * time.Second
	maxConfirmations     = 4096
	maxRuns              = 10_000
)

// ConfirmVia says how an operation is confirmed.
type ConfirmVia uint8

// The ways to confirm an operation. ConfirmAuto asks the user if the client can do that
// and hands out a token otherwise. ConfirmToken always hands out a token. ConfirmUser asks
// the user, and refuses the operation if the client cannot do that.
const (
	ConfirmAuto ConfirmVia = iota
	ConfirmToken
	ConfirmUser
)

// Confirmations holds the confirmation tokens that were handed out. Without Replicas, another
// replica does not accept them. With them, the tokens are kept there, and what is held here only
// bounds their number.
type Confirmations struct {
	Via      ConfirmVia
	Replicas Replicas // nil if there is no other replica

	mu      sync.Mutex
	byToken map[string]*list.Element
	order   list.List // the oldest first
	ran     map[run]*lastRun
	runs    runs
}

// run is an operation with a cooldown that a caller has run.
type run struct {
	adapter digest
	op      int // its index
	caller  string
}

type lastRun struct {
	run
	at, end time.Time // end is that of the cooldown
	index   int       // in runs
}

// runs is a heap: the first is the one whose cooldown ends first.
type runs []*lastRun

func (h runs) Len() int           { return len(h) }
func (h runs) Less(i, j int) bool { return h[i].end.Before(h[j].end) }
func (h runs) Swap(i, j int)      { h[i], h[j], h[i].index, h[j].index = h[j], h[i], j, i }
func (h *runs) Push(l any)        { *h = append(*h, l.(*lastRun)) }

func (h *runs) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return l
}

type confirmation struct {
	token   string
	session string
	adapter digest
	scope   [sha256.Size]byte // hash of session, operation and parameters
	expires time.Time
	used    bool
}

// Asker says who may confirm a call, and holds the token that came with the call.
type Asker struct {
	Session string
	Caller  string // used if there is no session
	Token   string // "" for none
	Place   string // where the caller puts a token; "" for params._confirmation

	// Ask asks the user to agree. It is nil if the user cannot be asked. It returns an
	// error if the user gave no answer.
	Ask func(ctx context.Context, question string) (agreed bool, err error)
}

// Check returns nil if a call may run. Otherwise the failure says why it may not, or hands
// out a token with which the caller confirms the call.
func (s *Confirmations) Check(ctx context.Context, c *httpcall.Call, v *Judgement, by Asker, clock func() time.Time) *failure.Failure {
	if v.verdict == Allow && c.Op.Danger.Cooldown == 0 {
		return nil
	}
	now := clock()
	switch v.verdict {
	case Deny:
		return v.denied(c.Op)
	case Confirm:
		f := s.confirm(ctx, c, by, now)
		if f != nil {
			return f
		}
		now = clock() // the user took some time
	}
	if c.Op.Danger.Cooldown > 0 {
		return s.cool(ctx, c, now)
	}
	return nil
}

// confirm checks the call's token if it has one, or asks the user. If neither is possible,
// it hands out a token, unless only the user may confirm.
func (s *Confirmations) confirm(ctx context.Context, c *httpcall.Call, by Asker, now time.Time) *failure.Failure {
	if by.Token != "" {
		if s.Replicas != nil {
			return s.redeemAnywhere(ctx, c.Op, by.Token, scopeOf(c, by))
		}
		return s.redeem(by.Token, scopeOf(c, by), now)
	}
	if by.Ask != nil && s.Via != ConfirmToken {
		agreed, err := by.Ask(ctx, question(c))
		switch {
		case ctx.Err() != nil:
			return failure.Cancelled()
		case err == nil && !agreed:
			return refused(c.Op, "The user did not agree to operation '"+c.Op.Name+"'")
		case err == nil:
			return nil
		}
	}
	if s.Via == ConfirmUser {
		return refused(c.Op, "Operation '"+c.Op.Name+"' needs the user's confirmation, but this client cannot ask the user")
	}
	return s.required(ctx, c, by, scopeOf(c, by), now)
}

// redeemAnywhere is redeem for a token that any replica may have handed out.
func (s *Confirmations) redeemAnywhere(ctx context.Context, op *file.Operation, token string, scope [sha256.Size]byte) *failure.Failure {
	var became Redeemed
	if isToken(token) {
		var err error
		if became, err = s.Replicas.Redeem(ctx, token, scope[:]); err != nil {
			if ctx.Err() != nil {
				return failure.Cancelled()
			}
			return unavailable(op, err)
		}
	}
	switch became {
	case Valid:
		return nil
	case Used:
		return alreadyUsed()
	case OfAnother:
		return scopeMismatch()
	}
	return &failure.Failure{Code: failure.TokenInvalid, Message: "Confirmation token is unknown or has expired. Send the request again without it."}
}

// retryUnavailable is when to try again after the replicas could not be asked.
const retryUnavailable = 5 * time.Second

// unavailable returns the failure of a call whose confirmation cannot be given or checked.
func unavailable(op *file.Operation, cause error) *failure.Failure {
	return &failure.Failure{
		Code: failure.ConfirmationUnavailable, RetryAfter: retryUnavailable, Own: true, Cause: cause,
		Message: "Operation '" + op.Name + "' was not run: it needs a confirmation, and the store shared by all replicas is not available. Try again in a moment.",
		Details: wire.Members(nil).Str("operation", op.Name).Str("danger_level", op.Danger.Level.String()).Int("retry_after_seconds", seconds(retryUnavailable)).End(),
	}
}

func alreadyUsed() *failure.Failure {
	return &failure.Failure{Code: failure.TokenAlreadyUsed, Message: "Confirmation token was used already"}
}

func scopeMismatch() *failure.Failure {
	return &failure.Failure{Code: failure.TokenScopeMismatch, Message: "Confirmation token was given for another session, operation or parameters"}
}

func refused(op *file.Operation, why string) *failure.Failure {
	return &failure.Failure{
		Code: failure.PermissionDenied, Message: why,
		Details: wire.Members(nil).Str("operation", op.Name).Str("danger_level", op.Danger.Level.String()).End(),
	}
}

// scopeOf returns a hash of everything that a confirmation is valid for.
func scopeOf(c *httpcall.Call, by Asker) (sum [sha256.Size]byte) {
	kind, who := "session", by.Session
	if who == "" {
		kind, who = "caller", by.Caller
	}
	d := httpcall.NewDigest()
	d.Add(kind, who, c.Caller, c.Op.Adapter.Name, c.Op.Name)
	d.Write(c.Op.Adapter.Digest[:])
	for i, p := range c.Op.Params {
		if v := c.Values[i]; v.Kind != wire.Absent {
			d.Add(p.Name, string(wire.AppendCompact(nil, v.Raw)))
		}
	}
	d.Sum(sum[:0])
	return sum
}

// required returns the failure that hands out a token.
func (s *Confirmations) required(ctx context.Context, c *httpcall.Call, by Asker, scope [sha256.Size]byte, now time.Time) *failure.Failure {
	op := c.Op
	d := &op.Danger
	ttl := confirmTime
	if d.Level == file.Forbidden {
		ttl = confirmTimeForbidden
	}
	expires := now.Add(ttl)
	token, gone := s.issue(&confirmation{session: by.Session, adapter: op.Adapter.Digest, scope: scope, expires: expires})
	if s.Replicas != nil {
		if err := s.Replicas.Keep(ctx, token, scope[:], ttl); err != nil {
			if ctx.Err() != nil {
				return failure.Cancelled()
			}
			return unavailable(op, err)
		}
		if gone != "" {
			s.Replicas.Drop(ctx, []string{gone})
		}
	}
	message := d.Message
	if message == "" {
		place := "params._confirmation"
		if by.Place != "" {
			place = by.Place
		}
		message = "Operation '" + op.Name + "' is " + d.Level.String() + ". Ask the person first, then send it again with " + place + "."
	}
	reasons := d.Reasons
	if reasons == nil {
		reasons = []string{"danger level " + d.Level.String()}
	}
	until := expires.UTC().Format(time.RFC3339)
	beside := wire.Members(nil).Str("token", token).Str("expires_at", until).Str("message", message).Strs("reasons", reasons).End()
	return &failure.Failure{
		Code: failure.ConfirmationRequired, Message: "Operation '" + op.Name + "' needs confirmation",
		Details: wire.Members(nil).Str("operation", op.Name).Str("danger_level", d.Level.String()).Strs("reasons", reasons).
			Str("confirmation_message", message).Str("confirmation_token", token).Str("expires_at", until).End(),
		Beside: append([]byte(`,"confirmation":`), beside...),
	}
}

// questionRunes is the largest number of runes of the parameters in a question.
const questionRunes = 1000

// question returns the question that the user is asked.
func question(c *httpcall.Call) string {
	op, d := c.Op, &c.Op.Danger
	q := "Run operation '" + op.Name + "' of adapter " + op.Adapter.Name + " (" + d.Level.String() + ")?"
	if d.Message != "" {
		q = d.Message + "\n\n" + q
	}
	if len(d.Reasons) > 0 {
		q += "\nReasons: " + strings.Join(d.Reasons, "; ")
	}
	params := wire.Members(nil)
	for i, p := range op.Params {
		switch v := c.Values[i]; {
		case v.Kind == wire.Absent || p.Place == file.InRuntime:
		case p.Sensitive:
			params = params.Str(p.Name, "...")
		default:
			params = params.Raw(p.Name, v.Raw)
		}
	}
	shown := clean.MaskSecrets(string(params.End()))
	text := clean.Text(shown, questionRunes)
	if len(text) < len(shown) && len([]rune(shown)) > questionRunes {
		text += " …"
	}
	return q + "\nParameters: " + text
}

// tokenPrefix begins confirmation tokens.
const tokenPrefix = "conf_"

// isToken reports whether a text can be a token, so that others cause no round trip.
func isToken(text string) bool {
	digits, ok := strings.CutPrefix(text, tokenPrefix)
	b, err := hex.DecodeString(digits)
	return ok && err == nil && len(b) == 16
}

// issue makes a token for c. If there are too many tokens, it removes the oldest, and returns that.
func (s *Confirmations) issue(c *confirmation) (token, gone string) {
	var b [16]byte
	rand.Read(b[:])
	c.token = tokenPrefix + hex.EncodeToString(b[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byToken == nil {
		s.byToken = map[string]*list.Element{}
	}
	s.byToken[c.token] = s.order.PushBack(c)
	if s.order.Len() > maxConfirmations {
		gone = s.order.Front().Value.(*confirmation).token
		s.remove(s.order.Front())
	}
	return c.token, gone
}

func (s *Confirmations) remove(e *list.Element) {
	delete(s.byToken, s.order.Remove(e).(*confirmation).token)
}

// redeem checks a token and marks it as used. This happens before the operation runs, so
// that one token cannot run it twice.
func (s *Confirmations) redeem(token string, scope [sha256.Size]byte, now time.Time) *failure.Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byToken[token]
	if e == nil {
		return &failure.Failure{Code: failure.TokenInvalid, Message: "Confirmation token is unknown to this process. It may be from another replica or from before a reload. Send the request again without it."}
	}
	c := e.Value.(*confirmation)
	switch {
	case c.scope != scope:
		return scopeMismatch()
	case !now.Before(c.expires):
		return &failure.Failure{Code: failure.TokenExpired, Message: "Confirmation token has expired"}
	case c.used:
		return alreadyUsed()
	}
	c.used = true
	return nil
}

// cool refuses an operation that ran less than its cooldown ago, here or at another replica.
func (s *Confirmations) cool(ctx context.Context, c *httpcall.Call, now time.Time) *failure.Failure {
	r := run{c.Op.Adapter.Digest, c.Op.Index, c.Caller}
	pause := time.Duration(c.Op.Danger.Cooldown) * time.Second
	if s.Replicas == nil {
		return cooling(c.Op, s.ranAgo(r, pause, now, true), now)
	}
	wait := s.ranAgo(r, pause, now, false)
	if wait <= 0 {
		var err error
		if wait, err = rest(ctx, s.Replicas, c, pause); err != nil || wait <= 0 {
			wait = s.ranAgo(r, pause, now, true) // without an answer, this replica decides
		}
	}
	return cooling(c.Op, wait, now)
}

func cooling(op *file.Operation, wait time.Duration, now time.Time) *failure.Failure {
	if wait <= 0 {
		return nil
	}
	return &failure.Failure{
		Code: failure.RateLimitExceeded, RetryAfter: wait, Message: "Rate limit exceeded: operation '" + op.Name + "' ran a moment ago",
		Details: wire.Members(nil).Str("operation", op.Name).Int("retry_after_seconds", seconds(wait)).
			Str("resets_at", now.Add(wait).UTC().Format(time.RFC3339)).End(),
	}
}

// ranAgo returns how long an operation must rest because it ran here. If it need not, and runs says
// so, it notes that it runs now. Of more than maxRuns runs, it forgets the one whose cooldown ends first.
func (s *Confirmations) ranAgo(r run, pause time.Duration, now time.Time, runs bool) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.ran[r]
	if last != nil {
		if wait := last.at.Add(pause).Sub(now); wait > 0 {
			return wait
		}
	}
	if !runs {
		return 0
	}
	if last != nil {
		s.forget(last)
	}
	if s.ran == nil {
		s.ran = map[run]*lastRun{}
	}
	s.ran[r] = &lastRun{run: r, at: now, end: now.Add(pause), index: len(s.runs)}
	heap.Push(&s.runs, s.ran[r])
	if len(s.runs) > maxRuns {
		s.forget(s.runs[0])
	}
	return 0
}

func (s *Confirmations) forget(l *lastRun) {
	heap.Remove(&s.runs, l.index)
	delete(s.ran, l.run)
}

// drop removes the tokens for which gone returns true.
func (s *Confirmations) drop(gone func(*confirmation) bool) {
	if tokens := s.removeAll(gone); s.Replicas != nil && len(tokens) > 0 {
		s.Replicas.Drop(context.Background(), tokens)
	}
}

func (s *Confirmations) removeAll(gone func(*confirmation) bool) (tokens []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.order.Front(); e != nil; {
		next := e.Next()
		if c := e.Value.(*confirmation); gone(c) {
			tokens = append(tokens, c.token)
			s.remove(e)
		}
		e = next
	}
	return tokens
}

// EndSession removes the tokens of a session.
func (s *Confirmations) EndSession(id string) {
	s.drop(func(c *confirmation) bool { return c.session == id && id != "" })
}

// Forget removes the tokens and cooldowns of an adapter.
func (s *Confirmations) Forget(a *file.Adapter) {
	s.drop(func(c *confirmation) bool { return c.adapter == a.Digest })
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, e := range s.ran {
		if r.adapter == a.Digest {
			s.forget(e)
		}
	}
}

// rest returns how long an operation with a cooldown must rest, by the count of all replicas.
func rest(ctx context.Context, r Replicas, c *httpcall.Call, pause time.Duration) (time.Duration, error) {
	account := c.Op.Adapter.Name + "\x00" + c.Caller
	sum := sha256.Sum256([]byte("cooldown\x00" + c.Op.Name + "\x00" + pause.String()))
	ok, states, err := r.Charge(ctx, account, 1, []Limit{{ID: "c" + hex.EncodeToString(sum[:idBytes]), Rate: 1 / pause.Seconds(), Burst: 1}})
	if err != nil || ok || len(states) != 1 {
		return 0, err
	}
	return max(states[0].Wait, time.Millisecond), nil
}
