package translate

import (
	"errors"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Tasks are a part of 2025-11-25 and an extension of 2026-07-28; see
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks and
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html.

// wantsTask reports whether the message belongs to a tools/call that is to run as a task.
func (x *pass) wantsTask() bool {
	return bridgesTasks(x.t.options) && !x.t.from.SameEra(x.t.to) &&
		x.m.Method == wire.ToolsCall && x.m.Stamp != nil && x.m.Stamp.Task != nil
}

// dropTaskTools removes tools that only run as tasks from the list, unless tasks are bridged (C07).
func dropTaskTools(x *pass, tool wire.Node) {
	if tool.Get(wire.Execution).Get(wire.TaskSupport).Is("required") && !x.carriesTasks() {
		x.lost(tool, wire.Warn)
		tool.Remove()
	}
}

// allowTask declares that a tool may run as a task: a server of 2026-07-28 decides for each call (G.3).
func allowTask(x *pass, tool wire.Node) {
	if !x.carriesTasks() || tool.Kind() != '{' || tool.Get(wire.Execution).OK() {
		return
	}
	x.lost(tool, wire.Debug)
	tool.Add(append(x.m.Writer(), `"execution":{"taskSupport":"optional"}`...))
}

// stripTasks removes a declaration of tasks, and reports the loss unless tasks are bridged.
func stripTasks(x *pass, n wire.Node) {
	if x.m.Kind == wire.Result && x.carriesTasks() {
		remove(x, n)
		return
	}
	stripDefault(x, n)
}

// stripTask removes the request to run a call as a task, and reports the loss unless tasks are bridged.
func stripTask(x *pass, task wire.Node) {
	if x.wantsTask() {
		remove(x, task)
		return
	}
	strip(x, task)
}

// askForTask marks the call as one that may run as a task, if the client has the tasks extension (G.3).
func askForTask(x *pass, params wire.Node) {
	if !x.wantsTask() {
		return
	}
	x.lost(params, wire.Debug)
	if at := params.Get(wire.Task); at.OK() {
		at.Put(append(x.m.Writer(), x.m.Stamp.Task...))
	} else {
		params.Add(append(append(x.m.Writer(), `"task":`...), x.m.Stamp.Task...))
	}
}

var errTaskResult = errors.New("the server created a task that the client did not ask for")

// refuseTaskResult fails a result that is a task although the request did not ask for one (C20).
func refuseTaskResult(x *pass, result wire.Node) {
	if isTask(result) && !x.wantsTask() {
		x.fail(result.Get(wire.Task), errTaskResult)
	}
}

// isTask reports whether a result creates a task. A result that also has content or an action is not one.
func isTask(result wire.Node) bool {
	task := result.Get(wire.Task)
	return task.OK() && task.Kind() == '{' && !result.Get(wire.Content).OK() && !result.Get(wire.Action).OK()
}

// flattenTask moves the members of a task out of the member `task` of the result (G.3).
func flattenTask(x *pass, result wire.Node) {
	if !x.wantsTask() || !isTask(result) {
		return
	}
	task := result.Get(wire.Task)
	if !task.First().OK() {
		x.fail(task, errTaskResult)
		return
	}
	x.lost(task, wire.Debug)
	task.Swap(appendTask(x.m.Writer(), task, renamedUp))
}

// wrapTask moves the members of a task into the member `task` of the result (G.3).
func wrapTask(x *pass, root wire.Node) {
	result := root.Get(wire.ResultKey)
	if !x.wantsTask() || !result.Get(wire.ResultType).Is("task") {
		return
	}
	x.lost(result, wire.Debug)
	w := append(x.m.Writer(), `{"task":{`...)
	w = append(appendTask(w, result, renamedDown), '}')
	if meta := result.Get(wire.Meta); meta.OK() {
		open := len(w)
		w = append(w, `,"_meta":{`...)
		none := len(w)
		for c := meta.First(); meta.Kind() == '{' && c.OK(); c = c.Next() {
			if !isStamp(c.Name()) {
				w = appendMember(w, len(w) > none, c.Key(), c.Raw())
			}
		}
		if len(w) == none {
			w = w[:open]
		} else {
			w = append(w, '}')
		}
	}
	result.Put(append(w, '}'))
}

// renamedUp and renamedDown return the name of a task's member in the other revision, or "" for a member to leave
// out.
func renamedUp(c wire.Node) (key string) {
	switch c.Name() {
	case wire.TTL:
		return wire.TTLMs.String()
	case wire.PollInterval:
		return wire.PollIntervalMs.String()
	}
	return string(c.Key())
}

func renamedDown(c wire.Node) (key string) {
	switch c.Name() {
	case wire.TTLMs:
		return wire.TTL.String()
	case wire.PollIntervalMs:
		return wire.PollInterval.String()
	case wire.ResultType, wire.Meta, wire.ResultKey, wire.ErrorKey, wire.InputRequests:
		return ""
	}
	return string(c.Key())
}

// appendTask appends the members of a task, with the names that the function name returns.
func appendTask(dst []byte, task wire.Node, name func(wire.Node) string) []byte {
	from := len(dst)
	for c := task.First(); c.OK(); c = c.Next() {
		if key := name(c); key != "" {
			dst = appendMember(dst, len(dst) > from, []byte(key), c.Raw())
		}
	}
	return dst
}

func appendMember(dst []byte, comma bool, key, value []byte) []byte {
	if comma {
		dst = append(dst, ',')
	}
	dst = append(append(append(dst, '"'), key...), `":`...)
	return append(dst, value...)
}

// taskUp renames the members of a task's state. The status failed of a task with a result becomes completed: in
// 2026-07-28 a tool that failed is not a failed task (G.3).
func taskUp(x *pass, task wire.Node) {
	if task.Kind() != '{' {
		return
	}
	x.lost(task, wire.Debug)
	ended := task.Get(wire.ResultKey).OK()
	for c := task.First(); c.OK(); c = c.Next() {
		switch c.Name() {
		case wire.TTL, wire.PollInterval:
			c.Swap(appendMember(x.m.Writer(), false, []byte(renamedUp(c)), c.Raw()))
		case wire.Status:
			if ended && c.Is("failed") {
				c.Put(append(x.m.Writer(), `"completed"`...))
			}
		}
	}
}

// taskDown renames the members of a task's state and removes the result, which clients of 2025-11-25 request with
// tasks/result. The status completed of a task whose tool failed becomes failed (G.3).
func taskDown(x *pass, task wire.Node) {
	if task.Kind() != '{' {
		return
	}
	x.lost(task, wire.Debug)
	result := task.Get(wire.ResultKey)
	isError := result.Get(wire.IsError)
	failed := isError.OK() && isError.Kind() == 't'
	for c := task.First(); c.OK(); c = c.Next() {
		switch c.Name() {
		case wire.TTLMs, wire.PollIntervalMs:
			c.Swap(appendMember(x.m.Writer(), false, []byte(renamedDown(c)), c.Raw()))
		case wire.ResultKey, wire.ErrorKey, wire.InputRequests:
			c.Remove()
		case wire.Status:
			if failed && c.Is("completed") {
				c.Put(append(x.m.Writer(), `"failed"`...))
			}
		}
	}
}

// acknowledge removes all members of the result but `_meta` (G.3).
func acknowledge(x *pass, result wire.Node) {
	if result.Kind() != '{' {
		return
	}
	for c := result.First(); c.OK(); c = c.Next() {
		if c.Name() != wire.Meta && c.Name() != wire.ResultType {
			x.lost(result, wire.Debug)
			c.Remove()
		}
	}
}

// tasksStatusUp renames the notification of a task's state. The proxy requests the task's result from the server
// and adds it (G.3).
func tasksStatusUp(x *pass, root wire.Node) {
	handOver(x, root)
	root.Get(wire.MethodKey).Put(appendQuoted(x.m.Writer(), wire.TasksNotified))
}

// tasksStatusDown renames the notification of a task's state and removes the `_meta` members of 2026-07-28 (G.3).
func tasksStatusDown(x *pass, root wire.Node) {
	x.lost(root, wire.Debug)
	root.Get(wire.MethodKey).Put(appendQuoted(x.m.Writer(), wire.TasksStatus))
	if meta := root.Get(wire.Params).Get(wire.Meta); meta.OK() {
		removeMembers(meta, isStamp)
	}
}

func appendQuoted(dst []byte, m wire.Method) []byte {
	return append(append(append(dst, '"'), m.String()...), '"')
}

// declareExtension turns the capability `tasks` into the tasks extension (G.3).
func declareExtension(x *pass, capabilities wire.Node) {
	if !x.carriesTasks() || capabilities.Kind() != '{' {
		return
	}
	extensions := capabilities.Get(wire.Extensions)
	member := append(append(append(make([]byte, 0, 64), '"'), wire.TasksExtension.String()...), `":{}`...)
	switch {
	case !extensions.OK():
		x.lost(capabilities, wire.Debug)
		capabilities.Add(append(append(append(x.m.Writer(), `"extensions":{`...), member...), '}'))
	case extensions.Kind() != '{':
		x.lost(capabilities, wire.Debug)
		extensions.Put(append(append(append(x.m.Writer(), '{'), member...), '}'))
	case !extensions.Get(wire.TasksExtension).OK():
		x.lost(capabilities, wire.Debug)
		extensions.Add(append(x.m.Writer(), member...))
	}
}

// declareTasks turns the tasks extension into the capability `tasks`, with cancellation and without a list
// (G.3).
func declareTasks(x *pass, capabilities wire.Node) {
	const tasks = `{"cancel":{},"requests":{"tools":{"call":{}}}}`
	if !x.carriesTasks() || capabilities.Kind() != '{' {
		return
	}
	x.lost(capabilities, wire.Debug)
	if at := capabilities.Get(wire.Tasks); at.OK() {
		at.Put(append(x.m.Writer(), tasks...))
		return
	}
	capabilities.Add(append(x.m.Writer(), `"tasks":`+tasks...))
}

// dropUnlessNamed drops a cancellation without a requestId (C23).
func dropUnlessNamed(x *pass, root wire.Node) {
	if !root.Get(wire.Params).Get(wire.RequestID).OK() {
		drop(x, root)
	}
}
