package mcp

import "github.com/dragoman-proxy/dragoman/proxy/bytes/sse"

// Peer is the other end of the connection while one of its messages is handled. It receives the messages that come
// before the response, or that belong to no request.
type Peer interface {
	// Send passes on one event, whose bytes are free again when it returns. It waits for a peer that reads slowly.
	// An error means that the peer gets no more messages: the caller returns. Send is called by one goroutine at a
	// time.
	Send(sse.Event) error
}

// Waker is told that a stream which was parked goes on.
type Waker interface {
	// Wake is called once for each time that the stream was parked, in any goroutine, perhaps before the call that parked it has
	// returned. That call must then no longer use anything that it shares with the next one. Wake does not block.
	Wake()
}
