// Package adapterrt runs adapters: Markdown files whose front matter says how an
// HTTP API becomes operations. No code is generated: files are read, checked,
// compiled to tables, and interpreted.
//
// [Runtime.Dispatch] takes {"operation":…,"params":{…}} through these stages, each in
// a file here or a package below. The first that fails answers.
//
//	envelope.go   the request is taken apart and measured
//	dispatch.go   which operation, and is this the endpoint for it
//	call.go       values for its parameters
//	httpcall      are they of the right types, and within bounds
//	guard         may this adapter do that; is it confirmed; does the API support it;
//	              has it been answered; may it be asked again
//	credential    the adapter's own, put into the request
//	httpcall      the HTTP request, out of the request's own bytes, and its response
//	result.go     {"success":true,"data":…} or {"success":false,"error":{…}}
//
// [Runtime.Load] and [Runtime.Reload] read files with package file and work out what
// can be worked out before a call comes (adapter.go), among it what package present
// shows of them. All of it is one snapshot, swapped in one step; calls end on the one
// they began with.
//
// No value of a parameter changes the scheme or host of a request or leaves its
// place in the path. Unknown parameters are not sent. Nothing that may have had an
// effect is sent twice. A credential is in no result, [Record] or [Failure] cause.
// The package owns no socket that listens, starts no goroutine that outlives a call but
// those of net/http, which end with [Runtime.Close], and logs nothing: a [Record] says
// what there is to log.
package adapterrt
