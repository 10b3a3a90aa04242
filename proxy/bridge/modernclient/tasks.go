package modernclient

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
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// These constants bound the tasks that are held for modern clients.
const (
	maxBackedTasks = 1000
	maxTaskLife    = 24 * time.Hour
	idleTaskLife   = time.Hour // how long a task without a ttl is held after the client's last request
	questionTime   = 2 * time.Second
)

// pooledTasks holds the tasks at handshake servers that calls of modern clients have created. A
// task belongs to the principal, and to the session that its call was sent on. The number of tasks
// is bounded, and each ends with its ttl.
type pooledTasks struct {
	br *Bridge

	mu    sync.Mutex
	byKey map[taskKey]*pooledTask
	used  quota.Fair
}

type taskKey struct{ principal, id string }

// pooledTask is a task at a handshake server.
type pooledTask struct {
	br  *Bridge
	key taskKey
	by  quota.Holder
	b   *pooledSession // in use until the task is forgotten

	mu      sync.Mutex
	expires time.Time
	endless bool // the task has no ttl
	asked   pendingQuestions
	changed chan struct{}      // closed when the next question comes
	stop    context.CancelFunc // cancels the request for the task's result; nil if there is none
	over    bool
	shared  bool // the result was stored for other replicas, or is being stored

	listeners map[*subscription]bool
	telling   bool // notifyAll is running
	again     bool // notifyAll must send the state once more
}

func newPooledTasks(br *Bridge) *pooledTasks {
	return &pooledTasks{br: br, byKey: make(map[taskKey]*pooledTask)}
}

// taskPlan says whether a call becomes a task.
type taskPlan int

const (
	plainCall taskPlan = iota
	asTask             // the client receives the task
	taskHere           // the tool requires a task, and the client does not support tasks: dragoman waits for the result
)

// plan decides what becomes of the call q on b.
func (t *pooledTasks) plan(ctx context.Context, b *pooledSession, q *stateless.Request, from []upstream.Header) (taskPlan, error) {
	if q.Method != wire.ToolsCall || !b.s.About().Facts.Has(wire.ServerTasks) {
		return plainCall, nil
	}
	required, err := b.onlyAsTask(ctx, gjson.ParseBytes(q.Target).String(), from)
	switch {
	case err != nil || !required:
		return plainCall, err
	case !q.HasTasks():
		return taskHere, nil
	case !t.room(t.br.pool.holderOf(b), time.Now()):
		f := mcp.Fail(mcp.TooManyParked, "")
		f.Text = "too many tasks; try again later"
		return plainCall, f
	}
	return asTask, nil
}

// onlyAsTask reports whether a tool requires that its calls are tasks.
func (b *pooledSession) onlyAsTask(ctx context.Context, tool string, from []upstream.Header) (bool, error) {
	b.startListening(ctx, from) // first, so that no change of the list is missed
	list := b.lists(from)
	t, err := b.s.Tools().Look(ctx, tool, func(params string) ([]byte, error) { return list(ctx, params) })
	if _, refused := errors.AsType[*mcp.ServerError](err); refused {
		return false, nil // the server has no list of tools
	}
	return t.TaskOnly, err
}

// created returns the stream of a call that will become a task. The task is recorded before the
// client receives it.
func (t *pooledTasks) created(st upstream.Stream, b *pooledSession, id []byte, from []upstream.Header) upstream.Stream {
	return &taskCreation{Stream: st, of: t, b: b, id: id, from: append([]upstream.Header(nil), from...)}
}

type taskCreation struct {
	upstream.Stream
	of   *pooledTasks
	b    *pooledSession
	id   []byte
	from []upstream.Header
}

// Events gives the events of the underlying stream. Before the result that creates a task, it records the task.
func (s *taskCreation) Events(yield func(sse.Event, error) bool) {
	for e, err := range s.Stream.Events {
		if err == nil {
			e.Data = s.recorded(e.Data)
		}
		if !yield(e, err) {
			return
		}
	}
}

// recorded returns data, a message of the server. If it creates a task, recorded records the task first, and returns an error
// response if that is not possible.
func (s *taskCreation) recorded(data []byte) []byte {
	var m wire.Message
	if m.Scan(data, nil) != nil || m.Kind != wire.Result || !server.IsAbout(&m, s.id) {
		return data
	}
	task := gjson.Get(wire.View(m.Result()), "task")
	if name := task.Get("taskId"); name.Type == gjson.String && !s.of.enter(s.b, strings.Clone(name.String()), task.Get("ttl")) {
		s.of.refuse(s.b, strings.Clone(name.String()), s.from)
		return mcp.AppendError(nil, s.id, mcp.CodeInternal, "the task has the id of another task, or there are too many tasks", nil)
	}
	return data
}

// room reports whether another task of this client can be held.
func (t *pooledTasks) room(who quota.Holder, now time.Time) bool {
	t.expire(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used.HasRoom(who, maxBackedTasks)
}

// enter adds a task. It returns false if there are too many, or if the principal has a task with
// the same id.
func (t *pooledTasks) enter(b *pooledSession, id string, ttl gjson.Result) bool {
	if ttl.Type != gjson.Number {
		return t.enterFor(b, id, idleTaskLife, true)
	}
	return t.enterFor(b, id, time.Duration(min(max(ttl.Num, 0), float64(maxTaskLife/time.Millisecond)))*time.Millisecond, false)
}

// enterFor is enter for a task with this lifetime, which begins again with each request if it is endless.
func (t *pooledTasks) enterFor(b *pooledSession, id string, life time.Duration, endless bool) bool {
	k := &pooledTask{br: t.br, key: taskKey{b.key.principal, id}, by: t.br.pool.holderOf(b), b: b, changed: make(chan struct{}), endless: endless}
	k.expires = time.Now().Add(life)
	t.br.pool.retain(b)
	t.mu.Lock()
	full := t.byKey[k.key] != nil || !t.used.Acquire(k.by, maxBackedTasks)
	if !full {
		t.byKey[k.key] = k
	}
	t.mu.Unlock()
	if full {
		t.br.pool.release(b)
	} else if t.br.pool.isLost(b) { // forgetSession has run before the task was added
		t.forgetSession(b)
	} else {
		k.share(false)
	}
	return !full
}

// refuse cancels a task at the server that cannot be held. If the same session holds a task with
// the same id, nothing is cancelled, since it may be the same task.
func (t *pooledTasks) refuse(b *pooledSession, id string, from []upstream.Header) {
	k := &pooledTask{br: t.br, key: taskKey{b.key.principal, id}, b: b}
	t.mu.Lock()
	other := t.byKey[k.key]
	t.mu.Unlock()
	if other != nil && other.b == b {
		return
	}
	t.br.pool.retain(b)
	t.br.host.Spawn(func() {
		defer t.br.pool.release(b)
		ctx, stop := context.WithTimeout(context.Background(), server.NoticeTimeout)
		defer stop()
		if err := k.cancel(ctx, from); err != nil {
			t.br.host.Log.Debug("task not cancelled", zap.Error(err))
		}
	})
}

func (t *pooledTasks) count(c *Counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.Tasks = len(t.byKey)
	c.Shares += t.used.Held()
	for _, k := range t.byKey {
		k.mu.Lock()
		c.Watchers += len(k.listeners)
		k.mu.Unlock()
	}
}

// find returns the principal's task with this id, or nil.
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

// end forgets the tasks for which the function which returns true.
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
		t.br.pool.release(k.b)
	}
}

// expire forgets the expired tasks.
func (t *pooledTasks) expire(now time.Time) {
	t.end(func(k *pooledTask) bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return !now.Before(k.expires)
	})
}

// forgetSession forgets the tasks of a session that can no longer be used.
func (t *pooledTasks) forgetSession(b *pooledSession) {
	t.end(func(k *pooledTask) bool { return k.b == b })
}

// close forgets all tasks. The sessions of those that another replica can continue stay at the server.
func (t *pooledTasks) close() {
	t.end(func(k *pooledTask) bool {
		k.leave()
		return true
	})
}

// answer answers a request about a task. See
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html.
func (t *pooledTasks) answer(r *relay) error {
	q := r.q
	switch {
	case t.br.host.Config().Contract.Tasks != "bridge":
		return mcp.Fail(mcp.MethodUnknown, q.Name)
	case !q.HasTasks():
		return tasksUndeclared()
	}
	key := taskKey{r.who, gjson.ParseBytes(q.Target).String()}
	k := t.find(r.who, key.id)
	var body []byte
	var err error
	if k == nil {
		if k, body, err = t.fromStore(r, key); k == nil {
			if err == nil {
				r.box = outbox.New()
				r.box.Put(outbox.Message{Body: body, Last: true, Status: 200})
			}
			return err
		}
	}
	switch q.Method {
	case wire.TasksGet:
		var state []byte
		if state, err = k.state(r.ctx, r.from); err == nil {
			if body, err = k.clientResult(q.ID, wire.TasksGet, state, r.from); err == nil {
				k.shareResult(body)
			}
		}
	case wire.TasksUpdate:
		if q.Inputs == nil || !objects(q.Inputs) {
			return mcp.Fail(mcp.InputsInvalid, "")
		}
		k.update(q.Inputs, r.from)
		body, err = k.clientResult(q.ID, wire.TasksCancel, []byte("{}"), r.from)
	default:
		if err = k.cancel(r.ctx, r.from); err == nil {
			body, err = k.clientResult(q.ID, wire.TasksCancel, []byte("{}"), r.from)
		}
	}
	if fault, ok := errors.AsType[*mcp.ServerError](err); ok {
		return fault.Failure()
	}
	if err != nil {
		if f := clienterror.Of(err); f.Cause == mcp.UpstreamLost || f.UnknownSession() {
			t.br.pool.discard(k.b)
		}
		if body = t.storedResult(r, key); body == nil {
			return err
		}
	}
	r.box = outbox.New()
	r.box.Put(outbox.Message{Body: body, Last: true, Status: 200})
	return nil
}

// params returns the params of a request that only names the task.
func (k *pooledTask) params() []byte {
	return append(mcp.AppendString([]byte(`{"taskId":`), k.key.id), '}')
}

// ask sends the server a request about the task. The caller owns the result; the error may be the
// server's own.
func (k *pooledTask) ask(ctx context.Context, method wire.Method, from []upstream.Header) ([]byte, error) {
	return k.b.inquire(ctx, method, k.params(), from)
}

// state returns the task's state from the server, with its result or its open questions.
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
		return sjson.SetBytes(state, "status", "working") // there is no question to answer yet
	}
	return state, nil
}

// withResult adds the task's result, or its error, to the state.
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

// clientResult translates a result of the server about the task for its client.
func (k *pooledTask) clientResult(id []byte, method wire.Method, result []byte, from []upstream.Header) ([]byte, error) {
	about, down := k.b.s.About(), k.b.s.Down()
	var m wire.Message
	if err := m.Scan(mcp.AppendResult(nil, id, result), down.Shape()); err != nil {
		return nil, err
	}
	m.Method, m.Facts, m.Stamp = method, about.Facts, &wire.Stamp{ServerInfo: k.b.said.server}
	out, _, err := down.Rewrite(nil, &m)
	k.br.host.Losses.Note(about.ServerRevision, about.ClientRevision, method, m.Losses, from)
	return out, err
}

// cancel cancels the task at the server. It is no error if the task has already ended.
func (k *pooledTask) cancel(ctx context.Context, from []upstream.Header) error {
	_, err := k.ask(ctx, wire.TasksCancel, from)
	if fault, ok := errors.AsType[*mcp.ServerError](err); ok && fault.Failure().Code == mcp.CodeInvalidParams {
		return nil
	}
	return err
}
