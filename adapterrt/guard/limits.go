package guard

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// limiter counts the calls of an adapter, or of one operation, in this process.
type limiter struct {
	mu      sync.Mutex
	rules   *file.Limits
	buckets []bucket
	running int
	used    []usage
	tokens  map[string]time.Time // when the quota_continue_… tokens expire
}

// bucket is a token bucket. It has one token for every call that may still be made.
type bucket struct {
	tokens  float64
	at      time.Time
	blocked time.Time // no calls until then, as the API demanded
}

// usage counts the calls in a quota's window.
type usage struct {
	start time.Time
	count int
}

func newLimiter(r *file.Limits) *limiter {
	l := &limiter{rules: r, buckets: make([]bucket, len(r.Rules)), used: make([]usage, len(r.Quotas))}
	for i, rule := range r.Rules {
		l.buckets[i].tokens = rule.Capacity()
	}
	return l
}

// take counts one call, or returns a failure if the call may not be made. If there is no
// failure, the caller must call give when the call has ended.
func (l *limiter) take(op *file.Operation, token string, now time.Time) (warning *failure.Notice, f *failure.Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rules.Concurrent > 0 && l.running >= l.rules.Concurrent {
		return nil, exceeded(l.rules.Concurrent, "concurrent", time.Second, now)
	}
	for i := range l.rules.Rules {
		rule, b := &l.rules.Rules[i], &l.buckets[i]
		if !rule.Covers(op) {
			continue
		}
		rate := float64(rule.Limit) / float64(rule.Window)
		if !b.at.IsZero() {
			b.tokens = min(rule.Capacity(), b.tokens+rate*float64(max(now.Sub(b.at), 0)))
		}
		b.at = now
		if wait := b.blocked.Sub(now); wait > 0 {
			return nil, exceeded(rule.Limit, rule.Word, wait, now)
		}
		if b.tokens < 1 {
			return nil, exceeded(rule.Limit, rule.Word, time.Duration(math.Ceil((1-b.tokens)/rate)), now)
		}
	}
	for i := range l.rules.Quotas {
		if warning, f = l.spend(i, warning, token, now); f != nil {
			return nil, f
		}
	}
	for i := range l.rules.Rules {
		if l.rules.Rules[i].Covers(op) {
			l.buckets[i].tokens--
		}
	}
	for i := range l.used {
		l.used[i].count++
	}
	l.running++
	return warning, nil
}

func exceeded(limit int, window string, wait time.Duration, now time.Time) *failure.Failure {
	return &failure.Failure{
		Code: failure.RateLimitExceeded, RetryAfter: wait, Message: "Rate limit exceeded: " + strconv.Itoa(limit) + " per " + window,
		Details: wire.Members(nil).Int("limit", int64(limit)).Int("remaining", 0).Str("window", window).
			Str("resets_at", now.Add(wait).UTC().Format(time.RFC3339)).Int("retry_after_seconds", int64((wait+time.Second-1)/time.Second)).End(),
	}
}

// current returns the usage of quota i in the window that contains now.
func (l *limiter) current(i int, now time.Time) *usage {
	u := &l.used[i]
	if start := now.Truncate(l.rules.Quotas[i].Window); !u.start.Equal(start) {
		*u = usage{start: start}
	}
	return u
}

// spend checks quota i for one more call.
func (l *limiter) spend(i int, warning *failure.Notice, token string, now time.Time) (*failure.Notice, *failure.Failure) {
	q, u := &l.rules.Quotas[i], l.current(i, now)
	resets := u.start.Add(q.Window)
	fail := func(code failure.Code, what string, d wire.Members) *failure.Failure {
		return &failure.Failure{Code: code, RetryAfter: resets.Sub(now), Message: "Quota " + what + ": " + strconv.Itoa(u.count) + " " + q.Metric, Details: d.End()}
	}
	d := wire.Members(nil).Str("metric", q.Metric).Int("used", int64(u.count)).Str("resets_at", resets.UTC().Format(time.RFC3339))
	switch {
	case q.HardStop >= 0 && u.count >= q.HardStop:
		return warning, fail("RATE_LIMIT_QUOTA_EXHAUSTED", "exhausted", d.Int("limit", int64(q.HardStop)))
	case q.Pause >= 0 && u.count >= q.Pause:
		if until, ok := l.tokens[token]; token == "" || !ok || !now.Before(until) {
			return warning, fail("RATE_LIMIT_QUOTA_PAUSE", "paused", d.Int("limit", int64(q.Pause)).Str("continue_token", l.issue(resets, now)))
		}
	case q.Warn >= 0 && u.count >= q.Warn:
		severity := "medium"
		if q.HardStop > 0 && u.count*10 > q.HardStop*9 {
			severity = "high"
		}
		warning = &failure.Notice{Code: "RATE_LIMIT_QUOTA_WARNING", Message: "Quota nearly used: " + strconv.Itoa(u.count) + " " + q.Metric, Details: d.Int("limit", int64(q.Warn)).End(), Severity: severity}
	}
	return warning, nil
}

// maxContinue is the largest number of outstanding tokens of a limiter.
const maxContinue = 1024

// issue makes a token that permits a paused caller to go on until the window ends.
func (l *limiter) issue(until, now time.Time) string {
	if l.tokens == nil {
		l.tokens = map[string]time.Time{}
	}
	for t, end := range l.tokens {
		if !now.Before(end) || len(l.tokens) >= maxContinue {
			delete(l.tokens, t)
		}
	}
	var b [16]byte
	rand.Read(b[:])
	token := "quota_continue_" + hex.EncodeToString(b[:])
	l.tokens[token] = until
	return token
}

// give ends a call that take has counted. r is the API's reply, or nil if there was none.
func (l *limiter) give(op *file.Operation, r *httpcall.Reply, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	if r == nil {
		return
	}
	after, waits := httpcall.RetryAfter(r.Header, now)
	waits = waits && httpcall.MapStatus(r.Status, r.Header).Code == failure.RateLimitExceeded
	for i := range l.rules.Rules {
		rule, b := &l.rules.Rules[i], &l.buckets[i]
		if !rule.Covers(op) {
			continue
		}
		if n, ok := httpcall.HeaderNumber(r.Header, rule.Remaining); ok {
			b.tokens = min(b.tokens, float64(n))
			if at, ok := httpcall.HeaderNumber(r.Header, rule.Reset); ok && n == 0 {
				b.blocked = httpcall.ResetTime(at, now)
				b.tokens = rule.Capacity() // for the time after blocked
			}
		}
		if waits {
			b.blocked = now.Add(after)
		}
	}
}

// status appends the usage of each quota to dst, as a JSON object.
func (l *limiter) status(dst []byte, adapter string, now time.Time) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	worst := 0
	words := [...]string{"ok", "warn", "paused", "exhausted"}
	list := []byte{'['}
	for i, q := range l.rules.Quotas {
		u := l.current(i, now)
		state := 0
		switch {
		case q.HardStop >= 0 && u.count >= q.HardStop:
			state = 3
		case q.Pause >= 0 && u.count >= q.Pause:
			state = 2
		case q.Warn >= 0 && u.count >= q.Warn:
			state = 1
		}
		worst = max(worst, state)
		o := wire.Members(nil).Str("metric", q.Metric).Int("used", int64(u.count)).Str("status", words[state]).
			Str("resets_at", u.start.Add(q.Window).UTC().Format(time.RFC3339))
		for _, m := range [...]struct {
			key   string
			limit int
		}{{"warn", q.Warn}, {"pause", q.Pause}, {"hard_stop", q.HardStop}} {
			if m.limit >= 0 {
				o = o.Int(m.key, int64(m.limit))
			}
		}
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, o.End()...)
	}
	return append(dst, wire.Members(nil).Str("adapter", adapter).Str("status", words[worst]).Raw("limits", append(list, ']')).End()...)
}

// QuotaStatus returns the usage of the adapters' quotas as JSON, as far as callers have used
// them. callers has the caller for each adapter. The quotas of single operations are not
// included.
func QuotaStatus(adapters []*Adapter, callers map[*Adapter]string, now time.Time) []byte {
	out := []byte(`{"quota_status":[`)
	n := 0
	for _, g := range adapters {
		l := g.counters(callers[g]).whole
		if l == nil {
			continue
		}
		if n++; n > 1 {
			out = append(out, ',')
		}
		out = l.status(out, g.adapter.Name, now)
	}
	return append(out, "]}"...)
}
