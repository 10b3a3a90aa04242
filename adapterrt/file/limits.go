package file

import (
	"path"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Limits is the rate_limits block of a file or of an operation.
type Limits struct {
	Source     []byte // the block as JSON; after a reload with an equal block, the counters continue
	Rules      []Limit
	Concurrent int
	Quotas     []Quota
	Shared     bool          // callers with credentials of their own are counted together
	wait       time.Duration // the longest wait of a call for its turn; negative if the block does not say
}

// Limit is the largest number of calls in a window, of all operations or of some.
type Limit struct {
	endpoint         string // glob on "METHOD /path", "" for all
	category         Category
	Limit            int
	Window           time.Duration
	Word             string // minute
	burst            int
	Remaining, Reset string // names of the response headers with the API's own count and reset time
}

// Quota holds the thresholds for the number of calls in a window: to warn, to pause until the
// caller asks to continue, and to stop.
type Quota struct {
	Metric                string
	Window                time.Duration
	Warn, Pause, HardStop int // -1 for none
}

var windows = map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

const maxLimit, longestWait = 1 << 30, 60_000 // ms

var limitsBlock = block{"rate_limits", "At the top for all operations together, in an operation for its own calls in addition. [How limits work](adapters.md#limits-waiting-and-apis-that-fail).", []key{
	{"requests_per_minute", "integer 1–1073741824", "", "How many calls are allowed in a window."},
	{"requests_per_hour", "integer 1–1073741824", "", ""},
	{"requests_per_day", "integer 1–1073741824", "", ""},
	{"burst_limit", "integer 1–1073741824", "", "How many of the shortest of these windows may come at once. Without it, all."},
	{"concurrent_requests", "integer 1–1073741824", "", "How many calls may be open at one time."},
	{"max_wait_ms", "integer 0–60000", "", "Milliseconds that a call waits for its turn, and for an API that asks it to come again; 0 never waits. Without it, 2000; in an operation, what the file says."},
	{"per", "caller, adapter", "caller", "Whether callers with credentials of their own are counted one by one, or together."},
	{"api_limits", "list of maps", "", "The API's own limits."},
	{"quotas", "map", "", "Thresholds at which calls warn, pause or stop."},
}}

var apiLimitBlock = block{"rate_limits.api_limits[]", "", []key{
	{"limit", "integer 1–1073741824", must, "How many calls are allowed in the window."},
	{"window", "minute, second, hour, day", "minute", "The window."},
	{"scope", "global, endpoint, category", "global", "Which calls count: all, or those that the next two keys select."},
	{"endpoint", "string", "", "A glob on METHOD and path; required for endpoint."},
	{"category", "create, read, update, delete, execute", "", "The category of the operations; required for category."},
	{"remaining_header", "string", "", "The header in which the API says how many calls are left. It corrects the count."},
	{"reset_header", "string", "", "The header that says when the window ends."},
}}

var quotasBlock = block{"rate_limits.quotas", "", []key{
	{"enabled", "boolean", "true", "Whether they hold."},
	{"limits", "list of maps", "", "The quotas."},
}}

var quotaBlock = block{"rate_limits.quotas.limits[]", "", []key{
	{"metric", "string", must, "What is counted: requests_per_minute, requests_per_hour or requests_per_day. Others are not enforced, with a warning."},
	{"warn", "integer 0–1073741824", "", "From how many calls on results have a warning."},
	{"pause", "integer 0–1073741824", "", "From how many calls on the caller must ask to continue."},
	{"hard_stop", "integer 0–1073741824", "", "From how many calls on they are refused."},
}}

func (c *checker) limits(n *node, at string) *Limits {
	v := c.get(n, at, "rate_limits", wire.Object)
	if v == nil {
		return nil
	}
	at = join(at, "rate_limits")
	c.known(v, at, &limitsBlock)
	l := &Limits{Source: v.JSON(nil), Concurrent: c.whole(v, at, "concurrent_requests", 0, 1, maxLimit)}
	l.wait = c.millis(v, at, "max_wait_ms", -1, 0, longestWait)
	l.Shared = c.word(v, at, "per", "caller", "adapter") == "adapter"
	burst := c.whole(v, at, "burst_limit", 0, 1, maxLimit)
	for _, word := range [...]string{"minute", "hour", "day"} {
		if limit := c.whole(v, at, "requests_per_"+word, 0, 1, maxLimit); limit > 0 {
			l.Rules = append(l.Rules, Limit{Limit: limit, Window: windows[word], Word: word, burst: burst})
			burst = 0 // only the shortest window has it
		}
	}
	if list := c.get(v, at, "api_limits", wire.Array); list != nil {
		for at, e := range c.maps(list, at+".api_limits", "a limit") {
			c.apiLimit(e, at, l)
		}
	}
	if q := c.get(v, at, "quotas", wire.Object); q != nil {
		c.quotas(q, at+".quotas", l)
	}
	return l
}

func (c *checker) apiLimit(n *node, at string, l *Limits) {
	c.known(n, at, &apiLimitBlock)
	r := Limit{Limit: c.whole(n, at, "limit", 0, 1, maxLimit), Remaining: c.str(n, at, "remaining_header"), Reset: c.str(n, at, "reset_header")}
	if !n.has("limit") {
		c.wrong(SchemaMissingField, at+".limit", "limit is required", "integer", nil, n.line)
	}
	r.Word = c.word(n, at, "window", "minute", "second", "hour", "day")
	r.Window = windows[r.Word]
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
	l.Rules = append(l.Rules, r)
}

func (c *checker) quotas(n *node, at string, l *Limits) {
	c.known(n, at, &quotasBlock)
	list := c.get(n, at, "limits", wire.Array)
	if !c.flag(n, at, "enabled", true) || list == nil {
		return
	}
	for at, e := range c.maps(list, at+".limits", "a quota") {
		c.known(e, at, &quotaBlock)
		metric, v := c.need(e, at, "metric", "Metric")
		word := strings.TrimPrefix(strings.TrimPrefix(metric, "requests_per_"), "calls_per_")
		if v != nil && (word == metric || word == "second" || windows[word] == 0) {
			c.warn(SchemaInvalidValue, at+".metric", "this quota is not enforced: only requests_per_minute, requests_per_hour and requests_per_day are counted", v.line)
			continue
		}
		q := Quota{metric, windows[word], c.whole(e, at, "warn", -1, 0, maxLimit), c.whole(e, at, "pause", -1, 0, maxLimit), c.whole(e, at, "hard_stop", -1, 0, maxLimit)}
		l.Quotas = append(l.Quotas, q)
	}
}

// Capacity returns how many calls are allowed at once.
func (r *Limit) Capacity() float64 {
	if r.burst > 0 {
		return float64(r.burst)
	}
	return float64(r.Limit)
}

// Breaker says when an API that fails is not called for a while.
type Breaker struct {
	Failures int           // in a row
	Open     time.Duration // until the API is tried again
}

var breakerBlock = block{"breaker", "", []key{
	{"failures", "integer 1–1000", "5", "After how many failures in a row calls fail at once."},
	{"open_ms", "integer 100–60000", "10000", "Milliseconds until one call tries the API again. If that fails, the time doubles, up to a minute."},
}}

// breaker reads the breaker of a file. It returns nil if there is none.
func (c *checker) breaker(root *node) *Breaker {
	n := c.get(root, "", "breaker", wire.Object)
	if n == nil {
		return nil
	}
	c.only(n, "breaker", &breakerBlock)
	return &Breaker{
		Failures: c.whole(n, "breaker", "failures", 5, 1, 1000),
		Open:     c.millis(n, "breaker", "open_ms", 10_000, 100, 60_000),
	}
}
