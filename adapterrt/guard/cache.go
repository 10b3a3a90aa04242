package guard

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

// cacheSize is the largest size of a runtime's cache, in bytes. One answer may take a quarter of
// it.
const cacheSize = 64 << 20

type cacheKey [sha256.Size]byte

// stored is an answer in the cache.
type stored struct {
	key     cacheKey
	adapter digest
	reply   *httpcall.Reply // shared: its body is never changed
	fresh   time.Time
	size    int
}

// Cache keeps answers of APIs. If they exceed cacheSize, it drops those that were used
// least recently.
type Cache struct {
	Memory httpcall.Memory // of the answers that callers get

	now     func() time.Time
	mu      sync.Mutex
	byKey   map[cacheKey]*list.Element
	order   list.List
	size    int
	flights map[cacheKey]*flight
	pending map[*pending]struct{}
}

// digest stands for an adapter. What outlives a call has it in place of the adapter, because the
// call may end after the adapter was reloaded, and would keep the old version in memory.
type digest = [sha256.Size]byte

// pending is a request whose answer will be kept, unless the answers of its adapter are cleared
// before it comes.
type pending struct {
	adapter digest
	cleared bool
}

// flight is a request to the API whose answer several calls wait for.
type flight struct {
	done  chan struct{}
	reply *httpcall.Reply
	fail  *failure.Failure
}

// API sends the requests of a call to the API, with credentials and within limits.
type API interface {
	// Authorize adds the adapter's credentials to o.
	Authorize(ctx context.Context, o *httpcall.Outgoing) *failure.Failure
	// Send sends the request of c, which already has its credentials, if the limits allow it.
	Send(ctx context.Context, c *httpcall.Call) (*httpcall.Reply, *failure.Failure)
}

// NewCache returns an empty cache.
func NewCache(now func() time.Time) *Cache { return &Cache{now: now, Memory: httpcall.Uncounted{}} }

// keyOf authorizes a request and returns the key of its answer: two requests with one key
// differ in nothing that the API sees. purpose tells apart what is kept under the keys.
func keyOf(ctx context.Context, c *httpcall.Call, api API, purpose string) (key cacheKey, f *failure.Failure) {
	h := sha256.New()
	h.Write(c.Op.Adapter.Digest[:])
	h.Write([]byte(purpose))
	h.Write([]byte("\x00" + c.Caller))
	h.Write(append([]byte{0}, c.Out.URL.Text...))
	for _, p := range c.Out.Headers {
		h.Write([]byte("\x00" + p.Name + "\x00" + p.Value))
	}
	h.Write(append([]byte{0, 0}, c.Out.Body.Text...))
	if f := api.Authorize(ctx, &c.Out); f != nil {
		return key, f
	}
	for _, s := range c.Out.Secrets {
		sum := sha256.Sum256([]byte(s))
		h.Write(sum[:])
	}
	h.Sum(key[:0])
	return key, nil
}

// Fetch answers a call of an operation that has a cache. found says what the cache did:
// hit, miss or revalidated; it is "" if the call failed before the cache was used.
func (k *Cache) Fetch(ctx context.Context, c *httpcall.Call, api API) (r *httpcall.Reply, found string, f *failure.Failure) {
	key, f := keyOf(ctx, c, api, c.Op.Name)
	if f != nil {
		return nil, "", f
	}
	now := k.now()
	old := k.get(key)
	if old != nil && now.Before(old.fresh) {
		r, f = k.copyOf(ctx, old.reply)
		return r, "hit", f
	}
	if !c.Op.Cache.Coalesce {
		return k.refresh(ctx, c, api, key, old)
	}
	for {
		fl, leader := k.join(key)
		if leader {
			defer k.land(key, fl)
			// Another flight may have ended since the cache was read above.
			if kept := k.get(key); kept != nil && now.Before(kept.fresh) {
				fl.reply = kept.reply
				r, f = k.copyOf(ctx, kept.reply)
				return r, "hit", f
			}
			fl.reply, found, fl.fail = k.refresh(ctx, c, api, key, old)
			if fl.reply != nil {
				r, f = k.copyOf(ctx, fl.reply)
				return r, found, f
			}
			return nil, found, fl.fail
		}
		select {
		case <-fl.done:
		case <-ctx.Done():
			return nil, "miss", failure.Cancelled()
		}
		switch {
		case fl.reply != nil:
			r, f = k.copyOf(ctx, fl.reply)
			return r, "miss", f
		case fl.fail != nil && fl.fail.Cause != failure.ErrCancelled:
			return nil, "miss", fl.fail
		}
		// The flight's own caller cancelled it. The other calls still need an answer.
	}
}

// refresh sends the request to the API. If old has a validator, the request is
// conditional, so that the API can answer that old is still valid.
func (k *Cache) refresh(ctx context.Context, c *httpcall.Call, api API, key cacheKey, old *stored) (r *httpcall.Reply, found string, f *failure.Failure) {
	if old != nil {
		if tag := old.reply.Header.Get("ETag"); tag != "" {
			c.Out.Headers = append(c.Out.Headers, file.Header{Name: "If-None-Match", Value: tag})
		}
		if at := old.reply.Header.Get("Last-Modified"); at != "" {
			c.Out.Headers = append(c.Out.Headers, file.Header{Name: "If-Modified-Since", Value: at})
		}
	}
	p, found := k.begin(c.Op.Adapter), "miss"
	defer k.end(p)
	r, f = api.Send(ctx, c)
	if f != nil {
		return nil, found, f
	}
	if r.Status == 304 && old != nil {
		found = "revalidated"
		kept := *old.reply
		kept.Header = old.reply.Header.Clone()
		for _, name := range [...]string{"Cache-Control", "ETag", "Last-Modified"} {
			if v := r.Header.Get(name); v != "" {
				kept.Header.Set(name, v)
			}
		}
		if r, f = k.copyOf(ctx, &kept); f != nil {
			return nil, found, f
		}
	}
	if ttl, keep := lifetime(c.Op.Cache, r); keep && r.Status >= 200 && r.Status < 300 {
		k.put(p, key, r, ttl)
	}
	return r, found, nil
}

// copyOf returns a copy of a reply for a caller, with a body of its own.
func (k *Cache) copyOf(ctx context.Context, r *httpcall.Reply) (*httpcall.Reply, *failure.Failure) {
	c := *r
	var err error
	if c.Body, err = k.Memory.Body(ctx, len(r.Body)); err != nil {
		return nil, httpcall.NoRoom(ctx, err)
	}
	c.Body = append(c.Body, r.Body...)
	return &c, nil
}

// lifetime returns how long a reply is fresh, and whether it may be kept:
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
	if rule.TTL > 0 {
		return rule.TTL, true
	}
	return age, age > 0 || validator
}

// isSentAlike reports whether a header that Vary names is the same in all requests with
// the same key (https://www.rfc-editor.org/rfc/rfc9111#section-4.1). The key covers the
// headers of parameters and credentials, and the adapter's own headers never change. That
// leaves the headers that belong to a single request.
func isSentAlike(name string) bool {
	switch strings.ToLower(name) {
	case "*", "x-request-id", "traceparent", "tracestate", "baggage":
		return false
	}
	return true
}

func (k *Cache) get(key cacheKey) *stored {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.byKey[key]
	if e == nil {
		return nil
	}
	k.order.MoveToFront(e)
	return e.Value.(*stored)
}

// put keeps a copy of r, the answer to p: what is counted for a call must not stay in memory.
func (k *Cache) put(p *pending, key cacheKey, r *httpcall.Reply, ttl time.Duration) {
	s := &stored{key: key, adapter: p.adapter, fresh: k.now().Add(ttl), size: len(r.Body) + 1024}
	if s.size > cacheSize/4 {
		return
	}
	s.reply = r.Clone()
	k.mu.Lock()
	defer k.mu.Unlock()
	if p.cleared {
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

func (k *Cache) drop(e *list.Element) {
	s := k.order.Remove(e).(*stored)
	delete(k.byKey, s.key)
	k.size -= s.size
}

// Clear drops an adapter's answers, because data of its API may have changed or the adapter was
// removed.
func (k *Cache) Clear(a *file.Adapter) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for p := range k.pending {
		p.cleared = p.cleared || p.adapter == a.Digest
	}
	for e := k.order.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*stored).adapter == a.Digest {
			k.drop(e)
		}
		e = next
	}
}

// begin notes that a request is sent for an answer to keep. The caller must call end.
func (k *Cache) begin(a *file.Adapter) *pending {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pending == nil {
		k.pending = map[*pending]struct{}{}
	}
	p := &pending{adapter: a.Digest}
	k.pending[p] = struct{}{}
	return p
}

func (k *Cache) end(p *pending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pending, p)
}

// join returns the flight for key. If there is none, it starts one and reports that the
// caller is its leader, which must call land.
func (k *Cache) join(key cacheKey) (f *flight, leader bool) {
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

func (k *Cache) land(key cacheKey, f *flight) {
	k.mu.Lock()
	delete(k.flights, key)
	k.mu.Unlock()
	close(f.done)
}
