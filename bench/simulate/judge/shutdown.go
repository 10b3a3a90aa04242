package judge

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// drains: a process that is told to stop lets the calls in flight finish. See docs/operations.md, "Start and end".
func drains(w *world, wrong func(time.Duration, string, ...any)) {
	for i, step := range w.stepsOf("operator", "stop") {
		e := w.all[i]
		end := e.At + w.drain()
		for _, c := range w.calls {
			if strings.HasPrefix(step.Word(0), "p") && step.Word(0) != "p"+c.owner[1:] {
				continue // it is the process of another client
			}
			if c.how != "" || c.shared || c.begins >= e.At || len(c.received) == 0 || c.received[0].At >= e.At ||
				len(c.ends) > 0 && c.ends[0].At <= e.At {
				continue
			}
			switch c.plan.How {
			case script.Closes, script.Cut, script.Garbage, script.Status, script.Busy, script.Null, script.Nameless:
				continue
			}
			for _, r := range c.replies {
				if w.script.Replicas > 1 && w.client(c.owner).Transport == "sse" {
					break // the balancer sends it to another replica, which does not know the stream: see docs/replicas.md, "affinity"
				}
				if a := find(c.asks, r.N); a != nil && isKey(a.ID) {
					continue // the server has answered with it: nothing was in flight
				}
				if v := find(c.withdrawn, r.N); v != nil && v.At <= r.At {
					continue // the server does not wait for it any more
				}
				if a := find(c.asked, r.N); w.client(c.owner).Transport == "stdio" && a != nil && isKey(a.ID) {
					continue // it comes with a request, and those are refused there
				}
				if r.At > e.At && r.At+moment < end && find(c.told, r.N) == nil && !w.troubledBy(c, r.At+moment, "operator-stop", "operator-down") {
					wrong(r.At, "the answer to question %d of %s, given %.3fs after the stop, does not reach the server", r.N, c.mark, (r.At - e.At).Seconds())
				}
			}
			at, done := c.answered()
			if !done || at <= e.At || at+moment > end || w.troubledBy(c, at+moment, "operator-stop") {
				continue
			}
			switch {
			case len(c.ends) == 0:
				wrong(at, "%s, in flight at the stop of %.3fs, never ends", c.mark, e.At.Seconds())
			case c.ends[0].Kind == trace.Refused || c.ends[0].Failed != "" && !c.foreseen(c.ends[0]) && !w.limit(c, c.ends[0]):
				wrong(c.ends[0].At, "%s, in flight at the stop of %.3fs, ends with %q", c.mark, e.At.Seconds(), c.ends[0].Failed)
			case c.ends[0].At > at+moment:
				wrong(c.ends[0].At, "%s, in flight at the stop of %.3fs, is answered %.3fs after the server's answer", c.mark, e.At.Seconds(), (c.ends[0].At - at).Seconds())
			}
		}
	}
}

// prompt: a process that is told to stop ends soon after the last that was in flight. A stream that is open is nothing. It ends soon after
// shutdown.drain whatever else happens.
func prompt(w *world, wrong func(time.Duration, string, ...any)) {
	const soon = 3 * time.Second
	const late = 5*time.Second + 2*moment // a process of the server is killed after 5 s
	for i, step := range w.stepsOf("operator", "stop") {
		e := w.all[i]
		for _, d := range w.all[i:] {
			if d.Kind == trace.Died && d.Who == step.Word(0) {
				idle := w.idle(e.At, d.At)
				if w.finished(d.Who, e.At) {
					idle = e.At
				}
				if d.At > idle+soon && !w.troubledBy(&call{begins: e.At - 30*time.Second}, d.At, "operator-stop", "operator-down") {
					wrong(d.At, "%s ends %.3fs after SIGTERM, though nothing is in flight, or is waited for, since %.3fs", d.Who, (d.At - e.At).Seconds(), idle.Seconds())
				}
				if d.At > e.At+w.drain()+late {
					wrong(d.At, "%s ends %.3fs after SIGTERM", d.Who, (d.At - e.At).Seconds())
				}
				break
			}
		}
	}
}

// finished reports whether a process is that of a client which had said by then that it says no more: that it asks for the end as well means
// that it does not wait for answers.
func (w *world) finished(process string, by time.Duration) bool {
	for _, e := range w.all {
		if e.Kind == trace.Finishes && e.At <= by && "p"+e.Who[1:] == process {
			return true
		}
	}
	return false
}

// endsBehind: before a session ends at the server, what is open there of clients of 2026-07-28 is cancelled: they have no session there that
// they could have ended.
func endsBehind(w *world, wrong func(time.Duration, string, ...any)) {
	for _, e := range w.all {
		if e.Kind != trace.Gone {
			continue
		}
		for _, c := range w.calls {
			if !w.isModern(c.owner) || len(c.received) == 0 || len(c.answers) > 0 || c.plan.How == script.Never || c.restsAtServer(e.At) || c.polled(e.At) || len(c.stopped) > 0 && c.stopped[0].At <= e.At {
				continue
			}
			if r := c.received[len(c.received)-1]; r.Session == e.Session && r.At < e.At && !w.troubledBy(c, e.At, "operator-stop", "operator-down") {
				wrong(e.At, "session %s ends at the server before %s is cancelled", e.Session, c.mark)
			}
		}
	}
}

// refused: a client on stdio whose process is told to stop gets an answer to each call that it has open then, or an error.
func refused(w *world, wrong func(time.Duration, string, ...any)) {
	for i, step := range w.stepsOf("operator", "stop") {
		e := w.all[i]
		for _, c := range w.calls {
			if "p"+c.owner[1:] != step.Word(0) || !slices.ContainsFunc(w.all[:i], func(b trace.Event) bool { return b.Kind == trace.Calls && b.Mark == c.mark }) || c.how != "" || c.shared || c.finished > 0 || len(c.ends) == 0 || c.polled(c.ends[0].At) {
				continue // the task is the answer
			}
			again := slices.ContainsFunc(c.replies, func(r trace.Event) bool { return isKey(r.ID) || r.At >= e.At }) // a request of its own, which is not read any more
			if end := c.ends[0]; end.Kind == trace.Refused && end.At >= e.At && !again && !c.waitsForClient(end.At) &&
				!w.troubledBy(&call{owner: c.owner, begins: e.At - 30*time.Second}, end.At-1, "operator-stop") {
				wrong(end.At, "%s, open at the stop of %.3fs, gets no answer: %s", c.mark, e.At.Seconds(), end.Failed)
			}
		}
	}
}

// listens: a process that is told to stop ends the subscriptions of clients of 2026-07-28 at servers with a handshake with their results, also
// where the client reads late, as long as it reads before the end.
func listens(w *world, wrong func(time.Duration, string, ...any)) {
	if w.modernServer() {
		return
	}
	for i, step := range w.stepsOf("operator", "stop") {
		e := w.all[i]
		open := map[string]trace.Event{}
		for _, o := range w.all[:i] {
			switch key := o.Who + " " + o.ID; {
			case o.Kind == trace.Leaves: // it may use the id again
				maps.DeleteFunc(open, func(_ string, of trace.Event) bool { return of.Who == o.Who })
			case o.Method != "subscriptions/listen" || !isClient(o.Who):
			case o.Kind == trace.Opened && o.Via == step.Word(0):
				open[key] = o
			case o.Kind == trace.Closed, o.Kind == trace.Unsubscribe:
				delete(open, key)
			}
		}
		for _, c := range w.all[i:] {
			o, is := open[c.Who+" "+c.ID]
			if !is || c.Kind != trace.Closed && c.Kind != trace.Unsubscribe {
				continue
			}
			delete(open, c.Who+" "+c.ID)
			if c.Kind == trace.Closed && c.Text != "result" && !w.troubledBy(&call{owner: c.Who, begins: max(o.At, e.At-30*time.Second)}, c.At, "operator-stop", "operator-down", "client-deaf") &&
				!w.deaf(c.Who, max(e.At, e.At+w.drain()-3*moment)) {
				wrong(c.At, "subscription %s of %s, open at the stop of %.3fs, ends with %q", c.ID, c.Who, e.At.Seconds(), c.Text)
			}
		}
	}
}

// deaf reports whether a client reads nothing at a time.
func (w *world) deaf(client string, at time.Duration) bool {
	for i, step := range w.stepsOf(client, "deaf") {
		d, _ := time.ParseDuration(step.Word(0))
		if from := w.all[i].At; from <= at && at <= from+d {
			return true
		}
	}
	return false
}

// idle returns since when no request was open, or may have been, between two times; the second one if some were to the end.
func (w *world) idle(from, to time.Duration) time.Duration {
	last := from
	busy := func(begin, end time.Duration) {
		if begin <= to && end >= from {
			last = max(last, min(end, to))
		}
	}
	for _, c := range w.calls {
		switch at, done := c.answered(); {
		case len(c.ends) > 0:
			busy(c.begins, max(c.ends[0].At, w.awaitsAnswer(c, to)))
		case c.how != "" && done:
			busy(c.begins, max(at, c.given))
		default:
			busy(c.begins, to)
		}
	}
	open := map[string]time.Duration{}
	for _, e := range w.all {
		of := e.Who + " " + e.Session + " " + e.ID
		if e.Kind == trace.Began {
			of = e.Who + "  " + e.ID
		}
		switch e.Kind {
		case trace.Requests, trace.Begins, trace.Subscribes, trace.Unsubscribe:
			open[of] = e.At
		case trace.Began, trace.Answered, trace.Refused:
			if begin, is := open[of]; is {
				busy(begin, e.At)
				delete(open, of)
			}
		}
	}
	for _, begin := range open {
		busy(begin, to)
	}
	return last
}

// awaitsAnswer returns until when, but not after to, dragoman waits for the answer to a question of c, of a client of 2026-07-28 that does not wait
// any more: the result that asks it, or the request with its answer, was lost with its connection.
func (w *world) awaitsAnswer(c *call, to time.Duration) (until time.Duration) {
	if !w.isModern(c.owner) || c.ends[0].Kind != trace.Refused {
		return 0
	}
	for _, a := range c.asks {
		if isKey(a.ID) || a.At > c.ends[0].At { // nothing is open at the server, or it comes later
			continue
		}
		over := to
		for _, e := range []*trace.Event{find(c.told, a.N), find(c.withdrawn, a.N)} {
			if e != nil {
				over = min(over, e.At)
			}
		}
		for _, s := range c.stopped {
			over = min(over, s.At)
		}
		until = max(until, over)
	}
	return until
}

// drain is shutdown.drain.
func (w *world) drain() time.Duration {
	for _, line := range w.script.Settings {
		if value, ok := strings.CutPrefix(line, "shutdown.drain: "); ok {
			d, _ := time.ParseDuration(value)
			return d
		}
	}
	return 10 * time.Second
}

// troubledBy reports whether there was trouble for c, other than those of some names, until a time.
func (w *world) troubledBy(c *call, until time.Duration, but ...string) bool {
	for _, t := range w.troubles {
		if (t.client == "" || t.client == c.owner) && !slices.Contains(but, t.what) && t.from <= until && t.to >= c.begins {
			return true
		}
	}
	return false
}

// troubledLike reports whether there was trouble for c, of names that begin so, until a time.
func (w *world) troubledLike(c *call, until time.Duration, kinds ...string) bool {
	for _, t := range w.troubles {
		like := slices.ContainsFunc(kinds, func(kind string) bool { return strings.HasPrefix(t.what, kind) })
		if like && (t.client == "" || t.client == c.owner) && t.from < until && t.to >= c.begins {
			return true
		}
	}
	return false
}

// replacedApart reports whether replicas have begun sessions of their own, before a time, in the place of one that the server has lost, as the store
// could not be used then.
func (w *world) replacedApart(at time.Duration) bool {
	return w.script.Replicas > 1 && slices.ContainsFunc(w.all, func(e trace.Event) bool {
		return e.At <= at && e.Kind == trace.Received && e.Method == "initialize" && e.ID == `"dragoman:0"` && w.withoutStore(e.At)
	})
}

// withoutStore reports whether the store could not be used at a time, or may have lost what was there.
func (w *world) withoutStore(at time.Duration) bool {
	return slices.ContainsFunc(w.troubles, func(t trouble) bool {
		return strings.HasPrefix(t.what, "store-") && t.from <= at && (at <= t.to || t.what == "store-empty")
	})
}

// disordered reports whether there was any trouble between two times but that the server is slow, which changes no order.
func (w *world) disordered(from, to time.Duration) bool {
	return slices.ContainsFunc(w.troubles, func(t trouble) bool { return t.what != "server-slow" && t.from <= to && t.to >= from })
}

// atReplica reports whether e cancels a call that another replica has than the one which got the cancellation, and not the server: one of an
// adapter's tool, or one that waits for its gate. Where the cancellation came, it is a call of the server's like any other. So is one of an
// adapter's tool that its cancellation has overtaken.
func (w *world) atReplica(e trace.Event) bool {
	return slices.ContainsFunc(w.calls, func(c *call) bool {
		late := len(c.received) > 0 && c.received[0].At >= e.At
		away := late && c.atAPI() || w.script.Replicas > 1 && (late || len(c.received) == 0 || c.atAPI())
		return away && c.id == e.ID && c.cancelled > 0 && c.cancelled <= e.At && e.At <= c.cancelled+moment
	})
}

// unawaited reports whether c ends at a time because its client, of 2026-07-28, comes with an answer that was not awaited any more: it is told
// so only then.
func (w *world) unawaited(c *call, at time.Duration) bool {
	for _, r := range c.replies {
		if a := find(c.asked, r.N); a != nil && r.At <= at && at <= r.At+moment && w.waitedFor(r.At-a.At) {
			return true
		}
	}
	return false
}

// waitedFor reports whether a user's answer after that time may come too late: bridge.park_timeout.
func (w *world) waitedFor(d time.Duration) bool {
	for _, line := range w.script.Settings {
		if value, ok := strings.CutPrefix(line, "bridge.park_timeout: "); ok {
			limit, _ := time.ParseDuration(value)
			return d >= limit
		}
	}
	return d >= 10*time.Minute
}
