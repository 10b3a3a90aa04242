package wire

import "bytes"

// Method is a method or notification name of the protocol as a small number.
// Names that no revision knows are [OtherMethod]; they pass every rule untouched.
type Method uint8

// The methods of every revision, requests first.
const (
	OtherMethod Method = iota
	Initialize
	Ping
	ToolsList
	ToolsCall
	ResourcesList
	ResourcesTemplatesList
	ResourcesRead
	ResourcesSubscribe
	ResourcesUnsubscribe
	PromptsList
	PromptsGet
	CompletionComplete
	LoggingSetLevel
	SamplingCreateMessage
	RootsList
	ElicitationCreate
	TasksGet
	TasksResult
	TasksList
	TasksCancel
	TasksUpdate
	ServerDiscover
	SubscriptionsListen
	Initialized
	Cancelled
	Progress
	LogMessage
	ResourcesUpdated
	ResourcesListChanged
	ToolsListChanged
	PromptsListChanged
	RootsListChanged
	ElicitationCompleted
	TasksStatus
	TasksNotified
	SubscriptionsAcknowledged
	NumMethods
)

var methodNames = [NumMethods]string{
	Initialize:                "initialize",
	Ping:                      "ping",
	ToolsList:                 "tools/list",
	ToolsCall:                 "tools/call",
	ResourcesList:             "resources/list",
	ResourcesTemplatesList:    "resources/templates/list",
	ResourcesRead:             "resources/read",
	ResourcesSubscribe:        "resources/subscribe",
	ResourcesUnsubscribe:      "resources/unsubscribe",
	PromptsList:               "prompts/list",
	PromptsGet:                "prompts/get",
	CompletionComplete:        "completion/complete",
	LoggingSetLevel:           "logging/setLevel",
	SamplingCreateMessage:     "sampling/createMessage",
	RootsList:                 "roots/list",
	ElicitationCreate:         "elicitation/create",
	TasksGet:                  "tasks/get",
	TasksResult:               "tasks/result",
	TasksList:                 "tasks/list",
	TasksCancel:               "tasks/cancel",
	TasksUpdate:               "tasks/update",
	ServerDiscover:            "server/discover",
	SubscriptionsListen:       "subscriptions/listen",
	Initialized:               "notifications/initialized",
	Cancelled:                 "notifications/cancelled",
	Progress:                  "notifications/progress",
	LogMessage:                "notifications/message",
	ResourcesUpdated:          "notifications/resources/updated",
	ResourcesListChanged:      "notifications/resources/list_changed",
	ToolsListChanged:          "notifications/tools/list_changed",
	PromptsListChanged:        "notifications/prompts/list_changed",
	RootsListChanged:          "notifications/roots/list_changed",
	ElicitationCompleted:      "notifications/elicitation/complete",
	TasksStatus:               "notifications/tasks/status",
	TasksNotified:             "notifications/tasks",
	SubscriptionsAcknowledged: "notifications/subscriptions/acknowledged",
}

var methodsByName = func() map[string]Method {
	byName := make(map[string]Method, NumMethods)
	for m := Initialize; m < NumMethods; m++ {
		byName[methodNames[m]] = m
	}
	return byName
}()

// MethodOf returns the method with that name, or [OtherMethod] if no revision has it.
func MethodOf(name []byte) Method { return methodsByName[string(name)] }

// methodOf is MethodOf for a name as it is in a message, with escapes.
func methodOf(raw []byte) Method {
	m := MethodOf(raw)
	if m == OtherMethod && bytes.IndexByte(raw, '\\') >= 0 {
		return MethodOf(AppendUnescaped(nil, raw))
	}
	return m
}

// Reads reports whether a request with this method changes nothing at the server, which may therefore get it twice.
func (m Method) Reads() bool {
	switch m {
	case Ping, ServerDiscover, ToolsList, ResourcesList, ResourcesTemplatesList, ResourcesRead, PromptsList, PromptsGet, CompletionComplete, TasksGet, TasksList:
		return true
	}
	return false
}

// String returns the method's name in messages, or "other".
func (m Method) String() string {
	if m == OtherMethod || m >= NumMethods {
		return "other"
	}
	return methodNames[m]
}
