package translate

import "github.com/dragoman-proxy/dragoman/translate/wire"

// step20251125 is what 2025-11-25 changed in 2025-06-18
// (https://modelcontextprotocol.io/specification/2025-11-25/changelog).
var step20251125 = Step{
	To: rev20251125,
	Up: []Rule{
		{ID: "C19", What: "multi-select", At: at(wire.Result, wire.ElicitationCreate, "result"),
			Reads: []string{"action", "content.*"}, Do: gatherForm},
		{ID: "C24", What: "id", At: at(wire.Error, anyMethod, "id"), Do: removeNullID},
		{ID: "C26", What: "includeContext", At: in("includeContext", sampling), Do: dropIncludeContext},
	},
	Down: []Rule{
		{ID: "C05", What: "icons", At: in("icons", tools, prompts, resources, templates, identities), Do: strip},
		{ID: "C05", What: "icons", At: in("icons", blocks), Reads: []string{"../type"}, Do: stripLinkIcons},
		{ID: "C06", What: "description", At: in("description", identities), Do: strip},
		{ID: "C06", What: "websiteUrl", At: in("websiteUrl", identities), Do: strip},
		{ID: "C07", What: "task-only tool", At: tools, Reads: []string{"execution.taskSupport"}, Do: dropTaskTools},
		{ID: "C07", What: "execution", At: in("execution", tools), Do: stripDefault},
		{ID: "C07", What: "task", At: in("task", sampling, question, at(wire.Request, wire.ToolsCall, "params")), Do: strip},
		{ID: "C08", What: "_meta", At: in("_meta", samplingMessages), Do: strip},
		{ID: "C12", What: "content", At: samplingMessages, Reads: []string{"*", "content[].*"}, Do: splitMessage},
		{ID: "C12", What: "content", At: in("content", samplingResult), Reads: []string{"[].*", "[].content[].*", "*", "content[].*"}, Do: joinAnswer},
		{ID: "C19", What: "multi-select", At: in("requestedSchema", question),
			Reads: []string{"properties.*.*", "properties.*.items.enum[]", "properties.*.items.anyOf[].*", "properties.*.items.oneOf[].*",
				"properties.*.oneOf[].*", "properties.*.default[]", "required[]"}, Do: flattenForm},
		{ID: "C17", What: "mode", At: in("mode", question), Do: stripDefault},
		{ID: "C17", What: "$schema", At: in("requestedSchema.$schema", question), Do: stripDefault},
		{ID: "C17", What: "elicitation", At: in("elicitation", clientCapabilities), Reads: []string{"*"}, Do: formOnly},
		{ID: "C13", What: "sampling", At: in("sampling", clientCapabilities), Reads: []string{"*"}, Do: stripMembers},
		{ID: "C20", What: "tasks", At: in("tasks", clientCapabilities, serverCapabilities), Do: strip},
		{ID: "C20", What: "tasks", At: both(
			at(wire.Request, wire.TasksGet, ""), at(wire.Request, wire.TasksResult, ""),
			at(wire.Request, wire.TasksList, ""), at(wire.Request, wire.TasksCancel, "")), Do: methodNotFound},
		{ID: "C20", What: "notifications/tasks/status", At: at(wire.Notification, wire.TasksStatus, ""), Do: drop},
		{ID: "C20", What: "task", At: both(toolCall, samplingResult, at(wire.Result, wire.ElicitationCreate, "result")),
			Reads: []string{"*"}, Do: refuseTaskResult},
		{ID: "C21", What: "notifications/elicitation/complete", At: at(wire.Notification, wire.ElicitationCompleted, ""), Do: drop},
		{ID: "C22", What: "-32042", At: at(wire.Error, anyMethod, "error"),
			Reads: []string{"*", "data.elicitations[].*"}, Do: explainURLs},
		{ID: "C23", What: "notifications/cancelled", At: at(wire.Notification, wire.Cancelled, ""),
			Reads: []string{"params.*"}, Do: dropUnlessNamed},
		{ID: "C24", What: "id", At: at(wire.Error, anyMethod, ""), Do: addNullID},
	},
}

// always has the rules between any two different revisions: the handshake names the receiver's revision, and a
// request for a capability that the client did not declare is refused on the client's behalf, because some servers
// ignore the declared capabilities.
var always = []Rule{
	{ID: "D.3", What: "protocolVersion", At: both(
		at(wire.Request, wire.Initialize, "params.protocolVersion"),
		at(wire.Result, wire.Initialize, "result.protocolVersion")), Do: setRevision},
	{ID: "C17", What: "elicitation/create", At: at(wire.Request, wire.ElicitationCreate, ""), Reads: []string{"params.*"}, Do: refuseForm},
	{ID: "C18", What: "elicitation/create", At: at(wire.Request, wire.ElicitationCreate, ""), Reads: []string{"params.*"}, Do: refuseURL},
	{ID: "C13", What: "tools", At: sampling,
		Reads: []string{"*", "messages[].content.*", "messages[].content[].*", "messages[].content[].content[].*"}, Do: refuseSamplingTools},
}
