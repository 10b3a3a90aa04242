package adapterrt

import (
	"container/list"
	"context"
	"crypto/sha256"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// What the cache of a runtime may hold, in bytes; of one answer, a quarter.
const cacheSize = 64 << 20

type cacheKey [sha256.Size]byte

// stored is an answer in the cache.
type stored struct {
	key     cacheKey
	adapter *file.Adapter
	reply   *httpcall.Reply // shared: nobody changes its body
	fresh   time.Time
	size    int
}

// cache keeps answers, the latest used first, until they are too many bytes.
type cache struct {
	mu      sync.Mutex
	byKey   map[cacheKey]*list.Element
	order   list.List
	size    int
	flights map[cacheKey]*flight
	cleared map[*file.Adapter]uint64 // counts what has changed behind the answers
}

// flight is a request that others wait for.
type flight struct {
	done  chan struct{}
	reply *httpcall.Reply
	fail  *failure.Failure
}

// request sends c.out, with the adapter's credentials, through the cache when the
// operation has one.
func (rt *Runtime) request(ctx context.Context, c *call, a *adapter) (*httpcall.Reply, *failure.Failure) {
	rule := c.Op.Cache
	if rule == nil {
		if f := a.signer.Authorize(ctx, &c.Out); f != nil {
			return nil, f
		}
		r, f := c.sendLimited(ctx, rt)
		if c.Op.Category != file.Read {
			rt.cache.clear(a.Adapter) // also after a failure: it may have had an effect
		}
		return r, f
	}
	h := sha256.New()
	h.Write(a.Digest[:])
	h.Write([]byte(c.Op.Name))
	h.Write(append([]byte{0}, c.Out.Url.Text...))
	for _, p := range c.Out.Headers {
		h.Write([]byte("\x00" + p.Name + "\x00" + p.Value))
	}
	if f := a.signer.Authorize(ctx, &c.Out); f != nil {
		return nil, f
	}
	for _, s := range c.Out.Secrets {
		sum := sha256.Sum256([]byte(s))
		h.Write(sum[:])
	}
	var key cacheKey
	h.Sum(key[:0])

	now := rt.opt.Now()
	old := rt.cache.get(key)
	if old != nil && now.Before(old.fresh) {
		c.cached = "hit"
		return old.reply.Clone(), nil
	}
	c.cached = "miss"
	if !rule.Coalesce {
		return rt.refresh(ctx, c, a, key, old)
	}
	for {
		fl, leader := rt.cache.join(key)
		if leader {
			defer rt.cache.land(key, fl)
			// One in front may have come to its end since the look above.
			if kept := rt.cache.get(key); kept != nil && now.Before(kept.fresh) {
				c.cached, fl.reply = "hit", kept.reply
				return kept.reply.Clone(), nil
			}
			fl.reply, fl.fail = rt.refresh(ctx, c, a, key, old)
			if fl.reply != nil {
				return fl.reply.Clone(), nil
			}
			return nil, fl.fail
		}
		select {
		case <-fl.done:
		case <-ctx.Done():
			return nil, &failure.Failure{Code: failure.TransportTimeout, Message: "Request cancelled", Cause: failure.ErrCancelled}
		}
		switch {
		case fl.reply != nil:
			return fl.reply.Clone(), nil
		case fl.fail != nil && fl.fail.Cause != failure.ErrCancelled:
			return nil, fl.fail
		}
		// The one in front was cancelled, which is no reason for the others.
	}
}

// sendLimited sends c.out when the adapter's limits leave room for it.
func (c *call) sendLimited(ctx context.Context, rt *Runtime) (r *httpcall.Reply, f *failure.Failure) {
	a := c.a
	if a.guard.limiter == nil && a.guard.limiters == nil {
		return rt.deliver(ctx, a, &c.Out)
	}
	done, f := c.admit(rt)
	if f != nil {
		return nil, f
	}
	defer func() { done(r) }()
	return rt.deliver(ctx, a, &c.Out)
}

// refresh asks the API, for no more than whether old still holds when it can.
func (rt *Runtime) refresh(ctx context.Context, c *call, a *adapter, key cacheKey, old *stored) (*httpcall.Reply, *failure.Failure) {
	if old != nil {
		if tag := old.reply.Header.Get("ETag"); tag != "" {
			c.Out.Headers = append(c.Out.Headers, file.Header{Name: "If-None-Match", Value: tag})
		}
		if at := old.reply.Header.Get("Last-Modified"); at != "" {
			c.Out.Headers = append(c.Out.Headers, file.Header{Name: "If-Modified-Since", Value: at})
		}
	}
	before := rt.cache.changes(a.Adapter)
	r, f := c.sendLimited(ctx, rt)
	if f != nil {
		return nil, f
	}
	if r.Status == 304 && old != nil {
		c.cached = "revalidated"
		kept := *old.reply
		kept.Header = old.reply.Header.Clone()
		for _, name := range [...]string{"Cache-Control", "ETag", "Last-Modified"} {
			if v := r.Header.Get(name); v != "" {
				kept.Header.Set(name, v)
			}
		}
		r = kept.Clone()
	}
	if ttl, keep := lifetime(c.Op.Cache, r); keep && r.Status >= 200 && r.Status < 300 {
		rt.cache.put(&stored{key: key, adapter: a.Adapter, reply: r.Clone(), fresh: rt.opt.Now().Add(ttl), size: len(r.Body) + 1024}, before)
	}
	return r, nil
}

// lifetime is how long a reply is fresh and whether it may be kept:
// https://www.rfc-editor.org/rfc/rfc9111#section-3
func lifetime(rule *file.CacheRule, r *httpcall.Reply) (time.Duration, bool) {
	control := strings.ToLower(strings.Join(r.Header.Values("Cache-Control"), ","))
	var age time.Duration
	validator := r.Header.Get("ETag") != "" || r.Header.Get("Last-Modified") != ""
	said := false
	for _, d := range strings.Split(control, ",") {
		name, v, _ := strings.Cut(strings.TrimSpace(d), "=")
		switch name {
		case "no-store":
			return 0, false
		case "no-cache":
			age, said = 0, true
		case "max-age":
			if s, err := strconv.Atoi(strings.Trim(v, `"`)); err == nil && s >= 0 && !said {
				age, said = min(time.Duration(min(s, 1<<20))*time.Second, 24*time.Hour), true
			}
		}
	}
	for _, v := range r.Header.Values("Vary") {
		for _, name := range strings.Split(v, ",") {
			if !isSentAlike(strings.TrimSpace(name)) {
				return 0, false
			}
		}
	}
	if rule.Ttl > 0 {
		return rule.Ttl, true
	}
	return age, age > 0 || validator
}

// isSentAlike reports whether a header is the same in all requests of one key: the
// key has those that parameters and credentials make, the adapter's own never
// change, others are never sent (https://www.rfc-editor.org/rfc/rfc9111#section-4.1).
// Left are those that are of one request alone.
func isSentAlike(name string) bool {
	switch strings.ToLower(name) {
	case "*", "x-request-id", "traceparent", "tracestate", "baggage":
		return false
	}
	return true
}

func (k *cache) get(key cacheKey) *stored {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.byKey[key]
	if e == nil {
		return nil
	}
	k.order.MoveToFront(e)
	return e.Value.(*stored)
}

// put keeps s, unless something changed since before.
func (k *cache) put(s *stored, before uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.size > cacheSize/4 || k.cleared[s.adapter] != before {
		return
	}
	if k.byKey == nil {
		k.byKey = map[cacheKey]*list.Element{}
	}
	if e := k.byKey[s.key]; e != nil {
		k.drop(e)
	}
	k.byKey[s.key] = k.order.PushFront(s)
	for k.size += s.size; k.size > cacheSize; {
		k.drop(k.order.Back())
	}
}

func (k *cache) drop(e *list.Element) {
	s := k.order.Remove(e).(*stored)
	delete(k.byKey, s.key)
	k.size -= s.size
}

// clear forgets an adapter's answers: something behind them has changed.
func (k *cache) clear(a *file.Adapter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cleared == nil {
		k.cleared = map[*file.Adapter]uint64{}
	}
	k.cleared[a]++
	for e := k.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*stored).adapter == a {
			k.drop(e)
		}
		e = next
	}
}

// forget is clear for an adapter that is gone.
func (k *cache) forget(a *file.Adapter) {
	k.clear(a)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.cleared, a)
}

func (k *cache) changes(a *file.Adapter) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cleared[a]
}

// join is the flight for key; its leader must land it.
func (k *cache) join(key cacheKey) (f *flight, leader bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f = k.flights[key]; f != nil {
		return f, false
	}
	if k.flights == nil {
		k.flights = map[cacheKey]*flight{}
	}
	f = &flight{done: make(chan struct{})}
	k.flights[key] = f
	return f, true
}

func (k *cache) land(key cacheKey, f *flight) {
	k.mu.Lock()
	delete(k.flights, key)
	k.mu.Unlock()
	close(f.done)
}
