// Package proxy stands between MCP clients and an MCP server that speak
// different revisions of the protocol, or the same one.
//
//	MCP client                                                  MCP server
//	    │  stdio · sse · http                    stdio · sse · http  ▲
//	    ▼                                                            │
//	downstream ──► wire.Scan ──► translate ─────────────────► upstream
//
// # The road of one message
//
// A client's message comes in at a face: [Server.Serve] has the one for HTTP
// (face.go), [Server.ServePipe] the one for a pipe (pipe.go), which clients on
// HTTP+SSE are as well (sseface.go). An initialize
// (handshake.go; proposal.go has the revisions that it proposes) leads to a session: the two revisions, what the client can do,
// a connection of its own to the server, and a translator for each direction
// (session.go). Every other message belongs to a session and is taken along by
// an exchange (exchange.go), which owns all buffers on the road:
//
//   - fromClient (pipeline.go) scans it, enters a request among the open ones
//     (package requests), and has it rewritten;
//   - towards a server on a pipe it gets an id and a progress token of ours (package
//     server), which are never used again, so that a late answer is for no other
//     request;
//   - the upstream.Conn carries it to the server and, over HTTP, gives back the
//     stream of what the server says about it;
//   - next pulls one event of that stream, takes an array apart, and hands each
//     message to fromServer, which is the same road the other way.
//
// In front of HTTP the goroutine of the client's request does all of this; when
// the first thing to come is the answer, that is the body of the response, and
// otherwise the exchange is its event stream. A server on a pipe says everything
// on one stream: for HTTP clients package server sorts it into one stream per
// request, so that the road is the same; a client that is on a pipe itself gets it in the
// order it came.
//
// Arrays of messages are taken apart before the road begins, and their reply is
// put together behind its end (batch.go). What goes wrong anywhere becomes a
// JSON-RPC error, and an HTTP status, by the one table in package clienterror. What
// translation takes from messages is counted and logged by package losses.
//
// Tools of our own (owntools.go) stand beside the server's, or alone (noupstream.go): those
// of adapter files (adapters.go), and what other sources of them there are. A call of
// one is an own call (owncall.go), which to the exchange is a server that answers on a
// stream of its own; it may ask the user something on the way (question.go). Whose tool
// a name means is settled by namecollision.go, that there are others now is told by listchanged.go,
// and package gate asks the server whether it supports what a call of its tools asks for.
//
// Schemas of tools in an old dialect, which newer clients refuse, are brought to theirs by
// package dialect, also between equal revisions.
//
// Before an answer leaves, shaping.go makes a result fit for the model, if so
// configured, and footprint.go a list of tools: after translation, so that what is
// counted and cut is what this client gets. What an adapter's operation answers is
// shaped before, without what stands around it (adaptershape.go).
//
// # Clients without a session
//
// A client of a revision without a handshake identifies itself in each request
// (modern.go; modernface.go takes such requests in over HTTP and stdio). Its server
// wants sessions: sessionpool.go holds some (pooledsession.go is one), and a relay (relay.go)
// carries the request over one of them by an exchange like any other, which crossing.go
// tells what else translation needs to know. Where the server may ask something in the middle, a
// parked call (parkedcall.go) reads the answer and parks the call while the client is
// asked, with what it brings meanwhile in package outbox; package sealed writes what the
// client brings back. What belongs to no
// request is heard on the session's standing stream and handed to those who listen
// (subscription.go).
//
// Where the switch contract.tasks carries tasks over, pooledtasks.go holds those that
// calls of such clients have become, with what they ask (taskquestions.go) and who
// listens for them (tasknews.go); taskrun.go is a call that is a task for the server
// only. The other way round that is moderntasks.go, and moderntaskwait.go for a result
// that is waited for.
//
// A server of such a revision has no use for a session either. Then there is nothing to
// translate: direct.go makes what stands for the session, and an exchange carries the
// request as it is, from HTTP (directface.go) or from a pipe (directpipe.go, which makes
// the headers that HTTP servers want). One process that serves several such clients is
// kept from mixing them up by idremapper.go. Headers that repeat arguments of a tool are held
// against these by package mcpheader, whatever the server is; tools of ours take the road
// over a session as always, with no client at its other end.
//
// # What is remembered
//
// Per session and direction, the requests without an answer: their ids, their
// methods, and for some a note that translating the answer needs. In front of a
// pipe also the last events of each stream, for a client that was cut off and comes
// back (replaybuffer.go). Nothing else.
//
// The last answer to each kind of list, and what became of it, is kept for all
// sessions together and spares the same work again (lists.go, package memo).
//
// Where it is turned on, lists and resources are kept that the server has sent, between
// clients and servers of which one at least has no sessions: package results has them.
// Who may get what of all this is in package principal, and how much of it in package quota.
//
// A question whose answer may come by way of another process carries its note in
// its id (sealedquestion.go, package sealed). One whose answer may not be what was asked for is kept until then, to
// be asked once more (askagain.go).
//
// All the rest that a session is stands in the id that we give it, sealed
// (package sealed): with the same key any process serves it, as long as the server is
// reached over Streamable HTTP and so knows the session by itself. What a process
// holds of such a session it may forget (session.go). In front of a pipe the
// session is the pipe, and ends with it; a process that ends by itself is started
// again and told what it knew (restart.go), and so is a session that a server on
// HTTP+SSE has lost; one over Streamable HTTP begins again by remote.go. Where one process serves all sessions, it
// is sharedprocess.go that keeps them apart, or sharedmodern.go where it has no handshake.
//
// A server without a handshake remembers nothing of a client that begins with one. That
// is in modernconn.go, which to the session is a connection to a server of the client's
// own revision, made by modernhandshake.go: its log level, its subscriptions
// (modernlisten.go), the questions it was asked (moderncall.go, modernask.go), and which
// arguments of tools go into headers (package mcpheader).
//
// What the server's list says of a tool is in package toolindex, for all callers: a call
// that has to wait for it holds up nothing on its pipe (waits in schemas.go).
//
// Which kind of server it is, upstreamera.go finds out and remembers (erafallback.go where
// that is a process, which may be slow to start); erachange.go
// notices when that is no longer true. What published peers do beside the
// specification is in quirks.go.
//
// # Several replicas
//
// What is in one process only, a call that waits for its client (retry.go) or the home of
// a session with a server that knows none (ownerreplica.go), is served there, whichever
// process the client came to: package replicas knows where the others are and hands
// them a request and the client their answer. A seal is
// what they believe of each other (package sealed).
//
// # How long, for whom, by what settings
//
// What OAuth clients ask of the server beside messages, package oauthrelay asks in their
// place (oauthclients.go).
//
// How long the server may be silent is in silencelimits.go; whom a listener lets in, and
// what those who run us can ask, in listen.go; which trace a request belongs to
// and where its time went, in package trace. All that follows from the configuration
// is one value, which a new configuration replaces (setup.go).
package proxy
