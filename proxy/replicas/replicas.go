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
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// Replicas forwards requests to the other processes that have the same key, and serves those that they
// forward.
type Replicas struct {
	*directory
	inbox *inbox
}

// New returns Replicas that know no address of another process yet. The caller must Close it.
func New(o Options) *Replicas { return &Replicas{newDirectory(&o), &inbox{Options: &o}} }

// Inbox returns the handler of the requests that other replicas forward.
func (r *Replicas) Inbox() downstream.ReplicasHandler { return r.inbox }
