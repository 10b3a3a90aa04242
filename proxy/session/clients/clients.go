// Package clients has what the rooms share through which clients enter: web for Streamable HTTP, pipe for stdio and HTTP+SSE.
//
//   - view.go is the proxy as package bridge/modernclient sees it: it opens sessions, and carries messages in them;
//   - modernserver.go says whether a request of a modern client needs a session, and compares its headers with the tool;
//   - split.go splits batches, replica.go and forwarded.go let another replica answer, refusals.go answers with errors.
//
// A room translates between a transport and exchanges: which message begins a session, which belongs to one, and what the
// client gets if it cannot be served.
package clients

import (
	"sync/atomic"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/modernclient"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/session/handshake"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Proxy has what the rooms share through which clients enter.
type Proxy struct {
	*session.Table
	*exchange.Common
	*handshake.Opener
	Modern  *modernclient.Bridge // to handshake servers, for modern clients
	SignIns *origin.Credentials  // makes credentials for the server

	// Shape says what the translation of a modern client's request for the server looks for; nil for nothing.
	Shape atomic.Pointer[wire.Shape]
}
