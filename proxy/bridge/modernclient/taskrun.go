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

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

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
	br   *Bridge
	b    *pooledSession
	ctx  context.Context
	from []upstream.Header
	send upstream.Outgoing // as the call was sent: how long the server may be silent
	id   []byte            // the id of the call
	key  string

	task string // the task's id; "" before the task is created; set with mu held
	asks int

	mu     sync.Mutex
	st     upstream.Stream
	last   []byte // the id of the request that st is the stream of
	over   bool   // the response was received
	closed bool
}

// runTask makes a taskRun of st, the stream of the call with this id.
func (br *Bridge) runTask(x *asking, b *pooledSession, st upstream.Stream, id []byte, from []upstream.Header) *taskRun {
	limits := x.Limits()
	return &taskRun{
		br: br, b: b, ctx: x.ctx, from: slices.Clone(from), id: id, key: string(wire.AppendIDKey(nil, id)),
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
	if m.Scan(e.Data, nil) != nil || !m.Kind.Response() || string(wire.AppendIDKey(nil, m.ID())) != string(wire.AppendIDKey(nil, last)) {
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
		t.br.host.Spawn(t.cancel)
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
	if err := server.Sleep(t.ctx, resultAskWait); err != nil {
		return err
	}
	return t.askResult()
}

// askResult asks for the result, which the server sends when the task ends.
func (t *taskRun) askResult() error {
	id := t.b.nextID()
	out := t.send
	out.Header = t.from
	out.Body = mcp.Request(id, wire.TasksResult, append(mcp.AppendString([]byte(`{"taskId":`), t.task), '}'))
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
		t.br.host.Spawn(t.cancel)
	}
	return st.Close()
}

// cancel tells the server that no client waits for the task.
func (t *taskRun) cancel() {
	ctx, stop := context.WithTimeout(context.Background(), server.NoticeTimeout)
	defer stop()
	params := append(mcp.AppendString([]byte(`{"taskId":`), t.task), '}')
	if err := t.b.ask(ctx, wire.TasksCancel, params, t.from); err != nil {
		t.br.host.Log.Debug("cannot cancel a task", zap.Error(err))
	}
}
