package proxy

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/quota"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Bounds of the tasks that are held for clients without a session.
const (
	maxBackedTasks = 1000
	maxTaskLife    = 24 * time.Hour
	idleTaskLife   = time.Hour // of a task without a ttl that no client asks for
	questionTime   = 2 * time.Second
)

// backedTasks are the tasks that calls of clients without a session have become at
// a server with sessions. Each lives on the session that its call was sent on, and is
// its principal's. Their number is bounded, and each ends with its ttl.
type pooledTasks struct {
	srv *Server

	mu    sync.Mutex
	byKey map[taskKey]*pooledTask
	used  quota.Fair
}

type taskKey struct{ principal, id string }

// backedTask is one of them.
type pooledTask struct {
	srv *Server
	key taskKey
	by  quota.Holder
	b   *pooledSession // in use until the task is forgotten

	mu      sync.Mutex
	expires time.Time
	endless bool               // it has no ttl of its own
	asked   []pendingQuestion  // and not answered yet
	count   int                // questions of the task
	changed chan struct{}      // closed when the next one comes
	stop    context.CancelFunc // ends the wait for its result, nil while there is none
	over    bool

	listeners map[*subscription]bool
	telling   bool // they are being told
	again     bool // and shall be once more
}

func newPooledTasks(srv *Server) *pooledTasks {
	return &pooledTasks{srv: srv, byKey: make(map[taskKey]*pooledTask)}
}

// taskPlan is what becomes of a call, as far as tasks go.
type taskPlan int

const (
	plainCall taskPlan = iota
	asTask             // the client gets the task
	taskHere           // the tool wants one, and the client has none: it is ours
)

// plan is what becomes of q on b.
func (t *pooledTasks) plan(ctx context.Context, b *pooledSession, q *modernRequest, from []upstream.Header) (taskPlan, error) {
	if q.method != wire.ToolsCall || !b.s.Facts.Has(wire.ServerTasks) {
		return plainCall, nil
	}
	required, err := b.onlyAsTask(ctx, t.srv, gjson.ParseBytes(q.target).String(), from)
	switch {
	case err != nil || !required:
		return plainCall, err
	case !q.hasTasks():
		return taskHere, nil
	case !t.room(t.srv.pool.holderOf(b), time.Now()):
		f := mcp.Fail(mcp.TooManyParked, "")
		f.Text = "too many tasks"
		return plainCall, f
	}
	return asTask, nil
}

// hasTasks reports whether the client of q has declared the extension.
func (q *modernRequest) hasTasks() bool { return mcp.DeclaresTasks(gjson.ParseBytes(q.capabilities)) }

// onlyAsTask reports whether a tool only runs as a task.
func (b *pooledSession) onlyAsTask(ctx context.Context, srv *Server, tool string, from []upstream.Header) (bool, error) {
	b.startListening(ctx, srv, from) // a change from here on is one of what we know
	t, err := b.s.tools.Look(ctx, tool, func(params string) ([]byte, error) { return b.list(ctx, srv, params, from) })
	if _, refused := errors.AsType[*mcp.ServerError](err); refused {
		return false, nil // it lists none
	}
	return t.TaskOnly, err
}

// born is the stream of a call that is to be a task: where it has become one, that is
// known before the client knows of it.
func (t *pooledTasks) created(st upstream.Stream, b *pooledSession, id []byte, from []upstream.Header) upstream.Stream {
	return &taskCreation{Stream: st, of: t, b: b, key: string(wire.AppendIDKey(nil, id)), id: id, from: append([]upstream.Header(nil), from...)}
}

type taskCreation struct {
	upstream.Stream
	of  *pooledTasks
	b   *pooledSession
	key string
	id  []byte

	from []upstream.Header
}

// Next returns the next event of the underlying stream. If the event is the result that creates a
// task, Next records the task first, and replaces the result by an error if the task cannot be
// recorded.
func (s *taskCreation) Next() (sse.Event, error) {
	e, err := s.Stream.Next()
	var m wire.Message
	if err != nil || m.Scan(e.Data, nil) != nil || m.Kind != wire.Result || string(wire.AppendIDKey(nil, m.ID())) != s.key {
		return e, err
	}
	task := gjson.Get(wire.View(m.Result()), "task")
	if name := task.Get("taskId"); name.Type == gjson.String && !s.of.enter(s.b, strings.Clone(name.String()), task.Get("ttl")) {
		s.of.refuse(s.b, strings.Clone(name.String()), s.from)
		e.Data = mcp.AppendError(nil, s.id, mcp.CodeInternal, "the task cannot be told from others, or is one too many", nil)
	}
	return e, nil
}

// room reports whether one more task of this holder can be held.
func (t *pooledTasks) room(who quota.Holder, now time.Time) bool {
	t.expire(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used.HasRoom(who, maxBackedTasks)
}

// enter takes a task in; false where there is no room, or another of that name.
func (t *pooledTasks) enter(b *pooledSession, id string, ttl gjson.Result) bool {
	k := &pooledTask{srv: t.srv, key: taskKey{b.key.principal, id}, by: t.srv.pool.holderOf(b), b: b, changed: make(chan struct{})}
	k.endless = ttl.Type != gjson.Number
	life := idleTaskLife
	if !k.endless {
		life = time.Duration(min(max(ttl.Num, 0), float64(maxTaskLife/time.Millisecond))) * time.Millisecond
	}
	k.expires = time.Now().Add(life)
	t.srv.pool.retain(b)
	t.mu.Lock()
	full := t.byKey[k.key] != nil || !t.used.Acquire(k.by, maxBackedTasks)
	if !full {
		t.byKey[k.key] = k
	}
	t.mu.Unlock()
	if full {
		t.srv.pool.release(b)
	} else if t.srv.pool.isLost(b) { // since before it was there to be forgotten
		t.forgetSession(b)
	}
	return !full
}

// refuse has the server end a task that there is no room for. One of the same name that
// is held on the same session is not told from it, and goes on.
func (t *pooledTasks) refuse(b *pooledSession, id string, from []upstream.Header) {
	k := &pooledTask{srv: t.srv, key: taskKey{b.key.principal, id}, b: b}
	t.mu.Lock()
	other := t.byKey[k.key]
	t.mu.Unlock()
	if other != nil && other.b == b {
		return
	}
	t.srv.pool.retain(b)
	t.srv.host.Spawn(func() {
		defer t.srv.pool.release(b)
		ctx, stop := context.WithTimeout(context.Background(), server.NoticeTimeout)
		defer stop()
		if err := k.cancel(ctx, from); err != nil {
			t.srv.host.Log.Debug("task not cancelled", zap.Error(err))
		}
	})
}

// find is the task of this principal, nil for none.
func (t *pooledTasks) find(who, id string) *pooledTask {
	t.mu.Lock()
	k := t.byKey[taskKey{who, id}]
	t.mu.Unlock()
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if !now.Before(k.expires) {
		return nil
	}
	if k.endless {
		k.expires = now.Add(idleTaskLife)
	}
	return k
}

// end forgets the tasks that which says yes to.
func (t *pooledTasks) end(which func(*pooledTask) bool) {
	var gone []*pooledTask
	t.mu.Lock()
	for key, k := range t.byKey {
		if which(k) {
			gone = append(gone, k)
			delete(t.byKey, key)
			t.used.Release(k.by)
		}
	}
	t.mu.Unlock()
	for _, k := range gone {
		k.mu.Lock()
		k.over = true
		stop := k.stop
		k.mu.Unlock()
		if stop != nil {
			stop()
		}
		t.srv.pool.release(k.b)
	}
}

// tend forgets what has expired by now.
func (t *pooledTasks) expire(now time.Time) {
	t.end(func(k *pooledTask) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return !now.Before(k.expires)
	})
}

// lost forgets the tasks of a session that is of no more use.
func (t *pooledTasks) forgetSession(b *pooledSession) {
	t.end(func(k *pooledTask) bool { return k.b == b })
}

// close forgets all of them.
func (t *pooledTasks) close() { t.end(func(*pooledTask) bool { return true }) }

// answer answers a request about a task. See
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html.
func (t *pooledTasks) answer(r *relay) error {
	q := r.q
	switch {
	case t.srv.now().cfg.Contract.Tasks != "bridge":
		return mcp.Fail(mcp.MethodUnknown, q.name)
	case !q.hasTasks():
		return tasksUndeclared()
	}
	k := t.find(r.who, gjson.ParseBytes(q.target).String())
	if k == nil {
		return mcp.Saying(mcp.CodeInvalidParams, "Task not found")
	}
	var body []byte
	var err error
	switch q.method {
	case wire.TasksGet:
		var state []byte
		if state, err = k.state(r.ctx, r.from); err == nil {
			body, err = k.clientResult(q.id, wire.TasksGet, state, r.from)
		}
	case wire.TasksUpdate:
		if q.inputs == nil || !objects(q.inputs) {
			return mcp.Fail(mcp.InputsInvalid, "")
		}
		k.update(q.inputs, r.from)
		body, err = k.clientResult(q.id, wire.TasksCancel, []byte("{}"), r.from)
	default:
		if err = k.cancel(r.ctx, r.from); err == nil {
			body, err = k.clientResult(q.id, wire.TasksCancel, []byte("{}"), r.from)
		}
	}
	if fault, ok := errors.AsType[*mcp.ServerError](err); ok {
		return fault.Failure()
	}
	if err != nil {
		if f := clienterror.Of(err); f.Cause == mcp.UpstreamLost || f.UnknownSession() {
			t.srv.pool.discard(k.b)
		}
		return err
	}
	r.mu.Lock()
	r.box = outbox.New()
	r.mu.Unlock()
	r.box.Put(outbox.Message{Body: body, Last: true, Status: 200})
	return nil
}

// params are those of a request about the task, and nothing else.
func (k *pooledTask) params() []byte {
	return append(mcp.AppendString([]byte(`{"taskId":`), k.key.id), '}')
}

// ask asks the server about the task. The result is the caller's; the error may be
// the server's own.
func (k *pooledTask) ask(ctx context.Context, method wire.Method, from []upstream.Header) ([]byte, error) {
	return k.b.inquire(ctx, k.srv, method, k.params(), from)
}

// state is the task as the server says it is, with what came of it or what it asks.
func (k *pooledTask) state(ctx context.Context, from []upstream.Header) ([]byte, error) {
	state, err := k.ask(ctx, wire.TasksGet, from)
	if err != nil {
		return nil, err
	}
	switch gjson.GetBytes(state, "status").String() {
	case "completed", "failed":
		return k.withResult(ctx, state, from)
	case "input_required":
		if inputs := k.inputs(ctx, from); inputs != nil {
			return sjson.SetRawBytes(state, "inputRequests", inputs)
		}
		return sjson.SetBytes(state, "status", "working") // nothing is to be answered, yet
	}
	return state, nil
}

// withResult puts into the state what came of the task.
func (k *pooledTask) withResult(ctx context.Context, state []byte, from []upstream.Header) ([]byte, error) {
	result, err := k.ask(ctx, wire.TasksResult, from)
	if fault, ok := errors.AsType[*mcp.ServerError](err); ok {
		if state, err = sjson.SetBytes(state, "status", "failed"); err != nil {
			return nil, err
		}
		return sjson.SetRawBytes(state, "error", fault.Raw)
	}
	if err != nil {
		return nil, err
	}
	return sjson.SetRawBytes(state, "result", result)
}

// told is a result of the server about the task as its client gets it.
func (k *pooledTask) clientResult(id []byte, method wire.Method, result []byte, from []upstream.Header) ([]byte, error) {
	s := k.b.s
	var m wire.Message
	if err := m.Scan(mcp.AppendResult(nil, id, result), s.down.Shape()); err != nil {
		return nil, err
	}
	m.Method, m.Facts, m.Stamp = method, s.Facts, &wire.Stamp{ServerInfo: k.b.said.server}
	out, _, err := s.down.Rewrite(nil, &m)
	k.srv.host.Losses.Note(s.ServerRevision, s.ClientRevision, method, m.Losses, from)
	return out, err
}

// cancel has the server end the task. That it is over already is no error here.
func (k *pooledTask) cancel(ctx context.Context, from []upstream.Header) error {
	_, err := k.ask(ctx, wire.TasksCancel, from)
	if fault, ok := errors.AsType[*mcp.ServerError](err); ok && fault.Failure().Code == mcp.CodeInvalidParams {
		return nil
	}
	return err
}
