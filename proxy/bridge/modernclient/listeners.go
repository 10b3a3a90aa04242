package modernclient

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// acceptTime is how long the acknowledgement of a subscription waits for the server. A client gives up after a while, too.
const acceptTime = 10 * time.Second

// maxListened is how many resources, and how many tasks, one request may subscribe to.
const maxListened = 256

// A listener is a client that has asked for notifications with subscriptions/listen.
type listener struct {
	id    []byte // of the request
	from  []mcp.Header
	wants map[wire.Method]bool
	uris  []string // the resources, as JSON strings; guarded by the mutex of listeners
	box   *outbox.Outbox
	kept  *large.Holding // counts what it has asked for, and what is in box
}

// hear gives l a notification.
func (l *listener) hear(body []byte) { l.box.Put(outbox.Message{Body: subscribed(body, l.id)}) }

// finish ends the stream without an error, after the notifications that are still in the box.
func (l *listener) finish() { l.box.Put(outbox.Message{Body: crossing.ListenResult(l.id), Last: true}) }

// covers reports whether l is subscribed to the resource uri, or to one whose URI is a prefix of uri.
func (l *listener) covers(uri string) bool {
	for _, own := range l.uris {
		if strings.HasPrefix(uri, gjson.Parse(own).String()) {
			return true
		}
	}
	return false
}

// listeners are those of a session with or without a standing stream.
type listeners struct {
	heard atomic.Bool // there is a standing stream

	mu  sync.Mutex
	all map[*listener]bool // nil before the first one
}

func (s *listeners) add(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[*listener]bool)
	}
	s.all[l] = true
}

func (s *listeners) remove(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, l)
}

// cover sets the resources that l is subscribed to.
func (s *listeners) cover(l *listener, uris []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.uris = uris
}

// streamEnded ends all subscriptions, since the standing stream has ended for good.
func (s *listeners) streamEnded() {
	s.heard.Store(false) // first, for a listener that joins now
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.all {
		l.finish()
	}
}

// handOver ends all subscriptions, whose clients listen again, on another session. What they miss until then they are told of before.
func (s *listeners) handOver() {
	s.missed()
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.all {
		l.finish()
	}
}

// missed tells all of what they have asked for: the server could not send it while the standing stream was away.
func (s *listeners) missed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.all {
		for method, wanted := range l.wants {
			if wanted {
				l.hear(mcp.Notification(method, ""))
			}
		}
		for _, uri := range l.uris {
			l.hear(mcp.Updated(gjson.Parse(uri).String()))
		}
	}
}

// announce gives a notification to those that have asked for it.
func (s *listeners) announce(method wire.Method, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return
	}
	uri := ""
	if method == wire.ResourcesUpdated {
		uri = gjson.GetBytes(body, "params.uri").String()
	}
	told := false
	for l := range s.all {
		if l.wants[method] || uri != "" && l.covers(uri) {
			told = true
			l.hear(body)
		}
	}
	if told || uri == "" {
		return
	}
	for l := range s.all { // the server may use another form of the URI
		if len(l.uris) > 0 {
			l.hear(body)
		}
	}
}

// resourceWatches are the subscriptions of a session to resources.
type resourceWatches struct {
	host *host.Host
	life context.Context // of the session
	busy atomic.Int64    // requests for the server to begin or to end one that it has not answered
	ask  func(ctx context.Context, method wire.Method, params []byte, from []mcp.Header) error

	mu      sync.Mutex
	byURI   map[string]*resourceWatch // nil before the first one
	leaving map[string]chan struct{}  // resources whose subscription ends; closed when the server has answered; nil before the first one
}

// A resourceWatch is a session's subscription to one resource, shared by all subscriptions that
// name it. The server receives resources/subscribe and resources/unsubscribe in the order in which
// they became necessary, even if clients come and go quickly.
type resourceWatch struct {
	uses    int
	settled chan struct{} // closed when the server has answered
	err     error         // the server's error
}

// hold makes the session subscribe to the changes of a resource, unless it is subscribed. uri is a JSON string. The caller calls
// unsubscribe in the end, also if the server refuses.
func (s *resourceWatches) hold(uri string, from []mcp.Header) *resourceWatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byURI[uri]
	if w == nil {
		w = &resourceWatch{settled: make(chan struct{})}
		if s.byURI == nil {
			s.byURI = make(map[string]*resourceWatch)
		}
		s.byURI[uri] = w
		before := s.leaving[uri]
		from := slices.Clone(from)
		s.host.Spawn(func() { s.watch(w, before, uri, from) }) // must not end with the first client's request
	}
	w.uses++
	return w
}

// await waits until the server has answered, and returns its error, or that of ctx.
func (w *resourceWatch) await(ctx context.Context) error {
	select {
	case <-w.settled:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// watch sends resources/subscribe, after the server has answered the end of an earlier subscription.
func (s *resourceWatches) watch(w *resourceWatch, before <-chan struct{}, uri string, from []mcp.Header) {
	defer close(w.settled)
	if before != nil {
		select {
		case <-before:
		case <-s.life.Done():
		}
	}
	s.busy.Add(1)
	defer s.busy.Add(-1)
	w.err = s.ask(s.life, wire.ResourcesSubscribe, []byte(`{"uri":`+uri+`}`), from)
}

// unsubscribe ends the subscription if no other client uses it. It does not wait.
func (s *resourceWatches) unsubscribe(uri string, from []mcp.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.byURI[uri]
	if w.uses--; w.uses > 0 {
		return
	}
	delete(s.byURI, uri)
	if s.life.Err() != nil {
		return
	}
	over := make(chan struct{})
	if s.leaving == nil {
		s.leaving = make(map[string]chan struct{})
	}
	s.leaving[uri] = over
	s.host.Spawn(func() {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if close(over); s.leaving[uri] == over {
				delete(s.leaving, uri)
			}
		}()
		if <-w.settled; w.err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(s.life, pipes.NoticeTimeout)
		defer cancel()
		s.busy.Add(1)
		defer s.busy.Add(-1)
		if err := s.ask(ctx, wire.ResourcesUnsubscribe, []byte(`{"uri":`+uri+`}`), from); err != nil {
			s.host.Log.Debug("cannot unsubscribe from a resource", zap.Error(err))
		}
	})
}
