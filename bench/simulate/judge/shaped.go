package judge

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

var maxTokens = regexp.MustCompile(`default_max_tokens: ([0-9]+)`)

// budget: the result of a tool fits the budget of tokens that the settings have. A line of what the server says has at least six.
func budget(w *world, wrong func(time.Duration, string, ...any)) {
	most := 0
	for _, line := range w.script.Settings {
		if found := maxTokens.FindStringSubmatch(line); found != nil {
			most, _ = strconv.Atoi(found[1])
		}
	}
	for _, e := range w.all {
		if most == 0 || e.Kind != trace.Answered || e.Method != "tools/call" || e.Failed != "" {
			continue
		}
		if lines := bytes.Count(e.Raw, []byte(" line ")); lines*6 > most {
			wrong(e.At, "%s got %d lines of %s, in a budget of %d tokens", e.Who, lines, e.Mark, most)
		}
	}
}

// whole: what was cut out of a result can be read, without a gap and without what comes twice.
func whole(w *world, wrong func(time.Duration, string, ...any)) {
	for _, e := range w.all {
		c := w.byMark[e.Mark]
		switch {
		case e.Kind != trace.Whole || c == nil:
		case e.Text != "":
			wrong(e.At, "%s read %d pages of %s: %s", e.Who, e.N, e.Mark, e.Text)
		case e.Failed != "" && c.how == "" && !w.troubledWithin(c.owner, c.begins, e.At) && !strings.HasPrefix(e.Failed, "status 404"):
			wrong(e.At, "%s cannot read page %d of %s: %s", e.Who, e.N, e.Mark, e.Failed)
		}
	}
}

// written: the failure of a write of an adapter says that it was carried out, or that this is unknown, so that it is not sent again.
func written(w *world, wrong func(time.Duration, string, ...any)) {
	for _, c := range w.calls {
		if len(c.received) == 0 || c.received[0].Method != "POST" || len(c.ends) == 0 || c.how != "" {
			continue
		}
		e := c.ends[0]
		if e.Kind == trace.Answered && strings.HasPrefix(e.Failed, "tool ") && !strings.Contains(e.Failed, "carried") && c.plan.How != script.Status {
			wrong(e.At, "%s was carried out, and its failure does not say so: %s", c.mark, e.Failed)
		}
	}
}

// gated reports whether a gate refuses c.
func (w *world) gated(c *call) bool {
	return c.plan.Kind == "shut" && c.method == "tools/call" && w.script.Has("gates: [{tool: act, params: [extra], source: kinds")
}

// refusedByGate reports whether c ends since a gate refuses it, no later than it can: the question of the gate, too, waits for a standing
// stream that dragoman opens itself and the server does not grant.
func (w *world) refusedByGate(c *call, e trace.Event) bool {
	return w.gated(c) && strings.Contains(e.Failed, "no_extra") && e.At <= w.gateTime(c)
}

// gateWait is how long a gate waits for what it asks the server.
const gateWait = 2 * time.Second

// gateTime returns by when a gate has refused c.
func (w *world) gateTime(c *call) time.Duration {
	due := c.begins + moment + min(w.slowness(c.begins), gateWait)
	if (w.isModern(c.owner) || w.client(c.owner).Transport != "http") && w.ungranted(c.begins) {
		due += streamTime
	}
	if slices.ContainsFunc(w.all, func(e trace.Event) bool {
		return e.Kind == trace.Answers && e.Failed == "404" && e.Mark == "" && c.begins <= e.At && e.At <= due
	}) { // the session is lost, and the replicas agree on the next one at a slow store
		due += w.agreeing
	}
	return due
}

// slowness returns by how much the server answers later at a time.
func (w *world) slowness(at time.Duration) (d time.Duration) {
	for i, step := range w.stepsOf("server", "slow") {
		from := w.all[i].At
		if from > at {
			break
		}
		d, _ = time.ParseDuration(step.Word(0))
		if lasts, _ := time.ParseDuration(step.Word(1)); lasts > 0 && at > from+lasts {
			d = 0
		}
	}
	return d
}

// gates: what a gate refuses does not reach the server.
func gates(w *world, wrong func(time.Duration, string, ...any)) {
	for _, c := range w.calls {
		switch {
		case !w.gated(c):
		case len(c.received) > 0:
			wrong(c.received[0].At, "%s reaches the server, though its gate is shut", c.mark)
		case len(c.ends) > 0 && c.ends[0].Failed == "" && !c.shared:
			wrong(c.ends[0].At, "%s is answered, though its gate is shut", c.mark)
		}
	}
}
