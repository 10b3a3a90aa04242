package modernclient

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A task belongs to the session with the server that its call was sent on, and that session to one replica. If replicas
// share a store, each task has a record there, and its result once a client has read it. A replica that is asked about a
// task that it does not have reads the record, and then
//
//   - answers with the stored result,
//   - or forwards the request to the replica that has the task,
//   - or, if that one is gone, continues in the session itself, where the server keeps sessions.

// Kinds of keys in the store.
const (
	taskKind       = "task"
	taskResultKind = "task_result"
)

// taskRecord is what the store has of a task.
type taskRecord struct {
	Home    sealed.ID       `json:"home"`              // the replica that has the task
	Session string          `json:"session,omitempty"` // the session with the server, sealed; "" if only Home has it
	Server  json.RawMessage `json:"server,omitempty"`  // serverInfo
	Expires time.Time       `json:"expires"`
	Endless bool            `json:"endless,omitempty"`
	Done    bool            `json:"done,omitempty"` // the result is stored
}

func (k taskKey) in(kind string) store.Key {
	return store.Key{Kind: kind, Name: k.principal + "\x00" + k.id}
}

// record returns the record of the task.
func (k *pooledTask) record() taskRecord {
	k.mu.Lock()
	r := taskRecord{Home: k.br.instance, Expires: k.expires, Endless: k.endless}
	k.mu.Unlock()
	if r.Endless {
		r.Expires = time.Now().Add(maxTaskLife)
	}
	if about := k.b.s.About(); !about.Local && about.Named != "" && len(about.Named) <= sealed.MaxNamed {
		r.Session = k.br.proxy.Sealer().SealSession(*about)
	}
	if gjson.ValidBytes(k.b.said.server) {
		r.Server = k.b.said.server
	}
	return r
}

// share stores the record of the task.
func (k *pooledTask) share(done bool) {
	s := k.br.host.Shared()
	if s == nil {
		return
	}
	r := k.record()
	r.Done = done
	life := min(time.Until(r.Expires), maxTaskLife)
	if life < time.Second {
		return
	}
	value, err := json.Marshal(&r)
	if err == nil {
		err = s.Set(context.Background(), k.key.in(taskKind), value, life)
	}
	if err != nil {
		k.br.host.Log.Debug("cannot store the record of a task: only this replica can answer for it", zap.Error(err))
	}
}

// leave leaves the session of a task that goes on to the other replicas.
func (k *pooledTask) leave() {
	k.mu.Lock()
	done := k.shared
	k.mu.Unlock()
	if k.br.host.Shared() == nil || done || k.b.s == nil {
		return
	}
	if about := k.b.s.About(); !about.Local && about.Named != "" {
		k.b.s.Leave()
	}
}

// shareResult stores the result of a task that has ended, as its client has received it. It does not wait.
func (k *pooledTask) shareResult(body []byte) {
	s := k.br.host.Shared()
	if s == nil {
		return
	}
	result := gjson.GetBytes(body, "result")
	switch result.Get("status").String() {
	case "completed", "failed", "cancelled":
	default:
		return
	}
	k.mu.Lock()
	before := k.shared
	k.shared = true
	life := min(time.Until(k.expires), maxTaskLife)
	k.mu.Unlock()
	if before || life < time.Second {
		return
	}
	raw := []byte(result.Raw)
	k.br.host.Spawn(func() {
		if err := s.Set(context.Background(), k.key.in(taskResultKind), raw, life); err != nil {
			k.br.host.Log.Debug("cannot store the result of a task", zap.Error(err))
			return
		}
		k.share(true)
	})
}

// stored returns the record of a task that this replica does not have; nil if there is none. The error is for the client.
func (t *pooledTasks) stored(ctx context.Context, key taskKey) (*taskRecord, error) {
	s := t.br.host.Shared()
	if s == nil {
		return nil, nil
	}
	value, err := s.Get(ctx, key.in(taskKind))
	if errors.Is(err, store.ErrAbsent) {
		return nil, nil
	} else if err != nil {
		t.br.host.Log.Debug("cannot read the record of a task", zap.Error(err))
		return nil, mcp.Saying(mcp.CodeInternal, "the task belongs to another replica, or is not known; the store that says so cannot be reached now: try again later")
	}
	r := new(taskRecord)
	if json.Unmarshal(value, r) != nil || !time.Now().Before(r.Expires) {
		return nil, nil
	}
	return r, nil
}

// heldBy returns the other replica that has the task of a request, if its result is not stored.
func (t *pooledTasks) heldBy(ctx context.Context, q *stateless.Request, who string) (to sealed.ID, ok bool) {
	if t.br.host.Shared() == nil || q.Method != wire.TasksGet && q.Method != wire.TasksUpdate && q.Method != wire.TasksCancel || !q.HasTasks() {
		return to, false
	}
	key := taskKey{who, gjson.ParseBytes(q.Target).String()}
	if t.find(who, key.id) != nil {
		return to, false
	}
	r, err := t.stored(ctx, key)
	if err != nil || r == nil || r.Done && q.Method == wire.TasksGet || r.Home == t.br.instance {
		return to, false
	}
	return r.Home, true
}

// forward lets the replica that has the task of a request answer it, and reports whether it did.
func (t *pooledTasks) forward(req *downstream.Request, q *stateless.Request, who string, resp *downstream.Response) bool {
	if req.Forwarded {
		return false
	}
	to, ok := t.heldBy(req.Ctx, q, who)
	if !ok {
		return false
	}
	done, err := t.br.proxy.Forward(to, req, resp)
	if err != nil {
		t.br.host.Log.Debug("the replica that has a task cannot be reached", zap.Error(err))
	}
	return done && err == nil
}

// fromStore answers a request about a task that this replica does not have. It returns the task if the replica continues
// in its session; otherwise, body is the response.
func (t *pooledTasks) fromStore(r *relay, key taskKey) (k *pooledTask, body []byte, err error) {
	unknown := mcp.Saying(mcp.CodeInvalidParams, "Task not found")
	rec, err := t.stored(r.ctx, key)
	switch {
	case err != nil:
		return nil, nil, err
	case rec == nil:
		return nil, nil, unknown
	case rec.Done && r.q.Method == wire.TasksGet:
		result, err := t.br.host.Store.Get(r.ctx, key.in(taskResultKind))
		if err == nil {
			return nil, mcp.AppendResult(nil, r.q.ID, result), nil
		}
		if !errors.Is(err, store.ErrAbsent) {
			return nil, nil, mcp.Saying(mcp.CodeInternal, "the task's result is kept in a store that cannot be reached now; try again later")
		}
	}
	if rec.Session == "" || rec.Home == t.br.instance {
		return nil, nil, unknown
	}
	s, ok := t.br.proxy.Reopen(rec.Session, r.q, r.who)
	if !ok {
		return nil, nil, unknown
	}
	b := t.br.pool.adopt(s, r.q, r.who, rec.Server)
	if b == nil {
		return nil, nil, mcp.Fail(mcp.TooManySessions, "")
	}
	defer t.br.pool.release(b)
	life := time.Until(rec.Expires)
	if rec.Endless {
		life = idleTaskLife
	}
	if !t.enterFor(b, key.id, life, rec.Endless) {
		if k := t.find(r.who, key.id); k != nil { // another request was faster
			return k, nil, nil
		}
		f := mcp.Fail(mcp.TooManyParked, "")
		f.Text = "too many tasks; try again later"
		return nil, nil, f
	}
	if k = t.find(r.who, key.id); k == nil {
		return nil, nil, unknown
	}
	return k, nil, nil
}

// storedResult returns the response to a request for the state of a task whose server cannot be reached, if the result is
// stored; else nil.
func (t *pooledTasks) storedResult(r *relay, key taskKey) []byte {
	s := t.br.host.Shared()
	if s == nil || r.q.Method != wire.TasksGet {
		return nil
	}
	result, err := s.Get(r.ctx, key.in(taskResultKind))
	if err != nil {
		return nil
	}
	return mcp.AppendResult(nil, r.q.ID, result)
}

// adopt adds a session that another replica has begun, for a task that this one continues. It is in use until release is
// called; new calls do not get it. It returns nil if there is no room.
func (p *sessionPool) adopt(s Session, q *stateless.Request, who string, server []byte) *pooledSession {
	key := poolKey{principal: who, client: string(q.ClientInfo), capabilities: string(q.Capabilities)}
	if who == "" {
		key.address = q.Address
	}
	named, by := s.About().Named, q.Holder(who)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.byKey[key] {
		if b.adopted == named && named != "" && !b.lost && b.uses > 0 {
			b.uses++
			p.br.host.Spawn(func() { s.End(nil) })
			return b
		}
	}
	most := p.br.host.Config().Bridge.MaxSessions
	if !p.shares.Acquire(by, most) {
		return nil
	}
	if p.size >= most && !p.evict() {
		p.shares.Release(by)
		return nil
	}
	b := p.addLocked(key, by)
	b.adopted, b.dead, b.s = named, true, s
	b.said.server = server
	if server == nil {
		b.said.server = []byte(unknownServer)
	}
	close(b.opening)
	return b
}
