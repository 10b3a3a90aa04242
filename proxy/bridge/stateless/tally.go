package stateless

import (
	"cmp"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// A Tally counts one call of a modern client in the metrics. The call may take several requests to
// the server: it is sent again if the server has lost the session or turns out to be of
// the other era. The outcome of the last request counts, when the last user releases the tally.
// Span, Hold, Settle, Fail and Release may be called on a nil tally, and do nothing then.
type Tally struct {
	metrics *metrics.Metrics
	span    *telemetry.Call // nil for none

	mu     sync.Mutex
	users  int
	counts metrics.Operation // its Outcome is "" if there is nothing to count yet
	memory reusable          // is given back by the last Release; nil for none
}

// reusable is memory of which the tally is a part.
type reusable interface{ reuse() }

// free makes the last Release give back r.
func (t *Tally) free(r reusable) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.memory = r
}

// Trace makes c, which may be nil, the call's span. The last Release ends it.
func (t *Tally) Trace(c *telemetry.Call) { t.span = c }

// Span returns the call's span, or nil.
func (t *Tally) Span() *telemetry.Call {
	if t == nil {
		return nil
	}
	return t.span
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

// Note notes how a request to the server ended, and counts that request alone.
func (t *Tally) Note(o *metrics.Operation) {
	t.metrics.Sent(o)
	t.mu.Lock()
	defer t.mu.Unlock()
	began := t.counts.Began
	t.counts = *o
	t.counts.Began, t.counts.Waited = began, 0
}

// Settle notes how the call ended, unless a request to the server has determined that.
func (t *Tally) Settle(how metrics.Outcome) { t.settle(how, metrics.Fault{}) }

// Fail is Settle for a call whose client gets f. f must have been reported.
func (t *Tally) Fail(f *mcp.Failure) { t.settle(report.Outcome(f), report.FaultOf(f)) }

func (t *Tally) settle(how metrics.Outcome, why metrics.Fault) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts.Outcome == "" {
		t.counts.Outcome, t.counts.Fault = how, why
	}
}

// Release ends one use of the tally. The last one counts the call.
func (t *Tally) Release() {
	if t == nil {
		return
	}
	if r := t.release(); r != nil {
		r.reuse()
	}
}

// release is Release. It returns memory that nothing knows any more, or nil.
func (t *Tally) release() reusable {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users--; t.users > 0 {
		return nil
	}
	t.span.End(string(cmp.Or(t.counts.Outcome, metrics.Succeeded)), string(t.counts.Fault.Cause))
	if t.counts.Outcome != "" {
		t.metrics.Request(&t.counts)
	}
	return t.memory
}
