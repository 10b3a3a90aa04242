// Package session holds the sessions of clients with the server.
//
// A [Session] has the connection to the server, the translators of both directions, and the open requests of either
// side. The id that an HTTP client gets is sealed and holds all that another process needs, so [Table], which makes and
// opens ids, holds only the sessions that this process uses: one that it does not hold is resumed from its id.
//
//   - session.go has both types, and table.go the table's methods;
//   - begin.go makes a session of what is known of it, at its beginning and when it is resumed; ends.go ends it, after the
//     cancellations that notices.go counts;
//   - calls.go has the open requests, and the batch that a request belongs to;
//   - lanes.go is the connection to a server on a pipe, with one stream for each request;
//   - listchanged.go adds the news of dragoman's own tools to a standing stream;
//   - direct.go has what a session of a client of 2026-07-28 with such a server needs;
//   - peers.go names client and server for the observer.
//
// The rooms of the road: clients has the ways in (web for Streamable HTTP, pipe for stdio and HTTP+SSE), handshake begins
// sessions, exchange carries one message in one, and setup is what follows from a configuration.
//
// The server's messages are pushed: upstream.Stream gives them to a function, on the goroutine that serves the request,
// which sends the client, an mcp.Peer, what comes before the response, and then returns with the response. A feature
// between is a connection around another one, whose streams are loops around its streams, and not a handler around a
// handler: ids, restarts and shared processes concern connections, which live longer than requests.
//
// The era of a peer is asked for in era, stateless and the two bridges, where sessions begin (handshake, session), and by probe
// and doctor, since it is what they report. Other rooms ask the revision for a trait. Two facts of a session are asked for
// where messages pass: Local, that only this process has the session, since an answer that may come to another process
// needs its question's note in its id; and Piped, that the server has one stream for everything, since then one goroutine
// reads for all calls of a pipe and answers them when the stream ends. No connection can do either for its session: it knows
// neither notes nor calls.
package session
