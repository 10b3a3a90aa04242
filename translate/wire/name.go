package wire

import "bytes"

// Name is a member name that rules or the proxy use, as a small number.
// All other names are [OtherName].
type Name uint8

// The names, grouped by where they first occur.
const (
	OtherName Name = iota

	// Members of the envelope:

	JSONRPC
	ID
	MethodKey
	Params
	ResultKey
	ErrorKey

	// Members of the lifecycle:

	ProtocolVersion
	Capabilities
	ClientInfo
	ServerInfo
	Instructions
	Completions
	Elicitation
	Sampling
	Tasks
	Form
	URL
	Extensions
	Prompts
	Resources
	Tools
	Roots

	// Members of lists and of their entries:

	ResourceTemplates
	NextCursor
	Meta
	NameKey
	Title
	Description
	Icons
	WebsiteURL
	InputSchema
	OutputSchema
	Properties
	Annotations
	LastModified
	Execution
	TaskSupport
	Task
	TTL
	PollInterval
	Status
	IsError
	Arguments
	URI
	Size
	MimeType

	// Members of content:

	Content
	Contents
	StructuredContent
	Messages
	Type
	Text
	Data
	Resource
	Input
	ToolUseID

	// Members of questions and of their answers:

	Role
	Model
	ToolChoice
	IncludeContext
	Mode
	RequestedSchema
	Schema
	Required
	Default
	Enum
	OneOf
	AnyOf
	Const
	Items
	Action
	Ref
	Context
	Completion

	// Members of notifications and errors:

	RequestID
	MessageKey
	Code
	Elicitations
	ProgressTokenKey

	// Members that say what a request is about, in addition to name, uri and ref:

	Cursor
	LevelKey
	TaskID
	NotificationsKey

	// Members that only 2026-07-28 has:

	ResultType
	TTLMs
	PollIntervalMs
	CacheScope
	InputRequests
	InputResponses
	RequestState
	ElicitationID
	ListChanged
	MetaProtocolVersion
	MetaClientInfo
	MetaClientCapabilities
	MetaLogLevel
	MetaServerInfo
	MetaSubscriptionID
	TasksExtension

	NumNames
)

var nameTexts = [NumNames]string{
	JSONRPC:           "jsonrpc",
	ID:                "id",
	MethodKey:         "method",
	Params:            "params",
	ResultKey:         "result",
	ErrorKey:          "error",
	ProtocolVersion:   "protocolVersion",
	Capabilities:      "capabilities",
	ClientInfo:        "clientInfo",
	ServerInfo:        "serverInfo",
	Instructions:      "instructions",
	Completions:       "completions",
	Elicitation:       "elicitation",
	Sampling:          "sampling",
	Tasks:             "tasks",
	Form:              "form",
	URL:               "url",
	Extensions:        "extensions",
	Prompts:           "prompts",
	Resources:         "resources",
	Tools:             "tools",
	Roots:             "roots",
	ResourceTemplates: "resourceTemplates",
	NextCursor:        "nextCursor",
	Meta:              "_meta",
	NameKey:           "name",
	Title:             "title",
	Description:       "description",
	Icons:             "icons",
	WebsiteURL:        "websiteUrl",
	InputSchema:       "inputSchema",
	OutputSchema:      "outputSchema",
	Properties:        "properties",
	Annotations:       "annotations",
	LastModified:      "lastModified",
	Execution:         "execution",
	TaskSupport:       "taskSupport",
	Task:              "task",
	TTL:               "ttl",
	PollInterval:      "pollInterval",
	Status:            "status",
	IsError:           "isError",
	Arguments:         "arguments",
	URI:               "uri",
	Size:              "size",
	MimeType:          "mimeType",
	Content:           "content",
	Contents:          "contents",
	StructuredContent: "structuredContent",
	Messages:          "messages",
	Type:              "type",
	Text:              "text",
	Data:              "data",
	Resource:          "resource",
	Input:             "input",
	ToolUseID:         "toolUseId",
	Role:              "role",
	Model:             "model",
	ToolChoice:        "toolChoice",
	IncludeContext:    "includeContext",
	Mode:              "mode",
	RequestedSchema:   "requestedSchema",
	Schema:            "$schema",
	Required:          "required",
	Default:           "default",
	Enum:              "enum",
	OneOf:             "oneOf",
	AnyOf:             "anyOf",
	Const:             "const",
	Items:             "items",
	Action:            "action",
	Ref:               "ref",
	Context:           "context",
	Completion:        "completion",
	RequestID:         "requestId",
	MessageKey:        "message",
	Code:              "code",
	Elicitations:      "elicitations",
	ProgressTokenKey:  "progressToken",
	Cursor:            "cursor",
	LevelKey:          "level",
	TaskID:            "taskId",
	NotificationsKey:  "notifications",
	ResultType:        "resultType",
	TTLMs:             "ttlMs",
	PollIntervalMs:    "pollIntervalMs",
	CacheScope:        "cacheScope",
	InputRequests:     "inputRequests",
	InputResponses:    "inputResponses",
	RequestState:      "requestState",
	ElicitationID:     "elicitationId",
	ListChanged:       "listChanged",

	MetaProtocolVersion:    "io.modelcontextprotocol/protocolVersion",
	MetaClientInfo:         "io.modelcontextprotocol/clientInfo",
	MetaClientCapabilities: "io.modelcontextprotocol/clientCapabilities",
	MetaLogLevel:           "io.modelcontextprotocol/logLevel",
	MetaServerInfo:         "io.modelcontextprotocol/serverInfo",
	MetaSubscriptionID:     "io.modelcontextprotocol/subscriptionId",
	TasksExtension:         "io.modelcontextprotocol/tasks",
}

// String returns the name's text, or "*" for [OtherName].
func (n Name) String() string {
	if n == OtherName || n >= NumNames {
		return "*"
	}
	return nameTexts[n]
}

// A nameTable is a hash table without collisions: a look-up takes one hash over four
// bytes of the name and its length, and one comparison.
type nameTable struct {
	slot [1024]Name
	a, b uint32
}

func (t *nameTable) hash(k []byte) uint32 {
	n := len(k)
	h := uint32(k[0]) | uint32(k[n>>1])<<8 | uint32(k[n-1])<<16 | uint32(n)<<24
	return (h*t.a + uint32(k[n-1-n>>2])*t.b) >> 22
}

var names = func() *nameTable {
	t := new(nameTable)
	for seed := uint32(1); ; seed++ {
		*t = nameTable{a: seed*2654435761 | 1, b: seed*40503*65537 | 1}
		if t.fill() {
			return t
		}
	}
}()

func (t *nameTable) fill() bool {
	for n := JSONRPC; n < NumNames; n++ {
		h := t.hash([]byte(nameTexts[n]))
		if t.slot[h] != OtherName {
			return false
		}
		t.slot[h] = n
	}
	return true
}

// NameOf returns the member name with that unescaped text, or [OtherName] if there is none.
func NameOf(key []byte) Name {
	if len(key) == 0 {
		return OtherName
	}
	if n := names.slot[names.hash(key)]; nameTexts[n] == string(key) {
		return n
	}
	return OtherName
}

// nameOf is NameOf for a name as it is in a message, with escapes.
func nameOf(raw []byte) Name {
	n := NameOf(raw)
	if n == OtherName && bytes.IndexByte(raw, '\\') >= 0 {
		var room [64]byte
		return NameOf(AppendUnescaped(room[:0], raw))
	}
	return n
}

// parseName is NameOf for tables written by hand: it panics on an unknown name.
func parseName(key string) Name {
	n := NameOf([]byte(key))
	if n == OtherName {
		panic("wire: no Name for member " + key)
	}
	return n
}
