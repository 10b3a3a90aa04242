// Package proxy stands between MCP clients and one MCP server, which may speak different
// revisions of the protocol and use different transports.
//
//	client ──► downstream ──► session, exchange ──► translate ──► upstream ──► server
//	client ◄── downstream ◄── session, exchange ◄── translate ◄── upstream ◄── server
//
// That is the path between equal eras: both sides have the initialize handshake ("handshake
// client", "handshake server"), or both are of 2026-07-28 and have none ("modern"). Between
// two modern sides direct.go stands for the session. The two crossings add one step each:
//
//	handshake client ──► session, exchange ──► bridge/legacyclient ──► upstream ──► modern server
//	                                           keeps the session's state for the server and
//	                                           makes each input_required a request to the client
//
//	modern client ──► bridge/modernclient ──► session, exchange ──► upstream ──► handshake server
//	                  shares sessions that dragoman opens, and parks calls whose client is asked
//
// Package downstream and package upstream are the transports: they know bytes, HTTP and event
// streams. Package translate has the rules between revisions, and never waits. Package wire
// scans JSON-RPC messages. docs/architecture.md follows three messages function by function.
//
// # Where messages come in
//
// server.go has [Server] and its start and end, listen.go the checks of a listener, setup.go
// what follows from the configuration. A client comes in over HTTP (face.go), a pipe (pipe.go)
// or HTTP+SSE (sseface.go); a modern client over HTTP or stdio in modernface.go.
//
// # Sessions and exchanges
//
// handshake.go answers initialize and makes a session (session.go). The session's id holds its
// data, sealed (package sealed), so that any replica with the same key can serve it over
// Streamable HTTP. An exchange (exchange.go) carries each message both ways and owns its buffers;
// pipeline.go has its steps fromClient and fromServer. batch.go takes arrays of messages apart and
// joins their responses. lanes.go shares one pipe to the server among HTTP clients (package
// server).
//
// # Modern clients, handshake server
//
// Package stateless reads from each request which client sends it, and package bridge/modernclient answers it.
// modernclients.go opens the sessions for it, and is what it sees of them and of their exchanges.
//
// # Handshake clients, modern server
//
// Package bridge/legacyclient is a connection that looks like a handshake server;
// modernhandshake.go opens it.
//
// # Modern on both sides
//
// direct.go carries the request as it is, from HTTP (directface.go) or a pipe (directpipe.go);
// directkept.go serves cached results.
//
// # Which server it is, and how it starts
//
// Package origin opens connections. Package era finds out whether the server has a handshake, notices
// when that changes, and chooses the revisions to propose. Package restart keeps a session when its
// server restarts. Package share lets clients use one process together.
// processlimit.go bounds the number of processes.
//
// # Tools that dragoman serves itself
//
// Package owntools lists them and answers their calls, package adapters has those of adapter files,
// owntools.go what an exchange does for them. exchangeview.go is what such packages see of an
// exchange. namecollision.go decides between equal names,
// listchanged.go announces changes.
//
// # What changes on the way, and what is kept
//
// Package shape shortens results for the model (shaped.go), package footprint lists of tools
// (footprint.go). Caches: lists.go (package memo) for translated lists, package results for modern
// clients or servers. Package replay keeps events for a client that reconnects (resume.go). A
// translated question that another replica may get the answer to has a sealed id
// (sealedquestion.go); askagain.go repeats one whose answer does not fit.
//
// # Several replicas
//
// ownerreplica.go finds the owner replica of what only one process holds: a parked call, or
// a handshake client's session with a modern server. Package replicas forwards the request
// there.
//
// # Limits, failures and logins
//
// Package host has what all parts use: the configuration in force, the log, the reports, the memory
// for large messages, and goroutines that end with the proxy.
//
// silencelimits.go says how long the server may be silent. Package report logs and counts what
// fails; package clienterror makes the JSON-RPC error and the HTTP status. oauthclients.go is for
// logins of clients. Packages quota and principal say how much a client may have, and which client
// it is; package trace has the trace headers of a request and its timing, package telemetry its spans (spans.go).
package proxy
