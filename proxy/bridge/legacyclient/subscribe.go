package legacyclient

import (
	"context"
	"io"
	"iter"
	"slices"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/server"
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

func (c *Conn) unsubscribe(uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shared.wanted = slices.DeleteFunc(c.shared.wanted, func(other string) bool { return other == uri })
	if end := c.watched[uri]; end != nil {
		end()
		delete(c.watched, uri)
	}
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

// forward passes a notification to the standing stream.
func (l *listenRequest) forward(m *wire.Message) {
	l.c.enqueue(m.Raw, l.header)
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

// contains reports whether a JSON array contains this string.
func contains(list gjson.Result, text string) (found bool) {
	list.ForEach(func(_, v gjson.Result) bool {
		found = v.Type == gjson.String && v.String() == text
		return !found
	})
	return found
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
	for range c.news.put(out, seen.call) {
		c.host.Report.Dropped("queue_full")
	}
}
