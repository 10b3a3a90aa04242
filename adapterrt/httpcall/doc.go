// Package httpcall turns an operation and the values of a request into an HTTP
// request, sends it, and reads what the API answers.
//
// A [Call] takes one request through these steps, each in a file of its own:
//
//	values.go    Validate: types, constraints, defaults
//	request.go   Build: the URL and headers, from the bytes of the client's request
//	body.go      the body: JSON, forms, multipart, text, bytes
//	pairs.go     key=value pairs, of queries and forms
//	exchange.go  [Client.Exchange]: sends it, with limits on time and size
//	client.go    the connections, to allowed addresses only
//	response.go  Read: reads JSON, and turns errors into failures
//	status.go    what a status says, and when to ask again
//	answer.go    reads text, images and files, as the operation says
//	formats.go   turns CSV, XML, HTML, NDJSON and event streams into JSON or Markdown
//	redirect.go  follows redirects, without credentials to other hosts
//	graphql.go   GraphQL requests, and GraphQL errors that come with status 200
//	pages.go     Pages: joins several responses to one page; [Cursors]
//	fields.go    Selected: selects fields of the data
//	digest.go    [Digest]: hashes what a cursor or a confirmation was made for
//
// A value cannot change the scheme or host of a request, and cannot leave its place in the
// path. The data of a success in JSON is the API's own bytes; package clean has cleaned the
// texts of a failure. The sender of a Call adds the credentials to its [Outgoing] and to
// Outgoing.Secrets, so that no failure shows them.
package httpcall
