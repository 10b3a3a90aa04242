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

// A nameTable is a hash table without collisions: a look-up takes one hash over the first and the last eight bytes of
// the name, and compares them.
type nameTable struct {
	slot [1024]Name
	ends [NumNames]nameEnds
	a, b uint64
}

// nameEnds are the length of a name, its first eight bytes, and its last ones, if it has more than eight.
type nameEnds struct {
	n           int
	first, last uint64
}

// shortName is the length up to which the ends of a name are the whole name.
const shortName = 16

func endsOf(name []byte) nameEnds {
	e := nameEnds{n: len(name)}
	if e.n < 8 {
		for i, c := range name {
			e.first |= uint64(c) << (8 * i)
		}
		return e
	}
	e.first = word(name, 0)
	if e.n > 8 {
		e.last = word(name, e.n-8)
	}
	return e
}

var names = func() *nameTable {
	t := new(nameTable)
	for n := JSONRPC; n < NumNames; n++ {
		t.ends[n] = endsOf([]byte(nameTexts[n]))
	}
	for seed := uint64(1); ; seed++ {
		t.a, t.b = seed*0x9E3779B97F4A7C15|1, seed*0xC2B2AE3D27D4EB4F|1
		if t.fill() {
			return t
		}
	}
}()

func (t *nameTable) fill() bool {
	t.slot = [1024]Name{}
	for n := JSONRPC; n < NumNames; n++ {
		at := t.hash(t.ends[n].first, t.ends[n].last)
		if t.slot[at] != OtherName {
			return false
		}
		t.slot[at] = n
	}
	return true
}

func (t *nameTable) hash(first, last uint64) uint64 { return (first*t.a ^ last*t.b) >> 54 }

// find returns the name of these ends. If it is longer than shortName, its other bytes may differ.
func (t *nameTable) find(n int, first, last uint64) Name {
	at := t.slot[t.hash(first, last)]
	if e := &t.ends[at]; e.first == first && e.last == last && e.n == n {
		return at
	}
	return OtherName
}

// NameOf returns the member name with that unescaped text, or [OtherName] if there is none.
func NameOf(key []byte) Name {
	e := endsOf(key)
	if n := names.find(e.n, e.first, e.last); e.n <= shortName || nameTexts[n] == string(key) {
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
