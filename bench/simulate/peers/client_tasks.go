package peers

import (
	"encoding/json"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// Tasks: calls whose result a client asks for later.

// tasksIn reports whether what a server declares has tasks, of calls of tools.
func tasksIn(capabilities map[string]json.RawMessage) bool {
	var of struct {
		Requests struct {
			Tools struct{ Call *struct{} }
		}
	}
	_ = json.Unmarshal(capabilities["tasks"], &of)
	var extensions map[string]json.RawMessage
	_ = json.Unmarshal(capabilities["extensions"], &extensions)
	return of.Requests.Tools.Call != nil || extensions[tasksExtension] != nil
}

// wantTask has k ask for a task, if both sides know them.
func (k *call) wantTask(s *clientSession) {
	if !s.tasks || s.c.o.Lacks("tasks") || s.revision < "2025-11-25" {
		return
	}
	if k.tasks = true; !s.c.modern {
		k.params["task"] = object{"ttl": taskLife.Milliseconds()}
	}
}

// taskState is what a client learns of a task.
type taskState struct {
	TaskID     string
	Status     string
	ResultType string
	Result     json.RawMessage
	Error      *rpcError
}

func (t *taskState) over() bool {
	return t.Status == "completed" || t.Status == "failed" || t.Status == "cancelled"
}

// takesTask takes the answer to a call that is a task, or to a request about it; false if it is the last answer of k.
func (k *call) takesTask(m *message, x *exchange) bool {
	if !k.tasks || k.mark == "" || m.Error != nil || k.method == "tasks/result" {
		return false
	}
	s := k.s
	var r struct {
		taskState
		Task *taskState
	}
	_ = json.Unmarshal(m.Result, &r)
	state := &r.taskState
	if k.task == "" {
		if r.Task != nil {
			state = r.Task
		}
		if state.TaskID == "" || s.c.modern != (r.ResultType == "task") || s.c.modern == (r.Task != nil) {
			return false
		}
		k.task, s.c.lastTask = state.TaskID, state.TaskID
	}
	if state.TaskID != k.task {
		s.strange(x, "the state of another task than "+k.task, m.raw)
	}
	k.unregister()
	k.x = nil
	s.note(x, trace.Event{Kind: trace.Tasked, Mark: k.mark, Method: k.method, ID: state.TaskID, Text: state.Status, Raw: m.raw})
	number := k.mark[len(k.mark)-1]
	switch {
	case k.silent:
		if k.method == "tools/call" {
			k.cancelTask() // it was given up before there was a task
		}
		k.end()
	case !state.over() && k.method == "tools/call" && !s.c.modern && number%2 == 0: // it waits for the result
		k.askTask("tasks/result")
	case !state.over():
		s.c.later(taskPoll, func() { k.askTask("tasks/get") })
	case !s.c.modern:
		k.askTask("tasks/result")
	case k.method == "tools/call": // over already: what came of it is asked for
		k.askTask("tasks/get")
	default:
		k.end()
		e := trace.Event{Kind: trace.Answered, Mark: k.mark, Method: k.method, ID: k.id, Raw: m.raw, Text: contentText(state.Result)}
		e.Text = e.Text[:min(len(e.Text), 200)]
		switch {
		case state.Error != nil:
			e.Failed = state.Error.String()
		case state.Status != "completed":
			e.Failed = "task " + state.Status
		}
		s.note(x, e)
	}
	return true
}

// askTask asks for the state or the result of the task of k.
func (k *call) askTask(method string) {
	if k.goesOn() {
		k.method, k.params = method, object{"taskId": k.task}
		k.s.send(k.s.register(trace.Polls, k, "", k.task), k)
	}
}

// cancelTask cancels the task of k.
func (k *call) cancelTask() {
	if s := k.s; !s.over && !s.c.gone {
		s.request(trace.Requests, &call{method: "tasks/cancel", params: object{"taskId": k.task}, tasks: true}, "", k.task)
	}
}

// LastTask is the last task that the client has got; "" for none.
func (c *Client) LastTask() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastTask
}

// peek asks for a task that may be another client's.
func (s *clientSession) peek(method, task string) {
	if method == "result" && s.c.modern {
		method = "get"
	}
	if !s.c.o.Lacks("tasks") && s.revision >= "2025-11-25" {
		s.request(trace.Requests, &call{method: "tasks/" + method, params: object{"taskId": task}, tasks: true}, "", "peek "+task)
	}
}
