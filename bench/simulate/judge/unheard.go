package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
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
// server since no stream carries it, or for others of its array, or that was on its way to the client, as the answer was to dragoman, or to a
// server that did not read for a while; or to one that another replica has had. The server would get that without dragoman, too.
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
		crossed, its := got == nil || e.At <= got.At, &call{owner: c.owner, begins: e.At}
		late := w.excuse(its, t.At, "link-") || e.At <= a.At && w.excuse(its, t.At, "server-deaf")
		return (waits || w.apart(c, a, t)) && e.At >= t.At-moment || crossed && (t.At < w.saidBy(a.At) || late)
	})
}

// apart reports whether t, which answers a of a client over HTTP, has come through another replica than the one that had a: it does not know what
// that has asked, and passes on what may be an answer to it.
func (w *world) apart(c *call, a *trace.Event, t trace.Event) bool {
	if w.onPipe(c.owner) || w.script.Server.Transport != "http" {
		return false
	}
	via := map[int]string{}
	for _, e := range w.all {
		if e.Kind == trace.Accepted {
			via[e.Conn] = e.Via
		}
	}
	return via[a.Conn] != via[t.Conn]
}

// saidAgain reports whether t is dragoman's own answer to a question that the server has said once more: its client has come back for what followed
// the last event that it has got, and this question was none.
func (w *world) saidAgain(c *call, t trace.Event) bool {
	a := find(c.asks, t.N)
	if a == nil || find(c.asked, t.N) != nil {
		return false
	}
	stood := false
	return slices.ContainsFunc(w.all, func(e trace.Event) bool {
		if e.Kind != trace.Standing || e.Session != a.Session {
			return false
		}
		stood = stood || e.Conn == a.Conn
		return stood && strings.HasPrefix(e.Text, "GET after ") && a.At <= e.At && e.At <= t.At && t.At <= e.At+moment
	})
}

// saidBy returns when what the server says at a time is written at the latest: it may wait a little for others of its array.
func (w *world) saidBy(at time.Duration) time.Duration {
	if slices.ContainsFunc(w.script.Steps, func(s script.Step) bool { return s.Who == "server" && s.Verb == "batches" }) {
		return at + 2*time.Millisecond
	}
	return at
}

// leftOnTheWay reports whether the client of c, of 2026-07-28, has left while the request with its answer waited for the slow store, which says
// where the call is: what was given up is not passed on.
func (w *world) leftOnTheWay(c *call, r *trace.Event) bool {
	slow := time.Duration(0)
	for i, step := range w.stepsOf("operator", "store") {
		if step.Word(0) == "slow" && w.all[i].At <= r.At {
			slow, _ = time.ParseDuration(step.Word(1))
		}
	}
	return w.script.Replicas > 1 && c.how != "" && c.given >= r.At && c.given <= r.At+slow
}

// hungUp reports whether t is the answer that the server gets as the client's own process is told to stop: it reads no answers then.
func (w *world) hungUp(c *call, t trace.Event) bool {
	for i, step := range w.stepsOf("operator", "stop") {
		if stop := w.all[i].At; step.Word(0) == "p"+c.owner[1:] && stop <= t.At && t.At <= stop+moment {
			return true
		}
	}
	return false
}
