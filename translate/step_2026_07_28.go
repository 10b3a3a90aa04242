package translate

import "github.com/dragoman-proxy/dragoman/translate/wire"

// step20260728 is what 2026-07-28 changed in 2025-11-25: there is no handshake and no session, and the server sends
// no requests. Messages whose translation needs the state of a session get the verdict Local
// (https://modelcontextprotocol.io/specification/2026-07-28/changelog).
var step20260728 = Step{
	To: rev20260728,
	Up: append(renamed, []Rule{
		{ID: "C20", What: "tasks", At: both(
			at(wire.Request, wire.TasksGet, ""), at(wire.Request, wire.TasksResult, ""), at(wire.Request, wire.TasksCancel, ""),
			at(wire.Request, wire.TasksUpdate, "")), Do: methodNotFound, When: stripsTasks},
		{ID: "C20", What: "tasks", At: at(wire.Request, wire.TasksList, ""), Do: methodNotFound},
		{ID: "C20", What: "notifications/tasks/status", At: at(wire.Notification, wire.TasksStatus, ""), Do: drop, When: stripsTasks},
		{ID: "C20", What: "tasks", At: in("tasks", clientCapabilities, serverCapabilities), Do: stripTasks},
		{ID: "C20", What: "task", At: both(toolCall, samplingResult, at(wire.Result, wire.ElicitationCreate, "result")),
			Reads: []string{"*"}, Do: refuseTaskResult},
		{ID: "G.3", What: "tasks/result", At: at(wire.Request, wire.TasksResult, ""), Do: handOver, When: bridgesTasks},
		{ID: "G.3", What: "task", At: toolCall, Reads: []string{"task.*"}, Do: flattenTask, When: bridgesTasks},
		{ID: "G.3", What: "task", At: both(at(wire.Result, wire.TasksGet, "result"), at(wire.Notification, wire.TasksStatus, "params")),
			Reads: []string{"*"}, Do: taskUp, When: bridgesTasks},
		{ID: "G.3", What: "task", At: at(wire.Result, wire.TasksCancel, "result"), Reads: []string{"*"}, Do: acknowledge, When: bridgesTasks},
		{ID: "G.3", What: "notifications/tasks/status", At: at(wire.Notification, wire.TasksStatus, ""),
			Reads: []string{"method"}, Do: tasksStatusUp, When: bridgesTasks},
		{ID: "G.2", What: "ping", At: at(wire.Request, wire.Ping, ""), Do: answerEmpty},
		{ID: "G.2", What: "session", At: both(
			at(wire.Request, wire.Initialize, ""), at(wire.Request, wire.LoggingSetLevel, ""),
			at(wire.Request, wire.ResourcesSubscribe, ""), at(wire.Request, wire.ResourcesUnsubscribe, ""),
			at(wire.Notification, wire.Initialized, "")), Do: handOver},
		{ID: "C21", What: "notifications/elicitation/complete", At: at(wire.Notification, wire.ElicitationCompleted, ""), Do: handOver},
		{ID: "C23", What: "notifications/cancelled", At: at(wire.Notification, wire.Cancelled, ""),
			Reads: []string{"params.*"}, Do: dropUnlessNamed},
		{ID: "C27", What: "notifications/roots/list_changed", At: at(wire.Notification, wire.RootsListChanged, ""), Do: dropQuietly},
		{ID: "C27", What: "listChanged", At: in("roots.listChanged", clientCapabilities), Do: remove},
		{ID: "C28", What: "extensions", At: in("extensions", clientCapabilities, serverCapabilities), Reads: []string{"*"}, Do: removeTasksExtension},
		{ID: "G.3", What: "tasks", At: serverCapabilities, Reads: []string{"extensions.*"}, Do: declareExtension, When: bridgesTasks},

		{ID: "C33", What: "request", At: both(
			at(wire.Request, wire.SamplingCreateMessage, ""), at(wire.Request, wire.RootsList, ""), at(wire.Request, wire.ElicitationCreate, "")),
			Reads: []string{"*", "params._meta.*"}, Do: embed},
		{ID: "C07", What: "task", At: in("task", sampling, question, at(wire.Request, wire.ToolsCall, "params")), Do: stripTask},
		{ID: "C18", What: "elicitationId", At: in("elicitationId", question), Do: remove},
		{ID: "C33", What: "_meta", At: both(
			at(wire.Result, wire.ElicitationCreate, "result._meta"), at(wire.Result, wire.RootsList, "result._meta")), Do: remove},

		{ID: "C07", What: "task-only tool", At: tools, Reads: []string{"execution.taskSupport"}, Do: dropTaskTools},
		{ID: "C07", What: "execution", At: in("execution", tools), Do: stripTasks},
		{ID: "C07", What: "execution", At: in("execution", samplingTools), Do: stripDefault},

		{ID: "C22", What: "-32042", At: at(wire.Error, anyMethod, "error"), Reads: []string{"code"}, Do: handOverURLs},
		{ID: "C22", What: "-32002", At: at(wire.Error, anyMethod, "error"), Reads: []string{"code", "data.uri"}, Do: notFoundAsParams},

		{ID: "C29", What: "content", At: at(wire.Result, wire.ToolsCall, "result"), Reads: []string{"content", "resultType", "task"}, Do: addContent},
		{ID: "C29", What: "resultType", At: at(wire.Result, anyMethod, "result"), Reads: []string{"resultType", "task"}, Do: addResultType},
		{ID: "C30", What: "ttlMs", At: cacheable, Reads: []string{"ttlMs", "cacheScope"}, Do: addCacheHints},
		{ID: "C43", What: "nextCursor", At: in("nextCursor", lists), Do: removeEmptyCursor},
		{ID: "C31", What: "_meta", At: at(wire.Request, anyMethod, ""), Reads: []string{"*", "params._meta.*"}, Do: stampRequest},
		{ID: "C32", What: "serverInfo", At: at(wire.Result, anyMethod, "result"), Reads: []string{"*", "_meta.*"}, Do: stampResult},
		{ID: "C34", What: "subscriptionId", At: subscribed, Reads: []string{"*", "params._meta.*"}, Do: stampNotification},
	}...),
	Down: append(renamed, []Rule{
		{ID: "F.3", What: "method", At: both(
			at(wire.Request, wire.Ping, ""), at(wire.Request, wire.LoggingSetLevel, ""),
			at(wire.Request, wire.ResourcesSubscribe, ""), at(wire.Request, wire.ResourcesUnsubscribe, "")), Do: methodNotFound},
		{ID: "G.1", What: "request", At: both(
			at(wire.Request, wire.ServerDiscover, ""), at(wire.Request, wire.SubscriptionsListen, "")), Do: handOver},
		{ID: "C20", What: "tasks", At: both(
			at(wire.Request, wire.TasksGet, ""), at(wire.Request, wire.TasksCancel, ""), at(wire.Request, wire.TasksUpdate, "")),
			Do: methodNotFound, When: stripsTasks},
		{ID: "C20", What: "notifications/tasks", At: at(wire.Notification, wire.TasksNotified, ""), Do: drop, When: stripsTasks},
		{ID: "G.3", What: "tasks/update", At: at(wire.Request, wire.TasksUpdate, ""), Do: handOver, When: bridgesTasks},
		{ID: "G.3", What: "task", At: at(wire.Result, wire.ToolsCall, ""),
			Reads: []string{"result.*", "result._meta.*"}, Do: wrapTask, When: bridgesTasks},
		{ID: "G.3", What: "task", At: at(wire.Request, wire.ToolsCall, "params"), Reads: []string{"*"}, Do: askForTask, When: bridgesTasks},
		{ID: "C34", What: "notifications/subscriptions/acknowledged", At: at(wire.Notification, wire.SubscriptionsAcknowledged, ""), Do: handOver},
		{ID: "C29", What: "resultType", At: at(wire.Result, anyMethod, ""), Reads: []string{"result.resultType"}, Do: readResultType},
		{ID: "C30", What: "ttlMs", At: in("ttlMs", cacheable), Do: remove},
		{ID: "C30", What: "cacheScope", At: in("cacheScope", cacheable), Do: remove},
		{ID: "C43", What: "nextCursor", At: in("nextCursor", lists), Do: keepEmptyCursor},
		{ID: "C31", What: "_meta", At: at(wire.Request, anyMethod, "params._meta"), Reads: []string{"*"}, Do: unstamp},
		{ID: "C32", What: "serverInfo", At: at(wire.Result, anyMethod, "result._meta"), Reads: []string{"*"}, Do: unstamp},
		{ID: "G.3", What: "task", At: both(at(wire.Result, wire.TasksGet, "result"), at(wire.Notification, wire.TasksNotified, "params")),
			Reads: []string{"*", "result.isError"}, Do: taskDown, When: bridgesTasks},
		{ID: "G.3", What: "notifications/tasks", At: at(wire.Notification, wire.TasksNotified, ""),
			Reads: []string{"method", "params._meta.*"}, Do: tasksStatusDown, When: bridgesTasks},
		{ID: "C34", What: "subscriptionId", At: in("params._meta", subscribed), Reads: []string{"*"}, Do: unstamp},
		{ID: "C33", What: "inputResponses", At: in("inputResponses", retried), Do: remove},
		{ID: "C33", What: "requestState", At: in("requestState", retried), Do: remove},
		{ID: "C18", What: "elicitationId", At: question, Reads: []string{"mode", "elicitationId"}, Do: nameURL},
		{ID: "G.3", What: "tasks", At: serverCapabilities, Reads: []string{"*", "extensions.*"}, Do: declareTasks, When: bridgesTasks},
		{ID: "C28", What: "extensions", At: in("extensions", clientCapabilities, serverCapabilities), Reads: []string{"*"}, Do: removeTasksExtension},
		{ID: "G.3", What: "execution", At: tools, Reads: []string{"execution.taskSupport"}, Do: allowTask, When: bridgesTasks},
		{ID: "C03", What: "outputSchema", At: in("outputSchema", tools, samplingTools), Reads: []string{"type"}, Do: stripUnlessObject},
		{ID: "C25", What: "boolean schema", At: both(
			in("inputSchema.properties.*", tools, samplingTools), in("outputSchema.properties.*", tools, samplingTools)),
			Do: booleanToSchema},
		{ID: "C04", What: "structuredContent", At: in("structuredContent", toolCall),
			Reads: []string{"../content[].type", "../content[].text"}, Do: structuredUnlessObject},
		{ID: "C04", What: "structuredContent", At: in("structuredContent", samplingBlocks),
			Reads: []string{"../type", "../content[].type", "../content[].text"}, Do: toolResultUnlessObject},
		{ID: "C22", What: "-32602", At: at(wire.Error, wire.ResourcesRead, "error"), Reads: []string{"code", "data.uri"}, Do: paramsAsNotFound},
		{ID: "C22", What: "-32020", At: at(wire.Error, anyMethod, "error"), Reads: []string{"code"}, Do: eraErrorAsInternal},
		{ID: "C22", What: "uri", At: at(wire.Request, wire.ResourcesRead, "params.uri"), Do: noteURI},
	}...),
}

// renamed are the rules for request ids and progress tokens, which differ between the client's side and the server's.
var renamed = []Rule{
	{ID: "G.1", What: "id", At: both(
		at(wire.Request, anyMethod, "id"), at(wire.Result, anyMethod, "id"), at(wire.Error, anyMethod, "id")), Do: rename},
	{ID: "G.1", What: "progressToken", At: both(
		at(wire.Request, anyMethod, "params._meta.progressToken"), at(wire.Notification, wire.Progress, "params.progressToken")), Do: renameToken},
}

// The places of the types that 2026-07-28 changed.
var (
	lists = both(
		at(wire.Result, wire.ToolsList, "result"), at(wire.Result, wire.PromptsList, "result"),
		at(wire.Result, wire.ResourcesList, "result"), at(wire.Result, wire.ResourcesTemplatesList, "result"))
	cacheable = both(lists, at(wire.Result, wire.ResourcesRead, "result"), at(wire.Result, wire.ServerDiscover, "result"))
	retried   = both(
		at(wire.Request, wire.ToolsCall, "params"), at(wire.Request, wire.PromptsGet, "params"), at(wire.Request, wire.ResourcesRead, "params"))
	subscribed = both(
		at(wire.Notification, wire.ToolsListChanged, ""), at(wire.Notification, wire.PromptsListChanged, ""),
		at(wire.Notification, wire.ResourcesListChanged, ""), at(wire.Notification, wire.ResourcesUpdated, ""))
)
