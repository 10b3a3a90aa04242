package modernclient

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// discover answers server/discover from the server's InitializeResult. See
// https://modelcontextprotocol.io/specification/2026-07-28/server/discover.
func (br *Bridge) discover(c caller) ([]byte, error) {
	b, err := br.pool.get(c)
	if err != nil {
		return nil, err
	}
	defer br.pool.release(b)
	seen := b.observe(c.q, c.from)
	out := wire.AppendStrings([]byte(`{"resultType":"complete","supportedVersions":`), translate.Names())
	out = append(append(out, `,"capabilities":`...), b.said.capabilities...)
	if len(b.said.instructions) > 0 {
		out = append(append(out, `,"instructions":`...), b.said.instructions...)
	}
	out = append(out, `,"ttlMs":0,"cacheScope":"private","_meta":{"`+mcp.MetaPrefix+`serverInfo":`...)
	out = append(append(out, b.said.server...), `}}`...)
	out = mcp.AppendResult(nil, c.q.ID, out)
	observed(seen, out)
	seen.End(string(metrics.Local), "")
	return out, nil
}

// A subscription is a subscriptions/listen request of a modern client: a stream of
// the notifications that the client has asked for, out of those that the server sends on the standing
// stream of the pooled session. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions.
type subscription struct {
	listener
	br    *Bridge
	ctx   context.Context
	b     *pooledSession
	seen  *observe.Call // nil if nothing observes it
	tasks []*pooledTask
	cut   bool // the stream was ended although there was something to listen for

	later context.CancelFunc // ends the wait for what the server has not accepted in time; nil if there is nothing
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

// subscribe begins to listen for c. The caller ends the subscription.
func (br *Bridge) subscribe(c caller) (*subscription, error) {
	b, err := br.pool.get(c)
	if err != nil {
		return nil, report.FailureOf(err).WithID(c.q.ID)
	}
	br.pool.listens(b, 1)
	l := &subscription{
		listener: listener{id: c.q.ID, from: c.from, box: outbox.New(), wants: map[wire.Method]bool{}},
		br:       br, ctx: c.ctx, b: b, seen: b.observe(c.q, c.from),
	}
	l.box.CountBy(br.host.Report)
	l.kept = br.host.Memory().Holding()
	l.box.KeepIn(l.kept)
	asked := gjson.GetBytes(c.q.Raw, "params.notifications")
	if err := l.kept.Keep(2*len(asked.Raw) + pipes.SubscriptionOverhead); err != nil {
		l.End()
		return nil, report.FailureOf(err).WithID(c.q.ID)
	}
	heard := b.startListening(c.ctx, c.from)
	for _, n := range listenable {
		if heard && asked.Get(n.member).Bool() && gjson.GetBytes(b.said.capabilities, n.capability).Bool() {
			l.wants[n.method] = true
		}
	}
	b.listeners.add(&l.listener) // before the subscribe requests: the server may notify at once
	if l.tasks, err = br.tasks.subscribe(c, &l.listener, asked.Get("taskIds").Array()); err != nil {
		l.End()
		return nil, report.FailureOf(err).WithID(c.q.ID)
	}
	if heard && gjson.GetBytes(b.said.capabilities, "resources.subscribe").Bool() {
		var uris []string
		for n, uri := range asked.Get("resourceSubscriptions").Array() {
			if uri.Type == gjson.String && n < maxListened {
				uris = append(uris, uri.Raw)
			}
		}
		l.watch(uris)
	}
	if heard && !b.listeners.heard.Load() { // the standing stream has ended since
		l.finish()
	}
	return l, nil
}

// watch subscribes to resources, one after the other. What the server has not answered when the client has waited long enough is
// left to watchLater.
func (l *subscription) watch(uris []string) {
	ctx, cancel := context.WithTimeout(l.ctx, l.br.Waits.Accepted)
	defer cancel()
	for n, uri := range uris {
		l.b.listeners.cover(&l.listener, append(l.uris, uri))
		w := l.b.resources.hold(uri, l.from)
		err := w.await(ctx)
		if err == nil {
			continue
		}
		l.b.listeners.cover(&l.listener, l.uris[:len(l.uris)-1])
		if ctx.Err() != nil && l.ctx.Err() == nil {
			l.watchLater(w, uris[n:])
			return
		}
		l.b.resources.unsubscribe(uri, l.from)
		if l.ctx.Err() != nil {
			return
		}
		l.refused(err)
	}
}

func (l *subscription) refused(err error) {
	l.br.host.Log.Info("the server does not accept a subscription to a resource: its client's subscription does not include the resource", zap.Error(err))
}

// watchLater waits for the server to accept subscriptions, of which w is the first. The client is told that it gets nothing of
// them: if the server accepts any, the stream ends with its result, so that the client asks again. The session stays subscribed a
// little longer for that.
func (l *subscription) watchLater(w *resourceWatch, uris []string) {
	l.br.host.Log.Info("the server has not answered a subscription to a resource: its client's subscription does not include it, and ends if the server accepts later",
		zap.Int("resources", len(uris)))
	b, from, alone := l.b, slices.Clone(l.from), len(l.wants)+len(l.uris)+len(l.tasks) == 0
	kept, size := l.br.host.Memory().Holding(), 0
	for _, uri := range uris {
		size += len(uri)
	}
	if kept.Keep(size) != nil { // the client learns nothing if the server accepts
		b.resources.unsubscribe(uris[0], from)
		return
	}
	ctx, cancel := context.WithCancel(&b.life)
	l.later = cancel
	l.br.pool.retain(b)
	l.br.host.Spawn(func() {
		defer l.br.pool.release(b)
		defer kept.Close()
		defer cancel()
		accepted, held := false, 0
		for held = range uris {
			if held > 0 {
				w = b.resources.hold(uris[held], from)
			}
			if err := w.await(ctx); ctx.Err() != nil {
				break
			} else if err != nil {
				l.refused(err)
			} else {
				accepted = true
			}
		}
		if ctx.Err() == nil && (accepted || alone) {
			l.finish()
		}
		if accepted {
			timer := time.NewTimer(l.br.Waits.Accepted)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-b.life.Done():
			}
		}
		for _, uri := range uris[:held+1] {
			b.resources.unsubscribe(uri, from)
		}
	})
}

// acknowledgement returns notifications/subscriptions/acknowledged, which names the notifications
// that the client will receive.
func (l *subscription) acknowledgement() []byte {
	var members, ids []string
	for _, n := range listenable {
		if l.wants[n.method] {
			members = append(members, `"`+n.member+`":true`)
		}
	}
	if len(l.uris) > 0 {
		members = append(members, `"resourceSubscriptions":[`+strings.Join(l.uris, ",")+`]`)
	}
	for _, k := range l.tasks {
		ids = append(ids, string(wire.AppendQuoted(nil, k.key.id)))
	}
	if len(ids) > 0 {
		members = append(members, `"taskIds":[`+strings.Join(ids, ",")+`]`)
	}
	return mcp.Notification(wire.SubscriptionsAcknowledged, []byte(`{"_meta":{"`+mcp.MetaPrefix+`subscriptionId":`+string(l.id)+
		`},"notifications":{`+strings.Join(members, ",")+`}}`))
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
		if len(l.wants) == 0 && len(l.uris) == 0 && len(l.tasks) == 0 && l.later == nil {
			return crossing.ListenResult(l.id), nil
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

func (l *subscription) http(resp *downstream.Response) *httpClient {
	resp.Done = l.End
	return new(httpClient)
}

// End ends the subscription.
func (l *subscription) End() {
	l.box.Close()
	if l.later != nil {
		l.later()
	}
	l.seen.End(string(metrics.Left), "")
	l.b.listeners.remove(&l.listener)
	for _, k := range l.tasks {
		k.unsubscribe(&l.listener)
	}
	for _, uri := range l.uris {
		l.b.resources.unsubscribe(uri, l.from)
	}
	l.br.pool.stopListening(l.b)
	l.kept.Close()
}

// observe begins the observation of a request that dragoman answers itself.
func (b *pooledSession) observe(q *stateless.Request, from []mcp.Header) *observe.Call {
	seen := b.s.Observe(q, from)
	seen.Note(observe.Note{By: observe.Bridge, What: "answered", Detail: "the server has a handshake, and no such method: dragoman answers from what the server said there, and from its notifications"})
	return seen
}

// seenPeer is a client that is observed.
type seenPeer struct {
	mcp.Peer
	seen *observe.Call
}

// Send implements [mcp.Peer].
func (p *seenPeer) Send(e sse.Event) error {
	observed(p.seen, e.Data)
	return p.Peer.Send(e)
}

// observed adds a message that the client gets.
func observed(seen *observe.Call, body []byte) {
	if seen != nil {
		seen.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: seen.Keep(body), Method: seen.Method})
	}
}
