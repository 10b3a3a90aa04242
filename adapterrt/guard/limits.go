package guard

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
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
	queue   []*place // in order of arrival

	account, id string // under which all replicas count the same calls
	key         []byte // makes the quota_continue_… tokens
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

	everywhere bool // the count of all replicas says so
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
			no = &refusal{f: exceeded(rule.Limit, rule.Word, wait, now), waits: waits, after: wait}
			p.behind = i
		}
	}
	if no != nil {
		return nil, no
	}
	if most := l.rules.Concurrent; most > 0 && l.running+l.ahead(p, atOnce) >= most {
		p.behind = atOnce
		return nil, &refusal{f: exceeded(most, "concurrent", time.Second, now), waits: true}
	}
	l.count(p.op, 1)
	l.running++
	p.behind = nothing
	return warning, nil
}

// What a call waits for beside the indexes of rules: the limit of calls at once, or nothing.
const (
	atOnce  = -1
	nothing = -2
)

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
	u := l.current(i, now)
	w, f := l.judge(i, u.count, u.start.Add(l.rules.Quotas[i].Window), token, now)
	if w != nil {
		warning = w
	}
	return warning, f
}

// judge checks quota i for one more call after so many in a window that ends at resets.
func (l *limiter) judge(i, used int, resets time.Time, token string, now time.Time) (*failure.Notice, *failure.Failure) {
	q := &l.rules.Quotas[i]
	fail := func(code failure.Code, what string, d wire.Members) *failure.Failure {
		return &failure.Failure{Code: code, RetryAfter: resets.Sub(now), Message: "Quota " + what + ": " + strconv.Itoa(used) + " " + q.Metric, Details: d.End()}
	}
	d := wire.Members(nil).Str("metric", q.Metric).Int("used", int64(used)).Str("resets_at", resets.UTC().Format(time.RFC3339))
	switch {
	case q.HardStop >= 0 && used >= q.HardStop:
		return nil, fail("RATE_LIMIT_QUOTA_EXHAUSTED", "exhausted", d.Int("limit", int64(q.HardStop)))
	case q.Pause >= 0 && used >= q.Pause:
		if !l.continues(token, now) {
			return nil, fail("RATE_LIMIT_QUOTA_PAUSE", "paused", d.Int("limit", int64(q.Pause)).Str("continue_token", l.permit(resets)))
		}
	case q.Warn >= 0 && used >= q.Warn:
		severity := "medium"
		if q.HardStop > 0 && used*10 > q.HardStop*9 {
			severity = "high"
		}
		return &failure.Notice{Code: "RATE_LIMIT_QUOTA_WARNING", Message: "Quota nearly used: " + strconv.Itoa(used) + " " + q.Metric, Details: d.Int("limit", int64(q.Warn)).End(), Severity: severity}, nil
	}
	return nil, nil
}

// permitPrefix begins the tokens that permit a paused caller to go on.
const permitPrefix = "quota_continue_"

// permit makes a token that permits a paused caller to go on until the window ends. Nothing is kept
// of it: it holds its expiry and a MAC, so that any replica with the key accepts it.
func (l *limiter) permit(until time.Time) string {
	expires := binary.BigEndian.AppendUint32(nil, uint32(until.Round(time.Second).Unix()))
	return permitPrefix + hex.EncodeToString(append(expires, l.seal(expires)...))
}

func (l *limiter) seal(expires []byte) []byte {
	mac := hmac.New(sha256.New, l.key)
	mac.Write([]byte(permitPrefix + "\x00" + l.account + "\x00" + l.id + "\x00"))
	mac.Write(expires)
	return mac.Sum(nil)[:12]
}

// continues reports whether a token permits to go on now.
func (l *limiter) continues(token string, now time.Time) bool {
	text, ok := strings.CutPrefix(token, permitPrefix)
	if !ok {
		return false
	}
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == 16 && hmac.Equal(b[4:], l.seal(b[:4])) && now.Before(time.Unix(int64(binary.BigEndian.Uint32(b)), 0))
}

// give ends a call that take has counted.
func (l *limiter) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	l.wake()
}

// correction is what an API says about a rule: so many more calls until a time, or, if that is zero,
// for now.
type correction struct {
	l     *limiter
	rule  int
	left  int64
	until time.Time
}

// learn corrects the counters by the API's reply to a call of op. It returns what it has learned.
func (l *limiter) learn(op *file.Operation, r *httpcall.Reply, now time.Time) (told []correction) {
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
			told = append(told, correction{l, i, n, reset})
		}
		if waits {
			b.blocked = now.Add(after)
			told = append(told, correction{l, i, 0, b.blocked})
		}
	}
	if len(open) == 0 {
		return told
	}
	for _, b := range httpcall.Budgets(r.Header, now) {
		if i := l.meant(open, &b); i >= 0 {
			l.buckets[i].correct(&l.rules.Rules[i], b.Remaining, b.Reset)
			told = append(told, correction{l, i, b.Remaining, b.Reset})
		}
	}
	return told
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

// place is a call at a limiter.
type place struct {
	op     *file.Operation
	goOn   string        // the token for calls beyond a quota's pause
	behind int           // the limit that it waits for: a rule, atOnce, or nothing
	wake   chan struct{} // has a value when another call has left the queue or ended; nil outside of the queue
}

// wake makes all calls in the queue look whether it is their turn. l.mu must be held.
func (l *limiter) wake() {
	for _, p := range l.queue {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}
