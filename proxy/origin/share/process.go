package share

import (
	"bytes"
	"context"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/origin/restart"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxKept is the largest message for which the memory of the reader is kept.
const maxKept = 64 << 10

// Proxy is what a Sharing needs of the proxy.
type Proxy struct {
	Host *host.Host
	Eras *era.Cache
	// Connect begins a session with the server, and Open opens a connection without sending a message, both by the
	// configuration in force.
	Connect func(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error)
	Open    func(ctx context.Context) (*upstream.Begun, error)
	// Streams returns the connection to a modern server whose requests have streams of their own.
	Streams func(conn upstream.Conn, standing upstream.Stream) Streams
}

// An owner has a process.
type owner interface {
	gone(h *process) // it has ended
	isRetired() bool // it ends with its last session
}

// A process is the process while it runs, with the sessions that it serves.
type process struct {
	host   *host.Host
	of     owner
	conn   upstream.Conn
	st     upstream.Stream
	result []byte        // the InitializeResult that sessions get
	ended  chan struct{} // closed when read has returned

	msg wire.Message // used by read only

	waiting waiting
	replies pipes.Replies

	mu         sync.Mutex
	err        error // why the process has ended; nil while it runs
	conns      map[*Conn]struct{}
	asked      idmap.Table[openRequest]
	subscribed map[string]map[*Conn]*subscription
	wanted     map[*idmap.Entry[openRequest]]*subscription // of the open requests that subscribe
}

// openRequest is a request that has no response yet.
type openRequest struct {
	*Conn // of the session that has sent it; nil for dragoman's own
	way   pipes.Sending
}

// unshareable holds the capabilities that sessions are not offered, since one session's use affects the others.
var unshareable = [...]string{"capabilities.logging", "capabilities.tasks"}

// newProcess starts the process and does the handshake.
func newProcess(ctx context.Context, proxy *Proxy) (*process, error) {
	hs := &pipes.Opening{Of: proxy.Host, ID: []byte("0")}
	m, err := proxy.introduceAll(ctx, hs)
	var vu *translate.Revision
	if err == nil {
		vu, err = spoken(m)
	}
	if err != nil {
		if hs.Conn != nil {
			pipes.End(hs.Conn, proxy.Host.Log)
		}
		return nil, err
	}
	h := &process{
		host: proxy.Host, conn: hs.Conn, st: hs.Standing, result: bytes.Clone(m.Result()),
		ended: make(chan struct{}), conns: make(map[*Conn]struct{}),
		subscribed: make(map[string]map[*Conn]*subscription), wanted: make(map[*idmap.Entry[openRequest]]*subscription),
	}
	for _, path := range unshareable {
		if out, err := sjson.DeleteBytes(h.result, path); err == nil {
			h.result = out
		}
	}
	if proxy.Host.Config().Upstream.Restart.Max > 0 {
		r := restart.Over(proxy.Host, proxy.Eras, hs, restart.Options{Connect: proxy.Connect, Version: vu.Name})
		h.conn, h.st = r, r.Stream()
	}
	if _, err := h.conn.Send(ctx, &upstream.Outgoing{Body: mcp.Notification(wire.Initialized, "")}); err != nil {
		pipes.End(h.conn, proxy.Host.Log)
		return nil, err
	}
	return h, nil
}

// introduceAll sends initialize with one revision after the other until the server accepts
// one. It returns the server's last response.
func (p *Proxy) introduceAll(ctx context.Context, h *pipes.Opening) (*wire.Message, error) {
	steps := p.Eras.Proposals(nil, nil, nil)
	for {
		m, err := p.introduce(ctx, h, steps.Next())
		if err == nil && m.Kind == wire.Result {
			steps.Accepted(m)
			return m, nil
		}
		if err == nil {
			next, err := era.Rejected(m)
			if err != nil {
				return nil, err
			}
			if next != nil && steps.Only(next) {
				continue
			}
		}
		if !steps.GoOn(m, err) {
			return m, err
		}
		if conn := h.Conn; conn != nil {
			p.Host.Spawn(func() { pipes.End(conn, p.Host.Log) })
		}
		h.Begun, h.Early = upstream.Begun{}, nil
	}
}

// introduce sends dragoman's own initialize and returns the response.
func (p *Proxy) introduce(ctx context.Context, h *pipes.Opening, v *translate.Revision) (m *wire.Message, err error) {
	h.Sent = era.Introduction(v)
	out := &upstream.Outgoing{Body: h.Sent, Request: true}
	span := telemetry.Ask(ctx, out, v.Name)
	defer func() {
		span.Answered(m)
		span.Done(err)
	}()
	if h.Conn == nil {
		b, err := p.Connect(ctx, out)
		if err != nil {
			return nil, err
		}
		h.Begun = *b
	} else if _, err := h.Conn.Send(ctx, out); err != nil {
		return nil, err
	}
	return h.Await(ctx, h.Standing)
}

// spoken returns the revision that the response to initialize names.
func spoken(m *wire.Message) (*translate.Revision, error) {
	if m.Kind == wire.Error {
		return nil, mcp.Fail(mcp.UpstreamDown, gjson.Get(wire.View(m.Error()), "message").String())
	}
	return era.Agreed(m, nil)
}

// newConn makes a connection for a new session of this client. It returns nil if the process has ended.
func (h *process) newConn(client string) *Conn {
	m := &Conn{process: h, client: quota.Holder{Principal: client}, kept: h.host.Memory().Holding(), signal: make(chan struct{}, 1)}
	m.queue.Limit(h.host.Config().Limits, m.kept)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil
	}
	h.conns[m] = struct{}{}
	return m
}

func (h *process) isUnused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns) == 0
}

// close ends the process, and returns when it has ended.
func (h *process) close() {
	pipes.End(h.conn, h.host.Log)
	h.st.Close()
	<-h.ended
}

// read reads the process's messages and gives them to the sessions, until the stream ends.
func (h *process) read() {
	defer close(h.ended)
	defer h.st.Close()
	defer pipes.End(h.conn, h.host.Log) // no session does it, and it takes a place until then
	defer func() {
		if p := recover(); p != nil {
			h.host.Report.Panicked(p)
			h.end(mcp.Fail(mcp.Panicked, ""))
		}
	}()
	var pieces [][]byte
	for e, err := range h.st.Events {
		e, err, ok := pipes.Replaced(e, err, h.host)
		switch {
		case !ok:
			continue
		case pipes.Restarts(err):
			h.failOpen(err)
			continue
		case pipes.Skipped(err) != nil:
			h.host.Report.Dropped("too_large")
			h.failOpen(err)
			continue
		case err != nil:
			h.end(err)
			return
		}
		pieces = append(pieces[:0], e.Data)
		if wire.IsArray(e.Data) {
			if pieces, err = wire.AppendElements(pieces[:0], e.Data, h.host.Config().Limits.Batch); err != nil {
				h.host.Report.Dropped("malformed")
				continue
			}
		}
		for _, piece := range pieces {
			if pipes.Scan(&h.msg, piece, h.host, h.answered) != nil {
				h.host.Report.Dropped("malformed")
				continue
			}
			h.dispatch(&h.msg)
		}
		if len(e.Data) > maxKept {
			h.msg = wire.Message{}
		}
	}
}

// answered returns the process's id of the open request that a response with this id answers, and for nil that of the only open
// request; "" for none.
func (h *process) answered(id []byte) (given string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.asked.Only()
	if id != nil {
		e = h.asked.Asked(id)
	}
	if e != nil {
		given = e.Given
	}
	return given
}

// dispatch gives a message of the process to the sessions that it is for.
func (h *process) dispatch(m *wire.Message) {
	if m.Kind == wire.Request {
		h.refuse(m)
		return
	}
	switch {
	case m.Kind.Response():
		h.mu.Lock()
		e := h.asked.Answered(m)
		if e != nil && idmap.AsText(m) {
			h.host.Quirk(mcp.TextID)
		}
		if e != nil && e.Of.Conn != nil {
			e.Of.open--
			h.settleLocked(e, m.Kind == wire.Error)
		}
		h.mu.Unlock()
		switch {
		case e == nil:
			h.host.Report.Dropped("late_answer")
		case e.Of.Conn != nil:
			e.Of.enqueue(h.answer(e, m), true)
		}
	case m.Method == wire.Progress:
		h.mu.Lock()
		e, _ := h.asked.About(m)
		h.mu.Unlock()
		if e == nil || e.Of.Conn == nil {
			h.host.Report.Dropped("unattributed")
			return
		}
		e.Of.enqueue(m.AppendTo(nil), false)
	case m.Method == wire.ToolsListChanged, m.Method == wire.PromptsListChanged, m.Method == wire.ResourcesListChanged:
		h.mu.Lock()
		defer h.mu.Unlock()
		for each := range h.conns {
			each.enqueue(bytes.Clone(m.Raw), false)
		}
	case m.Method == wire.ResourcesUpdated:
		h.mu.Lock()
		defer h.mu.Unlock()
		for each := range h.subscribed[gjson.Get(wire.View(m.Params()), "uri").String()] {
			each.enqueue(bytes.Clone(m.Raw), false)
		}
	default:
		h.host.Report.Dropped("unattributed")
	}
}

// answer returns the response m for the session that has sent the request. A large response waits for memory.
func (h *process) answer(e *idmap.Entry[openRequest], m *wire.Message) []byte {
	room, err := h.host.Memory().Alloc(context.Background(), large.AnswerWait, large.Copy, len(m.Raw)+m.Growth())
	if err != nil {
		return h.host.Report.Failed(err, report.At{}).About([]byte(e.ID)).Body()
	}
	return m.AppendTo(room)
}

// refuse answers a request of the process, which no client can answer as it belongs to no session: a ping
// with a result, all others with "Method not found".
func (h *process) refuse(m *wire.Message) {
	answer := mcp.AppendResult(nil, m.ID(), "{}")
	if m.Method != wire.Ping {
		answer = mcp.AppendError(nil, m.ID(), mcp.CodeMethodNotFound, "Method not found: "+string(m.MethodName()), nil)
	}
	if !h.replies.Put(h.host, h.conn, answer, nil) {
		h.host.Report.Dropped("queue_full")
	}
}

// failOpen answers all open requests with err: another process replaces the one they were sent to, or it is not known which of
// them a message has answered that was too large.
func (h *process) failOpen(err error) {
	f := report.FailureOf(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked.Each(func(e *idmap.Entry[openRequest]) {
		if e.Of.Conn != nil {
			e.Of.open = 0
			h.settleLocked(e, false) // the next process is asked for it
			lost := *f
			told := h.host.Report.Failed(&lost, report.At{})
			e.Of.enqueue(mcp.AppendError(nil, []byte(e.ID), told.Code, told.Text, nil), true)
		}
	})
	h.asked.Clear()
}

// A subscription is that of one session to one resource. It lasts if the process has accepted one of its requests, or may have.
type subscription struct {
	uri      string
	open     int  // the number of its requests that have no response
	accepted bool // a request was accepted, or ended without a response
}

// size returns how many bytes a subscription to a resource takes.
func size(uri string) int { return 2*len(uri) + pipes.SubscriptionOverhead }

// wantLocked notes that the open request e subscribes to a resource; h.mu must be held. What [Conn.mayHold] has counted
// for it belongs to the subscription.
func (h *process) wantLocked(e *idmap.Entry[openRequest], uri string) {
	all := h.subscribed[uri]
	if all == nil {
		all = make(map[*Conn]*subscription)
		h.subscribed[strings.Clone(uri)] = all
	}
	s := all[e.Of.Conn]
	if s == nil {
		s = &subscription{uri: strings.Clone(uri)}
		all[e.Of.Conn] = s
		e.Of.subscriptions++
		e.Of.subscribed += size(uri)
	}
	s.open++
	h.wanted[e] = s
}

// settleLocked ends a request that was noted by wantLocked. If the process has refused all of the session's requests for the
// resource, the session is not subscribed. h.mu must be held.
func (h *process) settleLocked(e *idmap.Entry[openRequest], refused bool) {
	s := h.wanted[e]
	if s == nil {
		return
	}
	delete(h.wanted, e)
	s.open--
	s.accepted = s.accepted || !refused
	if s.open == 0 && !s.accepted && h.subscribed[s.uri][e.Of.Conn] == s {
		h.unsubscribeLocked(e.Of.Conn, s.uri)
	}
}

// unsubscribeLocked removes a subscription, if there is one; h.mu must be held.
func (h *process) unsubscribeLocked(m *Conn, uri string) {
	all := h.subscribed[uri]
	if all[m] == nil {
		return
	}
	m.subscriptions--
	m.subscribed -= size(uri)
	m.kept.Drop(size(uri))
	if delete(all, m); len(all) == 0 {
		delete(h.subscribed, uri)
	}
}

// isOpen reports whether a request has no response yet.
func (h *process) isOpen(e *idmap.Entry[openRequest]) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked.Has(e)
}

// end ends all sessions with err, since the process has ended and will not be restarted.
func (h *process) end(err error) {
	h.of.gone(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
	h.asked.Clear()
	clear(h.wanted)
	for m := range h.conns {
		m.finish(err)
	}
}

// A Conn is the connection of one session with a shared process.
type Conn struct {
	process *process
	client  quota.Holder

	open, subscriptions int // the numbers of open requests and of subscriptions; guarded by process.mu
	subscribed          int // the bytes of the subscriptions; guarded by process.mu

	kept *large.Holding // counts the subscriptions, and what waits in the queue

	signal chan struct{} // receives a value when queue or err may have changed

	mu    sync.Mutex
	queue pipes.Queue
	err   error // set when no more messages will come
}

// enqueue gives the session a message, whose bytes the session then owns. If the queue is full, only a
// message that is not firm may be dropped.
func (m *Conn) enqueue(message []byte, firm bool) {
	m.mu.Lock()
	dropped := m.queue.Put(message, firm)
	m.mu.Unlock()
	m.wake()
	for range dropped {
		m.process.host.Report.Dropped("queue_full")
	}
}

func (m *Conn) finish(err error) {
	m.mu.Lock()
	if m.err == nil {
		m.err = err
	}
	m.mu.Unlock()
	m.wake()
}

func (m *Conn) wake() {
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

// enter gives a request a unique id. If too many requests of one session are open, enter drops
// the oldest, assuming that its client does not wait for it any more. by is nil for dragoman's own requests.
func (h *process) enter(by *Conn, msg *wire.Message) (*idmap.Entry[openRequest], error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.enterLocked(by, msg)
}

// enterLocked is enter; h.mu must be held.
func (h *process) enterLocked(by *Conn, msg *wire.Message) (*idmap.Entry[openRequest], error) {
	if h.err != nil {
		return nil, h.err
	}
	if by != nil {
		if by.open >= h.host.Config().Limits.OpenRequests {
			h.leave(h.asked.Oldest(func(e *idmap.Entry[openRequest]) bool { return e.Of.Conn == by }))
		}
		by.open++
	}
	return h.asked.Enter(msg, openRequest{Conn: by}), nil
}

// leave ends a request without a response. The caller holds h.mu.
func (h *process) leave(e *idmap.Entry[openRequest]) {
	if e == nil || !h.asked.Has(e) {
		return
	}
	h.asked.Leave(e)
	h.settleLocked(e, false) // the process may have accepted it
	if e.Of.Conn != nil {
		e.Of.open--
	}
}

// cancel ends the request of m that the cancellation msg names by this key, and puts into msg the
// id by which the process knows the request. It returns false if the cancellation is not to be sent now: there is no such request, or
// it is being sent, or will not be.
func (h *process) cancel(m *Conn, key string, msg *wire.Message, header []mcp.Header) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.asked.Newest(func(e *idmap.Entry[openRequest]) bool { return e.Of.Conn == m && e.Key == key })
	if e == nil {
		return false
	}
	e.Cancel(msg)
	h.leave(e)
	return e.Of.way.Cancel(msg.AppendTo(nil), header)
}
