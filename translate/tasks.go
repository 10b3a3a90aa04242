package translate

import (
	"errors"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// dropTaskTools removes execution from a tool, and a tool that can only be run as
// a task from the list (C07).
func dropTaskTools(x *pass, tool wire.Node) {
	if tool.Get(wire.Execution).Get(wire.TaskSupport).Is("required") {
		x.lost(tool, wire.Warn)
		tool.Remove()
	}
}

var errTaskResult = errors.New("the server created a task that nobody asked for")

// refuseTaskResult fails an answer that is a task although the call was not sent
// as one (C20).
func refuseTaskResult(x *pass, result wire.Node) {
	task := result.Get(wire.Task)
	if task.OK() && task.Kind() == '{' && !result.Get(wire.Content).OK() && !result.Get(wire.Action).OK() {
		x.fail(task, errTaskResult)
	}
}

// dropUnlessNamed drops a cancellation that does not say of what (C23).
func dropUnlessNamed(x *pass, root wire.Node) {
	if !root.Get(wire.Params).Get(wire.RequestID).OK() {
		drop(x, root)
	}
}
