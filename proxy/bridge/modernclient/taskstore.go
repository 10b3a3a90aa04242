package modernclient

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
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

// These constants bound the tasks that are held for modern clients.
const (
	maxBackedTasks = 1000
	maxTaskLife    = 24 * time.Hour
	idleTaskLife   = time.Hour // how long a task without a ttl is held after the client's last request
)

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

// taskStore stores the records of the tasks of this replica, and reads those of the others.
type taskStore struct{ *Options }

// record returns the record of the task.
func (t *taskStore) record(k *pooledTask) taskRecord {
	k.mu.Lock()
	r := taskRecord{Home: t.Instance, Expires: k.expires, Endless: k.endless}
	k.mu.Unlock()
	if r.Endless {
		r.Expires = time.Now().Add(maxTaskLife)
	}
	if about := k.b.s.About(); !about.Local && about.Named != "" && len(about.Named) <= sealed.MaxNamed {
		r.Session = t.Proxy.Sealer().SealSession(k.b.s.ForReplicas())
	}
	if gjson.ValidBytes(k.b.said.server) {
		r.Server = k.b.said.server
	}
	return r
}

// share stores the record of the task.
func (t *taskStore) share(k *pooledTask, done bool) {
	s := t.Host.Shared()
	if s == nil {
		return
	}
	r := t.record(k)
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
		t.Host.Log.Debug("cannot store the record of a task: only this replica can answer for it", zap.Error(err))
	}
}

// leave leaves the session of a task that goes on to the other replicas.
func (t *taskStore) leave(k *pooledTask) {
	k.mu.Lock()
	done := k.shared
	k.mu.Unlock()
	if t.Host.Shared() == nil || done || k.b.s == nil {
		return
	}
	if about := k.b.s.About(); !about.Local && about.Named != "" {
		k.b.s.Leave()
	}
}

// shareResult stores the result of a task that has ended, as its client has received it. It does not wait.
func (t *taskStore) shareResult(k *pooledTask, body []byte) {
	s := t.Host.Shared()
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
	t.Host.Spawn(func() {
		if err := s.Set(context.Background(), k.key.in(taskResultKind), raw, life); err != nil {
			t.Host.Log.Debug("cannot store the result of a task", zap.Error(err))
			return
		}
		t.share(k, true)
	})
}

// stored returns the record of a task that this replica does not have; nil if there is none. The error is for the client.
func (t *taskStore) stored(ctx context.Context, key taskKey) (*taskRecord, error) {
	s := t.Host.Shared()
	if s == nil {
		return nil, nil
	}
	value, err := s.Get(ctx, key.in(taskKind))
	if errors.Is(err, store.ErrAbsent) {
		return nil, nil
	} else if err != nil {
		t.Host.Log.Debug("cannot read the record of a task", zap.Error(err))
		return nil, mcp.Saying(mcp.CodeInternal, "the task belongs to another replica, or is not known; the store that says so cannot be reached now: try again later")
	}
	r := new(taskRecord)
	if json.Unmarshal(value, r) != nil || !time.Now().Before(r.Expires) {
		return nil, nil
	}
	return r, nil
}

// result returns the response to a request for the state of a task whose result is stored. Otherwise, the error is
// [store.ErrAbsent].
func (t *taskStore) result(c caller, key taskKey) ([]byte, error) {
	s := t.Host.Shared()
	if s == nil || c.q.Method != wire.TasksGet {
		return nil, store.ErrAbsent
	}
	result, err := s.Get(c.ctx, key.in(taskResultKind))
	if err != nil {
		return nil, err
	}
	return mcp.AppendResult(nil, c.q.ID, result), nil
}
