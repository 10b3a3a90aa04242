package share

import (
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// waiting counts the messages that a shared process has not read. Each client has a share of them.
type waiting struct {
	mu   sync.Mutex
	fair quota.Fair
}

// enter counts one more message of a client. The error says that the client has its share.
func (w *waiting) enter(who quota.Holder, cfg config.Limits) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.fair.Acquire(who, cfg.OpenRequests) {
		return mcp.Fail(mcp.TooManyOpen, "the server is busy, and too many messages of this client wait for it")
	}
	return nil
}

func (w *waiting) leave(who quota.Holder) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fair.Release(who)
}
