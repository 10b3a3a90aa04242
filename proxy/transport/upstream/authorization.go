package upstream

import (
	"strings"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// Authorization is the last Authorization of the messages of a session: dragoman's own messages in it have that, too. It is safe for
// concurrent use.
type Authorization struct {
	mu    sync.RWMutex
	value string
}

// Note remembers the Authorization among the headers of a message, if there is one.
func (a *Authorization) Note(header []mcp.Header) {
	for _, h := range header {
		if !strings.EqualFold(h.Name, "Authorization") {
			continue
		}
		a.mu.RLock()
		same := a.value == h.Value
		a.mu.RUnlock()
		if !same {
			a.mu.Lock()
			a.value = h.Value
			a.mu.Unlock()
		}
		return
	}
}

// Header returns the header; nil for none.
func (a *Authorization) Header() []mcp.Header {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.value == "" {
		return nil
	}
	return []mcp.Header{{Name: "Authorization", Value: a.value}}
}
