package mcp

import (
	"crypto/rand"
	"strconv"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Request returns a request with these params, raw JSON, "" for none. id is raw JSON, too.
func Request[ID, Params []byte | string](id ID, method wire.Method, params Params) []byte {
	return appendCall(append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), ','), method, params)
}

// OwnID returns an id, raw JSON, for a request of dragoman's own in a session in which there may be others of its own, also of other
// replicas: an id names one request in a session.
func OwnID() []byte { return []byte(`"dragoman:` + rand.Text() + `"`) }

// Notification returns a notification with these params, raw JSON, "" for none.
func Notification[Params []byte | string](method wire.Method, params Params) []byte {
	return appendCall([]byte(`{"jsonrpc":"2.0",`), method, params)
}

// appendCall appends the method and the params of a message, and ends it.
func appendCall[Params []byte | string](dst []byte, method wire.Method, params Params) []byte {
	dst = append(append(append(dst, `"method":"`...), method.String()...), '"')
	if len(params) > 0 {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

// Initialize returns the request that begins a session. capabilities and client, the clientInfo, are raw
// JSON.
func Initialize[ID, JSON []byte | string](id ID, revision string, capabilities, client JSON) []byte {
	params := wire.AppendQuoted([]byte(`{"protocolVersion":`), revision)
	params = append(append(params, `,"capabilities":`...), capabilities...)
	params = append(append(params, `,"clientInfo":`...), client...)
	return Request(id, wire.Initialize, append(params, '}'))
}

// Cancelled returns the notification with which the sender of a request cancels it, for this reason; ""
// for none. See https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation.
func Cancelled[ID []byte | string](request ID, reason string) []byte {
	params := append([]byte(`{"requestId":`), request...)
	if reason != "" {
		params = wire.AppendQuoted(append(params, `,"reason":`...), reason)
	}
	return Notification(wire.Cancelled, append(params, '}'))
}

// Updated returns the notification that a resource has changed.
func Updated(uri string) []byte {
	return Notification(wire.ResourcesUpdated, append(wire.AppendQuoted([]byte(`{"uri":`), uri), '}'))
}

// Unnamed is the clientInfo of a client that names none.
const Unnamed = `{"name":"unknown-client","version":"0.0.0"}`

// Us is the clientInfo that dragoman sends in its own requests.
const Us = `{"name":"dragoman","version":"1"}`

// AppendError appends a JSON-RPC error. A nil id is written as null, as JSON-RPC requires if the id could
// not be read.
func AppendError(dst, id []byte, code int, text string, data []byte) []byte {
	dst = appendID(dst, id)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	dst = wire.AppendQuoted(dst, text)
	if data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, data...)
	}
	return append(dst, `}}`...)
}

// AppendErrorAs appends a JSON-RPC error response with an error object that is already JSON.
func AppendErrorAs[JSON []byte | string](dst, id []byte, fault JSON) []byte {
	dst = append(appendID(dst, id), `,"error":`...)
	return append(append(dst, fault...), '}')
}

// AppendResult appends a JSON-RPC response with this result, raw JSON.
func AppendResult[JSON []byte | string](dst, id []byte, result JSON) []byte {
	dst = append(BeginResult(dst, id), result...)
	return append(dst, '}')
}

// BeginResult appends the response to a request without its result, which follows, and then a brace.
func BeginResult(dst, id []byte) []byte { return append(appendID(dst, id), `,"result":`...) }

// appendID begins a response to the request with this id.
func appendID(dst, id []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if len(id) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, id...)
}
