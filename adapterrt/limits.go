package adapterrt

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"math"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// limitRules are what a file says of how often it may be called.
type limitRules struct {
	source     []byte // as written: equal text goes on with the old counters
	rules      []limitRule
	concurrent int
	quotas     []quotaRule
}

// limitRule is so many calls in a window, of all operations or of some.
type limitRule struct {
	endpoint         string // glob on "METHOD /path", "" for all
	category         Category
	limit            int
	window           time.Duration
	word             string // minute
	burst            int
	remaining, reset string // headers in which the API says so itself
}

// quotaRule is what the operator wants to spend.
type quotaRule struct {
	metric                string
	window                time.Duration
	warn, pause, hardStop int // -1 for none
}

var windows = map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

const maxLimit = 1 << 30

func (c *checker) limits(n *node, at string) *limitRules {
	v := c.get(n, at, "rate_limits", wire.Object)
	if v == nil {
		return nil
	}
	at = join(at, "rate_limits")
	c.known(v, at, "requests_per_minute", "requests_per_hour", "requests_per_day", "concurrent_requests", "burst_limit", "api_limits", "quotas")
	l := &limitRules{source: v.json(nil), concurrent: c.whole(v, at, "concurrent_requests", 0, 1, maxLimit)}
	burst := c.whole(v, at, "burst_limit", 0, 1, maxLimit)
	for _, word := range [...]string{"minute", "hour", "day"} {
		if limit := c.whole(v, at, "requests_per_"+word, 0, 1, maxLimit); limit > 0 {
			l.rules = append(l.rules, limitRule{limit: limit, window: windows[word], word: word, burst: burst})
			burst = 0 // of the shortest window alone
		}
	}
	if list := c.get(v, at, "api_limits", wire.Array); list != nil {
		for i, e := range list.list {
			c.apiLimit(e, index(at+".api_limits", i), l)
		}
	}
	if q := c.get(v, at, "quotas", wire.Object); q != nil {
		c.quotas(q, at+".quotas", l)
	}
	return l
}

func (c *checker) apiLimit(n *node, at string, l *limitRules) {
	if n.kind != wire.Object {
		c.wrong(SchemaInvalidType, at, "a limit must be a map", "object", n, 0)
		return
	}
	c.known(n, at, "scope", "endpoint", "category", "limit", "window", "remaining_header", "reset_header")
	r := limitRule{limit: c.whole(n, at, "limit", 0, 1, maxLimit), remaining: c.str(n, at, "remaining_header"), reset: c.str(n, at, "reset_header")}
	if r.limit == 0 && n.get("limit") == nil {
		c.wrong(SchemaMissingField, at+".limit", "limit is required", "integer", nil, n.line)
	}
	r.word = c.word(n, at, "window", "minute", "second", "hour", "day")
	r.window = windows[r.word]
	switch c.word(n, at, "scope", "global", "endpoint", "category") {
	case "endpoint":
		var v *node
		if r.endpoint, v = c.need(n, at, "endpoint", "Endpoint"); v != nil {
			if _, err := path.Match(r.endpoint, ""); err != nil {
				c.wrong(SchemaInvalidValue, at+".endpoint", "endpoint is no glob", `"METHOD /path"`, v, 0)
			}
		}
	case "category":
		word, v := c.need(n, at, "category", "Category")
		var ok bool
		if r.category, ok = CategoryOf(strings.ToLower(word)); v != nil && !ok {
			c.wrong(SchemaInvalidValue, at+".category", "no such category", "create, read, update, delete, execute", v, 0)
		}
	}
	l.rules = append(l.rules, r)
}

func (c *checker) quotas(n *node, at string, l *limitRules) {
	c.known(n, at, "enabled", "limits")
	list := c.get(n, at, "limits", wire.Array)
	if !c.flag(n, at, "enabled", true) || list == nil {
		return
	}
	for i, e := range list.list {
		at := index(at+".limits", i)
		if e.kind != wire.Object {
			c.wrong(SchemaInvalidType, at, "a quota must be a map", "object", e, 0)
			continue
		}
		c.known(e, at, "metric", "warn", "pause", "hard_stop")
		metric, v := c.need(e, at, "metric", "Metric")
		word := strings.TrimPrefix(strings.TrimPrefix(metric, "requests_per_"), "calls_per_")
		if v != nil && (word == metric || word == "second" || windows[word] == 0) {
			c.wrong(SchemaInvalidValue, at+".metric", "metric is not supported", "requests_per_minute, requests_per_hour, requests_per_day", v, 0)
			continue
		}
		q := quotaRule{metric, windows[word], c.whole(e, at, "warn", -1, 0, maxLimit), c.whole(e, at, "pause", -1, 0, maxLimit), c.whole(e, at, "hard_stop", -1, 0, maxLimit)}
		l.quotas = append(l.quotas, q)
	}
}

// limiter counts the calls of an adapter, or of one operation, in this process.
type limiter struct {
	mu      sync.Mutex
	rules   *limitRules
	buckets []bucket
	running int
	used    []usage
	tokens  map[string]time.Time // quota_continue_…, and until when they hold
}

// bucket has a token for every call that may still be made.
type bucket struct {
	tokens  float64
	at      time.Time
	blocked time.Time // until then, as the API said
}

// usage counts the calls of a window.
type usage struct {
	start time.Time
	count int
}

func newLimiter(r *limitRules) *limiter {
	l := &limiter{rules: r, buckets: make([]bucket, len(r.rules)), used: make([]usage, len(r.quotas))}
	for i, rule := range r.rules {
		l.buckets[i].tokens = rule.capacity()
	}
	return l
}

func (r *limitRule) capacity() float64 {
	if r.burst > 0 {
		return float64(r.burst)
	}
	return float64(r.limit)
}

func (r *limitRule) covers(op *operation) bool {
	if r.category != AnyCategory && r.category != op.category {
		return false
	}
	if r.endpoint == "" {
		return true
	}
	template, _, _ := strings.Cut(op.mapping.template, "?")
	ok, _ := path.Match(r.endpoint, op.mapping.method+" "+template)
	return ok
}

// take counts one call, or says why it may not be made. With nil and no failure
// the caller must give back what it took.
func (l *limiter) take(op *operation, token string, now time.Time) (warning *Notice, f *Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rules.concurrent > 0 && l.running >= l.rules.concurrent {
		return nil, exceeded(l.rules.concurrent, "concurrent", time.Second, now)
	}
	for i := range l.rules.rules {
		rule, b := &l.rules.rules[i], &l.buckets[i]
		if !rule.covers(op) {
			continue
		}
		rate := float64(rule.limit) / float64(rule.window)
		if !b.at.IsZero() {
			b.tokens = min(rule.capacity(), b.tokens+rate*float64(max(now.Sub(b.at), 0)))
		}
		b.at = now
		if wait := b.blocked.Sub(now); wait > 0 {
			return nil, exceeded(rule.limit, rule.word, wait, now)
		}
		if b.tokens < 1 {
			return nil, exceeded(rule.limit, rule.word, time.Duration(math.Ceil((1-b.tokens)/rate)), now)
		}
	}
	for i := range l.rules.quotas {
		if warning, f = l.spend(i, warning, token, now); f != nil {
			return nil, f
		}
	}
	for i := range l.rules.rules {
		if l.rules.rules[i].covers(op) {
			l.buckets[i].tokens--
		}
	}
	for i := range l.used {
		l.used[i].count++
	}
	l.running++
	return warning, nil
}

func exceeded(limit int, window string, wait time.Duration, now time.Time) *Failure {
	return &Failure{
		Code: RateLimitExceeded, RetryAfter: wait, Message: "Rate limit exceeded: " + strconv.Itoa(limit) + " per " + window,
		Details: wire.Members(nil).Int("limit", int64(limit)).Int("remaining", 0).Str("window", window).
			Str("resets_at", now.Add(wait).UTC().Format(time.RFC3339)).Int("retry_after_seconds", int64((wait+time.Second-1)/time.Second)).End(),
	}
}

// current is the usage of quota i in the window of now.
func (l *limiter) current(i int, now time.Time) *usage {
	u := &l.used[i]
	if start := now.Truncate(l.rules.quotas[i].window); !u.start.Equal(start) {
		*u = usage{start: start}
	}
	return u
}

// spend checks quota i for one more call.
func (l *limiter) spend(i int, warning *Notice, token string, now time.Time) (*Notice, *Failure) {
	q, u := &l.rules.quotas[i], l.current(i, now)
	resets := u.start.Add(q.window)
	fail := func(code Code, what string, d wire.Members) *Failure {
		return &Failure{Code: code, RetryAfter: resets.Sub(now), Message: "Quota " + what + ": " + strconv.Itoa(u.count) + " " + q.metric, Details: d.End()}
	}
	d := wire.Members(nil).Str("metric", q.metric).Int("used", int64(u.count)).Str("resets_at", resets.UTC().Format(time.RFC3339))
	switch {
	case q.hardStop >= 0 && u.count >= q.hardStop:
		return warning, fail("RATE_LIMIT_QUOTA_EXHAUSTED", "exhausted", d.Int("limit", int64(q.hardStop)))
	case q.pause >= 0 && u.count >= q.pause:
		if until, ok := l.tokens[token]; token == "" || !ok || !now.Before(until) {
			return warning, fail("RATE_LIMIT_QUOTA_PAUSE", "paused", d.Int("limit", int64(q.pause)).Str("continue_token", l.issue(resets, now)))
		}
	case q.warn >= 0 && u.count >= q.warn:
		severity := "medium"
		if q.hardStop > 0 && u.count*10 > q.hardStop*9 {
			severity = "high"
		}
		warning = &Notice{Code: "RATE_LIMIT_QUOTA_WARNING", Message: "Quota nearly used: " + strconv.Itoa(u.count) + " " + q.metric, Details: d.Int("limit", int64(q.warn)).End(), Severity: severity}
	}
	return warning, nil
}

// The most tokens outstanding for an adapter.
const maxContinue = 1024

// issue makes a token by which a paused caller goes on until the window ends.
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

// give ends a call; r is what the API said, nil for nothing.
func (l *limiter) give(op *operation, r *reply, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	if r == nil {
		return
	}
	after, waits := retryAfter(r.header, now)
	waits = waits && mapStatus(r.status, r.header).code == RateLimitExceeded
	for i := range l.rules.rules {
		rule, b := &l.rules.rules[i], &l.buckets[i]
		if !rule.covers(op) {
			continue
		}
		if n, ok := headerNumber(r.header, rule.remaining); ok {
			b.tokens = min(b.tokens, float64(n))
			if at, ok := headerNumber(r.header, rule.reset); ok && n == 0 {
				b.blocked = resetTime(at, now)
				b.tokens = rule.capacity() // when that is over
			}
		}
		if waits {
			b.blocked = now.Add(after)
		}
	}
}

// resetAfter is how long to wait by the headers that the rules of op name, when one
// of them says that nothing is left.
func (op *operation) resetAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	for _, l := range [...]*limitRules{op.adapter.limits, op.limits} {
		if l == nil {
			continue
		}
		for i := range l.rules {
			left, told := headerNumber(h, l.rules[i].remaining)
			at, known := headerNumber(h, l.rules[i].reset)
			if told && known && left == 0 && l.rules[i].covers(op) {
				wait, ok = max(wait, resetTime(at, now).Sub(now), 0), true
			}
		}
	}
	return wait, ok
}

func headerNumber(h http.Header, name string) (int64, bool) {
	if name == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(h.Get(name)), 10, 64)
	return n, err == nil && n >= 0
}

// resetTime reads a reset header: a moment in seconds or milliseconds, or the
// seconds until then.
func resetTime(n int64, now time.Time) time.Time {
	const longest = 366 * 24 * time.Hour
	switch {
	case n < 1<<28:
		return now.Add(min(time.Duration(n)*time.Second, longest))
	case n < 1<<37: // the year 6325, and as milliseconds a day in 1974
		return now.Add(min(time.Unix(n, 0).Sub(now), longest))
	}
	return now.Add(min(time.UnixMilli(min(n, 1<<47)).Sub(now), longest))
}

// status appends what of each quota is used.
func (l *limiter) status(dst []byte, adapter string, now time.Time) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	worst := 0
	words := [...]string{"ok", "warn", "paused", "exhausted"}
	list := []byte{'['}
	for i, q := range l.rules.quotas {
		u := l.current(i, now)
		state := 0
		switch {
		case q.hardStop >= 0 && u.count >= q.hardStop:
			state = 3
		case q.pause >= 0 && u.count >= q.pause:
			state = 2
		case q.warn >= 0 && u.count >= q.warn:
			state = 1
		}
		worst = max(worst, state)
		o := wire.Members(nil).Str("metric", q.metric).Int("used", int64(u.count)).Str("status", words[state]).
			Str("resets_at", u.start.Add(q.window).UTC().Format(time.RFC3339))
		for _, m := range [...]struct {
			key   string
			limit int
		}{{"warn", q.warn}, {"pause", q.pause}, {"hard_stop", q.hardStop}} {
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

// limit gives the adapters and operations of a load their counters; who says the
// same as before goes on counting.
func limit(a, old *Adapter) {
	carry := func(l **limiter, rules *limitRules, before *limiter) {
		switch {
		case rules == nil || *l != nil:
		case before != nil && bytes.Equal(before.rules.source, rules.source):
			*l = before
		default:
			*l = newLimiter(rules)
		}
	}
	var before *limiter
	if old != nil {
		before = old.limiter
	}
	carry(&a.limiter, a.limits, before)
	for _, op := range a.ops {
		before = nil
		if old != nil && old.index[op.name] != nil {
			before = old.index[op.name].limiter
		}
		carry(&op.limiter, op.limits, before)
	}
}

// admit takes from the counters of a call. done must be called when it is over.
func (c *call) admit(rt *Runtime) (done func(*reply), f *Failure) {
	op := c.op
	var taken []*limiter
	done = func(r *reply) {
		for _, l := range taken {
			l.give(op, r, rt.opt.Now())
		}
	}
	for _, l := range [...]*limiter{op.adapter.limiter, op.limiter} {
		if l == nil {
			continue
		}
		warning, f := l.take(op, string(c.goOn), rt.opt.Now())
		if f != nil {
			done(nil)
			return nil, f
		}
		taken = append(taken, l)
		if warning != nil {
			c.warn(*warning)
		}
	}
	return done, nil
}

// quotaStatus answers introspection.
func (sc *scope) quotaStatus(rt *Runtime) []byte {
	out := []byte(`{"quota_status":[`)
	n := 0
	for _, a := range sc.adapters {
		if a.limiter == nil {
			continue
		}
		if n++; n > 1 {
			out = append(out, ',')
		}
		out = a.limiter.status(out, a.Name, rt.opt.Now())
	}
	return append(out, "]}"...)
}
