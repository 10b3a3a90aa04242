package share

import (
	"context"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var _ upstream.Conn = (*Conn)(nil)

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
		if m.subscribe(msg) {
			m.enqueue(mcp.AppendResult(nil, msg.ID(), "{}"), true)
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

// subscribe notes how a request changes the session's subscriptions. It reports whether that is
// enough, since other sessions are still subscribed to the resource: then the process does not get the
// request.
func (m *Conn) subscribe(msg *wire.Message) (enough bool) {
	uri := gjson.Get(wire.View(msg.Params()), "uri").String()
	h := m.process
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.subscribed[uri]
	if msg.Method == wire.ResourcesUnsubscribe {
		delete(all, m)
		return len(all) > 0
	}
	if all == nil {
		all = make(map[*Conn]struct{})
		h.subscribed[strings.Clone(uri)] = all
	}
	all[m] = struct{}{}
	return false
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

// Join begins a session with the process, and starts the process for the first session. The
// session's initialize is answered without the process.
func (sh *Sharing) Join(ctx context.Context, proxy *Proxy, initialize *upstream.Outgoing) (*upstream.Begun, error) {
	select {
	case sh.turn <- struct{}{}:
		defer func() { <-sh.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	sh.mu.Lock()
	h := sh.process
	sh.mu.Unlock()
	for range 2 {
		if h == nil {
			var err error
			if h, err = sh.start(ctx, proxy); err != nil {
				return nil, clienterror.Of(err).WithoutID() // the id in it is of our own initialize
			}
		}
		if m := h.newConn(); m != nil {
			if _, err := m.Send(ctx, initialize); err != nil {
				server.End(m, proxy.Host.Log)
				return nil, err
			}
			return &upstream.Begun{Conn: m, Standing: stream{Conn: m}}, nil
		}
		h = nil // the process has just ended
	}
	return nil, upstream.ErrClosed
}

// start starts the process. The caller holds the turn.
func (sh *Sharing) start(ctx context.Context, proxy *Proxy) (*process, error) {
	h, err := newProcess(ctx, proxy)
	if err != nil {
		return nil, err
	}
	h.of = sh
	sh.mu.Lock()
	sh.process = h
	sh.mu.Unlock()
	go h.read()
	return h, nil
}

// Retire makes the process end with the last session that it serves.
func (sh *Sharing) Retire() {
	sh.mu.Lock()
	sh.retired = true
	h := sh.process
	sh.endModern()
	sh.mu.Unlock()
	if h != nil && h.isUnused() {
		h.host.Spawn(h.close)
	}
}

// Close ends the process.
func (sh *Sharing) Close() {
	sh.mu.Lock()
	h := sh.process
	plain := sh.modern
	sh.modern = nil
	sh.mu.Unlock()
	if h != nil {
		h.close()
	}
	if plain != nil {
		server.End(plain, plain.host.Log)
	}
}
