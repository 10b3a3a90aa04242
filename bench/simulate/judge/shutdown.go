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
			if c.how != "" || c.shared || c.begins >= e.At || len(c.received) == 0 || c.received[0].At >= e.At {
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
