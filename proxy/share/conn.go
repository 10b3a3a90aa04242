package share

import (
	"context"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var _ upstream.Conn = (*Conn)(nil)

// maxSubscribed bounds the subscriptions of a session, each of which takes memory until it ends. One that the process refuses
// counts as well.
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
		if key := idmap.Cancelled(msg); key == "" || !m.process.cancel(m, key, msg) {
			return nil, nil
		}
		return nil, m.pass(ctx, out, msg.AppendTo(nil))
	}
	return nil, m.pass(ctx, out, out.Body)
}

func (m *Conn) pass(ctx context.Context, out *upstream.Outgoing, body []byte) error {
	own := *out
	own.Body = body
	_, err := m.process.conn.Send(ctx, &own)
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
	case wire.ResourcesSubscribe, wire.ResourcesUnsubscribe:
		if answer := m.subscribe(msg); answer != nil {
			m.enqueue(answer, true)
			return nil
		}
	}
	e, err := m.process.enter(m, msg)
	if err != nil {
		return err
	}
	own := *out
	own.Stale = func() bool { return !m.process.isOpen(e) }
	if err = m.pass(ctx, &own, msg.AppendTo(nil)); err != nil {
		m.process.mu.Lock()
		m.process.leave(e)
		m.process.mu.Unlock()
	}
	return err
}

// subscribe notes how a request changes the session's subscriptions. It returns the response if the process does not get the
// request, as other sessions are still subscribed to the resource, or this one is to too many; else nil.
func (m *Conn) subscribe(msg *wire.Message) (answer []byte) {
	uri := gjson.Get(wire.View(msg.Params()), "uri").String()
	h := m.process
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.subscribed[uri]
	_, already := all[m]
	if msg.Method == wire.ResourcesUnsubscribe {
		if already {
			m.subscriptions--
		}
		if delete(all, m); len(all) > 0 {
			return mcp.AppendResult(nil, msg.ID(), "{}")
		}
		delete(h.subscribed, uri)
		return nil
	}
	if !already {
		if m.subscriptions == maxSubscribed {
			return mcp.AppendError(nil, msg.ID(), mcp.CodeInternal, "too many subscriptions", nil)
		}
		m.subscriptions++
	}
	if all == nil {
		all = make(map[*Conn]struct{})
		h.subscribed[strings.Clone(uri)] = all
	}
	all[m] = struct{}{}
	return nil
}

// Listen returns upstream.ErrNoStream: the stream of this session was returned when it was opened.
func (m *Conn) Listen(context.Context, upstream.ListenOptions) (upstream.Stream, error) {
	return nil, upstream.ErrNoStream
}

// Close ends the session. The process gets notifications/cancelled for each open request of the
// session.
func (m *Conn) Close(ctx context.Context) error {
	h := m.process
	var notices [][]byte
	h.mu.Lock()
	_, joined := h.conns[m]
	delete(h.conns, m)
	h.asked.Each(func(e *idmap.Entry[*Conn]) {
		if e.Of == m {
			h.leave(e)
			notices = append(notices, mcp.Cancelled(e.Given, ""))
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
	if !joined || over {
		return nil
	}
	for _, uri := range left {
		var msg wire.Message
		params := append(mcp.AppendString([]byte(`{"uri":`), uri), '}')
		if msg.Scan(mcp.Request("0", wire.ResourcesUnsubscribe, params), idmap.Shape) != nil {
			continue
		}
		if _, err := h.enter(nil, &msg); err == nil {
			notices = append(notices, msg.AppendTo(nil))
		}
	}
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
