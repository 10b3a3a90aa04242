package slowtest

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// bridgesTasks reports whether tasks are translated between the revision that has them and the one
// that has an extension for them.
func (j *job) bridgesTasks() bool {
	return j.Tasks != "strip" && (j.from == r11 && j.up(r26) || j.down(r26) && j.to == r11)
}

// carriesTasks reports whether tasks are bridged and the server has tasks.
func (j *job) carriesTasks() bool { return j.bridgesTasks() && j.Facts.Has(wire.ServerTasks) }

// wantsTask reports whether the client wants this call to run as a task.
func (j *job) wantsTask() bool {
	return j.bridgesTasks() && j.Method == wire.ToolsCall && j.Stamp != nil && j.Stamp.Task != nil
}

// leftOut stands for a member that is left out. No name is it, as it is not UTF-8.
const leftOut = "\xff"

// rewriteMembers renames the members of an object.
func rewriteMembers(object gjson.Result, name func(string) string) string {
	var out []string
	object.ForEach(func(key, v gjson.Result) bool {
		if n := name(key.String()); n != leftOut {
			if n == key.String() {
				n = key.Raw
			} else {
				n = quote(n)
			}
			out = append(out, n+":"+v.Raw)
		}
		return true
	})
	return strings.Join(out, ",")
}

func taskMemberUp(name string) string {
	switch name {
	case "ttl":
		return "ttlMs"
	case "pollInterval":
		return "pollIntervalMs"
	}
	return name
}

func taskMemberDown(name string) string {
	switch name {
	case "ttlMs":
		return "ttl"
	case "pollIntervalMs":
		return "pollInterval"
	case "result", "error", "inputRequests":
		return leftOut
	}
	return name
}

// flattenTask moves the members of a task out of the result's member task.
func (j *job) flattenTask() {
	members := rewriteMembers(j.at("result"), func(name string) string {
		if name == "task" {
			return leftOut
		}
		return name
	})
	if members != "" {
		members = "," + members
	}
	if !j.at("result.resultType").Exists() {
		members += `,"resultType":"task"`
	}
	j.set("result", "{"+rewriteMembers(j.at("result.task"), taskMemberUp)+members+"}")
}

// wrapTask moves the members of a task into the result's member task.
func (j *job) wrapTask() {
	out := `{"task":{` + rewriteMembers(j.at("result"), func(name string) string {
		if name == "resultType" || name == "_meta" {
			return leftOut
		}
		return taskMemberDown(name)
	}) + "}"
	if meta := j.at("result._meta"); meta.Exists() {
		kept := rewriteMembers(meta, func(name string) string {
			if slices.Contains(reserved, name) {
				return leftOut
			}
			return name
		})
		if kept != "" {
			out += `,"_meta":{` + kept + "}"
		}
	}
	j.set("result", out+"}")
}

// taskState translates the state of a task, at path.
func (j *job) taskState(path string) {
	task := j.at(path)
	if !j.bridgesTasks() || !task.IsObject() {
		return
	}
	if j.up(r26) {
		if task.Get("result").Exists() && j.isText(path+".status", "failed") {
			j.set(path+".status", `"completed"`)
		}
		j.set(path, "{"+rewriteMembers(j.at(path), taskMemberUp)+"}")
		return
	}
	if result := task.Get("result"); result.IsObject() && result.Get("isError").Type == gjson.True && j.isText(path+".status", "completed") {
		j.set(path+".status", `"failed"`)
	}
	j.set(path, "{"+rewriteMembers(j.at(path), taskMemberDown)+"}")
}

// keepOnly removes all other members of an object.
func (j *job) keepOnly(path string, names ...string) {
	if !j.at(path).IsObject() {
		return
	}
	j.set(path, "{"+rewriteMembers(j.at(path), func(name string) string {
		if slices.Contains(names, name) {
			return name
		}
		return leftOut
	})+"}")
}

// tasksCapability declares the server's tasks as the other revision does.
func (j *job) tasksCapability(path string) {
	if j.up(r26) {
		if !j.at(path + ".extensions").IsObject() {
			j.set(path+".extensions", "{}")
		}
		if at := path + ".extensions." + escaped(tasksExtension); !j.at(at).Exists() {
			j.set(at, "{}")
		}
		return
	}
	j.dropAll(path, "extensions", tasksExtension)
	j.set(path+".tasks", `{"cancel":{},"requests":{"tools":{"call":{}}}}`)
}

func (j *job) stripTask() {
	if j.down(r11) {
		j.strip("params", "task")
	}
}

var reserved = []string{metaVersion, metaCapabilities, metaClient, metaLevel, metaServer, metaSubscription}

// escaped returns a member name as a step of a path.
func escaped(name string) string { return strings.ReplaceAll(name, ".", `\.`) }

// The reserved names of 2026-07-28.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaLevel        = "io.modelcontextprotocol/logLevel"
	metaServer       = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
	tasksExtension   = "io.modelcontextprotocol/tasks"
)

// dropAll removes members of an object inside another, and the object if
// no member is left.
func (j *job) dropAll(outer, inner string, names ...string) {
	path := outer + "." + inner
	if !j.at(outer).IsObject() || !j.at(path).IsObject() {
		return
	}
	gone := false
	for _, name := range names {
		if j.at(path + "." + escaped(name)).Exists() {
			j.remove(path + "." + escaped(name))
			gone = true
		}
	}
	if gone && empty(j.at(path)) {
		j.remove(path)
	}
}
