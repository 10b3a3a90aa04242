package origin

import (
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// World is all that a proxy reaches beside its clients. The zero value is that of the operating system and of the network.
type World struct {
	// Dial opens connections to servers, to what their logins name, to APIs of adapters and to other replicas. It is not asked for the
	// addresses of names.
	Dial upstream.Dial
	// Start starts processes: of servers, and of commands that print a credential. What it is asked for need not exist on this machine.
	Start func(*upstream.Stdio) (*upstream.Process, error)
	Store store.Engine // what is at store.url; nil for what is there
}
