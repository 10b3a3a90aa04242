package server

import (
	"context"
	"fmt"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// An Owner waits for the goroutine that reads a pipe, and is told what goes wrong where no
// call waits for an error.
type Owner interface {
	// Spawn runs a task that the end of the owner waits for.
	Spawn(task func())
	// Dropped counts a message that goes to no client; reason is as metrics name it.
	Dropped(reason string)
	// Unread is Dropped for an answer that was not read, whose call fails with why.
	Unread(reason string, why *mcp.Failure)
	// Panicked is told of a panic of the reader.
	Panicked(p any)
	// Memory is where copies of large messages have their room from.
	Memory() *large.Memory
}

// SilentFor is the error of a call of which the server has said nothing for so long; begun
// says that it had, before.
func SilentFor(limit time.Duration, begun bool) error {
	if begun {
		return fmt.Errorf("the server said nothing more for %v: %w: %w", limit, upstream.ErrSilence, context.DeadlineExceeded)
	}
	return fmt.Errorf("the server said nothing for %v: %w", limit, context.DeadlineExceeded)
}
