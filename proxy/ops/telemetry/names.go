package telemetry

// These are the attributes of the conventions.
const (
	methodName      = "mcp.method.name"
	toolArguments   = "gen_ai.tool.call.arguments"
	toolResult      = "gen_ai.tool.call.result"
	resourceURI     = "mcp.resource.uri"
	protocolVersion = "mcp.protocol.version"
	sessionID       = "mcp.session.id"
	toolName        = "gen_ai.tool.name"
	promptName      = "gen_ai.prompt.name"
	operationName   = "gen_ai.operation.name"
	requestID       = "jsonrpc.request.id"
	statusCodeName  = "rpc.response.status_code"
	errorType       = "error.type"
	transport       = "network.transport"
	protocol        = "network.protocol.name"
	serverAddress   = "server.address"
	serverPort      = "server.port"
	clientAddress   = "client.address"
)

// These are dragoman's own.
const (
	rules  = "dragoman.rules"         // the rules by which translation has changed or lost something
	losses = "dragoman.losses"        // at how many places the receiver misses something
	number = "dragoman.call"          // the number of the message on the live page and in recordings; none while no page is open and nothing is recorded
	before = "dragoman.tokens.before" // what the result costs as the server has sent it; none if it was not counted
	after  = "dragoman.tokens.after"  // and as the client gets it
)
