// Package modernclient lets clients of 2026-07-28, which have no session, use a server that has a handshake.
//
//	Post, Begin ──► relay ──► pooled session ──► Exchange ──► server
//	(one request)     │       opened by dragoman, shared by one client's requests
//	                  └─► parked call: reads the stream of a call in which the server may ask the client;
//	                      waits while the client answers with a second request
//
// bridge.go has [Bridge] and, as interfaces, what it needs: [Proxy] opens a [Session] with the server, and each request
// is an [Exchange] on it. reply.go has what clients ask for: server/discover, a subscription or any other request.
// relay.go sends the request; pool.go and session.go have the sessions.
//
// message.go has what is read and written in single messages.
//
// parkedcall.go and parkedcalls.go hold calls that wait for their client, retry.go takes its answers, opened.go waits
// until URLs were opened, and undeclared.go says which capability a client lacks. unattributed.go finds a call for a
// question that names none, attribution.go one for a notification on the standing stream. subscription.go and
// resourcewatch.go serve subscriptions/listen. Tasks: tasks.go, taskquestions.go, tasknews.go, and taskrun.go for a call
// that is a task only at the server.
package modernclient
