// Package proxy stands between MCP clients and one MCP server, which may speak different revisions of the protocol and
// use different transports. [New] makes a [Server] of a configuration; this package builds, starts and ends what its folders hold:
//
//	session    the road of a message: the ways in (clients), sessions, how they begin (handshake), one message in one (exchange)
//	commands   what serves no client: doctor, probe, filter, demo
//	bridge     where the two eras meet, named for the client: legacyclient, modernclient
//	features   tools of dragoman's own, adapters, shorter results, smaller lists, gates, events that are played again
//	origin     a connection to the server and its life: its era, its restarts, clients that share one process
//	ops        what operators and clients are told: failures, losses, metrics, traces, spans
//	replicas   several processes as one: where a session is, whose it is, sealed ids and tokens
//	pipes      the server's side of a connection: ids and streams on a pipe, causes of failures, cached results
//	config     settings: where they are read, how they are checked
//	auth       logins at servers, and those that clients make through dragoman
//	store      what replicas share, in memory or in Redis
//	transport  downstream to clients and upstream to the server: bytes and HTTP, nothing of MCP
//	observe    what is done to messages, for the page and for recordings, with secrets removed
//	protocol   what the protocol names: messages, ids, open requests, lists and their tools
//	bytes      the ground: events, lines, buffers, sockets, memory
//
// A folder imports only folders below it in this list, and so do the rooms of one, as imports_test.go lists them. The comment of
// a folder says what its rooms do. The tests of the whole proxy, and the peers that they play, are in tests.
//
// Peers that begin with initialize are of the handshake era, those of 2026-07-28 are modern. Between equal eras a message takes
// this road; translate, beside proxy, has the rules between revisions:
//
//	client ──► downstream ──► clients ──► exchange ──► translate ──► upstream ──► server
//	client ◄── downstream ◄── clients ◄── exchange ◄── translate ◄── upstream ◄── server
//
// The two crossings add one step each:
//
//	handshake client ──► clients ──► exchange ──► bridge/legacyclient ──► upstream ──► modern server
//	modern client ──► clients ──► bridge/modernclient ──► exchange ──► upstream ──► handshake server
//
// docs/architecture.md follows three messages function by function.
package proxy
