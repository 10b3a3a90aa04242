// Package adapterrt runs adapters: Markdown files whose front matter maps an HTTP API
// to operations. No code is generated: the runtime reads the files, checks them,
// compiles them to tables and interprets the tables.
//
// [Runtime.Dispatch] takes {"operation":…,"params":{…}} through these stages, each in
// a file of this package or in a package below (dispatch.go and send.go call them). The
// first stage that fails sets the result.
//
//	envelope.go   parses the request and checks its size
//	view.go       finds the operation, and checks that the endpoint serves it
//	call.go       finds the values of its parameters
//	httpcall      checks the values' types and bounds
//	guard         checks trust, confirmation and gates (does the API support the
//	              operation); looks in the cache; checks rate limits and quotas
//	credential    adds the adapter's credentials to the request
//	httpcall      builds and sends the HTTP request, and reads the response
//	result.go     writes {"success":true,"data":…} or {"success":false,"error":{…}}
//
// [Runtime.Load] and [Runtime.Reload] read files with package file and compute all that
// does not depend on a call (adapter.go), including the tools and the introspection
// that package present shows. All of it is one snapshot, swapped in one step; a call
// ends on the snapshot that it began with.
//
// Package openapi makes adapter files of descriptions of APIs. The runtime does not need it.
//
// The value of a parameter cannot change the scheme or host of a request, and cannot
// leave its place in the path. Unknown parameters are not sent. A request that may have
// had an effect is not sent twice. No result, [Record] or [Failure] cause contains a
// credential. The package opens no listening socket. The only goroutines that outlive a
// call are those of net/http, which end with [Runtime.Close], and those that fetch
// tokens, for which [Runtime.Close] waits. The package logs nothing: a [Record] holds
// what a caller may log.
package adapterrt
