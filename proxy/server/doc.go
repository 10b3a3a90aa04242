// Package server makes of one pipe, which a server on stdio or HTTP+SSE has for all that it
// says, what its clients need.
//
//   - [Streams], for clients over HTTP: each request gets a stream of its own, and there is a
//     standing one for the rest;
//   - [Renumbered], for one client on a pipe: all messages in their order.
//
// In both, requests have ids and progress tokens of ours towards the server (package idmap),
// so that a late answer to one request is never given to another one of its id.
//
//   - restart.go: the error that a pipe brings where another process takes the place of the
//     server's, and the requests go on that were not sent yet;
//   - memory.go: what another process has to be told that the first one knew, and how soon it
//     is started; reopen.go: how soon a stream is opened again;
//   - log.go: what the server writes to its stderr;
//   - skipped.go: messages that were too large to be read;
//   - queue.go: messages for a client that is slow.
package server
