package judge

import (
	"slices"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// hears reports whether a stream of a client is open at a time.
func (w *world) hears(client string, at time.Duration) (open bool) {
	for _, e := range w.all {
		if e.At > at {
			break
		}
		if e.Who == client {
			switch e.Kind {
			case trace.Opened:
				open = true
			case trace.Leaves, trace.Ends, trace.Closed, trace.Begins:
				open = false
			}
		}
	}
	return open
}

// answersUnasked reports whether t is an answer that the client of c made up itself, in the session of its own: to a question that waits at the
// server since no stream carries it, or that was on its way to the client, as the answer was to dragoman. The server would get that without
// dragoman, too.
func (w *world) answersUnasked(c *call, t trace.Event) bool {
	a, got := find(c.asks, t.N), find(c.asked, t.N)
	if a == nil {
		return false
	}
	waits := a.Failed != "" && !w.onPipe(c.owner)
	return slices.ContainsFunc(w.all, func(e trace.Event) bool {
		if e.Who != c.owner || e.Text != "garbage answer" || e.Failed != "" || e.At > t.At {
			return false
		}
		crossed := got == nil || e.At <= got.At
		return waits && e.At >= t.At-moment || crossed && w.excuse(&call{owner: c.owner, begins: e.At}, t.At, "link-")
	})
}
