// Package results caches lists and resources that a server has sent. A [Cache] belongs to one
// server. An [Enquiry] is one request to the cache, which is answered from what is kept, by the
// answer to an equal request that is under way, or by the server.
package results

import (
	ordered "container/list"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Bounds are the limits of a cache.
type Bounds struct {
	Bytes   int64 // of results; 0 keeps none. One result is never more than a quarter of it.
	Entries int
}

const (
	// AsSaid as the TTL of a [Lookup] stands for the TTL that the server's result names.
	AsSaid time.Duration = -1
	// maxFresh is how long a result is kept at most, whatever the server says.
	maxFresh = 24 * time.Hour
	// passTime is how long callers do not wait for each other's requests after an answer that
	// could not be kept.
	passTime = time.Minute
	// Overhead is the number of bytes that the cache counts for a result in addition to its size.
	Overhead = 256
)

// Cache keeps lists and resources that the server has sent, until the time that the server or
// the configuration sets is over, or until the server reports a change. It also ensures that
// only one request for them is under way at a time. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching.
//
// The cache keeps what the server sent: later callers get it in the same way as the first one.
// A result belongs to the principal that asked for it, unless the server itself calls it
// public. No caller waits for the request of another principal.
type Cache struct {
	// Now is time.Now; a test may set another clock before the first use.
	Now func() time.Time

	bounds func() Bounds
	looked *prometheus.CounterVec // look-ups by outcome

	mu      sync.Mutex
	byKey   map[Key]*ordered.Element
	order   ordered.List // of *kept, latest used first
	bytes   int
	fetches map[Key]*fetch  // requests that others may wait for
	sent    map[*fetch]bool // all requests whose answer may be kept
}

// New returns an empty Cache. bounds returns the limits in force, and is called whenever they are needed.
func New(bounds func() Bounds) *Cache {
	return &Cache{
		bounds: bounds, Now: time.Now,
		looked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_cache_lookups_total",
			Help: "Look-ups in the cache of results, by outcome: hit, shared (answered with an open request of another client), miss, pass (not cacheable).",
		}, []string{"outcome"}),
		byKey: make(map[Key]*ordered.Element), fetches: make(map[Key]*fetch), sent: make(map[*fetch]bool),
	}
}

// Register registers the metrics of the cache.
func (c *Cache) Register(r prometheus.Registerer) {
	gauge := func(name, help string, of func(entries, bytes int) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(of(c.Size())) })
	}
	r.MustRegister(c.looked,
		gauge("dragoman_cache_entries", "Lists and resources in the cache of results.", func(entries, _ int) int { return entries }),
		gauge("dragoman_cache_bytes", "Memory that the cache of results uses.", func(_, bytes int) int { return bytes }))
}

// Size returns the number of kept results, and their bytes.
func (c *Cache) Size() (entries, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byKey), c.bytes
}

// Key stands for a request, and for the principals that may see its answer.
type Key [sha256.Size]byte

// kept is one result. What is in it does not change.
type kept struct {
	key    Key
	about  subject
	realm  string
	result []byte // as the server sent it; nil if the answer could not be kept
	until  time.Time
}

func (k *kept) size() int { return Overhead + len(k.realm) + len(k.about.uri) + len(k.result) }

// subject is what a result is about, by which a change notification finds it.
type subject struct {
	method wire.Method
	uri    string // of a resource; "" for a list
}

// get returns the result that is kept for key and still valid, or nil. Called with c.mu held.
func (c *Cache) get(key Key) *kept {
	at := c.byKey[key]
	if at == nil {
		return nil
	}
	k := at.Value.(*kept)
	if !c.Now().Before(k.until) {
		c.remove(at)
		return nil
	}
	c.order.MoveToFront(at)
	return k
}

// remove removes one result. Called with c.mu held.
func (c *Cache) remove(at *ordered.Element) {
	k := c.order.Remove(at).(*kept)
	delete(c.byKey, k.key)
	c.bytes -= k.size()
}

// saidTTL returns how long the server says that its result is valid; 0 if it does not say.
func saidTTL(v gjson.Result) time.Duration {
	ms := v.Float()
	if v.Type != gjson.Number || !(ms > 0) {
		return 0
	}
	return time.Duration(min(ms, float64(maxFresh.Milliseconds()))) * time.Millisecond
}

// put adds k, and removes the least recently used results if there are too many. Called with
// c.mu held.
func (c *Cache) put(k *kept, bounds Bounds) {
	if at := c.byKey[k.key]; at != nil {
		c.remove(at)
	}
	c.byKey[k.key] = c.order.PushFront(k)
	c.bytes += k.size()
	for len(c.byKey) > bounds.Entries || c.bytes > int(bounds.Bytes) {
		c.remove(c.order.Back())
	}
}

// drop removes the results for which is returns true, and marks the requests for such results
// as stale.
func (c *Cache) drop(is func(about subject, realm string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := c.order.Front(); at != nil; {
		next := at.Next()
		if k := at.Value.(*kept); is(k.about, k.realm) {
			c.remove(at)
		}
		at = next
	}
	for f := range c.sent {
		f.stale = f.stale || is(f.about, f.realm)
	}
	for key, f := range c.fetches {
		if f.stale { // requests from now on get the new state
			delete(c.fetches, key)
		}
	}
}

// Heard removes the entries that the server's notification m invalidates: list_changed and
// resources/updated. The stream on which m came does not matter.
func (c *Cache) Heard(m *wire.Message) {
	var lists [2]wire.Method
	switch m.Method {
	case wire.ToolsListChanged:
		lists[0] = wire.ToolsList
	case wire.PromptsListChanged:
		lists[0] = wire.PromptsList
	case wire.ResourcesListChanged:
		lists = [2]wire.Method{wire.ResourcesList, wire.ResourcesTemplatesList}
	case wire.ResourcesUpdated:
		uri := gjson.GetBytes(m.Params(), "uri").String()
		c.drop(func(about subject, _ string) bool {
			return about.method == wire.ResourcesRead && related(about.uri, uri)
		})
		return
	default:
		return
	}
	c.drop(func(about subject, _ string) bool { return about.method == lists[0] || about.method == lists[1] })
}

// related reports whether one resource is the other, or a part of it: a server may name
// either. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/resources#subscriptions.
func related(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// Unheard removes all entries of realm, whose principals may have missed a change notification.
func (c *Cache) Unheard(realm string) {
	c.drop(func(_ subject, r string) bool { return r == realm })
}

// Forget removes all entries.
func (c *Cache) Forget() { c.drop(func(subject, string) bool { return true }) }

// fetch is a request to the server. Other requests of the same principal may wait for its answer.
type fetch struct {
	about subject
	realm string
	done  chan struct{}

	// Guarded by the cache's mutex.
	stale bool // what it asks for has changed since it was sent
	alone bool // done is closed before the answer, and no caller waits
	over  bool
	found *kept // nil if there is no result for the waiting requests
}
