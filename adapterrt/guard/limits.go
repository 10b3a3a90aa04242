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
	queue   []*place             // in order of arrival
}

// bucket is a token bucket. It has one token for every call that may still be made.
type bucket struct {
	tokens  float64
	at      time.Time
	blocked time.Time // no calls until then, as the API demanded
	left    int64     // how many calls the API allows until renewed, by its own count
	renewed time.Time
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

// refusal says why a call may not be made now.
type refusal struct {
	f     *failure.Failure
	waits bool          // the call may wait
	after time.Duration // when its turn comes; 0 if that depends on calls that are running
}

// nearly makes up for the rounding of a bucket's tokens.
const nearly = 1 - 1e-6

// take counts one call, or says why the call may not be made now. If it may, the caller must
// call give when the call has ended. l.mu must be held.
func (l *limiter) take(p *place, now time.Time) (warning *failure.Notice, no *refusal) {
	for i := range l.rules.Quotas {
		var f *failure.Failure
		if warning, f = l.spend(i, warning, p.goOn, now); f != nil {
			return nil, &refusal{f: f}
		}
	}
	for i := range l.rules.Rules {
		rule := &l.rules.Rules[i]
		if !rule.Covers(p.op) {
			continue
		}
		wait, asked := l.buckets[i].wait(rule, l.ahead(p, i), now)
		if wait > 0 && (no == nil || wait > no.after) {
			// A place in an hour's window is no matter of seconds, unless the API itself says so.
			waits := (no == nil || no.waits) && (rule.Window < time.Hour || asked)
			no = &refusal{exceeded(rule.Limit, rule.Word, wait, now), waits, wait}
			p.behind = i
		}
	}
	if no != nil {
		return nil, no
	}
	if most := l.rules.Concurrent; most > 0 && l.running+l.ahead(p, atOnce) >= most {
		p.behind = atOnce
		return nil, &refusal{exceeded(most, "concurrent", time.Second, now), true, 0}
	}
	l.count(p.op, 1)
	l.running++
	return warning, nil
}

// atOnce stands for the limit of calls at once, beside the indexes of rules.
const atOnce = -1

// ahead returns how many calls in the queue before p wait for the same limit. Those that wait for
// another one keep nothing from p.
func (l *limiter) ahead(p *place, limit int) (n int) {
	for _, other := range l.queue {
		if other == p {
			break
		}
		if other.behind == limit {
			n++
		}
	}
	return n
}

// wait returns how long it takes until a call may be made that has this many others before it;
// asked says that the API demands the wait.
func (b *bucket) wait(rule *file.Limit, ahead int, now time.Time) (wait time.Duration, asked bool) {
	rate := float64(rule.Limit) / float64(rule.Window)
	if !b.at.IsZero() {
		b.tokens = min(rule.Capacity(), b.tokens+rate*float64(max(now.Sub(b.at), 0)))
	}
	b.at = now
	if needs := float64(ahead + 1); b.tokens < needs*nearly {
		wait = time.Duration(math.Ceil((needs - b.tokens) / rate))
	}
	until := b.blocked
	if b.renewed.After(until) && b.left <= int64(ahead) {
		until = b.renewed
	}
	if d := until.Sub(now); d > 0 && d >= wait {
		return d, true
	}
	return wait, false
}

// count adds n calls of op.
func (l *limiter) count(op *file.Operation, n int) {
	for i := range l.rules.Rules {
		if l.rules.Rules[i].Covers(op) {
			l.buckets[i].tokens -= float64(n)
			l.buckets[i].left -= int64(n)
		}
	}
	for i := range l.used {
		l.used[i].count = max(l.used[i].count+n, 0) // a window may have ended before a call is taken back
	}
}

func exceeded(limit int, window string, wait time.Duration, now time.Time) *failure.Failure {
	return &failure.Failure{
		Code: failure.RateLimitExceeded, RetryAfter: wait, Message: "Rate limit exceeded: " + strconv.Itoa(limit) + " per " + window,
		Details: wire.Members(nil).Int("limit", int64(limit)).Int("remaining", 0).Str("window", window).
			Str("resets_at", now.Add(wait).UTC().Format(time.RFC3339)).Int("retry_after_seconds", seconds(wait)).End(),
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

// give ends a call that take has counted.
func (l *limiter) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	l.wake()
}

// learn corrects the counters by the API's reply to a call of op.
func (l *limiter) learn(op *file.Operation, r *httpcall.Reply, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	after, waits := httpcall.RetryAfter(r.Header, now)
	waits = waits && httpcall.MapStatus(r.Status, r.Header).Code == failure.RateLimitExceeded
	var open []int // rules that do not name the headers that they are corrected by
	for i := range l.rules.Rules {
		rule, b := &l.rules.Rules[i], &l.buckets[i]
		if !rule.Covers(op) {
			continue
		}
		if rule.Remaining == "" {
			open = append(open, i)
		} else if n, ok := httpcall.HeaderNumber(r.Header, rule.Remaining); ok {
			var reset time.Time
			if at, ok := httpcall.HeaderNumber(r.Header, rule.Reset); ok {
				reset = httpcall.ResetTime(at, now)
			}
			b.correct(rule, n, reset)
		}
		if waits {
			b.blocked = now.Add(after)
		}
	}
	if len(open) == 0 {
		return
	}
	for _, told := range httpcall.Budgets(r.Header, now) {
		if i := l.meant(open, &told); i >= 0 {
			l.buckets[i].correct(&l.rules.Rules[i], told.Remaining, told.Reset)
		}
	}
}

// meant returns the one of the rules that an API's budget belongs to, by its window or limit. It
// returns -1 if that is not certain.
func (l *limiter) meant(rules []int, told *httpcall.Budget) int {
	for _, i := range rules {
		if rule := &l.rules.Rules[i]; told.Window > 0 && told.Window == rule.Window {
			return i
		}
	}
	for _, i := range rules {
		if told.Limit > 0 && told.Limit == int64(l.rules.Rules[i].Limit) {
			return i
		}
	}
	if len(rules) == 1 || told.Remaining == 0 { // with nothing left, no call may be made, whatever the rule
		return rules[0]
	}
	return -1
}

// correct takes over the API's own count: n calls until reset, which is zero if it is unknown.
func (b *bucket) correct(rule *file.Limit, n int64, reset time.Time) {
	switch {
	case reset.IsZero():
		b.tokens = min(b.tokens, float64(n))
	case n == 0:
		b.blocked = reset
		b.tokens = rule.Capacity() // for the time after blocked
	case reset.Sub(b.renewed).Abs() < 2*time.Second: // the same window; answers may arrive in another order
		b.left = min(b.left, n)
	default:
		b.left, b.renewed = n, reset
	}
}

// status returns the usage of each quota as a JSON array, and the worst state among them.
func (l *limiter) status(now time.Time) (state string, limits []byte) {
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
	return words[worst], append(list, ']')
}

// QuotaStatus returns the usage of the adapters' quotas as JSON, as far as callers have used
// them. callers has the caller for each adapter. The quotas of single operations are not
// included.
func QuotaStatus(adapters []*Adapter, callers map[*Adapter]string, now time.Time) []byte {
	out := []byte(`{"quota_status":[`)
	n := 0
	for _, g := range adapters {
		l := g.counters(callers[g]).whole
		if l == nil && g.breaker == nil {
			continue
		}
		state, limits := "ok", []byte("[]")
		if l != nil {
			state, limits = l.status(now)
		}
		o := wire.Members(nil).Str("adapter", g.adapter.Name).Str("status", state).Raw("limits", limits)
		if g.breaker != nil {
			o = o.Raw("breaker", g.breaker.status(now))
		}
		if n++; n > 1 {
			out = append(out, ',')
		}
		out = append(out, o.End()...)
	}
	return append(out, "]}"...)
}
