package clients

import (
	"github.com/dragoman-proxy/dragoman/proxy/bridge/modernclient"
	"github.com/dragoman-proxy/dragoman/proxy/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/handshake"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/session"
)

// Proxy has what the rooms share through which clients enter.
type Proxy struct {
	*session.Table
	*exchange.Common
	*handshake.Opener
	Modern  *modernclient.Bridge // to handshake servers, for modern clients
	SignIns *origin.Credentials  // makes credentials for the server
}
