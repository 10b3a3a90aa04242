package share

import (
	"context"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var _ upstream.Conn = (*Conn)(nil)

// maxSubscribed bounds the subscriptions of a session, each of which takes memory until it ends. One that the process refuses
// does not count.
const maxSubscribed = 1000

// Send passes a message to the process, or answers it without the process.
func (m *Conn) Send(ctx context.Context, out *upstream.Outgoing) (upstream.Stream, error) {
	msg := new(wire.Message)
	if err := msg.Scan(out.Body, idmap.Shape); err != nil {
		return nil, err
	}
	switch {
	case msg.Kind.Response():
		return nil, nil // the process cannot have asked this session
	case msg.Kind == wire.Request:
		return nil, m.request(ctx, out, msg)
	}
	switch msg.Method {
	case wire.Initialized, wire.RootsListChanged, wire.Progress:
		return nil, nil // these are about one session, not about the process
	case wire.Cancelled:
		if key := idmap.Cancelled(msg); key == "" || !m.process.cancel(m, key, msg, out.Header) {
			return nil, nil
		}
		return nil, m.pass(ctx, out, msg.AppendTo(nil))
	}
	return nil, m.pass(ctx, out, out.Body)
}

func (m *Conn) pass(ctx context.Context, out *upstream.Outgoing, body []byte) error {
	own := *out
	own.Body = body
	if err := m.process.waiting.enter(m.client, m.process.host.Config().Limits); err != nil {
		return err
	}
	_, err := m.process.conn.Send(ctx, &own)
	if h, waits := err.(*upstream.Handed); waits { //nolint:errorlint // a Conn returns it as it is
		h.Then(func(error) { m.process.waiting.leave(m.client) })
		return h
	}
	m.process.waiting.leave(m.client)
	return err
}

// request sends a request to the process under an id that is unique among all sessions.
func (m *Conn) request(ctx context.Context, out *upstream.Outgoing, msg *wire.Message) error {
	switch msg.Method {
	case wire.Initialize:
		m.enqueue(mcp.AppendResult(nil, msg.ID(), m.process.result), true)
		return nil
	case wire.LoggingSetLevel, wire.TasksGet, wire.TasksResult, wire.TasksList, wire.TasksCancel:
		m.enqueue(mcp.AppendError(nil, msg.ID(), mcp.CodeMethodNotFound, "Method not found: "+msg.Method.String(), nil), true)
		return nil
	case wire.ResourcesSubscribe:
		return m.subscribe(ctx, out, msg)
	case wire.ResourcesUnsubscribe:
		if answer := m.unsubscribe(msg); answer != nil {
			m.enqueue(answer, true)
			return nil
		}
	}
	e, err := m.process.enter(m, msg)
	if err != nil {
		return err
	}
	return m.send(ctx, out, msg, e)
}

// send sends a request that has an entry. If that fails, the entry is removed, since no answer will come.
func (m *Conn) send(ctx context.Context, out *upstream.Outgoing, msg *wire.Message, e *idmap.Entry[openRequest]) error {
	own := *out
	own.Stale = func() bool { return !m.process.isOpen(e) }
	err := m.pass(ctx, &own, msg.AppendTo(nil))
	if h, waits := err.(*upstream.Handed); waits { //nolint:errorlint // a Conn returns it as it is
		m.process.mu.Lock()
		e.Of.way.Waits(h)
		m.process.mu.Unlock()
		h.Then(func(err error) { m.sent(e, err) })
	} else {
		m.sent(e, err)
	}
	return err
}

// sent notes that a request was sent, or removes its entry if it was not because of err.
func (m *Conn) sent(e *idmap.Entry[openRequest], err error) {
	h := m.process
	h.mu.Lock()
	recall := e.Of.way.End()
	if err != nil {
		h.leave(e)
	}
	h.mu.Unlock()
	if recall != nil && err == nil {
		pipes.SendRecall(h.host, h.conn, recall)
	}
}

// subscribe sends a request for a subscription, which counts from now on unless the process refuses it.
func (m *Conn) subscribe(ctx context.Context, out *upstream.Outgoing, msg *wire.Message) error {
	uri := uriOf(msg)
	h := m.process
	h.mu.Lock()
	if f := m.mayHold(uri); f != nil {
		h.mu.Unlock()
		m.enqueue(f.About(msg.ID()).Body(), true)
		return nil
	}
	e, err := h.enterLocked(m, msg)
	switch {
	case err == nil:
		h.wantLocked(e, uri)
	case h.subscribed[uri][m] == nil:
		m.kept.Drop(size(uri))
	}
	h.mu.Unlock()
	if err != nil {
		return err
	}
	return m.send(ctx, out, msg, e)
}

// mayHold counts a subscription, unless the session has one to the resource. The failure says that there is no room for it.
// process.mu must be held.
func (m *Conn) mayHold(uri string) *mcp.Failure {
	if m.process.subscribed[uri][m] != nil {
		return nil
	}
	if m.subscriptions == maxSubscribed || m.subscribed+size(uri) > pipes.MaxSubscriptions {
		return mcp.Saying(mcp.CodeInternal, "too many subscriptions: end others with resources/unsubscribe first")
	}
	if err := m.kept.Keep(size(uri)); err != nil {
		return report.FailureOf(err)
	}
	return nil
}

// unsubscribe notes that the session is not subscribed any more. It returns the response if the process does not get the
// request, since other sessions are still subscribed to the resource; else nil.
func (m *Conn) unsubscribe(msg *wire.Message) (answer []byte) {
	uri := uriOf(msg)
	h := m.process
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unsubscribeLocked(m, uri)
	if len(h.subscribed[uri]) > 0 {
		return mcp.AppendResult(nil, msg.ID(), "{}")
	}
	return nil
}

// uriOf returns the resource that a request is about. It points into the message.
func uriOf(msg *wire.Message) string { return gjson.Get(wire.View(msg.Params()), "uri").String() }

// Listen returns upstream.ErrNoStream: the stream of this session was returned when it was opened.
func (m *Conn) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

// Close ends the session. The process gets notifications/cancelled for each open request of the
// session that it has.
func (m *Conn) Close(ctx context.Context) error {
	h := m.process
	var notices [][]byte
	h.mu.Lock()
	_, joined := h.conns[m]
	delete(h.conns, m)
	h.asked.Each(func(e *idmap.Entry[openRequest]) {
		if e.Of.Conn != m {
			return
		}
		h.leave(e)
		if notice := mcp.Cancelled(e.Given, ""); e.Of.way.Cancel(notice, nil) {
			notices = append(notices, notice)
		}
	})
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
	m.kept.Close()
	if !joined || over {
		return nil
	}
	for _, uri := range left {
		var msg wire.Message
		params := append(wire.AppendQuoted([]byte(`{"uri":`), uri), '}')
		if msg.Scan(mcp.Request("0", wire.ResourcesUnsubscribe, params), idmap.Shape) != nil {
			continue
		}
		if _, err := h.enter(nil, &msg); err == nil {
			notices = append(notices, msg.AppendTo(nil))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, pipes.NoticeTimeout)
	defer cancel()
	for _, n := range notices {
		if _, err := h.conn.Send(ctx, &upstream.Outgoing{Body: n}); err != nil {
			break // the process restarts or stops, and so has lost these requests
		}
	}
	if h.of.isRetired() && h.isUnused() {
		h.host.Spawn(h.close)
	}
	return nil
}

// A stream is the stream of one session with a shared process.
type stream struct {
	upstream.Plain
	*Conn
}

// Events gives the messages for this session, and at last the error that ended the session.
func (e stream) Events(yield func(sse.Event, error) bool) {
	for {
		e.mu.Lock()
		message, ok := e.queue.Pop()
		err := e.err
		e.mu.Unlock()
		switch {
		case ok:
			if !yield(sse.Event{Data: message}, nil) {
				return
			}
		case err != nil:
			yield(sse.Event{}, err)
			return
		default:
			<-e.signal
		}
	}
}

// Close ends the stream. The session itself ends with Close of the Conn.
func (e stream) Close() error {
	e.finish(upstream.ErrClosed)
	return nil
}
