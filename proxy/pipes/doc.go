// Package pipes turns the one pipe on which a server on stdio or HTTP+SSE sends everything
// into what its clients need.
//
//   - [Streams], for clients over HTTP: each request gets a [Stream] of its own, and there is a
//     standing one for the rest;
//   - [Renumbered], for one client on a pipe: all messages in their order.
//
// In both, requests have ids and progress tokens of dragoman's own towards the server
// (package idmap), so that a late answer to one request is never taken for the answer to
// another one with the same id.
//
//   - restart.go: the error of a pipe whose process is replaced by another one, while the
//     requests that were not sent yet go on;
//   - memory.go: what a new process must get because the first one knew it, and how soon it
//     is started; reopen.go: how soon a stream is opened again;
//   - log.go: what the server writes to its stderr;
//   - skipped.go: messages that were too large to be read; unreadable.go: those that are no JSON-RPC;
//   - unreached.go: what a server asks a client that has no stream open;
//   - queue.go: messages for a client that is slow.
//
// The rooms: failures has the causes of failures of the server, results caches results without any knowledge of clients, and
// mcpheader makes the headers that repeat parts of a message.
package pipes
