package report

import (
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
)

// At is what is known of a request. Each part may be missing.
type At struct {
	Method         string
	Client, Server *translate.Revision
	Session        string       // the id of the session at the server
	Header         []mcp.Header // headers that are passed to the server; they may be secrets
}
