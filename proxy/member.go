package proxy

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// member is one session with the process.
type member struct {
	hub *hub

	open map[string]*asked // by the key of the client's id; under the hub's lock

	signal chan struct{} // there may be something new

	mu    sync.Mutex
	queue queue
	err   error // set once nothing more will come
}

var _ upstream.Conn = (*member)(nil)

// Send passes a message to the process, or answers it here.
func (m *member) Send(ctx context.Context, out *upstream.Outgoing) (upstream.Stream, error) {
	msg := new(wire.Message)
	if err := msg.Scan(out.Body, m.hub.shape); err != nil {
		return nil, err
	}
	switch {
	case msg.Kind.Response():
		return nil, nil // nobody has asked
	case msg.Kind == wire.Request:
		return nil, m.request(ctx, out, msg)
	}
	switch msg.Method {
	case wire.Initialized, wire.RootsListChanged, wire.Progress:
		return nil, nil // true of one session only
	case wire.Cancelled:
		id := msg.Root().Get(wire.Params).Get(wire.RequestID)
		if !id.OK() {
			return nil, nil
		}
		m.hub.mu.Lock()
		a := m.open[string(wire.AppendIDKey(nil, id.Raw()))]
		if a != nil {
			m.hub.settle(a)
		}
		m.hub.mu.Unlock()
		if a == nil {
			return nil, nil
		}
		putAll(msg.Root().Get(wire.Params), wire.RequestID, a.given)
		return nil, m.pass(ctx, out, msg.AppendTo(nil))
	}
	return nil, m.pass(ctx, out, out.Body)
}

func (m *member) pass(ctx context.Context, out *upstream.Outgoing, body []byte) error {
	own := *out
	own.Body = body
	_, err := m.hub.conn.Send(ctx, &own)
	return err
}

// request passes a request on under an id that no other session has.
func (m *member) request(ctx context.Context, out *upstream.Outgoing, msg *wire.Message) error {
	switch msg.Method {
	case wire.Initialize:
		m.hear(appendResult(nil, msg.ID(), view(m.hub.result)), true)
		return nil
	case wire.LoggingSetLevel, wire.TasksGet, wire.TasksResult, wire.TasksList, wire.TasksCancel:
		m.hear(appendError(nil, msg.ID(), methodNotFound, "Method not found: "+msg.Method.String(), nil), true)
		return nil
	case wire.ResourcesSubscribe, wire.ResourcesUnsubscribe:
		if m.subscribe(msg) {
			m.hear(appendResult(nil, msg.ID(), "{}"), true)
			return nil
		}
	}
	a := &asked{by: m, id: string(msg.ID()), key: string(wire.AppendIDKey(nil, msg.ID()))}
	if token := msg.Root().Get(wire.Params).Get(wire.Meta).Get(wire.ProgressTokenKey); token.OK() {
		a.token = string(token.Raw())
	}
	if err := m.hub.enter(a); err != nil {
		return err
	}
	putAll(msg.Root(), wire.ID, a.given)
	for params := msg.Root().First(); params.OK(); params = params.Next() {
		if params.Name() != wire.Params {
			continue
		}
		for meta := params.First(); meta.OK(); meta = meta.Next() {
			if meta.Name() == wire.Meta {
				putAll(meta, wire.ProgressTokenKey, a.given)
			}
		}
	}
	own := *out
	own.Stale = func() bool { return !m.hub.waits(a) }
	err := m.pass(ctx, &own, msg.AppendTo(nil))
	if err != nil {
		m.hub.mu.Lock()
		m.hub.settle(a)
		m.hub.mu.Unlock()
	}
	return err
}

// enter gives a request its id.
func (h *hub) enter(a *asked) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return h.err
	}
	if a.by != nil {
		switch {
		case a.by.open[a.key] != nil:
			return errDuplicateID
		case len(a.by.open) >= h.srv.now().cfg.Limits.OpenRequests:
			return errTooManyOpen
		}
		a.by.open[a.key] = a
	}
	h.last++
	a.given = strconv.FormatUint(h.last, 10)
	h.asked[string(wire.AppendIDKey(nil, []byte(a.given)))] = a
	return nil
}

// subscribe takes down what a request changes of the subscriptions, and reports
// whether that is all: others still want to hear of the resource.
func (m *member) subscribe(msg *wire.Message) (enough bool) {
	uri := gjson.Get(view(msg.Params()), "uri").String()
	h := m.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.subscribed[uri]
	if msg.Method == wire.ResourcesUnsubscribe {
		delete(all, m)
		return len(all) > 0
	}
	if all == nil {
		all = make(map[*member]struct{})
		h.subscribed[strings.Clone(uri)] = all
	}
	all[m] = struct{}{}
	return false
}

// Listen is for connections that began in another way.
func (m *member) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

// Close ends the session. The process hears that nobody waits any more for what
// the session has asked.
func (m *member) Close(ctx context.Context) error {
	h := m.hub
	var notices [][]byte
	h.mu.Lock()
	_, joined := h.members[m]
	delete(h.members, m)
	for _, a := range m.open {
		h.settle(a)
		notices = append(notices, []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+a.given+`}}`))
	}
	var left []string
	for uri, all := range h.subscribed {
		if delete(all, m); len(all) == 0 {
			delete(h.subscribed, uri)
			left = append(left, uri)
		}
	}
	over := h.err != nil
	h.mu.Unlock()
	m.finish(upstream.ErrClosed)
	if !joined || over {
		return nil
	}
	for _, uri := range left {
		a := new(asked)
		if h.enter(a) == nil {
			params := appendString([]byte(`"method":"resources/unsubscribe","params":{"uri":`), uri)
			notices = append(notices, []byte(`{"jsonrpc":"2.0","id":`+a.given+`,`+string(params)+`}}`))
		}
	}
	for _, n := range notices {
		if _, err := h.conn.Send(ctx, &upstream.Outgoing{Body: n}); err != nil {
			break // it is being started again, or stopped: then it knows nothing of them
		}
	}
	if h.of.isRetired() && h.deserted() {
		h.srv.spawn(h.close)
	}
	return nil
}

// hear gives the session one message, to keep.
func (m *member) hear(message []byte, firm bool) {
	m.mu.Lock()
	dropped := m.queue.push(queued{message, firm})
	m.mu.Unlock()
	m.wake()
	for range dropped {
		m.hub.srv.unwanted("queue_full")
	}
}

func (m *member) finish(err error) {
	m.mu.Lock()
	if m.err == nil {
		m.err = err
	}
	m.mu.Unlock()
	m.wake()
}

func (m *member) wake() {
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

// ear is what a session hears.
type ear struct{ *member }

// Next waits for the next message.
func (e ear) Next() (sse.Event, error) {
	for {
		e.mu.Lock()
		message, ok := e.queue.pop()
		err := e.err
		e.mu.Unlock()
		switch {
		case ok:
			return sse.Event{Data: message}, nil
		case err != nil:
			return sse.Event{}, err
		}
		<-e.signal
	}
}

// Close gives up listening; the session ends with Close of the member.
func (e ear) Close() error {
	e.finish(upstream.ErrClosed)
	return nil
}
