package stateless

import (
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A Tally counts one call of a modern client in the metrics. The call may take several requests to
// the server: it is sent again if the server has lost the session or turns out to be of
// the other era. The outcome of the last request counts, when the last user releases the tally.
// Hold, Settle and Release may be called on a nil tally, and do nothing then.
type Tally struct {
	metrics *metrics.Metrics
	method  wire.Method

	mu     sync.Mutex
	users  int
	how    metrics.Outcome // "" if there is nothing to count yet
	server *translate.Revision
	began  time.Time // zero if no request was sent to the server
}

// Count makes and returns q's tally, which counts in m. The caller is its first user, and calls Release.
func (q *Request) Count(m *metrics.Metrics) *Tally {
	q.Counts = &Tally{metrics: m, method: q.Method, users: 1}
	return q.Counts
}

// Hold adds a user, which calls Release in the end.
func (t *Tally) Hold() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users++
}

// Note notes how a request to a server of this revision ended. began is when the request was sent.
func (t *Tally) Note(server *translate.Revision, began time.Time, how metrics.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.how, t.server, t.began = how, server, began
}

// Settle notes how the call ended, unless a request to the server has determined that.
func (t *Tally) Settle(how metrics.Outcome) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.how == "" {
		t.how = how
	}
}

// Release ends one use of the tally. The last one counts the call.
func (t *Tally) Release() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users--; t.users > 0 || t.how == "" {
		return
	}
	client := translate.Lookup(translate.Modern())
	if t.began.IsZero() {
		t.metrics.Unserved(client, t.method, t.how)
		return
	}
	t.metrics.Request(client, t.server, t.method, t.how, t.began)
}
