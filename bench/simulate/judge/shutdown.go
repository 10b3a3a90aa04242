package judge

import (
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// drains: a process that is told to stop lets the calls in flight finish. See docs/operations.md, "Start and end".
func drains(w *world, wrong func(time.Duration, string, ...any)) {
	for _, e := range w.all {
		if step, err := script.ParseStep(e.Text); e.Kind != trace.Step || err != nil || step.Who != "operator" || step.Verb != "stop" {
			continue
		}
		end := e.At + w.drain()
		for _, c := range w.calls {
			if c.how != "" || c.shared || c.begins >= e.At || len(c.received) == 0 || c.received[0].At >= e.At ||
				len(c.ends) > 0 && c.ends[0].At <= e.At {
				continue
			}
			switch c.plan.How {
			case script.Closes, script.Cut, script.Garbage, script.Status, script.Busy, script.Null:
				continue
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

// troubledBy reports whether there was trouble for c, other than that of a name, until a time.
func (w *world) troubledBy(c *call, until time.Duration, but string) bool {
	for _, t := range w.troubles {
		if (t.client == "" || t.client == c.owner) && t.what != but && t.from <= until && t.to >= c.begins {
			return true
		}
	}
	return false
}

// takenOver reports whether another replica than the one that began the session of c may serve it at a time: one has ended, and without a
// store each replica serves what it gets of a session with a server of 2026-07-28. An answer, or a cancellation, that reaches another replica
// than its call is lost then. See docs/replicas.md, "What cannot move".
func (w *world) takenOver(c *call, at time.Duration) bool {
	if w.script.Server.Revision < "2026" || w.script.Replicas < 2 || w.script.Store { // "both" is after it, too
		return false
	}
	for _, e := range w.all {
		if e.At > at {
			break
		}
		if e.Kind == trace.Died && strings.HasPrefix(e.Who, "r") {
			return true
		}
	}
	return false
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
