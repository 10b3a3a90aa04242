package corpus

import "github.com/dragoman-proxy/dragoman/translate/wire"

const initializeRequest = "initialize"

// lifecycle adds the messages of the handshake and those that keep a session alive.
func (w *writer) lifecycle() {
	s := newSource("lifecycle")
	w.request(initializeRequest, client, wire.Initialize, object{
		"protocolVersion", w.revision.Name,
		"capabilities", object{
			"sampling", object{"tools", object{}},
			"roots", object{"listChanged", true},
			"elicitation", object{"form", object{}, "url", object{}},
			"tasks", object{"list", object{}, "cancel", object{}, "requests", object{"elicitation", object{"create", object{}}}},
		},
		"clientInfo", object{"name", "example-editor", "title", "Example Editor", "version", "1.84.2", "websiteUrl", "https://editor.example.com", "icons", s.icons()},
	}, object{
		"protocolVersion", w.revision.Name,
		"capabilities", object{
			"tools", object{"listChanged", true}, "prompts", object{"listChanged", true},
			"resources", object{"subscribe", true, "listChanged", true}, "logging", object{},
			"tasks", object{"list", object{}, "cancel", object{}, "requests", object{"tools", object{"call", object{}}}}, "completions", object{},
		},
		"serverInfo", object{"name", "mcp-servers/example", "title", "Example Server", "version", "2.0.0", "description", s.line(90), "websiteUrl", "https://server.example.com", "icons", s.icons()},
		"instructions", s.sentences(1500),
	})
	w.notify("initialized", client, wire.Initialized, nil)
	w.request("ping", client, wire.Ping, nil, object{})
	w.request("ping_back", server, wire.Ping, nil, object{})
	w.request("set_level", client, wire.LoggingSetLevel, object{"level", "debug"}, object{})
}

// notifications adds the notifications that are not in other files.
func (w *writer) notifications() {
	s := newSource("notifications")
	w.notify("progress", server, wire.Progress, object{"progress", 3, "total", 16, "progressToken", 67})
	w.notify("progress_with_message", server, wire.Progress, object{"progress", 0.25, "progressToken", "3f1c", "message", s.line(60)})
	w.notify("log_text", server, wire.LogMessage, object{"level", "info", "logger", "example-server", "data", s.line(120)})
	w.notify("log_data", server, wire.LogMessage, object{"level", "warning", "data", object{"message", s.line(50), "title", "x", "attempt", 3, "_meta", object{"a", 1}}})
	w.notify("cancelled", client, wire.Cancelled, object{"requestId", 67, "reason", "Error: the user closed the tab"})
	w.notify("cancelled_back", server, wire.Cancelled, object{"requestId", "ask-7"})
	w.notify("resource_updated", server, wire.ResourcesUpdated, object{"uri", "demo://resource/dynamic/text/1"})
	w.notify("resources_changed", server, wire.ResourcesListChanged, nil)
	w.notify("tools_changed", server, wire.ToolsListChanged, nil)
	w.notify("prompts_changed", server, wire.PromptsListChanged, nil)
	w.notify("roots_changed", client, wire.RootsListChanged, nil)
	w.notify("elicitation_completed", server, wire.ElicitationCompleted, object{"elicitationId", "e-1"})
	w.notify("task_status", server, wire.TasksStatus, object{"taskId", "786512e2", "status", "working", "statusMessage", s.line(40), "createdAt", "2025-11-25T10:30:00Z", "lastUpdatedAt", "2025-11-25T10:40:00Z", "ttl", 60000, "pollInterval", 5000})
	w.add("vendor_notification", server, wire.OtherMethod, object{"method", "notifications/example.com/tick", "params", object{"title", "x", "at", 1731}, "jsonrpc", "2.0"})
}
