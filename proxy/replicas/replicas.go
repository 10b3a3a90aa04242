// Package replicas forwards requests to the process that can serve them, if several processes have the
// same key and a client may reach any of them.
//
//		request ─► Forward: find the process ─► its inbox ─► the Handler there ─► answer, as it comes
//
//	  - find.go knows where replicas may be, as configured, and asks them which process each is;
//	  - register.go tells the store that they share where this one is, so that the others find it there;
//	  - forward.go sends a request, with the client's headers sealed, and returns the answer to
//	    the client;
//	  - inbox.go accepts such a request, once, and serves it as if the client had sent it to
//	    this replica.
//
// Only replicas with the key are trusted: requests and answers between them are sealed. The package
// does not know sessions or eras: its caller says which process is to serve a request.
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
	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// Settings are the part of the current configuration that replicas need.
type Settings struct {
	Addresses   []string // of replicas, host:port
	Sealer      *sealed.Sealer
	MaxMessage  int              // bytes
	Certificate *tls.Certificate // the certificate of this replica; nil for none
	Roots       *x509.CertPool   // verify other certificates; nil for the system's roots
}

// Options describe the process that Replicas belong to.
type Options struct {
	Self     sealed.ID
	Settings func() Settings
	Handler  downstream.Handler                              // serves what others forward
	Rescue   func(*downstream.Request, *downstream.Response) // is deferred for each call of Handler, and recovers panics
	Memory   *large.Memory
	Streams  *atomic.Int64 // counts the event streams that clients have
	Store    *store.Store  // where replicas tell their addresses; nil if they share none
	Draining context.Context
	Log      *zap.Logger

	Count       func(Outcome)
	Unreachable func(error)
	Report      func(f *mcp.Failure, method string) (cause string) // reports the failure of a call whose answer is lost
}

// configured reports whether there may be other replicas.
func (o *Options) configured() bool { return o.Store != nil || len(o.Settings().Addresses) > 0 }

// Replicas forwards requests to the other processes that have the same key, and serves those that they
// forward.
type Replicas struct {
	*directory
	inbox *inbox
}

// New returns Replicas that know no address of another process yet. The caller must Close it.
func New(o Options) *Replicas { return &Replicas{newDirectory(&o), &inbox{Options: &o}} }

// Configured reports whether there may be other replicas.
func (r *Replicas) Configured() bool { return r.configured() }

// Inbox returns the handler of the requests that other replicas forward.
func (r *Replicas) Inbox() downstream.ReplicasHandler { return r.inbox }

// Forget discards all known addresses of replicas, as after a change of settings. Each replica has to
// be found again.
func (r *Replicas) Forget() { r.forget() }

// Close closes the connections to other replicas; those in use are closed after their last use.
func (r *Replicas) Close() { r.close() }
