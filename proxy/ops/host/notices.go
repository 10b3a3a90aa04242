package host

import (
	"context"
	"sync"
)

// Notices counts the notifications that are on their way to a server.
type Notices struct {
	mu   sync.Mutex
	open int
	none chan struct{} // closed when open becomes 0; nil if nothing waits for it
}

// Begin counts one more, until End.
func (n *Notices) Begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open++
}

// End says that one was sent, or cannot be.
func (n *Notices) End() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open--; n.open == 0 && n.none != nil {
		close(n.none)
		n.none = nil
	}
}

// Wait waits until all notifications that have begun are sent, or until ctx ends. Only one goroutine may call it.
func (n *Notices) Wait(ctx context.Context) {
	n.mu.Lock()
	if n.open == 0 {
		n.mu.Unlock()
		return
	}
	none := make(chan struct{})
	n.none = none
	n.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}
