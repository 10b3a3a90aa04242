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

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// Env is what a [Cache] needs of the proxy.
type Env struct {
	Config func() *config.Config // in force
	// Open returns the function that opens a connection without sending a message, or nil if servers on the
	// transport are known to have a handshake. The function returns ErrHandshakeOnly if it finds that out.
	Open     func() func(context.Context) (*upstream.Begun, error)
	Log      *zap.Logger
	Report   *report.Reporter
	Opener   server.Opener
	Spawn    func(task func()) // runs a task that the proxy waits for when it ends
	Draining context.Context   // ends when the proxy shuts down
}

// New returns an empty Cache.
func New(e Env) *Cache {
	return &Cache{env: e, Silence: eraSilence, known: make(map[string]*eraEntry)}
}
