// Package share lets several clients use one process of the server.
//
//   - sharing.go: the process is started for the first session, and ends with the last one; process.go: one process for all
//     sessions, with one handshake, for a server that keeps no state of a session (upstream.share_child); conn.go: one session's
//     connection to it;
//   - modern.go: the same for a modern server, which has no sessions;
//   - remap.go: a process that serves requests of several modern clients.
package share
