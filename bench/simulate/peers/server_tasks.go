package peers

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// Tasks, of 2025-11-25 and of the extension of 2026-07-28: calls that are answered at once, and of whose state and result is asked later.

const (
	tasksExtension = "io.modelcontextprotocol/tasks"
	relatedTask    = "io.modelcontextprotocol/related-task"

	taskLife = 10 * time.Minute
	taskPoll = 700 * time.Millisecond
)

// serverTask is a task. It is of the session of its call, or of its user where there are no sessions.
type serverTask struct {
	id            string
	call          *serverCall // what is carried out: its request was answered
	owner         *serverSession
	status        string
	made, changed time.Time
	result        object
	failed        *rpcError
	waiting       []*serverCall // requests for the result
}

// wantsTask reports whether the client may get a task for its call, and the server makes one.
func (c *serverCall) wantsTask() bool {
	switch {
	case !c.sess.s.o.Tasks || c.mark == "" || c.m.Method != "tools/call":
		return false
	case c.modern:
		var of map[string]json.RawMessage
		_ = json.Unmarshal(c.can["extensions"], &of)
		return of[tasksExtension] != nil && c.plan.Task != ""
	}
	return c.params.Task != nil && c.revision == "2025-11-25"
}

// onlyTask reports whether a call must fail since its tool only runs as a task.
func (c *serverCall) onlyTask() bool {
	return c.sess.s.o.Tasks && c.params.Name == "run" && c.revision == "2025-11-25" && c.params.Task == nil
}

// beginTask answers a call with a task.
func (c *serverCall) beginTask() {
	s, now := c.sess.s, time.Now()
	run := *c
	run.stop, run.out = make(chan struct{}), &serverStream{}
	t := &serverTask{id: fmt.Sprint(c.mark, "-task-", s.next("task")), call: &run, status: "working", made: now, changed: now}
	if !c.modern || c.sess.pipe != nil {
		t.owner = c.sess
	}
	s.tasks[t.id] = t
	t.tell()
	result := object{"task": t.state(c.modern)}
	if c.modern {
		result = t.state(true)
		result["resultType"], result["_meta"] = "task", object{metaServer: serverInfo(c.revision)}
	}
	raw := writeResult(c.m.ID, result)
	c.done(trace.Event{Failed: "task", Raw: raw})
	c.out.answer(raw, 200, !c.streams())
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		if run.sleep(run.plan.Wait) && run.sleep(run.lateness()) {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.finish()
		}
	}()
}

func (t *serverTask) tell() {
	sess := t.call.sess
	sess.s.tell(trace.Event{Who: sess.who, Kind: trace.Becomes, Mark: t.call.mark, ID: t.id, Session: sess.id, Text: t.status})
}

// state is what tasks/get says of a task, without a result.
func (t *serverTask) state(modern bool) object {
	all := object{"taskId": t.id, "status": t.status, "createdAt": t.made.UTC().Format(time.RFC3339Nano), "lastUpdatedAt": t.changed.UTC().Format(time.RFC3339Nano)}
	if modern {
		all["ttlMs"], all["pollIntervalMs"] = taskLife.Milliseconds(), taskPoll.Milliseconds()
	} else {
		all["ttl"], all["pollInterval"] = taskLife.Milliseconds(), taskPoll.Milliseconds()
	}
	return all
}

func (t *serverTask) over() bool { return t.status != "working" }

// become gives a task its last status, and answers what waits for it.
func (t *serverTask) become(status string) {
	t.status, t.changed = status, time.Now()
	t.tell()
	for _, c := range t.waiting {
		t.deliver(c)
	}
	t.waiting = nil
}

func (t *serverTask) finish() {
	if t.over() || t.gone() {
		return
	}
	t.result, t.failed = t.call.result()
	if t.call.plan.How == script.Error {
		t.failed = &rpcError{Code: -32050, Message: numbered(t.call.mark, "failed", t.call.sess.s.carried[t.call.mark])}
	}
	if t.failed != nil {
		t.become("failed")
	} else {
		t.become("completed")
	}
}

func (t *serverTask) gone() bool { return t.call.sess.s.tasks[t.id] != t }

// deliver answers a request for the result.
func (t *serverTask) deliver(c *serverCall) {
	switch c.mark = t.call.mark; {
	case c.over:
	case t.status == "cancelled":
		c.fail(-32603, "The task was cancelled", nil)
	case t.failed != nil:
		c.fail(t.failed.Code, t.failed.Message, nil)
	default:
		result := maps.Clone(t.result)
		meta := object{relatedTask: object{"taskId": t.id}}
		if given, ok := result["_meta"].(object); ok {
			maps.Copy(meta, given)
		}
		result["_meta"] = meta
		raw := writeResult(c.m.ID, result)
		c.done(trace.Event{Text: serverText(result), Raw: raw})
		c.out.answer(raw, 200, !c.streams())
	}
}

// dropTasks forgets the tasks of a session, or all if it is nil.
func (s *Server) dropTasks(of *serverSession) {
	for id, t := range s.tasks {
		if of == nil || t.owner == of {
			delete(s.tasks, id)
			t.end()
		}
	}
}

// end stops what is carried out.
func (t *serverTask) end() {
	if !t.call.over {
		t.call.over = true
		close(t.call.stop)
	}
}

// aboutTask answers a request about tasks. A request for a result that there is not yet gets nothing now.
func (c *serverCall) aboutTask() (object, *rpcError) {
	s, method := c.sess.s, c.m.Method
	if !s.o.Tasks || !c.modern && c.revision != "2025-11-25" || c.modern && (method == "tasks/result" || method == "tasks/list") || !c.modern && method == "tasks/update" {
		return nil, &rpcError{Code: -32601, Message: "Method not found: " + method}
	}
	if method == "tasks/list" {
		all := []any{}
		for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
			if t := s.tasks[id]; t.of(c) {
				all = append(all, t.state(false))
			}
		}
		return object{"tasks": all}, nil
	}
	t := s.tasks[c.params.TaskID]
	if t == nil || !t.of(c) {
		return nil, &rpcError{Code: -32602, Message: "Task not found"}
	}
	switch method {
	case "tasks/result":
		if t.over() {
			t.deliver(c)
		} else {
			t.waiting = append(t.waiting, c)
		}
		return nil, nil
	case "tasks/cancel":
		e := trace.Event{Who: c.sess.who, Kind: trace.Stopped, Mark: t.call.mark, Method: method, ID: c.m.id(), Session: c.sess.id, Conn: c.conn, Text: "task"}
		if t.over() {
			e.Failed = "finished"
		}
		s.tell(e)
		switch {
		case !t.over():
			t.end()
			t.become("cancelled")
		case !c.modern:
			return nil, &rpcError{Code: -32602, Message: "The task is over"}
		}
		if c.modern {
			return object{}, nil
		}
		return t.state(false), nil
	}
	state := t.state(c.modern)
	if c.modern && t.over() {
		c.mark = t.call.mark // it is the answer of that call
		switch {
		case t.failed != nil:
			state["error"] = object{"code": t.failed.Code, "message": t.failed.Message}
		case t.status == "completed":
			state["result"] = t.result
		}
	}
	return state, nil
}

// of reports whether a task can be asked for in c.
func (t *serverTask) of(c *serverCall) bool {
	if t.owner != nil {
		return t.owner == c.sess
	}
	return c.modern && t.call.user == c.user
}
