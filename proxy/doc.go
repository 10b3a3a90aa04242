// Package proxy stands between MCP clients and one MCP server, which may speak different revisions of the protocol and
// use different transports.
//
//	client ──► downstream ──► clients ──► exchange ──► translate ──► upstream ──► server
//	client ◄── downstream ◄── clients ◄── exchange ◄── translate ◄── upstream ◄── server
//
// That is the path between equal eras: both sides have the initialize handshake ("handshake client", "handshake server"),
// or both are of 2026-07-28 and have none ("modern"). The two crossings add one step each:
//
//	handshake client ──► clients ──► exchange ──► bridge/legacyclient ──► upstream ──► modern server
//	                                              keeps the session's state for the server and
//	                                              makes each input_required a request to the client
//
//	modern client ──► clients ──► bridge/modernclient ──► exchange ──► upstream ──► handshake server
//	                              shares sessions that dragoman opens, and parks calls whose client is asked
//
// The server's messages are pushed: [upstream.Stream] gives them to a function, on the goroutine that serves the request,
// which sends the client, an [mcp.Peer], what comes before the response, and then returns with the response. A feature
// between is a connection around another one, whose streams are loops around its streams, and not a handler around a
// handler: ids, restarts and shared processes concern connections, which live longer than requests.
//
// The era of a peer is asked for in era, stateless and the two bridges, where sessions begin (handshake, session), and by probe
// and doctor, since it is what they report. Other rooms ask the revision for a trait. Two facts of a session are asked for
// where messages pass: Local, that only this process has the session, since an answer that may come to another process
// needs its question's note in its id; and Piped, that the server has one stream for everything, since then one goroutine
// reads for all calls of a pipe and answers them when the stream ends. No connection can do either for its session: it knows
// neither notes nor calls.
//
// This package builds the rooms from a configuration and starts and ends them: [New] makes a [Server], which has the
// listeners, reloads and the page. docs/architecture.md follows three messages function by function. The rooms do not know
// this package:
//
//   - downstream and upstream are the transports: bytes, HTTP and event streams, and nothing of MCP. origin opens
//     connections to the server; server, restart and share stand over them: ids and streams on a pipe, a server that
//     restarts, clients that share one process (processes bounds their number). sse, lines, inbuf and large read bytes, callctx
//     has the context of a request, samehead recognizes heads of HTTP messages, and rawio makes system calls on sockets, and watches them.
//     unixsocket reads the addresses of unix sockets, and listens at them. unpack decodes what servers compress unasked.
//   - clients has the ways in: web for Streamable HTTP, pipe for stdio and HTTP+SSE.
//   - handshake begins sessions, session holds them, exchange carries one message in one. setup is what follows from a
//     configuration.
//   - translate has the rules between revisions, and never waits; memo keeps translated lists.
//   - stateless reads from each modern request which client sends it. sealed makes the ids and tokens that clients keep,
//     so that any replica with the same key can serve them; replicas finds the process that alone holds something, and
//     store keeps what they share.
//   - era finds out which kind of server it is and which revisions to propose; probe reports what clients get of it.
//   - owntools, adapters, shape, footprint, gate, dialect and results are features: tools of dragoman's own, adapter files,
//     shorter results, smaller lists, checks before calls, newer schemas, cached results. replay keeps events for a client
//     that reconnects. Each sees a session only by a small interface of its own.
//   - dial, beside proxy, opens the TCP connections of all of them, and notices those that are dead.
//   - oauth and oauthrelay are for logins (oauthclient sends the requests, those of adapters too), principal and quota say
//     which client it is and how much it may have.
//   - mcp, mcpheader and toolindex have what the protocol names; requests and outbox what is open and what waits.
//   - host has what all of them use: the log, memory for large messages, goroutines that end with the proxy. report logs
//     and counts failures, clienterror makes what clients get of them, failures names their causes. metrics counts, trace
//     measures, telemetry sends spans, losses says what translation has lost. observe shows messages as they pass.
//     redact removes secrets from what is shown of messages, and observe/recording writes these into files.
//   - doctor examines a configuration and a server, filter translates lines without a connection, demo is a server to try.
//
// imports_test.go says which room may import which.
package proxy
