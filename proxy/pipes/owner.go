package pipes

import (
	"context"
	"fmt"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// An Owner waits for the goroutine that reads a pipe, and receives the errors for which no
// call waits.
type Owner interface {
	// Spawn runs a task that the end of the owner waits for.
	Spawn(task func())
	// Dropped counts a message that goes to no client; reason is as metrics name it.
	Dropped(reason string)
	// Unread is Dropped for an answer that was not read, whose call fails with why. It returns the failure that the client gets.
	Unread(reason string, why *mcp.Failure) *mcp.Failure
	// Quirk counts that a quirk of the server was handled.
	Quirk(mcp.Quirk)
	// Panicked receives the value of a panic of the reader.
	Panicked(p any)
	// Memory returns the memory in which large messages are copied.
	Memory() *large.Memory
}

// SilentFor returns the error of a call about which the server has been silent for limit.
// begun says that the server had sent something before.
func SilentFor(limit time.Duration, begun bool) error {
	if begun {
		return fmt.Errorf("the server has sent nothing more for %v: %w: %w", limit, upstream.ErrSilence, context.DeadlineExceeded)
	}
	return fmt.Errorf("the server has sent nothing for %v: %w", limit, context.DeadlineExceeded)
}
