package legacyclient

import (
	"bytes"
	"context"
	"io"
	"iter"
	"slices"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
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
	return c.watch(ctx, uri, header, func() bool { return true })
}

// watch is subscribe for a subscription that may have become unwanted when the server has accepted it. wanted is called with
// c.mu held.
func (c *Conn) watch(ctx context.Context, uri string, header []upstream.Header, wanted func() bool) error {
	if err := c.mustOffer(ctx, "resources.subscribe", wire.ResourcesSubscribe, header); err != nil {
		return err
	}
	c.mu.Lock()
	_, already := c.watched[uri]
	size := watchedSize(uri, header)
	full := len(c.watched) >= maxWatched || c.watching+size > server.MaxSubscriptions
	c.mu.Unlock()
	switch {
	case already:
		return nil
	case full:
		return mcp.Saying(mcp.CodeInternal, "too many subscriptions: end others with resources/unsubscribe first")
	}
	life, end := context.WithCancel(c.life)
	what := append(append([]byte(`"notifications":{"resourceSubscriptions":[`), mcp.AppendString(nil, uri)...), `]}`...)
	l := &listenRequest{c: c, ctx: life, what: string(what), can: c.can, header: header, uri: uri, missed: [][]byte{mcp.Updated(uri)}}
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
	_, already = c.watched[uri]
	unwanted := err != nil || already || !wanted() || c.life.Err() != nil
	if !unwanted {
		err = c.kept.Keep(size)
	}
	if unwanted || err != nil {
		c.host.Spawn(func() { l.end(); end() })
		return err
	}
	c.watching += size
	c.watched[uri] = func() { // with c.mu held
		end()
		c.watching -= size
		c.kept.Drop(size)
	}
	c.unwantLocked(uri)
	free := context.AfterFunc(c.host.Draining, end)
	c.host.Spawn(func() {
		defer end()
		defer free()
		l.run()
	})
	return nil
}

// watchedSize returns how many bytes a subscription takes: the URI is in the request, in the notification for a gap, twice, and
// names it.
func watchedSize(uri string, header []upstream.Header) int {
	n := 5*len(uri) + server.SubscriptionOverhead
	for _, h := range header {
		n += len(h.Name) + len(h.Value)
	}
	return n
}

func (c *Conn) unsubscribe(uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unwantLocked(uri)
	if end := c.watched[uri]; end != nil {
		end()
		delete(c.watched, uri)
	}
}

// unwant notes that a subscription has begun, or is not wanted any more.
func (c *Conn) unwant(uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unwantLocked(uri)
}

// unwantLocked is unwant; c.mu must be held.
func (c *Conn) unwantLocked(uri string) {
	c.shared.wanted = slices.DeleteFunc(c.shared.wanted, func(other string) bool { return other == uri })
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
	uri    string   // the resource; "" for none
	missed [][]byte // what the client is told after a time in which the server could not send it

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
		l.c.enqueue(m.Raw, l.header)
	}
	return granted, io.EOF
}

// run forwards notifications until ctx ends. It begins the subscription if begin was not called.
func (l *listenRequest) run() {
	defer l.end()
	var again server.Reopening
	for gap := false; ; gap = true {
		if l.st == nil {
			granted, err := l.begin()
			if err != nil {
				l.c.host.Log.Debug("cannot begin a subscription: it is tried again", zap.Error(err))
				l.drop() // the stream of a pipe does not end with the refusal
			} else if gap {
				l.c.tell(l.missed)
				if l.uri != "" && !contains(granted.Get(resourceSubscriptions), l.uri) {
					l.c.host.Log.Info("the server does not accept a subscription any more: its client hears of no further changes", zap.String("uri", l.uri))
				}
			}
		}
		if l.st != nil {
			again.Opened()
			for m := range notifications(l.st) {
				l.c.enqueue(m.Raw, l.header)
				again.Heard()
			}
		}
		if l.ctx.Err() != nil {
			return
		}
		l.c.bridge.results.Unheard(l.c.realm)
		l.drop()
		if again.Wait(l.ctx, 0) != nil {
			return
		}
	}
}

// end ends the subscription.
func (l *listenRequest) end() {
	if l.st != nil {
		l.c.sendCancelled(l.id)
		l.drop()
	}
}

// drop closes the stream.
func (l *listenRequest) drop() {
	if l.st != nil {
		l.st.Close()
		l.st = nil
	}
}

// notifications gives the messages of a subscription's stream until it ends, or the response ends the subscription. A
// message is valid until the next one.
func notifications(st upstream.Stream) iter.Seq[*wire.Message] {
	return func(yield func(*wire.Message) bool) {
		var m wire.Message
		for e, err := range st.Events {
			if err == nil && (len(e.Data) == 0 || m.Scan(e.Data, nil) != nil) {
				continue
			}
			if err != nil || m.Kind.Response() || !yield(&m) {
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

// passDown translates a notification of the server. It returns nil if the client gets nothing.
func (c *Conn) passDown(m *wire.Message, header []upstream.Header) []byte {
	if m.Kind != wire.Notification {
		c.host.Report.Dropped("request") // servers of this revision have none
		return nil
	}
	if m.Method == wire.ToolsListChanged {
		c.tools.Forget()
	}
	c.bridge.results.Heard(m)
	method := m.Method
	m.Facts = c.facts
	out, v, err := c.down.Rewrite(nil, m)
	c.host.Losses.Note(c.down.From(), c.down.To(), method, m.Losses, header)
	if err != nil {
		c.host.Report.Untranslated(err, header)
		return nil
	}
	if v != wire.Forward {
		return nil
	}
	return out
}

// appendOpened appends to list the notifications that end the URL elicitations with these ids.
func (c *Conn) appendOpened(list, opened [][]byte, header []upstream.Header) [][]byte {
	for _, id := range opened {
		var m wire.Message
		body := mcp.Notification(wire.ElicitationCompleted, `{"elicitationId":`+wire.View(id)+`}`)
		if m.Scan(body, c.down.Shape()) == nil {
			if out := c.passDown(&m, header); out != nil {
				list = append(list, out)
			}
		}
	}
	return list
}

// downResult translates a result of the server to the response to a request of this method.
func (c *Conn) downResult(id []byte, method wire.Method, result []byte, header []upstream.Header) ([]byte, error) {
	var m wire.Message
	if err := m.Scan(mcp.AppendResult(nil, id, result), c.down.Shape()); err != nil {
		return nil, err
	}
	m.Method, m.Facts = method, c.facts
	out, v, err := c.down.Rewrite(nil, &m)
	c.host.Losses.Note(c.down.From(), c.down.To(), method, m.Losses, header)
	if err == nil && v != wire.Forward {
		err = mcp.Saying(mcp.CodeInternal, "Unsupported result of "+method.String())
	}
	return out, err
}

// Observe sets what begins the observation of a message of the server outside of any call, and returns nil if nothing observes
// it. The proxy sees the message when the client gets it, and asks Seen what it was made of. Observe must be called before the
// first use.
func (c *Conn) Observe(begin func(raw []byte) (*observe.Call, observe.Copy)) { c.seeing = begin }

// Seen returns the observation of a notification that the standing stream has given, or nil.
func (c *Conn) Seen(text []byte) *observe.Call { return c.news.observed(text) }

// seenNews is a notification that is observed; call is nil if nothing observes it.
type seenNews struct {
	call *observe.Call
	kept observe.Copy
}

// observe begins the observation of a notification, before translation changes it.
func (c *Conn) observe(m *wire.Message) (s seenNews) {
	if c.seeing != nil {
		s.call, s.kept = c.seeing(m.Raw)
	}
	return s
}

// translated adds the notification as it came. out is what the client gets; nil for nothing.
func (s *seenNews) translated(c *Conn, m *wire.Message, out []byte) {
	if s.call == nil {
		return
	}
	s.call.Came(observe.Message{
		Edge: observe.ServerEdge, Direction: observe.ToClient, Copy: s.kept, Losses: slices.Clone(m.Losses),
		Why: observe.Why{Translator: c.down, Known: translate.Known{Facts: c.facts}},
	})
	if out == nil {
		s.call.End(string(metrics.Local), "")
	}
}

// enqueue translates a notification of the server and puts it on the standing stream. raw may be used again.
func (c *Conn) enqueue(raw []byte, header []upstream.Header) {
	var m wire.Message
	if m.Scan(raw, c.down.Shape()) != nil {
		c.host.Report.Dropped("malformed")
		return
	}
	seen := c.observe(&m)
	m.Room = -1 // raw is the server's stream's, which overwrites it
	out := c.passDown(&m, header)
	seen.translated(c, &m, out)
	switch {
	case out == nil:
		return
	case !m.Edited():
		out = bytes.Clone(out)
	}
	c.put(out, seen.call)
}

// tell puts notifications of dragoman's own, which tell of a gap, on the standing stream. They need no translation.
func (c *Conn) tell(list [][]byte) {
	for _, m := range list {
		if !c.news.tell(bytes.Clone(m)) {
			c.host.Report.Dropped("queue_full")
		}
	}
}

func (c *Conn) put(text []byte, seen *observe.Call) {
	for range c.news.put(text, seen) {
		c.host.Report.Dropped("queue_full")
	}
}
