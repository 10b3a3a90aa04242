// Package guard decides whether a call may be made, and whether it has to be.
//
// A call of an operation passes these, in this order:
//
//	judge.go    may an adapter trusted this far do something this dangerous: [Policy]
//	confirm.go  what is dangerous waits for a token: [Confirmations]
//	gate.go     does the API itself say that it supports the parameters: [Gates]
//	cache.go    has the API answered it already: [Cache]
//	limits.go   may the API be called again: [Adapter.Admit]
//
// An [Adapter] has what is judged and counted of one adapter; it is made when the file
// is loaded. Confirmations, Gates and Cache are of all adapters together. The gates and
// the cache reach the API through the interface [API], which adds credentials and
// keeps to the limits; the package itself calls no API.
package guard
