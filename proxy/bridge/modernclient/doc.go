// Package modernclient lets clients of 2026-07-28, which have no session, use a server that has a handshake.
//
//	Post, Begin ──► relay ──► pooled session ──► Exchange ──► server
//	(one request)     │       opened by dragoman, shared by one client's requests
//	                  └─► parked call: reads the stream of a call in which the server may ask the client;
//	                      waits while the client answers with a second request
//
// The files, from the bottom up:
//
//   - proxy.go has, as interfaces, what the package needs: [Proxy] opens a [Session] with the server, and each request is
//     an [Exchange] on it. message.go has what is read and written in single messages, pendingquestions.go the questions
//     that wait for a client.
//   - session.go has the session, and opencalls.go and listeners.go what it knows: the calls that messages on other streams
//     may belong to, and the clients of subscriptions/listen. unattributed.go finds a call for a question that names none.
//     inquiry.go sends requests of dragoman's own and reads the standing stream. pool.go has the sessions of all clients.
//   - task.go has a task at the server, taskstore.go what replicas share of it, tasks.go all tasks and the requests about
//     them. taskcall.go has the calls that become tasks, for the client or only at the server.
//   - parkedcalls.go and parkedcall.go have the calls that may wait for their client, reading.go the goroutines that read
//     for them, retry.go the requests that bring a client's answers.
//   - bridge.go has [Bridge]. ownanswers.go has the answers to server/discover and the streams of subscriptions/listen,
//     relay.go is any request but the latter. reply.go begins both.
package modernclient
