package modernclient

import (
	"context"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
)

// If a call requires the user to open URLs, the server sends a notification when each has been
// opened. It may come before the client repeats the call, or a little later, since the user may
// answer before the page behind the URL has reached the server. dragoman waits for it before it
// sends the call again. See
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation.

// pendingURLs holds the elicitationIds of the URLs that a parked call waits for. It exists as long
// as its call.
type pendingURLs struct {
	ids map[string]bool
	all chan struct{} // closed when no URL is left
}

// expectOpened begins to wait for the URLs in the server's error.
func (b *pooledSession) expectOpened(d *parkedCall, list gjson.Result) {
	u := &pendingURLs{ids: map[string]bool{}, all: make(chan struct{})}
	list.ForEach(func(_, e gjson.Result) bool {
		if id := e.Get("elicitationId"); id.Type == gjson.String && len(u.ids) < bridge.MaxQuestions {
			u.ids[strings.Clone(id.String())] = true
		}
		return true
	})
	if len(u.ids) == 0 {
		close(u.all)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pendingURLs == nil {
		b.pendingURLs = map[*parkedCall]*pendingURLs{}
	}
	b.pendingURLs[d] = u
}

// opened handles a notifications/elicitation/complete.
func (b *pooledSession) opened(notification []byte) {
	id := gjson.GetBytes(notification, "params.elicitationId").String()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.pendingURLs {
		if !u.ids[id] {
			continue
		}
		if delete(u.ids, id); len(u.ids) == 0 {
			close(u.all)
		}
	}
}

// awaitOpened waits until the server has confirmed that all URLs of d were opened, but not longer
// than limit.
func (b *pooledSession) awaitOpened(ctx context.Context, d *parkedCall, limit time.Duration) {
	b.mu.Lock()
	u := b.pendingURLs[d]
	b.mu.Unlock()
	if u == nil {
		return
	}
	defer b.forgetOpened(d)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-u.all:
	case <-timer.C:
	case <-ctx.Done():
	case <-b.life.Done(): // the session has ended
	}
}

func (b *pooledSession) forgetOpened(d *parkedCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pendingURLs, d)
}
