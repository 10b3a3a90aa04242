package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Charge takes n from each of the limits of key, or from none of them if one has too little.
func (s *Store) Charge(ctx context.Context, key Key, n int64, limits ...Limit) (Charged, error) {
	return s.charge(ctx, "charge", key, &Charge{N: n, Limits: limits})
}

// Adjust counts n more, whether there is room or not. A negative n gives back what was charged and not used.
func (s *Store) Adjust(ctx context.Context, key Key, n int64, limits ...Limit) (Charged, error) {
	return s.charge(ctx, "adjust", key, &Charge{N: n, Force: true, Limits: limits})
}

func (s *Store) charge(ctx context.Context, op string, key Key, c *Charge) (out Charged, err error) {
	names, err := s.vault.Load().names(key)
	if err != nil {
		return Charged{}, err
	}
	if err := checkLimits(c.Limits); err != nil {
		return Charged{}, err
	}
	_, err = done(s.ask(ctx, op, key, func(ctx context.Context) (err error) {
		if out, err = s.engine.Charge(ctx, names[0], c); err == nil && !out.OK {
			return errRefused
		}
		return err
	}))
	return out, err
}

// Correct takes over what is known of some of the limits of key from elsewhere.
func (s *Store) Correct(ctx context.Context, key Key, limits []Limit, to ...Correction) error {
	names, err := s.vault.Load().names(key)
	if err != nil {
		return err
	}
	if err := checkLimits(limits); err != nil {
		return err
	}
	for i := range to {
		c := &to[i]
		if findLimit(limits, c.ID) == nil || math.IsNaN(c.AtMost) || c.AtMost < 0 || c.For < 0 || c.For > MaxTTL {
			return fmt.Errorf("store: correction %+v of an unknown limit, or out of range", *c)
		}
	}
	return s.ask(ctx, "correct", key, func(ctx context.Context) error { return s.engine.Correct(ctx, names[0], limits, to) })
}

func findLimit(limits []Limit, id string) *Limit {
	for i := range limits {
		if limits[i].ID == id {
			return &limits[i]
		}
	}
	return nil
}

func checkLimits(limits []Limit) error {
	if len(limits) == 0 || len(limits) > MaxLimits {
		return fmt.Errorf("store: a charge to %d limits", len(limits))
	}
	for i := range limits {
		l := &limits[i]
		bucket := l.Window == 0 && l.Rate > 0 && l.Burst > 0 && !math.IsInf(l.Rate, 0) && !math.IsInf(l.Burst, 0)
		window := l.Window >= time.Millisecond && l.Window <= MaxTTL
		if l.ID == "" || len(l.ID) > 32 || !bucket && !window || l.Ahead < 0 || findLimit(limits[:i], l.ID) != nil {
			return fmt.Errorf("store: limit %+v", *l)
		}
		for _, c := range []byte(l.ID) {
			if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') {
				return errors.New("store: the id of a limit has other characters than letters and digits")
			}
		}
	}
	return nil
}

// account has the state of the limits of one key. The times are microseconds. The scripts of package redisstore do the same.
type account map[string]*balance

type balance struct {
	tokens float64
	at     float64 // when tokens was right; 0 for a full bucket
	left   float64 // how many tokens there are at most until then
	until  float64
	start  float64 // of the window
	used   float64
}

const (
	// nearly makes up for the rounding of a bucket's tokens.
	nearly = 1 - 1e-6
	// Epoch is the time of year 1 before 1970, where time.Time.Truncate begins to count, in microseconds.
	Epoch = 62135596800e6
)

// charge does what c asks. It returns when the account is no longer needed.
func (a account) charge(c *Charge, now float64) (out Charged, expires float64) {
	out = Charged{OK: true, States: make([]State, len(c.Limits))}
	after := make([]balance, len(c.Limits))
	for i := range c.Limits {
		l, s := &c.Limits[i], &out.States[i]
		b := a.current(l, now)
		wait, told := b.wait(l, float64(c.N), now)
		if c.Force || c.N <= 0 {
			wait, told = 0, false
		}
		if wait > 0 {
			out.OK = false
		}
		s.Wait, s.Told = time.Duration(math.Ceil(wait))*time.Microsecond, told
		after[i] = b
	}
	for i := range c.Limits {
		l, s, b := &c.Limits[i], &out.States[i], &after[i]
		if out.OK {
			b.take(l, float64(c.N))
			kept := *b
			a[l.ID] = &kept
			expires = max(expires, b.expires(l, now))
		}
		s.Left, s.Used = b.tokens, int64(b.used)
		if l.Window > 0 {
			s.Left = float64(l.Most) - b.used
			s.Reset = time.Duration(b.start+micros(l.Window)-now) * time.Microsecond
		} else if b.until > now {
			s.Left = min(s.Left, b.left)
		}
	}
	return out, expires
}

// current returns the state of a limit at the time now.
func (a account) current(l *Limit, now float64) balance {
	b := balance{tokens: l.Burst}
	if had := a[l.ID]; had != nil {
		b = *had
	}
	if l.Window > 0 {
		w := micros(l.Window)
		offset := math.Mod(Epoch, w)
		if start := math.Floor((now+offset)/w)*w - offset; b.start != start {
			b.start, b.used = start, 0
		}
		return b
	}
	if b.at > 0 {
		b.tokens = min(l.Burst, b.tokens+l.Rate*max(now-b.at, 0)/1e6)
	}
	b.at = now
	return b
}

// wait returns in how many microseconds the limit has room for n more; told says that a correction is the reason.
func (b *balance) wait(l *Limit, n, now float64) (wait float64, told bool) {
	if l.Window > 0 {
		if l.Most >= 0 && b.used+n > float64(l.Most) {
			return b.start + micros(l.Window) - now, false
		}
		return 0, false
	}
	need := n + float64(l.Ahead)
	if b.tokens < need*nearly {
		wait = max((need-b.tokens)/l.Rate*1e6, 1)
	}
	if b.until > now && b.left < need && b.until-now >= wait {
		return b.until - now, true
	}
	return wait, false
}

func (b *balance) take(l *Limit, n float64) {
	if l.Window > 0 {
		b.used = max(b.used+n, 0) // a window may have ended before a call is taken back
		return
	}
	b.tokens = min(b.tokens-n, l.Burst)
	b.left -= n
}

func (b *balance) expires(l *Limit, now float64) float64 {
	if l.Window > 0 {
		return b.start + micros(l.Window)
	}
	return max(now+(l.Burst-b.tokens)/l.Rate*1e6, b.until)
}

// sameReset is how far apart two ends of what an API allows may be to be the same; answers may arrive in another order.
const sameReset = 2e6

// correct does what [Store.Correct] asks.
func (a account) correct(limits []Limit, to []Correction, now float64) (expires float64) {
	for i := range to {
		c, l := &to[i], findLimit(limits, to[i].ID)
		b := a.current(l, now)
		switch until := now + micros(c.For); {
		case c.For == 0:
			b.tokens = min(b.tokens, c.AtMost)
		case math.Abs(until-b.until) < sameReset:
			b.left = min(b.left, c.AtMost)
		default:
			b.left, b.until = c.AtMost, until
		}
		a[l.ID] = &b
		expires = max(expires, b.expires(l, now))
	}
	return expires
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
