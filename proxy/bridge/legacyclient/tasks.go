package legacyclient

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Both sides have tasks, in different forms. Package translate translates what one message contains; the rest is here.
// The client requests a task for a call, and its result with a request that waits; the server decides whether to make a
// task, and is polled. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks and
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html.

// Bounds of what a session remembers about tasks.
const (
	defaultTTL    = 5 * time.Minute
	maxTTL        = time.Hour
	maxTaskAsks   = 1024 // questions of tasks
	maxTaskWatch  = 8    // tasks whose notifications the client gets, each of which is a connection
	defaultPoll   = time.Second
	shortestPoll  = 20 * time.Millisecond
	longestPoll   = 10 * time.Minute
	maxTaskInputs = crossing.MaxQuestions
)

// hasTasks reports whether the client's tasks are tasks of the server.
func (c *Conn) hasTasks() bool { return c.tasks.bridged && c.facts.Has(wire.ServerTasks) }

// wish returns params.task if the client requests a task; else nil.
func (c *Conn) wish(method wire.Method, params gjson.Result) []byte {
	if task := params.Get("task"); method == wire.ToolsCall && c.hasTasks() && task.IsObject() {
		return []byte(task.Raw)
	}
	return nil
}

// canTasks returns the client's capabilities for a request about a task.
func (c *Conn) canTasks() []byte {
	can := c.can
	if can == nil {
		can = []byte("{}")
	}
	out, err := sjson.SetRawBytes(can, "extensions."+strings.ReplaceAll(mcp.TasksExtension, ".", `\.`), []byte("{}"))
	if err != nil {
		return can
	}
	return out
}

// aboutTask sends a request about a task. more is the rest of params.
func (c *Conn) aboutTask(ctx context.Context, method wire.Method, task, more string, header []mcp.Header) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.host.Config().Upstream.HandshakeTimeout)
	defer cancel()
	params := string(wire.AppendQuoted([]byte(`"taskId":`), task)) + more
	return c.inquireAs(ctx, ownRequest{method: method, params: params, target: task, can: c.canTasks()}, header)
}

// cancelTask cancels a task and returns its state for the client: the server only acknowledges the cancellation.
func (c *Conn) cancelTask(ctx context.Context, id []byte, task string, header []mcp.Header) ([]byte, error) {
	if _, err := c.aboutTask(ctx, wire.TasksCancel, task, "", header); err != nil {
		return nil, err
	}
	state, err := c.aboutTask(ctx, wire.TasksGet, task, "", header)
	if err != nil {
		return nil, err
	}
	return c.downResult(id, wire.TasksGet, state, header)
}

// asTask returns the response to a call for which the client has requested a task. If the server has made none, the
// response is a task that is finished already.
func (b *call) asTask(answer []byte) []byte {
	c := b.c
	result := gjson.GetBytes(answer, "result")
	switch task := result.Get("task"); {
	case !result.IsObject():
		return answer
	case task.IsObject() && !result.Get("content").Exists():
		long := maxTTL
		if ttl := task.Get("ttl"); ttl.Type == gjson.Number {
			long = lifetime(ttl.Num)
		}
		c.watchTask(runningTask{strings.Clone(task.Get("taskId").String()), time.Now().Add(long), slices.Clone(b.from)})
		return answer
	}
	now := time.Now().UTC()
	ttl := defaultTTL
	if said := gjson.GetBytes(b.wish, "ttl"); said.Type == gjson.Number {
		ttl = lifetime(said.Num)
	}
	status := "completed"
	if result.Get("isError").Type == gjson.True {
		status = "failed"
	}
	t := finishedTask{id: c.newTaskID(), result: []byte(result.Raw), expires: now.Add(ttl)}
	at := now.Format(time.RFC3339Nano)
	t.state = fmt.Appendf(nil, `{"taskId":%q,"status":%q,"createdAt":%q,"lastUpdatedAt":%q,"ttl":%d}`, t.id, status, at, at, ttl.Milliseconds())
	if !c.bridge.finished.keep(&c.done, t) {
		return mcp.Saying(mcp.CodeInternal, "the result is too large to be kept for a task").About(b.id).Body()
	}
	c.shareTask(&t)
	return mcp.AppendResult(nil, b.id, `{"task":`+string(t.state)+`}`)
}

// lifetime returns how long a task with this ttl, in milliseconds, is remembered.
func lifetime(ttl float64) time.Duration {
	return time.Duration(min(max(ttl, 0), float64(maxTTL/time.Millisecond))) * time.Millisecond
}

// answer returns the response to a request about a finished task.
func (t finishedTask) answer(id []byte, method wire.Method) ([]byte, error) {
	switch method {
	case wire.TasksGet:
		return mcp.AppendResult(nil, id, t.state), nil
	case wire.TasksResult:
		return ofTask(mcp.AppendResult(nil, id, t.result), "result", t.id)
	}
	return nil, mcp.Saying(mcp.CodeInvalidParams, "Cannot cancel task: it is over")
}

// ofTask adds to the _meta of a member of a message the task to which it belongs.
func ofTask(message []byte, member, task string) ([]byte, error) {
	return sjson.SetRawBytes(message, member+"._meta."+strings.ReplaceAll(mcp.MetaRelatedTask, ".", `\.`), append(wire.AppendQuoted([]byte(`{"taskId":`), task), '}'))
}

// watchTask subscribes to the state of a task for the client's standing stream, or notes the task until that is open: a client
// on a pipe may call a tool before its stream is.
func (c *Conn) watchTask(t runningTask) {
	now := time.Now()
	c.mu.Lock()
	c.tasks.unwatched = slices.DeleteFunc(c.tasks.unwatched, func(old runningTask) bool { return old.until.Before(now) })
	switch {
	case c.life.Err() != nil, c.tasks.watched+len(c.tasks.unwatched) >= maxTaskWatch:
		c.mu.Unlock()
		return
	case c.news.standing() == nil:
		c.tasks.unwatched = append(c.tasks.unwatched, t)
		c.mu.Unlock()
		return
	}
	c.tasks.watched++
	c.mu.Unlock()
	ctx, cancel := context.WithDeadline(c.life, t.until)
	what := append(wire.AppendQuoted([]byte(`"notifications":{"taskIds":[`), t.id), `]}`...)
	l := &listenRequest{c: c, ctx: ctx, what: string(what), can: c.canTasks(), header: t.header}
	c.host.Spawn(func() {
		defer func() {
			l.end()
			cancel()
			c.mu.Lock()
			c.tasks.watched--
			c.mu.Unlock()
		}()
		defer context.AfterFunc(c.host.Draining, cancel)()
		granted, err := l.begin()
		if err != nil || !contains(granted.Get("notifications.taskIds"), t.id) {
			c.host.Log.Debug("cannot read the state of a task", zap.Error(err))
			return
		}
		for m := range notifications(l.st) {
			over := isOver(gjson.Get(wire.View(m.Params()), "status").String())
			l.c.enqueue(m.Raw, l.header)
			if over {
				return
			}
		}
	})
}

// watchNoted watches the tasks that were noted before the standing stream was open.
func (c *Conn) watchNoted() {
	c.mu.Lock()
	noted := c.tasks.unwatched
	c.tasks.unwatched = nil
	c.mu.Unlock()
	for _, t := range noted {
		c.watchTask(t)
	}
}

// isOver reports whether a task with this status has ended.
func isOver(status string) bool {
	switch status {
	case "completed", "failed", "cancelled":
		return true
	}
	return false
}
