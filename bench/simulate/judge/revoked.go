package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// revoked: a client is told that a question is over if that is so, and when the server has lost the session of the question.
func revoked(w *world, wrong func(time.Duration, string, ...any)) {
	type question struct {
		call *call
		n    int
	}
	asked, lost := map[question]int{}, -1 // the events
	for i, e := range w.all {
		of := question{w.byMark[e.Mark], e.N}
		switch {
		case e.Kind == trace.Asks:
			asked[of] = i
		case e.Kind == trace.Loses, e.Kind == trace.Died && strings.HasPrefix(e.Who, "server"):
			lost = i
		case e.Kind == trace.Revoked && of.call != nil:
			c := of.call
			at, is := asked[of]
			v := find(c.withdrawn, e.N)
			if !is || lost > at || v != nil && v.At <= e.At || c.how != "" && c.given <= e.At || c.finished > 0 ||
				len(c.ends) > 0 && c.ends[0].At <= e.At+moment || w.hindered(c.owner, w.all[at].At, e.At) {
				continue
			}
			wrong(e.At, "%s is told that question %d of %s is over, for which the server waits", e.Who, e.N, c.mark)
		}
	}
	if w.script.Replicas > 1 || w.modernServer() || w.script.Has("upstream.share_child:") {
		return
	}
	for _, c := range w.calls {
		for _, a := range c.asked {
			if asks := find(c.asks, a.N); asks != nil && !isKey(a.ID) {
				w.toldOfLoss(c, asks, a, wrong)
			}
		}
	}
}

// toldOfLoss looks whether the client of c, which was asked and has not answered, is told that the question is over when dragoman goes on in
// another session of the server.
func (w *world) toldOfLoss(c *call, asks *trace.Event, a trace.Event, wrong func(time.Duration, string, ...any)) {
	const soon = 2 * moment // what waits for the client waits half a second for a standing stream of the server
	r, next := find(c.replies, a.N), time.Duration(-1)
	for _, other := range w.calls {
		for _, got := range other.received {
			if other.owner == c.owner && other.session == c.session && got.At > a.At && strings.HasPrefix(got.Who, "server") && got.Session != asks.Session && next < 0 {
				next = got.At
			}
		}
	}
	over := func(at time.Duration) bool { return at > 0 && at <= next+soon }
	switch {
	case next < 0 || w.over <= next+soon || r != nil && r.At <= next || c.how != "" && over(c.given) || over(c.finished),
		len(c.ends) > 0 && c.ends[0].At <= next || find(c.withdrawn, a.N) != nil,
		!w.onPipe(c.owner) && !w.hears(c.owner, next) || w.hindered(c.owner, asks.At, next+soon):
		return
	}
	if !slices.ContainsFunc(w.all, func(e trace.Event) bool {
		return e.Kind == trace.Revoked && e.Mark == c.mark && e.N == a.N && e.At <= next+soon
	}) {
		wrong(next, "%s is not told that question %d of %s is over, whose session the server has lost", c.owner, a.N, c.mark)
	}
}
