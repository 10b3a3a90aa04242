package proxy

import (
	"github.com/dragoman-proxy/dragoman/proxy/bridge/modernclient"
	"github.com/dragoman-proxy/dragoman/proxy/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/handshake"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/session"
)

// fronts has what the rooms share through which clients enter.
type fronts struct {
	*session.Table
	*exchange.Common
	*handshake.Opener
	modern  *modernclient.Bridge // to handshake servers, for modern clients
	signIns *origin.Credentials  // makes credentials for the server
}
