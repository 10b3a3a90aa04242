// Package adapterrt runs adapters: Markdown files whose front matter says how an
// HTTP API becomes operations to create, read, update, delete and execute. There
// is no code in them and none is generated; they are read, checked, compiled to
// tables, and interpreted.
//
// # The road of one request
//
// [Runtime.Dispatch] takes {"operation":…,"params":{…}} through these stages. The
// first that fails answers; each has its file.
//
//	envelope.go   the request is taken apart and measured in one scan
//	dispatch.go   which operation, and is this the endpoint for it
//	call.go       values for its parameters: resolved, typed, constrained, defaults
//	guard         may this adapter do that; is it confirmed; does the API support it;
//	              has it been answered; may it be asked again
//	credential    the adapter's own, put into the request
//	httpcall      the HTTP request, out of the request's own bytes, and its response
//	result.go     {"success":true,"data":…} or {"success":false,"error":{…}}
//
// Data of a success is the API's own bytes. A failure's message is ours, in words
// that stay; what the API said in it has been through package clean.
//
// # Loading
//
// [Find] lists files; [Runtime.Load] and [Runtime.Reload] read them with package file
// and report every mistake of every file as a [Problem]. What can be worked out is
// worked out then (adapter.go): mappings and validators by package file, the answers
// of introspection (introspect.go, gentypes.go), the tools (tools.go). All of it is one
// snapshot (snapshot.go), swapped in one step; calls end on the one they began with.
//
// # Two faces
//
// As MCP tools: [Runtime.Tools] lists them, [Runtime.Tool] finds the [Endpoint]
// of a name, [Runtime.AppendToolResult] words the result. As plain HTTP:
// [Runtime.HTTP]. Neither owns a socket.
//
// # What may be relied on
//
// No value of a parameter changes the scheme or host of a request or leaves its
// place in the path. Unknown parameters are not sent. Nothing that may have had an
// effect is sent twice. A credential is in no result, [Record] or [Failure] cause.
// The package starts no goroutine that outlives a call but those of net/http, which
// end with [Runtime.Close]; it logs nothing: a [Record] says what there is to log.
package adapterrt
