// Package httpcall turns an operation and the values of a request into an HTTP
// request, sends it, and reads what the API answers.
//
// A [Call] takes one request through these steps, each in a file of its own:
//
//	values.go    Validate: types, constraints, defaults
//	request.go   Build: the URL and headers, out of the request's own bytes
//	body.go      and the body: JSON, forms, multipart, text, bytes
//	client.go    [Client.Exchange]: to an address that is allowed, within time, and back within size
//	response.go  Read: JSON, or in which way it is not; errors by their status
//	answer.go    or text, an image, a file, as the operation says
//	formats.go   CSV, XML, HTML, NDJSON and event streams as JSON or Markdown
//	redirect.go  to where redirects are followed, and without what
//	graphql.go   errors that come with status 200
//	pages.go     Pages: several responses joined to one page; [Cursors]
//	fields.go    Selected: what was asked for of the data
//
// No value changes the scheme or host of a request or leaves its place in the path.
// Data of a success is the API's own bytes; a failure has been through package clean.
// Whoever sends a Call adds the credentials to its [Outgoing] and names them there, so
// that no failure shows them.
package httpcall
