// Package replicas hands requests to the process that can serve them, where several have
// the same key and a client comes to any of them.
//
//		request ─► Forward: find the process ─► its inbox ─► the Handler there ─► answer, as it comes
//
//	  - find.go knows where replicas may be, as configured, and asks them which process each is;
//	  - forward.go sends a request, sealed with what its client said in headers, and hands the
//	    answer on;
//	  - inbox.go takes such a request in, once, and has it served as though its client had come
//	    here.
//
// Only replicas with the key are trusted: requests and answers between them are sealed. The
// package knows no session and no era; who calls it says which process shall serve what.
package replicas

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
)

// Settings are those of the configuration that counts now.
type Settings struct {
	Addresses   []string // of replicas, host:port
	Sealer      *sealed.Sealer
	MaxMessage  int              // bytes
	Certificate *tls.Certificate // that we show; nil for none
	Roots       *x509.CertPool   // that vouch for another one; nil for the system's
}

// Options are the process that Replicas are of.
type Options struct {
	Self     sealed.ID
	Settings func() Settings
	Handler  downstream.Handler                              // serves what others forward
	Rescue   func(*downstream.Request, *downstream.Response) // is deferred around it, and recovers
	Memory   *large.Memory
	Streams  *atomic.Int64 // counts the event streams that clients have
	Draining context.Context
	Log      *zap.Logger

	Count       func(Outcome)
	Unreachable func(error)
	Report      func(f *mcp.Failure, method string) (cause string) // of a call whose answer is lost
}

// configured reports whether there may be others.
func (o *Options) configured() bool { return len(o.Settings().Addresses) > 0 }

// Replicas forwards requests to the other processes that have the same key, and serves those that they
// forward.
type Replicas struct {
	*directory
	inbox *inbox
}

// New returns Replicas that know no address of another process yet. The caller must Close it.
func New(o Options) *Replicas { return &Replicas{newDirectory(&o), &inbox{Options: &o}} }

// Configured reports whether there may be others.
func (r *Replicas) Configured() bool { return r.configured() }

// Inbox takes in what others forward.
func (r *Replicas) Inbox() downstream.ReplicasHandler { return r.inbox }

// Forget discards all known addresses of replicas, as after a change of settings. Each replica has to
// be found again.
func (r *Replicas) Forget() { r.forget() }

// Close closes the connections to others, those in use when that ends.
func (r *Replicas) Close() { r.close() }
