package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// waited: a process of the server is not ended while a call is open there of a client that would wait for it.
func waited(w *world, wrong func(time.Duration, string, ...any)) {
	killed := time.Duration(-1) // when a process of dragoman was
	for i, e := range w.all {
		if e.Kind == trace.Died && e.Text == "killed" {
			killed = e.At
		}
		if e.Kind != trace.Gone || e.At == killed || !strings.HasPrefix(e.Who, "server.") {
			continue
		}
		if w.cutsOff(w.owner[e.Who], e.At) {
			continue
		}
		for _, c := range w.calls {
			n := len(c.received)
			if n == 0 || c.received[n-1].Who != e.Who || c.received[n-1].At > e.At || c.how != "" || c.shared || len(c.stopped) > 0 || c.restsAtServer(e.At) || c.polled(e.At) {
				continue
			}
			if at, done := c.answered(); done && at <= e.At || w.endedBefore(c, e.At) || c.finished > 0 && e.At >= c.finished+w.drain() || w.troubledBefore(c, i) || w.lostBefore(c, i) {
				continue
			}
			wrong(e.At, "%s is ended while %s, sent at %.3fs, is open there", e.Who, c.mark, c.begins.Seconds())
		}
	}
}

// troubledBefore reports whether a trouble for the client of c, since it sent that, began before event i. A stop is none: see cutsOff.
func (w *world) troubledBefore(c *call, i int) bool {
	return slices.ContainsFunc(w.troubles, func(t trouble) bool {
		return (t.client == "" || t.client == c.owner) && t.what != "operator-stop" && t.event < i && t.to >= c.begins
	})
}

// lostBefore reports whether the client of c, since it sent that, has closed its stream before event i, as another replica does not know its
// session.
func (w *world) lostBefore(c *call, i int) bool {
	return slices.ContainsFunc(w.all[:i], func(e trace.Event) bool {
		return e.Who == c.owner && e.Kind == trace.Closed && e.Text == "the session is lost" && e.At >= c.begins
	})
}

// endedBefore reports whether a call had ended by a time, or ends then for another reason than that its process ends.
func (w *world) endedBefore(c *call, at time.Duration) bool {
	if len(c.ends) == 0 || c.ends[0].At > at {
		return false
	}
	end := c.ends[0]
	left := end.Kind == trace.Refused && end.Failed == "ended: the session is lost" // another request was answered by 404
	return end.At < at || end.Failed == "" || left || c.foreseen(end) || w.limit(c, end)
}

// cutsOff reports whether a process of dragoman that was told to stop may end at a time what is open: behind the drain, or at once if its
// client had said that it says no more.
func (w *world) cutsOff(process string, at time.Duration) bool {
	return slices.ContainsFunc(w.all, func(e trace.Event) bool {
		if e.Kind != trace.Step || e.Text != "operator stop "+process || at < e.At || at > e.At+2*w.drain()+6*time.Second {
			return false
		}
		return at >= e.At+w.drain() || w.finished(process, at)
	})
}
