// Package present shows adapters to models and people.
//
// A [Presenter] holds the operator's options. An [Adapter] holds what is computed for one
// file when it is loaded. A [Catalogue] holds several Adapters that are offered together.
// The package makes from them:
//
//	tools.go         the entries of tools/list, by [Mode]
//	introspect.go    the answers of the operation introspect
//	listing.go       the lists of operations in them
//	detail.go        the details of one operation
//	gentypes.go      the types in introspection, generated from parameters and enums
//	discrete.go      the tools of discrete mode, one for each operation
//	search.go        the tools of search mode, and what they answer
//	schema.go        the JSON Schemas of an operation's parameters
//	output.go        the JSON Schema of its result
//	instructions.go  the text for a model about all tools together
//	starter.go       an example file with which people start to write their own
//
// The package makes no request. Package clean has already cleaned the texts of a file that
// it receives.
package present
