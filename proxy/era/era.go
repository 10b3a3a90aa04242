// Package era finds out and remembers which era the server is of: whether it has the initialize handshake,
// is of a revision without one ("modern"), or serves both.
//
//   - cache.go: the era for each credential, found out once and kept until it turns out to be wrong;
//   - process.go: how a process is asked, which may answer nothing before initialize;
//   - changed.go: what makes a refusal doubtful, so that the server is asked again;
//   - proposal.go: the revisions that initialize proposes, one after the other.
package era

import (
	"context"

	"github.com/dragoman-proxy/dragoman/proxy/host"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// New returns an empty Cache. open returns the function that opens a connection without sending a message, or
// nil if servers on the transport are known to have a handshake; that function returns ErrHandshakeOnly if it
// finds that out.
func New(h *host.Host, open func() func(context.Context) (*upstream.Begun, error)) *Cache {
	return &Cache{host: h, open: open, Silence: eraSilence, AskTime: askTime, known: make(map[string]*eraEntry)}
}
