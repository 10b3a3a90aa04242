// Package share lets several clients use one process of the server.
//
//   - process.go: one process for all sessions, with one handshake, for a server that keeps no state of a session
//     (upstream.share_child); conn.go: one session's connection to it;
//   - modern.go: the same for a modern server, which has no sessions;
//   - remap.go: a process that serves requests of several modern clients.
package share
