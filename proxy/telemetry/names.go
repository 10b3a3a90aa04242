package telemetry

import "go.opentelemetry.io/otel/attribute"

// These are the attributes of the conventions.
const (
	methodName      = attribute.Key("mcp.method.name")
	resourceURI     = attribute.Key("mcp.resource.uri")
	protocolVersion = attribute.Key("mcp.protocol.version")
	sessionID       = attribute.Key("mcp.session.id")
	toolName        = attribute.Key("gen_ai.tool.name")
	promptName      = attribute.Key("gen_ai.prompt.name")
	operationName   = attribute.Key("gen_ai.operation.name")
	requestID       = attribute.Key("jsonrpc.request.id")
	statusCode      = attribute.Key("rpc.response.status_code")
	errorType       = attribute.Key("error.type")
	transport       = attribute.Key("network.transport")
	protocol        = attribute.Key("network.protocol.name")
	serverAddress   = attribute.Key("server.address")
	serverPort      = attribute.Key("server.port")
	clientAddress   = attribute.Key("client.address")
)

// These are dragoman's own.
const (
	rules  = attribute.Key("dragoman.rules")  // the rules that translation has lost something by
	losses = attribute.Key("dragoman.losses") // how many losses there were
)
