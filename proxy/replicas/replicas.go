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
