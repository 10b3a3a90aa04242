package session

import (
	"context"
	"sync"
)

// notices counts the notifications that are on their way to a server.
type notices struct {
	mu   sync.Mutex
	open int
	none chan struct{} // closed when open becomes 0; nil if nothing waits for it
}

func (n *notices) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open++
}

func (n *notices) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open--; n.open == 0 && n.none != nil {
		close(n.none)
		n.none = nil
	}
}

// wait waits until all notifications that have begun are sent, or until ctx ends. Only one goroutine may call it.
func (n *notices) wait(ctx context.Context) {
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
