package modernclient

import (
	"errors"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// pooledTasks holds the tasks at handshake servers that calls of modern clients have created. A
// task belongs to the principal, and to the session that its call was sent on. The number of tasks
// is bounded, and each ends with its ttl.
type pooledTasks struct {
	taskStore
	pool *sessionPool

	mu    sync.Mutex
	byKey map[taskKey]*pooledTask
	used  quota.Fair
}

func newPooledTasks(o *Options) *pooledTasks {
	return &pooledTasks{taskStore: taskStore{o}, byKey: make(map[taskKey]*pooledTask)}
}

// room reports whether another task of this client can be held.
func (t *pooledTasks) room(who quota.Holder, now time.Time) bool {
	t.expire(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used.HasRoom(who, maxBackedTasks)
}

// tooManyTasks returns the error for a client whose task cannot be held.
func tooManyTasks() error {
	f := mcp.Fail(mcp.TooManyParked, "")
	f.Text = "too many tasks; try again later"
	return f
}

// taskOverhead is about how many bytes a task takes besides its id and its questions.
const taskOverhead = 512

// enter adds a task. It returns false if there are too many, or no room for it, or if the principal has a task with
// the same id.
func (t *pooledTasks) enter(b *pooledSession, id string, ttl gjson.Result) bool {
	if ttl.Type != gjson.Number {
		return t.enterFor(b, id, idleTaskLife, true)
	}
	return t.enterFor(b, id, time.Duration(min(max(ttl.Num, 0), float64(maxTaskLife/time.Millisecond)))*time.Millisecond, false)
}

// enterFor is enter for a task with this lifetime, which begins again with each request if it is endless.
func (t *pooledTasks) enterFor(b *pooledSession, id string, life time.Duration, endless bool) bool {
	k := &pooledTask{key: taskKey{b.key.principal, id}, by: t.pool.holderOf(b), b: b, changed: make(chan struct{}), endless: endless, listeners: map[*listener]bool{}}
	k.expires, k.held = time.Now().Add(life), t.Host.Memory().Holding()
	room := k.held.Keep(2*len(id)+taskOverhead) == nil
	t.pool.retain(b)
	t.mu.Lock()
	full := !room || t.byKey[k.key] != nil || !t.used.Acquire(k.by, maxBackedTasks)
	if !full {
		t.byKey[k.key] = k
	}
	t.mu.Unlock()
	if full {
		k.held.Close()
		t.pool.release(b)
	} else if t.pool.isLost(b) { // forgetSession has run before the task was added
		t.forgetSession(b)
	} else {
		t.share(k, false)
	}
	return !full
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
		k.held.Close()
		t.pool.release(k.b)
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
		t.leave(k)
		return true
	})
}

// route gives the questions that name a task of b to that task, and returns the others.
func (t *pooledTasks) route(b *pooledSession, list []crossing.Question) (others []crossing.Question) {
	for _, q := range list {
		if q.Task != "" {
			if k := t.find(b.key.principal, q.Task); k != nil && k.b == b {
				k.add([]crossing.Question{q})
				continue
			}
		}
		others = append(others, q)
	}
	return others
}

// withdraw implements sessionTasks.
func (t *pooledTasks) withdraw(b *pooledSession, question string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.byKey {
		if k.b == b {
			k.withdraw(question)
		}
	}
}

// subscribe subscribes l, which is the client of c, to these tasks, and returns those whose notifications it will receive.
func (t *pooledTasks) subscribe(c caller, l *listener, ids []gjson.Result) (list []*pooledTask, err error) {
	switch {
	case len(ids) == 0 || t.Host.Config().Contract.Tasks != "bridge":
		return nil, nil
	case !c.q.HasTasks():
		return nil, lacking(needsTasks)
	}
	for n, id := range ids {
		if id.Type != gjson.String || n >= maxListened {
			continue
		}
		if k := t.find(c.who, id.String()); k != nil && k.b.startListening(c.ctx, l.from) {
			k.mu.Lock()
			k.listeners[l] = true
			k.mu.Unlock()
			list = append(list, k)
		}
	}
	return list, nil
}

// changed implements sessionTasks.
func (t *pooledTasks) changed(b *pooledSession, notification []byte) {
	k := t.find(b.key.principal, gjson.GetBytes(notification, "params.taskId").String())
	if k == nil || k.b != b {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case len(k.listeners) == 0 || k.over:
	case k.telling:
		k.again = true
	default:
		k.telling = true
		t.Host.Spawn(k.notifyAll)
	}
}

// answer returns the response to a request about a task. See
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html.
func (t *pooledTasks) answer(c caller) (body []byte, err error) {
	q := c.q
	switch {
	case t.Host.Config().Contract.Tasks != "bridge":
		return nil, mcp.Fail(mcp.MethodUnknown, q.Name)
	case !q.HasTasks():
		return nil, lacking(needsTasks)
	}
	key := taskKey{c.who, gjson.ParseBytes(q.Target).String()}
	k := t.find(c.who, key.id)
	if k == nil {
		if k, body, err = t.fromStore(c, key); k == nil {
			return body, err
		}
	}
	switch q.Method {
	case wire.TasksGet:
		var state []byte
		if state, err = k.state(c.ctx, c.from); err == nil {
			if body, err = k.clientResult(q.ID, wire.TasksGet, state, c.from); err == nil {
				t.shareResult(k, body)
			}
		}
	case wire.TasksUpdate:
		if q.Inputs == nil || !objects(q.Inputs) {
			return nil, mcp.Fail(mcp.InputsInvalid, "")
		}
		k.update(q.Inputs, c.from)
		body, err = k.clientResult(q.ID, wire.TasksCancel, []byte("{}"), c.from)
	default:
		if err = k.cancel(c.ctx, c.from); err == nil {
			body, err = k.clientResult(q.ID, wire.TasksCancel, []byte("{}"), c.from)
		}
	}
	if fault, ok := errors.AsType[*mcp.ServerError](err); ok {
		return nil, fault.Failure()
	}
	if err != nil {
		f := report.FailureOf(err)
		if f.Cause == mcp.UpstreamLost || f.UnknownSession() {
			k.b.discard()
		}
		if stored, absent := t.result(c, key); absent == nil {
			return stored, nil
		}
		if f.UnknownSession() { // the server has lost the task with its session, of which the client does not know
			at := k.b.at(c.from)
			at.Method = q.Name
			t.Host.Report.Failed(err, at)
			return nil, unknownTask()
		}
		return nil, err
	}
	return body, nil
}

func unknownTask() error { return mcp.Saying(mcp.CodeInvalidParams, "Task not found") }

// fromStore answers a request about a task that this replica does not have. It returns the task if the replica continues
// in its session; otherwise, body is the response.
func (t *pooledTasks) fromStore(c caller, key taskKey) (k *pooledTask, body []byte, err error) {
	unknown := unknownTask()
	rec, err := t.stored(c.ctx, key)
	switch {
	case err != nil:
		return nil, nil, err
	case rec == nil:
		return nil, nil, unknown
	case rec.Done && c.q.Method == wire.TasksGet:
		if body, err = t.result(c, key); err == nil {
			return nil, body, nil
		}
		if !errors.Is(err, store.ErrAbsent) {
			return nil, nil, mcp.Saying(mcp.CodeInternal, "the task's result is kept in a store that cannot be reached now; try again later")
		}
	}
	if rec.Session == "" || rec.Home == t.Instance {
		return nil, nil, unknown
	}
	if _, err := fit(c.q); err != nil {
		return nil, nil, err
	}
	s, ok := t.Proxy.Reopen(rec.Session, c.q, c.who)
	if !ok {
		return nil, nil, unknown
	}
	b := t.pool.adopt(s, c, rec.Server)
	if b == nil {
		return nil, nil, mcp.Fail(mcp.TooManySessions, "")
	}
	defer t.pool.release(b)
	life := time.Until(rec.Expires)
	if rec.Endless {
		life = idleTaskLife
	}
	entered := t.enterFor(b, key.id, life, rec.Endless)
	if k = t.find(c.who, key.id); k != nil { // also if another request was faster
		return k, nil, nil
	}
	if !entered {
		return nil, nil, tooManyTasks()
	}
	return nil, nil, unknown
}

// forward lets the other replica that has the task of a request answer it, if the result is not stored, and reports whether it
// did.
func (t *pooledTasks) forward(req *downstream.Request, q *stateless.Request, who string, resp *downstream.Response) bool {
	if req.Forwarded || t.Host.Shared() == nil || !isTaskRequest(q.Method) || !q.HasTasks() {
		return false
	}
	key := taskKey{who, gjson.ParseBytes(q.Target).String()}
	if t.find(who, key.id) != nil {
		return false
	}
	r, err := t.stored(req.Ctx, key)
	if err != nil || r == nil || r.Done && q.Method == wire.TasksGet || r.Home == t.Instance {
		return false
	}
	done, err := t.Proxy.Forward(r.Home, req, resp)
	if err != nil {
		t.Host.Log.Debug("the replica that has a task cannot be reached", zap.Error(err))
	}
	return done && err == nil
}
