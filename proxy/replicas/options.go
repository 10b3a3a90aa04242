package replicas

import (
	"context"
	"crypto/tls"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// Settings are the part of the current configuration that replicas need.
type Settings struct {
	Sealer      *sealed.Sealer
	MaxMessage  int              // bytes
	Pass        []string         // names of the server's headers that clients get
	Certificate *tls.Certificate // the certificate of this replica; nil for none
}

// Options describe the process that Replicas belong to.
type Options struct {
	Self     sealed.ID
	Settings func() Settings
	Handler  downstream.Handler                              // serves what others forward
	Rescue   func(*downstream.Request, *downstream.Response) // is deferred for each call of Handler, and recovers panics
	Memory   *large.Memory
	Dial     upstream.Dial // opens connections to others; nil for those of the system
	Streams  *atomic.Int64 // counts the event streams that clients have
	Store    *store.Store  // where replicas tell their addresses; nil if they share none
	Draining context.Context
	Log      *zap.Logger

	Count       func(Outcome)
	Unreachable func(error)
	Report      func(f *mcp.Failure, method string) (cause string) // reports the failure of a call whose answer is lost
}

// Configured reports whether there may be other replicas.
func (o *Options) Configured() bool { return o.Store != nil }

// Outcome is what became of a forwarded request.
type Outcome string
