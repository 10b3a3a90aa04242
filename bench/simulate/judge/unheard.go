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

// answersUnasked reports whether t is an answer that the client of c made up itself, in the session of its own, to a question that waits at the
// server since no stream carries it. The server would get that without dragoman, too.
func (w *world) answersUnasked(c *call, t trace.Event) bool {
	if a := find(c.asks, t.N); a == nil || a.Failed == "" || w.onPipe(c.owner) {
		return false
	}
	return slices.ContainsFunc(w.all, func(e trace.Event) bool {
		return e.Who == c.owner && e.Text == "garbage answer" && e.At <= t.At && e.At >= t.At-moment
	})
}
