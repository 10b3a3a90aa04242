package modernclient

import (
	"context"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A resourceWatch is a session's subscription to one resource, shared by all subscriptions that
// name it. The server receives resources/subscribe and resources/unsubscribe in the order in which
// they became necessary, even if clients come and go quickly.
type resourceWatch struct {
	uses    int
	settled chan struct{} // closed when the server has answered
	err     error         // the server's error
}

// subscribe subscribes to the changes of a resource. uri is a JSON string. The caller calls
// unsubscribe once for each call that succeeded.
func (b *pooledSession) subscribe(ctx context.Context, uri string, from []upstream.Header) error {
	b.mu.Lock()
	w := b.watched[uri]
	if w == nil {
		if b.watched == nil {
			b.watched, b.leaving = make(map[string]*resourceWatch), make(map[string]chan struct{})
		}
		w = &resourceWatch{settled: make(chan struct{})}
		b.watched[uri] = w
		before := b.leaving[uri]
		from := append([]upstream.Header(nil), from...)
		b.br.host.Spawn(func() { b.watch(w, before, uri, from) }) // must not end with the first client's request
	}
	w.uses++
	b.mu.Unlock()
	var err error
	select {
	case <-w.settled:
		err = w.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		b.unsubscribe(uri, from)
	}
	return err
}

// watch sends resources/subscribe, after the server has answered the end of an earlier subscription.
func (b *pooledSession) watch(w *resourceWatch, before <-chan struct{}, uri string, from []upstream.Header) {
	defer close(w.settled)
	if before != nil {
		select {
		case <-before:
		case <-b.life.Done():
		}
	}
	w.err = b.ask(b.life, wire.ResourcesSubscribe, []byte(`{"uri":`+uri+`}`), from)
}

// unsubscribe ends the subscription if no other client uses it. It does not wait.
func (b *pooledSession) unsubscribe(uri string, from []upstream.Header) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.watched[uri]
	if w.uses--; w.uses > 0 {
		return
	}
	delete(b.watched, uri)
	if b.life.Err() != nil {
		return
	}
	over := make(chan struct{})
	b.leaving[uri] = over
	b.br.host.Spawn(func() {
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if close(over); b.leaving[uri] == over {
				delete(b.leaving, uri)
			}
		}()
		if <-w.settled; w.err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(b.life, server.NoticeTimeout)
		defer cancel()
		if err := b.ask(ctx, wire.ResourcesUnsubscribe, []byte(`{"uri":`+uri+`}`), from); err != nil {
			b.br.host.Log.Debug("cannot unsubscribe from a resource", zap.Error(err))
		}
	})
}
