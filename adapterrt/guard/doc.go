// Package guard decides whether a call may be made, and whether the API must be called for it.
//
// A call of an operation passes these checks, in this order:
//
//	judge.go    does the adapter's trust level allow the operation's danger level: [Policy]
//	confirm.go  is a dangerous operation confirmed, by the user or with a token: [Confirmations]
//	gate.go     does the API say that it supports the parameters: [Gates]
//	cache.go    is there a cached answer: [Cache]
//	limits.go   do rate limits and quotas allow the call: [Adapter.Admit]
//
// An [Adapter] holds the judgements and counters of one adapter; it is made when the file
// is loaded. Confirmations, Gates and Cache are shared by all adapters. The gates and
// the cache reach the API through the interface [API], which adds credentials and
// keeps to the limits; the package itself calls no API.
package guard
