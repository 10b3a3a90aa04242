// Package openapi makes adapter files of descriptions of HTTP APIs: OpenAPI 3.0 to 3.2, and
// Swagger 2.0, as JSON or YAML.
//
// [Read] parses a document, and the documents that it refers to, into a tree of nodes
// (tree.go, json.go, yaml.go, refs.go). [Document.Import] selects operations (selection.go),
// maps each to an operation of an adapter, and writes files. All that a file cannot express
// is a [Finding]. [Diff] compares an adapter file with a document, and [Update] brings what
// has changed in a document into a file, and keeps what a person has changed.
//
// read.go reads both formats into the same rawOperation (document.go, swagger.go). mapper.go makes
// an operation (operation.go) of it, and naming.go names it: parameters.go its parameters, body.go its request body,
// answer.go how its answers are read, output.go what they hold, pages.go its pages, fields.go the part of them that is shown,
// judge.go its category and its danger. schema.go reads the keywords of a schema;
// merge.go merges them with those of what it refers to, is composed of and is extended by (variants.go, family.go); definition.go
// makes the definition of a parameter of them. choices.go carries out what a person has decided about parameters
// and names, and auth.go about credentials; mcp.go reads what the document says to programs that make tools of it.
// write.go writes operations as YAML.
//
// Documents are not trusted. Their size, number of values, depth, and the work that
// references and allOf make are limited, and no text of them reaches a file with characters
// that are not visible. The package reads no file and opens no connection: the caller of
// [Read] passes a function that does.
package openapi
