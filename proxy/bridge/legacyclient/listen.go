package legacyclient

import (
	"context"
	"io"
	"iter"
	"slices"
	"sync"

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
	// resourceSubscriptions is the path of the URIs in the params of a subscription.
	resourceSubscriptions = "notifications.resourceSubscriptions"
)

// subscribe subscribes to a resource, with a request of its own, so that the acknowledgement says whether the server
// accepts it. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions.
func (c *Conn) subscribe(ctx context.Context, uri string, header []upstream.Header) error {
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
		c.host.Spawn(func() { l.end(); end() })
		return err
	}
	c.watched[uri] = end
	c.shared.wanted = slices.DeleteFunc(c.shared.wanted, func(other string) bool { return other == uri })
	free := context.AfterFunc(c.host.Draining, end)
	c.host.Spawn(func() {
		defer end()
		defer free()
		l.run()
	})
	return nil
}

// Unwatch ends all subscriptions to resources.
func (c *Conn) Unwatch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range c.watched {
		end()
	}
	clear(c.watched)
}

func (c *Conn) unsubscribe(uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared.wanted = slices.DeleteFunc(c.shared.wanted, func(other string) bool { return other == uri })
	if end := c.watched[uri]; end != nil {
		end()
		delete(c.watched, uri)
	}
}

// listenRequest is one subscriptions/listen request of dragoman's own, which is sent again when it ends by itself. Its
// notifications go to the standing stream.
type listenRequest struct {
	c      *Conn
	ctx    context.Context // ends when the notifications are no longer wanted
	what   string          // params, without the braces
	can    []byte          // clientCapabilities
	header []upstream.Header

	id []byte
	st upstream.Stream
}

// begin sends the request and waits for the acknowledgement, whose params it returns.
func (l *listenRequest) begin() (granted gjson.Result, err error) {
	ctx, cancel := context.WithTimeout(l.ctx, l.c.host.Config().Upstream.HandshakeTimeout)
	defer cancel()
	var o *upstream.Outgoing
	if l.id, o, err = l.c.own(ownRequest{method: wire.SubscriptionsListen, params: l.what, can: l.can}, l.header); err != nil {
		return granted, err
	}
	if l.st, err = l.c.conn.Send(l.ctx, o); err != nil {
		l.st = nil
		return granted, err
	}
	for e, err := range server.Before(ctx, l.st) {
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
	return granted, io.EOF
}

// end ends the subscription.
func (l *listenRequest) end() {
	if l.st == nil {
		return
	}
	l.c.sendCancelled(l.id)
	l.st.Close()
	l.st = nil
}

// run forwards notifications until ctx ends.
func (l *listenRequest) run() {
	defer l.end()
	var again server.Reopening
	for {
		if l.st != nil {
			l.read(&again)
		}
		if l.ctx.Err() != nil {
			return
		}
		l.c.bridge.results.Unheard(l.c.realm)
		if l.st != nil {
			l.st.Close()
			l.st = nil
		}
		if again.Wait(l.ctx, 0) != nil {
			return
		}
		if _, err := l.begin(); err != nil {
			l.c.host.Log.Debug("cannot begin a subscription: it is tried again", zap.Error(err))
			if l.st != nil {
				l.st.Close()
				l.st = nil
			}
		}
	}
}

// read forwards the notifications of the server until it ends the subscription.
func (l *listenRequest) read(again *server.Reopening) {
	for m := range notifications(l.st) {
		l.forward(m)
		again.Heard()
	}
}

// notifications gives the messages of a subscription's stream until it ends, or the response ends the subscription. A
// message is valid until the next one.
func notifications(st upstream.Stream) iter.Seq[*wire.Message] {
	return func(yield func(*wire.Message) bool) {
		var m wire.Message
		for e, err := range st.Events {
			switch {
			case err != nil:
				return
			case len(e.Data) == 0 || m.Scan(e.Data, nil) != nil:
				continue
			}
			if m.Kind.Response() || !yield(&m) {
				return
			}
		}
	}
}

// forward passes a notification to the standing stream.
func (l *listenRequest) forward(m *wire.Message) {
	l.c.enqueue(m.Raw, l.header)
}

// enqueue translates a notification of the server and puts it on the standing stream.
func (c *Conn) enqueue(raw []byte, header []upstream.Header) {
	var m wire.Message
	if m.Scan(raw, c.down.Shape()) != nil {
		c.host.Report.Dropped("malformed")
		return
	}
	seen := c.observe(&m)
	out := c.passDown(&m, header)
	seen.translated(c, &m, out)
	if out == nil {
		return
	}
	c.mu.Lock()
	c.await(seen.call, out)
	dropped := c.news.Put(out, false)
	at := c.standing
	c.mu.Unlock()
	for range dropped {
		c.host.Report.Dropped("queue_full")
	}
	if at != nil {
		at.wake()
	}
}

// Listen opens the client's standing stream. It carries updates of the resources that the client has
// subscribed to and, while it is open, list_changed notifications. It replaces an older stream. The
// error is upstream.ErrNoStream when the server offers no notifications.
func (c *Conn) Listen(ctx context.Context, o upstream.ListenOptions) (upstream.Stream, error) {
	if c.life.Err() != nil {
		return nil, upstream.ErrClosed
	}
	if c.shared.stale.Load() {
		c.refresh(ctx)
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
	n := &standingStream{c: c, client: ctx, header: header, signal: make(chan struct{}, 1)}
	n.ctx, n.end = context.WithCancel(c.life)
	if c.piped != nil {
		st, err := c.piped.Listen(n.ctx, upstream.ListenOptions{})
		if err != nil {
			n.end()
			return nil, err
		}
		c.host.Spawn(func() { n.copy(st, header) })
	}
	if what != "" {
		l := &listenRequest{c: c, ctx: n.ctx, what: `"notifications":{` + what + `}`, can: c.can, header: header}
		c.host.Spawn(func() {
			if _, err := l.begin(); err != nil {
				c.host.Log.Debug("cannot begin a subscription: it is tried again", zap.Error(err))
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
	c.subscribeWanted(header)
	return n, nil
}

// standingStream is the standing stream of the client. The zero value is not usable.
type standingStream struct {
	c      *Conn
	client context.Context
	header []upstream.Header // the client's
	ctx    context.Context   // ends with the stream
	end    context.CancelFunc
	signal chan struct{}
	once   sync.Once
}

func (n *standingStream) wake() {
	select {
	case n.signal <- struct{}{}:
	default:
	}
}

// copy forwards the messages of a server on a pipe that belong to no request.
func (n *standingStream) copy(st upstream.Stream, header []upstream.Header) {
	defer st.Close()
	for e, err := range st.Events {
		if err != nil {
			n.end()
			return
		}
		n.c.enqueue(e.Data, header)
	}
}

// Events gives the notifications, and io.EOF when the stream is closed or replaced.
func (n *standingStream) Events(yield func(sse.Event, error) bool) {
	for {
		if e, err := n.event(); !yield(e, err) || err != nil {
			return
		}
	}
}

// event waits for the next notification.
func (n *standingStream) event() (sse.Event, error) {
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
func (n *standingStream) Close() error {
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

// contains reports whether a JSON array contains this string.
func contains(list gjson.Result, text string) (found bool) {
	list.ForEach(func(_, v gjson.Result) bool {
		found = v.Type == gjson.String && v.String() == text
		return !found
	})
	return found
}
