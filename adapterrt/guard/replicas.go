package guard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// Replicas decides together with the other replicas of a program. Its methods are safe for
// concurrent use. Each takes one round trip, within a time limit of its own, and keeps none of its
// arguments. An error means that the replicas cannot be asked now.
type Replicas interface {
	// Charge takes n from each of the limits of an account, or nothing from any of them if one has
	// too little. ok says which. states are in the order of the limits. n may be 0.
	Charge(ctx context.Context, account string, n int64, limits []Limit) (ok bool, states []State, err error)
	// Adjust counts n calls more, whether there is room or not; a negative n gives calls back.
	Adjust(ctx context.Context, account string, n int64, limits []Limit) error
	// Correct takes over what the API says about some of the limits.
	Correct(ctx context.Context, account string, limits []Limit, to []Correction) error

	// Keep keeps the value of a confirmation token until ttl has passed.
	Keep(ctx context.Context, token string, value []byte, ttl time.Duration) error
	// Redeem marks a token as used if it has this value and is not used yet. Of several callers, one
	// gets Valid.
	Redeem(ctx context.Context, token string, value []byte) (Redeemed, error)
	// Drop removes tokens. It does not say whether it could: they expire.
	Drop(ctx context.Context, tokens []string)
}

// Limit is a limit as the replicas count it: a bucket with Rate tokens a second and room for Burst
// of them, or a count of Most calls in a Window.
type Limit struct {
	ID string // letters and digits; tells the limits of an account apart

	Rate, Burst float64

	Window time.Duration // 0 for a bucket
	Most   int64         // negative only counts

	Ahead int64 // calls of this replica that wait for the same limit, and have come before
}

// State is the state of a Limit.
type State struct {
	Left  float64       // tokens in a bucket
	Used  int64         // in this window
	Wait  time.Duration // 0 if there was room
	Told  bool          // the API demands the wait
	Reset time.Duration // until the window ends
}

// Correction says that a bucket has at most this many tokens, for a time or, if For is 0, now.
type Correction struct {
	ID     string
	AtMost float64
	For    time.Duration
}

// Redeemed says what became of a token.
type Redeemed uint8

// What becomes of a token that is redeemed.
const (
	Unknown Redeemed = iota // it has expired, or was never there
	Valid
	Used
	OfAnother // session, caller, operation or parameters
)

// Sharing is what the limits of an adapter need beyond its file. The zero value counts in this
// process.
type Sharing struct {
	Replicas Replicas // nil if there is no other replica
	Key      []byte   // makes tokens that all replicas with it accept
}

// idBytes is the length of a hash in the ID of a limit.
const idBytes = 8

// identify sets under which names the replicas count the calls that l counts. A limit that a file
// changes has another name: it begins with a full bucket.
func (l *limiter) identify(a *file.Adapter, op *file.Operation, caller string, s *Sharing) {
	l.key = s.Key
	if l.rules.Shared {
		caller = ""
	}
	l.account = a.Name + "\x00" + caller
	of := "w"
	if op != nil {
		of = "o" + op.Name
	}
	sum := sha256.Sum256(append([]byte(of+"\x00"), l.rules.Source...))
	l.id = of[:1] + hex.EncodeToString(sum[:idBytes])
}

// asked is a limit that the replicas are asked about: a rule or a quota of a limiter.
type asked struct {
	l     *limiter
	p     *place
	rule  int // -1 for a quota
	quota int
}

// asks appends what is asked about a call.
func (l *limiter) asks(limits []Limit, of []asked, p *place, now time.Time) ([]Limit, []asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.rules.Rules {
		if rule := &l.rules.Rules[i]; rule.Covers(p.op) {
			limits = append(limits, Limit{ID: l.id + "r" + strconv.Itoa(i), Rate: float64(rule.Limit) / rule.Window.Seconds(), Burst: rule.Capacity(), Ahead: int64(l.ahead(p, i))})
			of = append(of, asked{l, p, i, -1})
		}
	}
	for i := range l.rules.Quotas {
		q := &l.rules.Quotas[i]
		most := q.HardStop
		if q.Pause >= 0 && (most < 0 || q.Pause < most) && !l.continues(p.goOn, now) {
			most = q.Pause
		}
		limits = append(limits, Limit{ID: l.id + "q" + strconv.Itoa(i), Window: q.Window, Most: int64(most)})
		of = append(of, asked{l, p, -1, i})
	}
	return limits, of
}

// charged is what a call has taken from the limits that the replicas share.
type charged struct {
	account string
	limits  []Limit
	of      []asked
	states  []State
}

// warnings returns the warnings of quotas that are nearly used: one for each limiter.
func (c *charged) warnings(now time.Time) (all []failure.Notice) {
	var last *limiter
	for i, of := range c.of {
		if of.quota < 0 {
			continue
		}
		s := &c.states[i]
		w, _ := of.l.judge(of.quota, int(s.Used)-1, now.Add(s.Reset), of.p.goOn, now)
		switch {
		case w == nil:
		case last == of.l:
			all[len(all)-1] = *w
		default:
			all, last = append(all, *w), of.l
		}
	}
	return all
}

// refusal says why there is no room for a call, and which limit it waits for.
func (c *charged) refusal(states []State, now time.Time) (no *refusal, behind asked) {
	for i, of := range c.of {
		if of.quota < 0 || states[i].Wait == 0 {
			continue
		}
		if _, f := of.l.judge(of.quota, int(states[i].Used), now.Add(states[i].Reset), of.p.goOn, now); f != nil {
			return &refusal{f: f}, of
		}
	}
	for i, of := range c.of {
		s := &states[i]
		if of.rule < 0 || s.Wait == 0 || no != nil && s.Wait <= no.after {
			continue
		}
		rule := &of.l.rules.Rules[of.rule]
		waits := (no == nil || no.waits) && (rule.Window < time.Hour || s.Told)
		no, behind = &refusal{f: exceeded(rule.Limit, rule.Word, s.Wait, now), waits: waits, after: s.Wait, everywhere: true}, of
	}
	if no == nil { // a window that ended meanwhile
		of := c.of[0]
		return &refusal{f: failure.Ours("", errors.New("the replicas refused a call without a reason")), everywhere: true}, of
	}
	return no, behind
}

// correct tells the replicas what the API has said about limits of the call, as far as they count
// more calls as free than the API does.
func (c *charged) correct(ctx context.Context, r Replicas, told []correction, now time.Time) {
	var to []Correction
	for i, of := range c.of {
		for _, t := range told {
			if t.l != of.l || t.rule != of.rule {
				continue
			}
			k := Correction{ID: c.limits[i].ID, AtMost: float64(t.left), For: max(t.until.Sub(now), 0)}
			if t.until.IsZero() {
				k.For = 0
			} else if k.For == 0 {
				continue // the time is over
			}
			if k.AtMost >= math.Floor(c.states[i].Left) {
				continue
			}
			to = combined(to, k)
		}
	}
	if len(to) > 0 {
		_ = r.Correct(context.WithoutCancel(ctx), c.account, c.limits, to) // the API itself refuses further calls
	}
}

// combined adds a correction to those of other limits. Of two for one limit, the stricter one
// counts.
func combined(all []Correction, k Correction) []Correction {
	for i := range all {
		if old := &all[i]; old.ID == k.ID {
			if k.AtMost < old.AtMost || k.AtMost == old.AtMost && k.For > old.For {
				*old = k
			}
			return all
		}
	}
	return append(all, k)
}
