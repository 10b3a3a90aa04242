package judge

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// tasks: the task of a call is its own, and no other's; what its client is told of it is so, and when it has ended, it stays ended. A client
// that asks for a task that is not its own, or for one that there never was, gets an error.
func tasks(w *world, wrong func(time.Duration, string, ...any)) {
	type state struct{ task, status string }
	was, of := map[state]bool{}, map[string]string{} // at the server; whose call a task is
	ended, told := map[string]bool{}, map[string]string{}
	peeks := map[string]string{}
	for _, e := range w.all {
		switch e.Kind {
		case trace.Becomes:
			if ended[e.ID] {
				wrong(e.At, "the task %s of %s goes on after its end", e.ID, e.Mark)
			}
			was[state{e.ID, e.Text}], of[e.ID], ended[e.ID] = true, e.Mark, e.Text != "working"
		case trace.Tasked:
			switch mark := of[e.ID]; {
			case mark == "" && !w.madeHere(e):
				wrong(e.At, "%s is told that %s is the task %s, which there is not", e.Who, e.Mark, e.ID)
			case mark != "" && mark != e.Mark:
				wrong(e.At, "%s is told that %s is the task %s, which is that of %s", e.Who, e.Mark, e.ID, mark)
			case mark != "" && !was[state{e.ID, e.Text}]:
				wrong(e.At, "%s is told that the task %s is %s", e.Who, e.ID, e.Text)
			case told[e.ID] != "" && told[e.ID] != e.Text:
				wrong(e.At, "%s is told that the task %s is %s, after it was told %s", e.Who, e.ID, e.Text, told[e.ID])
			}
			if e.Text != "working" {
				told[e.ID] = e.Text
			}
		case trace.Requests:
			if task, is := strings.CutPrefix(e.Text, "peek "); is {
				peeks[e.Who+" "+e.Session+" "+e.ID] = task
			}
		case trace.Answered:
			key := e.Who + " " + e.Session + " " + e.ID
			task, is := peeks[key]
			if delete(peeks, key); is && e.Failed == "" && !w.sharesTask(e.Who, task, of[task]) {
				wrong(e.At, "%s gets an answer to %s of the task %s, which is not its own", e.Who, e.Method, task)
			}
		}
	}
}

// madeHere reports whether the task that a client is told of may be one that dragoman has made of an answer: a server of 2026-07-28 makes a
// task only if it wants to.
func (w *world) madeHere(e trace.Event) bool {
	return w.modernServer() && !w.isModern(e.Who) && (e.Text == "completed" || e.Text == "failed")
}

// sharesTask reports whether a client may ask for a task of the call of a mark: its own, or one of the same user.
func (w *world) sharesTask(client, task, mark string) bool {
	owner, _, ok := strings.Cut(mark, ".")
	if !ok { // one that dragoman has made, of which only its session knows
		return slices.ContainsFunc(w.all, func(e trace.Event) bool { return e.Kind == trace.Tasked && e.Who == client && e.ID == task })
	}
	mine, its := w.client(client), w.client(owner)
	switch {
	case client == owner:
		return true
	case w.modernServer(): // it is asked, and knows the users only by tokens of its own
		return mine.User == its.User || w.script.Has("auth.tokens:")
	}
	return w.isModern(client) && w.isModern(owner) && mine.User == its.User
}

// polled reports whether the client of c knows it as a task at a time, for whose result it asks when it likes.
func (c *call) polled(at time.Duration) bool { return len(c.tasked) > 0 && c.tasked[0].At <= at }

// isTask reports whether the server has made a task of c.
func (c *call) isTask() bool { return len(c.tasks) > 0 }

// atOneReplica reports whether only the replica that got the call has its task: see docs/replicas.md.
func (w *world) atOneReplica(c *call) bool {
	return w.script.Replicas > 1 && w.isModern(c.owner) && w.script.Server.Transport != "http"
}

// cancelledElsewhere reports whether the task of c was cancelled at a replica that does not have it, which has said so.
func (w *world) cancelledElsewhere(c *call) bool {
	return c.isTask() && w.atOneReplica(c) && slices.ContainsFunc(w.all, func(e trace.Event) bool {
		return e.Who == c.owner && e.Kind == trace.Answered && e.Method == "tasks/cancel" && strings.HasSuffix(e.Failed, "Task not found") &&
			e.At >= c.cancelled && e.At <= c.cancelled+moment
	})
}

// lostTask reports whether the task of c is gone: with the session or the process of the server, or with the replica that had it.
func (w *world) lostTask(c *call, e trace.Event) bool {
	if !c.isTask() || !strings.Contains(e.Failed, "Task not found") && !strings.Contains(e.Failed, "cannot be reached now") {
		return false
	}
	if w.atOneReplica(c) {
		c.excuse = "task-elsewhere"
		return true
	}
	if w.replacedApart(e.At) && w.askedElsewhere(c) {
		c.excuse = "task-elsewhere"
		return true
	}
	for _, t := range w.troubles {
		takes := strings.HasPrefix(t.what, "server-") || strings.HasPrefix(t.what, "store-") || strings.HasPrefix(t.what, "operator-") && !w.script.Store
		if takes && t.from <= e.At && t.to >= c.begins {
			c.excuse = "task-lost"
			return true
		}
	}
	return false
}

// askedElsewhere reports whether the server is asked for the task of c in another session than that in which it made it: that of another replica.
func (w *world) askedElsewhere(c *call) bool {
	return len(c.tasked) > 0 && slices.ContainsFunc(w.all, func(e trace.Event) bool {
		return e.Kind == trace.Received && strings.HasPrefix(e.Method, "tasks/") && e.Session != c.tasks[0].Session && bytes.Contains(e.Raw, []byte(`"`+c.tasked[0].ID+`"`))
	})
}

// onlyAsTask reports whether c ends since its tool only runs as a task, and its client cannot have one.
func (w *world) onlyAsTask(c *call, e trace.Event) bool {
	client := w.client(c.owner)
	able := client.Revision == newestHandshake && !client.Without("tasks") || client.Revision >= modern && !w.script.Has("contract.tasks: strip")
	return c.plan.Task == "run" && w.script.Server.Tasks && strings.Contains(e.Failed, "only runs as a task") && (!able || w.script.Has("upstream.share_child:"))
}
