package mcp

import "github.com/tidwall/gjson"

// MetaPrefix begins the reserved members of _meta of revisions without a handshake.
const MetaPrefix = "io.modelcontextprotocol/"

// Reserved members of _meta. See https://modelcontextprotocol.io/specification/2026-07-28/basic#meta.
const (
	MetaVersion      = MetaPrefix + "protocolVersion"    // of requests
	MetaClient       = MetaPrefix + "clientInfo"         // of requests
	MetaCapabilities = MetaPrefix + "clientCapabilities" // of requests
	MetaLogLevel     = MetaPrefix + "logLevel"           // of requests
	MetaServer       = MetaPrefix + "serverInfo"         // of results
	MetaSubscription = MetaPrefix + "subscriptionId"     // of notifications of a subscription
	MetaRelatedTask  = MetaPrefix + "related-task"       // of messages about a task
)

// TasksExtension is the extension that modern servers and clients with tasks declare. See
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html.
const TasksExtension = MetaPrefix + "tasks"

// Declares reports whether capabilities have a member of this name that is not null. name is a gjson path.
func Declares(capabilities gjson.Result, name string) bool {
	c := capabilities.Get(name)
	return c.Exists() && c.Type != gjson.Null
}

// DeclaresTasks reports whether capabilities have [TasksExtension].
func DeclaresTasks(capabilities gjson.Result) (declared bool) {
	Members(capabilities.Get("extensions").Raw, func(name string, v gjson.Result) {
		declared = declared || name == TasksExtension && v.Type != gjson.Null
	})
	return declared
}

// Members calls do for each member of a JSON object, with its unescaped name. It does nothing if object is
// not a JSON object.
func Members(object string, do func(name string, v gjson.Result)) {
	v := gjson.Parse(object)
	if !v.IsObject() {
		return
	}
	v.ForEach(func(key, v gjson.Result) bool {
		do(key.String(), v)
		return true
	})
}
