// Package store keeps state that several replicas share, and that cannot be sealed into what clients carry: the originals of
// shortened results, confirmation tokens, counters of limits, marks of deleted sessions, where a process is.
//
// A [Store] stands over an [Engine]: the memory of this process ([NewMemory]), or a server with the Redis protocol (package
// redisstore). The Store gives keys their names, seals values, bounds sizes and times, and fails at once while the engine is
// known to be down. Everything that it keeps has an expiry.
//
// The operator of the engine sees the kind of each key, how many there are, how large values are, and the counters. Names and
// values are closed to them: a name is an HMAC, and a value is sealed for its key, so that it cannot be put under another one.
// A value that cannot be opened counts as absent.
//
// With two keys (see session.key_file) what one of them has named or sealed is found and opened. Where replicas disagree on
// which of them is the first, each of the two counts for itself with [Store.Charge] and [Store.Count].
//
// The rooms: redisstore is the engine of a server with the Redis protocol, ended holds the numbers of ended sessions, and storetest
// has what any engine must pass.
package store
