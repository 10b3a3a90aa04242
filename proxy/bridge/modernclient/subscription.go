package modernclient

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A subscription is a subscriptions/listen request of a modern client: a stream of
// the notifications that the client has asked for, out of those that the server sends on the standing
// stream of the pooled session. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions.
type subscription struct {
	br   *Bridge
	ctx  context.Context
	q    *stateless.Request
	from []upstream.Header
	b    *pooledSession
	seen *observe.Call // nil if nothing observes it

	wants map[wire.Method]bool
	uris  []string
	tasks []*pooledTask
	box   *outbox.Outbox
	cut   bool // the stream was ended although there was something to listen for
}

// listenable holds what a client may listen for, in addition to resources and tasks, and the capability that
// the server must have for it.
var listenable = []struct {
	member     string
	capability string
	method     wire.Method
}{
	{"toolsListChanged", "tools.listChanged", wire.ToolsListChanged},
	{"promptsListChanged", "prompts.listChanged", wire.PromptsListChanged},
	{"resourcesListChanged", "resources.listChanged", wire.ResourcesListChanged},
}

// maxListened is how many resources, and how many tasks, one request may subscribe to.
const maxListened = 256

// subscribe begins to listen for q. The caller ends the subscription.
func (br *Bridge) subscribe(ctx context.Context, q *stateless.Request, who string, from []upstream.Header) (*subscription, error) {
	b, err := br.pool.get(ctx, q, who, from)
	if err != nil {
		return nil, clienterror.Of(err).WithID(q.ID)
	}
	l := &subscription{br: br, ctx: ctx, q: q, from: from, b: b, seen: b.observe(q, from), box: outbox.New(), wants: map[wire.Method]bool{}}
	asked := gjson.GetBytes(q.Raw, "params.notifications")
	heard := b.startListening(ctx, from)
	for _, n := range listenable {
		if heard && asked.Get(n.member).Bool() && gjson.GetBytes(b.said.capabilities, n.capability).Bool() {
			l.wants[n.method] = true
		}
	}
	b.mu.Lock()
	if b.subscriptions == nil {
		b.subscriptions = map[*subscription]bool{}
	}
	b.subscriptions[l] = true // before the subscribe requests: the server may notify at once
	b.mu.Unlock()
	if heard && gjson.GetBytes(b.said.capabilities, "resources.subscribe").Bool() {
		for n, uri := range asked.Get("resourceSubscriptions").Array() {
			if uri.Type != gjson.String || n >= maxListened {
				continue
			}
			l.cover(append(l.uris, uri.Raw))
			if err := b.subscribe(ctx, uri.Raw, from); err != nil {
				l.cover(l.uris[:len(l.uris)-1])
				br.host.Log.Info("cannot subscribe to a resource", zap.Error(err))
			}
		}
	}
	if l.tasks, err = br.tasks.subscribe(ctx, l, who, asked.Get("taskIds").Array()); err != nil {
		l.End()
		return nil, clienterror.Of(err).WithID(q.ID)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if heard && !b.heard { // the standing stream has ended since
		l.finish()
	}
	return l, nil
}

// cover sets the resources that l is subscribed to.
func (l *subscription) cover(uris []string) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.uris = uris
}

// acknowledgement returns notifications/subscriptions/acknowledged, which names the notifications
// that the client will receive.
func (l *subscription) acknowledgement() []byte {
	out := []byte(`{"_meta":{"` + mcp.MetaPrefix + `subscriptionId":`)
	out = append(append(out, l.q.ID...), `},"notifications":{`...)
	comma := ""
	for _, n := range listenable {
		if l.wants[n.method] {
			out = append(out, comma+`"`+n.member+`":true`...)
			comma = ","
		}
	}
	if len(l.uris) > 0 {
		out = append(out, comma+`"resourceSubscriptions":[`+strings.Join(l.uris, ",")+`]`...)
		comma = ","
	}
	for n, k := range l.tasks {
		if n == 0 {
			out = append(out, comma+`"taskIds":[`...)
		} else {
			out = append(out, ',')
		}
		out = mcp.AppendString(out, k.key.id)
	}
	if len(l.tasks) > 0 {
		out = append(out, ']')
	}
	return mcp.Notification(wire.SubscriptionsAcknowledged, append(out, `}}`...))
}

// Answer implements [Reply]: it sends the acknowledgement, then one notification after the other.
func (l *subscription) Answer(client mcp.Peer) ([]byte, error) {
	if l.seen != nil {
		client = &seenPeer{client, l.seen}
	}
	body, err := l.answer(client)
	if err == nil {
		observed(l.seen, body)
		l.seen.End(string(metrics.Local), "")
	}
	return body, err
}

func (l *subscription) answer(client mcp.Peer) ([]byte, error) {
	defer context.AfterFunc(l.br.host.Draining, l.finish)()
	m := outbox.Message{Body: l.acknowledgement()}
	for {
		if client.Send(sse.Event{Data: m.Body}) != nil {
			return nil, io.EOF
		}
		if len(l.wants) == 0 && len(l.uris) == 0 && len(l.tasks) == 0 {
			return l.result(), nil
		}
		var err error
		if m, l.cut, err = l.box.Take(l.ctx); err != nil {
			return nil, io.EOF
		}
		if l.cut {
			return m.Body, nil
		}
	}
}

// Cut implements [Reply].
func (l *subscription) Cut() bool { return l.cut }

func (l *subscription) fill(*downstream.Response) {}

// result returns the response that ends the stream without an error.
func (l *subscription) result() []byte { return bridge.ListenResult(l.q.ID) }

// finish ends the stream without an error, after the notifications that are still in the box.
func (l *subscription) finish() { l.box.Put(outbox.Message{Body: l.result(), Last: true}) }

// End ends the subscription.
func (l *subscription) End() {
	l.box.Close()
	l.seen.End(string(metrics.Left), "")
	b := l.b
	b.mu.Lock()
	delete(b.subscriptions, l)
	b.mu.Unlock()
	for _, k := range l.tasks {
		k.unsubscribe(l)
	}
	for _, uri := range l.uris {
		b.unsubscribe(uri, l.from)
	}
	l.br.pool.release(b)
}

// announce gives a notification to the subscriptions that asked for it.
func (b *pooledSession) announce(method wire.Method, body []byte) {
	if method == wire.ToolsListChanged {
		b.s.Tools().Forget()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.subscriptions) == 0 {
		return
	}
	uri := ""
	if method == wire.ResourcesUpdated {
		uri = gjson.GetBytes(body, "params.uri").String()
	}
	told := false
	for l := range b.subscriptions {
		if l.wants[method] || uri != "" && l.covers(uri) {
			told = true
			l.box.Put(outbox.Message{Body: subscribed(body, l.q.ID)})
		}
	}
	if told || uri == "" {
		return
	}
	for l := range b.subscriptions { // the server may use another form of the URI
		if len(l.uris) > 0 {
			l.box.Put(outbox.Message{Body: subscribed(body, l.q.ID)})
		}
	}
}

// covers reports whether l is subscribed to the resource uri, or to one whose URI is a prefix of uri.
func (l *subscription) covers(uri string) bool {
	for _, own := range l.uris {
		if strings.HasPrefix(uri, gjson.Parse(own).String()) {
			return true
		}
	}
	return false
}

// hearingTime is how long a call waits for the standing stream. A server may
// send the response's header only with its first message on the stream.
const hearingTime = 2 * time.Second

// startListening opens the session's standing stream, if it was not called before, and reports
// whether the session has one. It waits until that is known, but not longer than hearingTime.
func (b *pooledSession) startListening(ctx context.Context, from []upstream.Header) bool {
	b.hearing.Do(func() {
		header := slices.Clone(from)
		b.br.host.Spawn(func() {
			if !b.br.host.Report.Contained(func() { b.listen(header) }) {
				b.streamEnded() // its clients listen again, on another session
				b.br.pool.discard(b)
			}
		})
	})
	select {
	case <-b.settled:
	default: // only now is the channel of ctx needed
		select {
		case <-b.settled:
		case <-ctx.Done():
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heard
}

// listen opens the standing stream and reads it.
func (b *pooledSession) listen(from []upstream.Header) {
	settle := sync.OnceFunc(func() { close(b.settled) })
	timer := time.AfterFunc(hearingTime, settle)
	st, err := b.s.Listen(b.life, upstream.ListenOptions{Header: from})
	timer.Stop()
	b.mu.Lock()
	b.heard = err == nil
	b.mu.Unlock()
	if err == nil {
		b.s.Tools().Forget() // the list may have changed before the stream was open
	}
	settle()
	switch {
	case err == nil:
		b.follow(st, from)
	case !errors.Is(err, upstream.ErrNoStream):
		b.br.host.Log.Info("cannot open the standing stream", zap.Error(err))
	}
}

// follow reads the standing stream, and opens it again when it breaks off, until the session ends.
func (b *pooledSession) follow(st upstream.Stream, from []upstream.Header) {
	var again server.Reopening
	for {
		if b.read(st, from) {
			again.Heard()
		}
		b.br.results.Unheard(b.realm)
		for {
			if again.Wait(b.life, 0) != nil {
				return
			}
			var err error
			if st, err = b.s.Listen(b.life, upstream.ListenOptions{Header: from}); err == nil {
				b.s.Tools().Forget() // as above
				break
			}
			if errors.Is(err, upstream.ErrNoStream) || b.life.Err() != nil || clienterror.Of(err).Cause == mcp.UpstreamLost || clienterror.Of(err).Status == 404 {
				b.streamEnded()
				if !errors.Is(err, upstream.ErrNoStream) {
					b.br.pool.discard(b)
				}
				return
			}
		}
	}
}

// read reads one standing stream to its end, and reports whether the server sent anything on it.
func (b *pooledSession) read(st upstream.Stream, from []upstream.Header) (spoke bool) {
	ctx, stop := context.WithCancelCause(b.life)
	x := b.s.Begin(ctx, stop, from, b.crossing(), nil)
	defer x.Done()
	x.Read(st)
	to := &standing{bystander: bystander{b, x, from}}
	_, _ = x.Answer(to) // the stream breaks off, or the session ends
	return to.spoke
}

// standing is the [bridge.Client] of a standing stream.
type standing struct {
	bystander
	spoke bool // the server has sent something
}

// Send implements [bridge.Client]: a notification may be about a call.
func (s *standing) Send(e sse.Event) error {
	m := s.x.Message()
	if m.Kind != wire.Notification {
		return nil
	}
	s.spoke = true
	of := s.b.about(m)
	defer s.b.giveBack()
	if of != nil {
		of.notify(m, e.Data)
		return nil
	}
	return s.bystander.Send(e)
}

// Ask implements [bridge.Client].
func (s *standing) Ask(list []bridge.Question) {
	s.spoke = true
	s.bystander.Ask(list)
}

// streamEnded ends the session's subscriptions, since its standing stream has ended for good.
func (b *pooledSession) streamEnded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = false
	for l := range b.subscriptions {
		l.finish()
	}
}
