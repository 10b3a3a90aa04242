package mcp

// Error codes of JSON-RPC (https://www.jsonrpc.org/specification#error_object), and the code with
// which servers without a handshake refuse a revision.
const (
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeUnsupportedVersion = -32022
)

// Cause says why dragoman itself returns an error to the client instead of the server's answer. [Fail]
// makes the error.
type Cause uint8

// The causes. Their codes, HTTP statuses and texts are in the table below.
const (
	Malformed Cause = iota // with the code the scanner gave
	NotInitialized
	ModernRefused
	SessionUnknown
	NotDeleted
	NoStream
	VersionUnknown
	InitializedTwice
	InitializeBroken
	BatchRefused
	BatchEmpty
	BatchTooLong
	BatchInitialize
	BatchElement
	BatchDuplicate
	TooLong
	DuplicateID
	TooManyOpen
	TooManySessions
	TooManyProcesses
	Untranslatable
	UpstreamVersion
	UpstreamModern
	UpstreamLegacy
	ToolNameCollision
	PeerLost
	UpstreamDown
	UpstreamTimeout
	UpstreamRefused // with the server's status, and its error if it sent one
	NoCredential
	UpstreamSilent
	UpstreamGarbled // the server sent something that is not a message, and closed the stream
	UpstreamLost
	UpstreamRestarted
	UpstreamStarting
	NoRoom
	ShuttingDown
	Panicked

	MetaInvalid // from here on: for clients without a handshake
	HeaderMismatch
	CapabilityMissing
	RevisionUnsupported
	MethodUnknown
	StateInvalid
	InputsInvalid
	Superseded
	TooManyParked
)

// causes has the errors that clients get. Those of HTTP itself are in package downstream. Status is
// for HTTP clients; stdio clients get the JSON-RPC error alone. For clients that initialize, 404 means
// that the session is gone and nothing else, see
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management.
var causes = [...]struct {
	Code   int
	Status int
	Text   string
}{
	Malformed:         {-32600, 400, "Invalid Request"},
	NotInitialized:    {-32600, 400, "Not initialized"},
	ModernRefused:     {-32600, 400, "Not initialized"}, // on stdio -32601
	SessionUnknown:    {-32600, 404, "Session not found"},
	NotDeleted:        {-32600, 405, "The server has no session to end"},
	NoStream:          {-32600, 405, "The server offers no stream"},
	VersionUnknown:    {-32600, 400, "Unsupported MCP-Protocol-Version"},
	InitializedTwice:  {-32600, 400, "Already initialized"},
	InitializeBroken:  {-32602, 400, "initialize needs an object of params"},
	BatchRefused:      {-32600, 400, "JSON-RPC batching is not supported"},
	BatchEmpty:        {-32600, 400, "Empty batch"},
	BatchTooLong:      {-32600, 400, "Too many messages in batch"},
	BatchInitialize:   {-32600, 400, "initialize must not be part of a batch"},
	BatchElement:      {-32600, 400, "Invalid Request"},
	BatchDuplicate:    {-32600, 400, "Duplicate request id in batch"},
	TooLong:           {-32600, 413, "Message too long"},
	DuplicateID:       {-32600, 400, "Request id is already in use"},
	TooManyOpen:       {-32603, 503, "too many open requests"},
	TooManySessions:   {-32603, 503, "too many sessions; try again later"},
	TooManyProcesses:  {-32603, 503, "too many processes of the server; try again later"},
	Untranslatable:    {-32603, 200, "translation failed"},
	UpstreamVersion:   {-32602, 200, "Unsupported protocol version"},
	UpstreamModern:    {-32603, 502, "upstream speaks only revisions without initialize"},
	UpstreamLegacy:    {-32603, 502, "upstream requires initialize now"},
	ToolNameCollision: {-32603, 502, "adapter tool names collide with server tools"},
	PeerLost:          {-32603, 502, "the replica that served the request was lost"},
	UpstreamDown:      {-32603, 502, "upstream request failed"},
	UpstreamTimeout:   {-32603, 504, "upstream timed out"},
	UpstreamRefused:   {-32603, 502, "upstream refused the request"},
	NoCredential:      {-32603, 502, "the proxy has no valid credential for the server"},
	UpstreamSilent:    {-32603, 502, "upstream closed the stream without answering"},
	UpstreamGarbled:   {-32603, 502, "upstream sent something that is not JSON-RPC"},
	UpstreamLost:      {-32603, 502, "upstream process ended"},
	UpstreamRestarted: {-32603, 502, "upstream process ended and is being restarted; the request was lost"},
	UpstreamStarting:  {-32603, 503, "upstream process is not ready yet"},
	NoRoom:            {-32603, 503, "the memory for messages is full (limits.in_hand); try again later"},
	ShuttingDown:      {-32603, 503, "dragoman is shutting down"},
	Panicked:          {-32603, 500, "internal error"},

	MetaInvalid:         {-32602, 400, "Missing or invalid _meta field"},
	HeaderMismatch:      {-32020, 400, "Header does not match the body"},
	CapabilityMissing:   {-32021, 400, "Missing required client capability"},
	RevisionUnsupported: {-32022, 400, "Unsupported protocol version"},
	MethodUnknown:       {-32601, 404, "Method not found"},
	StateInvalid:        {-32602, 200, "Invalid or expired requestState"},
	InputsInvalid:       {-32602, 200, "inputResponses must be an object of objects"},
	Superseded:          {-32600, 200, "superseded by a newer retry"},
	TooManyParked:       {-32603, 503, "too many calls wait for their clients' answers; try again later"},
}

// Code returns the JSON-RPC error code.
func (c Cause) Code() int { return causes[c].Code }

// Text returns the beginning of the text of every error of this cause.
func (c Cause) Text() string { return causes[c].Text }
