package results

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Enquiry is one request whose answer may be kept. Its methods may be called on nil, which stands for
// every other request. It is for one goroutine at a time.
type Enquiry struct {
	c       *Cache
	private Key
	public  Key
	about   subject
	realm   string
	ttl     time.Duration // how long the answer is valid, or AsSaid

	// Asked reports whether the server has asked the client something; nil for never.
	Asked func() bool

	found   *kept
	own     *fetch // nil if a result was found
	tainted bool   // the answer is for this caller alone
}

// Lookup describes a request to the cache. Its memory stays the caller's.
type Lookup struct {
	Method    wire.Method
	Digest    [sha256.Size]byte // of method and params, without what does not matter to the answer
	URI       string            // of the resource to be read
	Principal string
	Header    []mcp.Header  // headers for the server; Authorization identifies the caller as well
	Variant   []byte        // what else the server knows about the client, if its answer may depend on that
	Realm     string        // names the clients that receive the same change notifications
	TTL       time.Duration // how long the answer is valid, or AsSaid; 0 keeps nothing
}

// Keeps reports whether results of this method may be kept.
func (c *Cache) Keeps(method wire.Method) bool {
	if c.bounds().Bytes <= 0 {
		return false
	}
	switch method {
	case wire.ToolsList, wire.PromptsList, wire.ResourcesList, wire.ResourcesTemplatesList, wire.ResourcesRead:
		return true
	}
	return false
}

// Enquire begins an enquiry, which ends with End. It returns nil if nothing is kept.
func (c *Cache) Enquire(q Lookup) *Enquiry {
	if q.TTL == 0 || !c.Keeps(q.Method) {
		return nil
	}
	e := &Enquiry{c: c, about: subject{q.Method, q.URI}, realm: q.Realm, ttl: q.TTL}
	authorization := ""
	for _, h := range q.Header {
		if strings.EqualFold(h.Name, "Authorization") {
			authorization = h.Value
		}
	}
	variant := sha256.Sum256(q.Variant)
	e.private = KeyOf("private", q.Realm, q.Principal, authorization, string(variant[:]), string(q.Digest[:]))
	e.public = KeyOf("public", string(variant[:]), string(q.Digest[:]))
	return e
}

// KeyOf returns a key for parts of any content. Different lists of parts have different keys.
func KeyOf(parts ...string) Key {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		io.WriteString(h, p)
	}
	return Key(h.Sum(nil))
}

// Wait looks for a result. If an equal request is under way, it waits for the answer to that, once.
// Afterwards there is a result, or the request must be sent. The error is that of ctx.
func (e *Enquiry) Wait(ctx context.Context) error {
	if e == nil {
		return nil
	}
	return e.await(ctx, e.look())
}

// await waits for the answer to under, another request. It does nothing if under is nil.
func (e *Enquiry) await(ctx context.Context, under *fetch) error {
	if under == nil {
		return nil
	}
	select {
	case <-under.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	if e.found = under.found; e.found == nil { // each caller sends its own request: after a failure they would otherwise wait one behind the other
		e.begin("miss")
		return nil
	}
	e.c.looked.WithLabelValues("shared").Inc()
	return nil
}

// begin makes the enquiry's request one whose answer may be kept. Called with c.mu held.
func (e *Enquiry) begin(outcome string) {
	e.own = &fetch{about: e.about, realm: e.realm, done: make(chan struct{})}
	e.c.sent[e.own] = true
	e.c.looked.WithLabelValues(outcome).Inc()
}

// look finds a result, or returns the request under way that will bring it. If there is neither, the
// enquiry's own request is the one that others may wait for.
func (e *Enquiry) look() *fetch {
	c := e.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range [...]Key{e.private, e.public} {
		k := c.get(key)
		switch {
		case k == nil:
		case k.result == nil:
			e.begin("pass")
			return nil
		default:
			e.found = k
			c.looked.WithLabelValues("hit").Inc()
			return nil
		}
	}
	if under := c.fetches[e.private]; under != nil {
		return under
	}
	e.begin("miss")
	c.fetches[e.private] = e.own
	return nil
}

// Remaining returns how much longer the result that was found is valid, or other if none was found.
func (e *Enquiry) Remaining(other time.Duration) time.Duration {
	if e == nil || e.found == nil {
		return other
	}
	return max(0, e.found.until.Sub(e.c.Now()))
}

// Stream returns the server's messages about the request with this id: the result that was found, or
// the stream of send, whose answer is kept. It must be called once, after Wait.
func (e *Enquiry) Stream(id []byte, send func() (upstream.Stream, error)) (upstream.Stream, error) {
	if e == nil {
		return send()
	}
	if e.found != nil {
		return upstream.Answered(e.again(id)), nil
	}
	st, err := send()
	if err != nil || st == nil {
		e.End()
		return st, err
	}
	return &watched{Stream: st, e: e, key: string(wire.AppendIDKey(nil, id))}, nil
}

// Open does what Wait and Stream do, for a caller that cannot wait yet: the stream waits instead.
func (e *Enquiry) Open(ctx context.Context, id []byte, send func() (upstream.Stream, error)) (upstream.Stream, error) {
	if e == nil {
		return send()
	}
	under := e.look()
	if under == nil {
		return e.Stream(id, send)
	}
	w := &waiting{e: e, under: under, id: id, send: send}
	w.ctx, w.stop = context.WithCancel(ctx)
	return w, nil
}

// again returns the result that was found, as the answer to the request with this id.
func (e *Enquiry) again(id []byte) []byte {
	result := e.found.result
	left := strconv.FormatInt(e.Remaining(0).Milliseconds(), 10)
	out := make([]byte, 0, len(result)+len(id)+len(left)+64)
	out = append(append(append(out, `{"jsonrpc":"2.0","id":`...), id...), `,"result":`...)
	if ttl := gjson.GetBytes(result, "ttlMs"); ttl.Index > 0 && e.ttl == AsSaid {
		out = append(append(out, result[:ttl.Index]...), left...)
		result = result[ttl.Index+len(ttl.Raw):]
	}
	return append(append(out, result...), '}')
}

// End ends the lookup. If no answer was stored, other requests that wait for it continue without one.
// It may be called more than once.
func (e *Enquiry) End() {
	if e == nil {
		return
	}
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	e.land(nil)
}

// land ends the fetch of the enquiry with k, which may be nil. Called with c.mu held.
func (e *Enquiry) land(k *kept) {
	f := e.own
	if f == nil || f.over {
		return
	}
	f.found, f.over = k, true
	if e.c.fetches[e.private] == f {
		delete(e.c.fetches, e.private)
	}
	delete(e.c.sent, f)
	if !f.alone {
		close(f.done)
	}
}

// part releases the callers that wait for the answer.
func (e *Enquiry) part() {
	c := e.c
	c.mu.Lock()
	defer c.mu.Unlock()
	f := e.own
	if f == nil || f.over || f.alone {
		return
	}
	f.alone = true
	if c.fetches[e.private] == f {
		delete(c.fetches, e.private)
	}
	close(f.done)
}

// Taint marks the answer as dependent on more than the request, so that it is not shared with other
// requests, and ends the lookup.
func (e *Enquiry) Taint() {
	if e != nil {
		e.tainted = true
		e.End()
	}
}

// hear reads a message of the server. It keeps nothing of it but a result.
func (e *Enquiry) hear(data []byte, key string) {
	var m wire.Message
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return
	case wire.IsArray(data) || m.Scan(data, nil) != nil || m.Kind == wire.Request:
		e.Taint()
		return
	case m.Kind == wire.Notification:
		e.part() // the answer may take long, and its client may be slow
		return
	case string(wire.AppendIDKey(nil, m.ID())) != key:
		return
	}
	if m.Kind == wire.Error || e.tainted || e.Asked != nil && e.Asked() {
		e.End()
		return
	}
	e.keep(&m)
}

// keep stores the server's result, if that may be kept.
func (e *Enquiry) keep(m *wire.Message) {
	c := e.c
	k := &kept{key: e.private, about: e.about, realm: e.realm}
	fresh := e.ttl
	said := gjson.ParseBytes(m.Result())
	if fresh == AsSaid {
		fresh = saidTTL(said.Get("ttlMs"))
		if scope := said.Get("cacheScope"); scope.Type == gjson.String && scope.Str == "public" {
			k.key = e.public
		}
	}
	bounds := c.bounds()
	t := said.Get("resultType")
	if final := !t.Exists() || t.String() == "complete"; final && fresh > 0 && len(m.Result()) <= int(bounds.Bytes)/4 {
		k.result = bytes.Clone(m.Result())
	} else {
		k.key, fresh = e.private, passTime
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.own == nil || e.own.over || e.own.stale {
		e.land(nil)
		return
	}
	k.until = c.Now().Add(fresh)
	c.put(k, bounds)
	if k.result == nil {
		e.land(nil)
		return
	}
	if at := c.byKey[e.private]; at != nil && k.key != e.private {
		c.remove(at)
	}
	e.land(k)
}

// watched is a stream of the server whose answer is kept.
type watched struct {
	upstream.Stream
	e   *Enquiry
	key string // of the request's id
}

// Events gives the server's events.
func (w *watched) Events(yield func(sse.Event, error) bool) {
	for e, err := range w.Stream.Events {
		switch {
		case err == nil:
			w.e.hear(e.Data, w.key)
		case err != sse.ErrInterrupted: // else Events is called again
			w.e.End()
		}
		if !yield(e, err) {
			return
		}
	}
}

// Close ends the enquiry and closes the stream.
func (w *watched) Close() error {
	w.e.End()
	return w.Stream.Close()
}

// waiting is a stream that begins when another request has been answered.
type waiting struct {
	upstream.Plain
	e     *Enquiry
	under *fetch
	id    []byte
	send  func() (upstream.Stream, error)
	ctx   context.Context
	stop  context.CancelFunc

	mu     sync.Mutex
	closed bool
	st     upstream.Stream // nil until then
}

// Events waits for the other request when it is called for the first time.
func (w *waiting) Events(yield func(sse.Event, error) bool) {
	if err := w.begin(); err != nil {
		yield(sse.Event{}, err)
		return
	}
	w.st.Events(yield)
}

// begin waits for the other request, and begins the stream. If it has failed, it returns io.EOF from then on.
func (w *waiting) begin() error {
	if w.under != nil {
		err := w.e.await(w.ctx, w.under)
		if w.under = nil; err != nil {
			return err
		}
		st, err := w.e.Stream(w.id, w.send)
		if err != nil {
			return err
		}
		w.mu.Lock()
		if w.st = st; w.closed {
			st.Close()
		}
		w.mu.Unlock()
	}
	if w.st == nil {
		return io.EOF
	}
	return nil
}

// Close closes the stream, or ends the wait for it.
func (w *waiting) Close() error {
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed = true; w.st == nil {
		return nil
	}
	return w.st.Close()
}

// Release says that the last event is no longer needed.
func (w *waiting) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.st != nil {
		w.st.Release()
	}
}
