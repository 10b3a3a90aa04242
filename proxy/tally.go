package proxy

import (
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A tally counts one call of a modern client in the metrics. The call may take several requests to
// the server: it is sent again if the server has lost the session or turns out to be of
// the other era. The outcome of the last request counts, when the last user releases the tally.
// hold, settle and release may be called on a nil tally, and do nothing then.
type tally struct {
	metrics *metrics.Metrics
	method  wire.Method

	mu     sync.Mutex
	users  int
	how    metrics.Outcome // "" if there is nothing to count yet
	server *translate.Revision
	call   *call // has the time that the call began; nil if no request was sent to the server
}

// tallied makes and returns q's tally, with one user.
func (srv *Server) tallied(q *modernRequest) *tally {
	q.counts = &tally{metrics: srv.metrics, method: q.method, users: 1}
	return q.counts
}

func (t *tally) hold() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users++
}

// note notes how x's request ended.
func (t *tally) note(x *exchange, how metrics.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.how, t.server, t.call = how, x.s.ServerRevision, x.call
}

// settle notes how the call ended, unless a request to the server has determined that.
func (t *tally) settle(how metrics.Outcome) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.how == "" {
		t.how = how
	}
}

// release ends one use of the tally. The last one counts the call.
func (t *tally) release() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users--; t.users > 0 || t.how == "" {
		return
	}
	client := translate.Lookup(translate.Modern())
	if t.call == nil {
		t.metrics.Unserved(client, t.method, t.how)
		return
	}
	t.metrics.Request(client, t.server, t.method, t.how, t.call.Began)
}
