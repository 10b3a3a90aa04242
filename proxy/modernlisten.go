package proxy

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	// maxWatched is how many resources a session may have subscribed to.
	maxWatched = 1000
	// maxQuiet is for how long a subscription may be silent before it is renewed.
	maxQuiet = 24 * time.Hour
	// resourceSubscriptions is where a subscription says of which resources it is.
	resourceSubscriptions = "notifications.resourceSubscriptions"
)

// subscribe asks the server to tell of a resource until the client no longer wants
// to know; by a request of its own, so that the answer says whether it does. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions.
func (c *modernConn) subscribe(ctx context.Context, uri string, header []upstream.Header) error {
	if err := c.mustOffer(ctx, "resources.subscribe", wire.ResourcesSubscribe, header); err != nil {
		return err
	}
	c.mu.Lock()
	_, already := c.watched[uri]
	n := len(c.watched)
	c.mu.Unlock()
	switch {
	case already:
		return nil
	case n >= maxWatched:
		return mcp.Saying(mcp.CodeInternal, "too many subscriptions")
	}
	life, end := context.WithCancel(c.life)
	what := append(append([]byte(`"notifications":{"resourceSubscriptions":[`), mcp.AppendString(nil, uri)...), `]}`...)
	l := &listenRequest{c: c, ctx: life, what: string(what), can: c.can, header: header}
	stop := context.AfterFunc(ctx, end)
	granted, err := l.begin()
	switch {
	case !stop() && err == nil:
		err = context.Cause(ctx)
	case err == nil && !contains(granted.Get(resourceSubscriptions), uri):
		err = mcp.Saying(mcp.CodeInvalidParams, "Subscription not accepted: "+uri)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, already := c.watched[uri]; err != nil || already || c.life.Err() != nil {
		c.srv.host.Spawn(func() { l.end(); end() })
		return err
	}
	c.watched[uri] = end
	free := context.AfterFunc(c.srv.host.Draining, end)
	c.srv.host.Spawn(func() {
		defer end()
		defer free()
		l.run()
	})
	return nil
}

// unwatch ends all subscriptions.
func (c *modernConn) unwatch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range c.watched {
		end()
	}
	clear(c.watched)
}

func (c *modernConn) unsubscribe(uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := c.watched[uri]; end != nil {
		end()
		delete(c.watched, uri)
	}
}

// watching is one subscriptions/listen of ours, which is begun anew when it ends
// by itself. What it brings goes to the standing stream.
type listenRequest struct {
	c      *modernConn
	ctx    context.Context // ends with the wish to know
	what   string          // its params, without the braces
	can    []byte          // the clientCapabilities that it declares
	header []upstream.Header

	id []byte
	st upstream.Stream
}

// begin sends the request and waits for the acknowledgement, whose params it returns.
func (l *listenRequest) begin() (granted gjson.Result, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.c.srv.now().cfg.Upstream.HandshakeTimeout)
	defer cancel()
	if l.id, l.st, err = l.c.post(l.ctx, ownRequest{method: wire.SubscriptionsListen, params: l.what, can: l.can}, l.header); err != nil {
		l.st = nil
		return granted, err
	}
	for {
		e, err := server.NextBefore(ctx, l.st)
		if err != nil {
			if e, err = server.RefusalOf(err, l.id); err != nil {
				return granted, err
			}
		}
		var m wire.Message
		if len(e.Data) == 0 || m.Scan(e.Data, nil) != nil {
			continue
		}
		switch {
		case m.Method == wire.SubscriptionsAcknowledged:
			return gjson.ParseBytes(append([]byte(nil), m.Params()...)), nil
		case m.Kind == wire.Error:
			said := gjson.GetMany(wire.View(m.Error()), "code", "message")
			return granted, mcp.Saying(int(said[0].Int()), said[1].String())
		case m.Kind == wire.Result:
			return granted, io.EOF
		}
		l.forward(&m)
	}
}

// end gives the subscription up.
func (l *listenRequest) end() {
	if l.st == nil {
		return
	}
	l.c.sendCancelled(l.id)
	l.st.Close()
	l.st = nil
}

// run brings what the server tells until ctx ends.
func (l *listenRequest) run() {
	defer l.end()
	var again server.Reopening
	for {
		for l.st != nil {
			e, err := l.st.Next()
			if err != nil {
				break
			}
			var m wire.Message
			if len(e.Data) == 0 || m.Scan(e.Data, nil) != nil {
				continue
			}
			if m.Kind.Response() {
				break // it has ended in order
			}
			l.forward(&m)
			again.Heard()
		}
		if l.ctx.Err() != nil {
			return
		}
		l.c.srv.results.Unheard(l.c.realm)
		if l.st != nil {
			l.st.Close()
			l.st = nil
		}
		if again.Wait(l.ctx, 0) != nil {
			return
		}
		if _, err := l.begin(); err != nil {
			l.c.srv.host.Log.Debug("subscription", zap.Error(err))
			if l.st != nil {
				l.st.Close()
				l.st = nil
			}
		}
	}
}

// bring passes a notification on.
func (l *listenRequest) forward(m *wire.Message) {
	l.c.enqueue(m.Raw, l.header)
}

// tell puts a notification of the server on the standing stream.
func (c *modernConn) enqueue(raw []byte, header []upstream.Header) {
	var m wire.Message
	if m.Scan(raw, c.down.Shape()) != nil {
		c.srv.host.Report.Dropped("malformed")
		return
	}
	out := c.passDown(&m, header)
	if out == nil {
		return
	}
	c.mu.Lock()
	dropped := c.news.Put(out, false)
	at := c.standing
	c.mu.Unlock()
	for range dropped {
		c.srv.host.Report.Dropped("queue_full")
	}
	if at != nil {
		at.wake()
	}
}

// Listen opens the client's standing stream. It carries updates of the resources that the client has
// subscribed to and, while it is open, list_changed notifications. It replaces an older stream. The
// error is upstream.ErrNoStream when the server offers no notifications.
func (c *modernConn) Listen(ctx context.Context, o upstream.ListenOptions) (upstream.Stream, error) {
	if c.life.Err() != nil {
		return nil, upstream.ErrClosed
	}
	header := append([]upstream.Header(nil), o.Header...)
	offers, err := c.offers(ctx, header)
	if err != nil {
		return nil, err
	}
	what := ""
	for _, of := range [...]struct{ capability, filter string }{
		{"tools", "toolsListChanged"}, {"prompts", "promptsListChanged"}, {"resources", "resourcesListChanged"},
	} {
		if gjson.GetBytes(offers, of.capability+".listChanged").Bool() {
			if what != "" {
				what += ","
			}
			what += `"` + of.filter + `":true`
		}
	}
	if what == "" && c.piped == nil && !c.hasTasks() && !gjson.GetBytes(offers, "resources.subscribe").Bool() {
		return nil, upstream.ErrNoStream
	}
	n := &modernStandingStream{c: c, client: ctx, signal: make(chan struct{}, 1)}
	n.ctx, n.end = context.WithCancel(c.life)
	if c.piped != nil {
		st, err := c.piped.Listen(n.ctx, upstream.ListenOptions{})
		if err != nil {
			n.end()
			return nil, err
		}
		c.srv.host.Spawn(func() { n.copy(st, header) })
	}
	if what != "" {
		l := &listenRequest{c: c, ctx: n.ctx, what: `"notifications":{` + what + `}`, can: c.can, header: header}
		c.srv.host.Spawn(func() {
			if _, err := l.begin(); err != nil {
				c.srv.host.Log.Debug("subscription", zap.Error(err))
			}
			l.run()
		})
	}
	c.mu.Lock()
	old := c.standing
	c.standing = n
	c.mu.Unlock()
	if old != nil {
		old.end()
	}
	return n, nil
}

// newsOfModern is the standing stream of a session with a server that has none.
type modernStandingStream struct {
	c      *modernConn
	client context.Context
	ctx    context.Context // ends with the stream
	end    context.CancelFunc
	signal chan struct{}
	once   sync.Once
}

func (n *modernStandingStream) wake() {
	select {
	case n.signal <- struct{}{}:
	default:
	}
}

// copy brings what a server on a pipe says about no request.
func (n *modernStandingStream) copy(st upstream.Stream, header []upstream.Header) {
	defer st.Close()
	for {
		e, err := st.Next()
		if err != nil {
			n.end()
			return
		}
		n.c.enqueue(e.Data, header)
	}
}

// Next returns the next notification, and blocks until there is one. It returns io.EOF when the stream
// is closed or replaced.
func (n *modernStandingStream) Next() (sse.Event, error) {
	for {
		n.c.mu.Lock()
		var m []byte
		ok := false
		if n.c.standing == n {
			m, ok = n.c.news.Pop()
		}
		n.c.mu.Unlock()
		if ok {
			return sse.Event{Data: m}, nil
		}
		select {
		case <-n.signal:
		case <-n.ctx.Done():
			return sse.Event{}, io.EOF
		case <-n.client.Done():
			return sse.Event{}, context.Cause(n.client)
		}
	}
}

// Close ends the stream; the subscriptions to resources stay.
func (n *modernStandingStream) Close() error {
	n.once.Do(func() {
		n.end()
		n.c.mu.Lock()
		defer n.c.mu.Unlock()
		if n.c.standing == n {
			n.c.standing = nil
		}
	})
	return nil
}

// contains reports whether a JSON array has this string.
func contains(list gjson.Result, text string) (found bool) {
	list.ForEach(func(_, v gjson.Result) bool {
		found = v.Type == gjson.String && v.String() == text
		return !found
	})
	return found
}
