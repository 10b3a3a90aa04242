package modernclient

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// taskPlan says whether a call becomes a task.
type taskPlan int

const (
	plainCall taskPlan = iota
	asTask             // the client receives the task
	taskHere           // the tool requires a task, and the client does not support tasks: dragoman waits for the result
)

// plan decides what becomes of the call of c on b.
func (t *pooledTasks) plan(c caller, b *pooledSession) (taskPlan, error) {
	q := c.q
	if q.Method != wire.ToolsCall || !b.s.About().Facts.Has(wire.ServerTasks) {
		return plainCall, nil
	}
	required, err := b.onlyAsTask(c.ctx, gjson.ParseBytes(q.Target).String(), c.from)
	switch {
	case err != nil || !required:
		return plainCall, err
	case !q.HasTasks():
		return taskHere, nil
	case !t.room(t.pool.holderOf(b), time.Now()):
		return plainCall, tooManyTasks()
	}
	return asTask, nil
}

// onlyAsTask reports whether a tool requires that its calls are tasks.
func (b *pooledSession) onlyAsTask(ctx context.Context, tool string, from []mcp.Header) (bool, error) {
	b.startListening(ctx, from) // first, so that no change of the list is missed
	t, err := b.s.Tools().Look(ctx, tool, toolindex.Ask{Of: b.s.About().ServerRevision, Page: func(params string) ([]byte, error) { return b.tools(ctx, params, from) }})
	if _, refused := errors.AsType[*mcp.ServerError](err); refused {
		return false, nil // the server has no list of tools
	}
	return t.TaskOnly, err
}

// created returns the stream of a call that will become a task. The task is recorded before the
// client receives it.
func (t *pooledTasks) created(st upstream.Stream, b *pooledSession, id []byte, from []mcp.Header) upstream.Stream {
	return &taskCreation{Stream: st, of: t, b: b, id: id, from: slices.Clone(from)}
}

type taskCreation struct {
	upstream.Stream
	of   *pooledTasks
	b    *pooledSession
	id   []byte
	from []mcp.Header
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
	if m.Scan(data, nil) != nil || m.Kind != wire.Result || !pipes.IsAbout(&m, s.id) {
		return data
	}
	task := gjson.Get(wire.View(m.Result()), "task")
	if name := task.Get("taskId"); name.Type == gjson.String && !s.of.enter(s.b, strings.Clone(name.String()), task.Get("ttl")) {
		s.of.refuse(s.b, strings.Clone(name.String()), s.from)
		return mcp.AppendError(nil, s.id, mcp.CodeInternal, "the task has the id of another task, or there are too many tasks; try again later", nil)
	}
	return data
}

// refuse cancels a task at the server that cannot be held. If the same session holds a task with
// the same id, nothing is cancelled, since it may be the same task.
func (t *pooledTasks) refuse(b *pooledSession, id string, from []mcp.Header) {
	k := &pooledTask{key: taskKey{b.key.principal, id}, b: b}
	t.mu.Lock()
	other := t.byKey[k.key]
	t.mu.Unlock()
	if other != nil && other.b == b {
		return
	}
	t.pool.retain(b)
	t.Host.Spawn(func() {
		defer t.pool.release(b)
		ctx, stop := context.WithTimeout(context.Background(), pipes.NoticeTimeout)
		defer stop()
		if err := k.cancel(ctx, from); err != nil {
			t.Host.Log.Debug("task not cancelled", zap.Error(err))
		}
	})
}

// How often, and after which wait, the result of a task is asked for again if the server has closed the
// stream before it sent the result.
const (
	maxResultAsks = 5 // in a row, without a message between them
	resultAskWait = time.Second
)

// A taskRun is a call that is a task at the server but a plain call to its client: a stream of the
// server's messages about both, with the task's result as the response of the call. No other request
// uses the task, which ends with the stream.
type taskRun struct {
	upstream.Plain
	b    *pooledSession
	ctx  context.Context
	from []mcp.Header
	send upstream.Outgoing // as the call was sent: how long the server may be silent
	id   []byte            // the id of the call

	task string // the task's id; "" before the task is created; set with mu held
	asks int

	mu     sync.Mutex
	st     upstream.Stream
	last   []byte // the id of the request that st is the stream of
	over   bool   // the response was received
	closed bool
}

// newTaskRun makes a taskRun of st, the stream of the call with this id, whose context is ctx.
func newTaskRun(ctx context.Context, limits config.TimeLimit, b *pooledSession, st upstream.Stream, id []byte, from []mcp.Header) *taskRun {
	return &taskRun{
		b: b, ctx: ctx, from: slices.Clone(from), id: id,
		send: upstream.Outgoing{Request: true, FirstByte: limits.FirstByte, Silence: limits.Silence}, st: st, last: id,
	}
}

// Events gives the messages about the call, then those about the task.
func (t *taskRun) Events(yield func(sse.Event, error) bool) {
	for {
		next, more := t.read(yield)
		if !more {
			return
		}
		if err := next(); err != nil {
			yield(sse.Event{}, err)
			return
		}
	}
}

// read gives the messages of the current stream. If another stream has to follow, more is true and next opens it.
func (t *taskRun) read(yield func(sse.Event, error) bool) (next func() error, more bool) {
	t.mu.Lock()
	st, last := t.st, t.last
	t.mu.Unlock()
	for e, err := range st.Events {
		if err != nil && t.task != "" && errors.Is(err, io.EOF) && t.asks < maxResultAsks {
			return t.again, true
		}
		if err == nil && t.task != "" {
			t.asks, e.ID, e.HasID = 0, nil, false // no event id: a new request for the result resumes the stream
		}
		if err == nil && t.isAnswer(&e, last) {
			return t.askResult, true
		}
		if !yield(e, err) {
			return nil, false
		}
	}
	return nil, false
}

// isAnswer reports whether e is the response to the call, and says that it is a task now. If e is the response to the last
// request with another content, it is the one for the client.
func (t *taskRun) isAnswer(e *sse.Event, last []byte) (created bool) {
	var m wire.Message
	if m.Scan(e.Data, nil) != nil || !m.Kind.Response() || !pipes.IsAbout(&m, last) {
		return false
	}
	task := gjson.Get(wire.View(m.Result()), "task.taskId")
	if t.task == "" && m.Kind == wire.Result && task.Type == gjson.String {
		t.born(strings.Clone(task.String()))
		return true
	}
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	if t.task != "" {
		e.Data = under(e.Data, t.id)
	}
	return false
}

// born notes that the call is now a task. If the client has left in the meantime, born cancels the task.
func (t *taskRun) born(task string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.task = task; t.closed {
		t.b.Host.Spawn(t.cancel)
	}
}

// isTask reports whether the call is a task now.
func (t *taskRun) isTask() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.task != ""
}

// again waits resultAskWait and asks for the result once more.
func (t *taskRun) again() error {
	t.asks++
	if err := pipes.Sleep(t.ctx, resultAskWait); err != nil {
		return err
	}
	return t.askResult()
}

// askResult asks for the result, which the server sends when the task ends.
func (t *taskRun) askResult() error {
	id := t.b.nextID()
	out := t.send
	out.Header = t.from
	out.Body = mcp.Request(id, wire.TasksResult, append(wire.AppendQuoted([]byte(`{"taskId":`), t.task), '}'))
	st, err := t.b.s.Send(t.ctx, &out)
	if err != nil {
		return err
	}
	t.mu.Lock()
	old, closed := t.st, t.closed
	t.st, t.last = st, id
	t.mu.Unlock()
	old.Close()
	if closed {
		st.Close()
	}
	return nil
}

// Close closes the stream and cancels the task if it is still running.
func (t *taskRun) Close() error {
	t.mu.Lock()
	st, running := t.st, !t.over && !t.closed && t.task != ""
	t.closed = true
	t.mu.Unlock()
	if running {
		t.b.Host.Spawn(t.cancel)
	}
	return st.Close()
}

// cancel tells the server that no client waits for the task.
func (t *taskRun) cancel() {
	ctx, stop := context.WithTimeout(context.Background(), pipes.NoticeTimeout)
	defer stop()
	params := append(wire.AppendQuoted([]byte(`{"taskId":`), t.task), '}')
	if err := t.b.ask(ctx, wire.TasksCancel, params, t.from); err != nil {
		t.b.Host.Log.Debug("cannot cancel a task", zap.Error(err))
	}
}
