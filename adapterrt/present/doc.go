// Package present shows adapters to models and people.
//
// A [Presenter] is the operator's choice of how; an [Adapter] is what is worked out for
// one file when it is loaded; a [Catalogue] is several of them that are offered
// together. From these come
//
//	tools.go         the entries of tools/list, by [Mode]
//	introspect.go    the answers of the operation introspect
//	gentypes.go      the types that introspection names, made of parameters and enums
//	instructions.go  what a model reads of all tools together
//	starter.go       a first file for people to write their own
//
// The package makes no request. Texts of a file have been through package clean when
// they come here.
package present
