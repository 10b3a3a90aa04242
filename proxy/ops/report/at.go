package report

import (
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// At is what is known of a request. Each part may be missing.
type At struct {
	Method         string
	Client, Server *translate.Revision
	Session        string            // the id of the session at the server
	Header         []upstream.Header // headers that are passed to the server; they may be secrets
}
