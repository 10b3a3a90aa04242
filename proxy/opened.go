package proxy

import (
	"context"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
)

// A server whose call has to wait for URLs to be opened says of each when that is
// done: before the client calls again, or soon after, since a user's word may come
// sooner than that of the page behind the URL. The call is not made again before. See
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation.

// unopened are the URLs that a call waits for, by their elicitationIds. It lives as
// long as its dialogue.
type pendingURLs struct {
	ids map[string]bool
	all chan struct{} // closed when there are none left
}

// expectOpened begins to wait for the URLs that the server's error names.
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

// opened takes notice of a notifications/elicitation/complete.
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

// awaitOpened waits until the server has said of all URLs that d waits for that they
// were opened, but no longer than limit.
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
	case <-b.life.Done(): // it says nothing any more
	}
}

func (b *pooledSession) forgetOpened(d *parkedCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pendingURLs, d)
}
