package judge

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// setting returns the duration that a setting has; 0 if it is not set.
func (w *world) setting(path string) time.Duration {
	for _, line := range w.script.Settings {
		if value, is := strings.CutPrefix(line, path+": "); is {
			d, _ := time.ParseDuration(value)
			return d
		}
	}
	return 0
}

// crowded reports whether other clients of 2026-07-28 use, at a time, all the sessions that bridge.max_sessions allows: their streams are open.
func (w *world) crowded(c *call, at time.Duration) bool {
	for _, line := range w.script.Settings {
		value, is := strings.CutPrefix(line, "bridge.max_sessions: ")
		if most, err := strconv.Atoi(value); is && err == nil && w.isModern(c.owner) && !w.modernServer() {
			used := 0
			for _, other := range w.script.Clients {
				if other.Revision >= modern && other.Name != c.owner && w.hears(other.Name, at) {
					used++
				}
			}
			return used >= most
		}
	}
	return false
}

// keptByTasks reports whether as many processes of the server run at a time as session.max_processes allows, and one of them for a task alone.
func (w *world) keptByTasks(at time.Duration) bool {
	running, tasks := map[string]bool{}, map[string]bool{}
	for _, e := range w.all {
		switch {
		case e.At > at:
		case e.Kind == trace.Started && strings.HasPrefix(e.Who, "server."):
			running[e.Who] = true
		case e.Kind == trace.Died:
			delete(running, e.Who)
			delete(tasks, e.Session)
		case e.Kind == trace.Becomes:
			tasks[e.Session] = true
		}
	}
	return w.script.Has("session.max_processes: "+strconv.Itoa(len(running))) && len(tasks) > 0
}

// limits are the time limits of calls that a peer does not answer: upstream.silence_timeout, bridge.park_timeout and those of limits.time.
func (w *world) limits() []time.Duration {
	all := []time.Duration{5 * time.Minute, 10 * time.Minute}
	if w.script.Has("adapters.") {
		all = append(all, 10*time.Second) // target.timeout_ms of its file
	}
	for _, line := range w.script.Settings {
		path, value, _ := strings.Cut(line, ":")
		if path != "upstream.silence_timeout" && path != "bridge.park_timeout" && path != "limits.time" {
			continue
		}
		all = append(all, durations(value)...)
	}
	return all
}

func durations(value string) (all []time.Duration) {
	for _, word := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" {},:", r) }) {
		if d, err := time.ParseDuration(word); err == nil {
			all = append(all, d)
		}
	}
	return all
}

// limit reports whether the call ends because of a limit of silence, in its time: between d and d + d/8 after a sign of life. On a pipe
// each message of the server is one for all calls, but for those of an adapter, which go to its API.
func (w *world) limit(c *call, e trace.Event) bool {
	if w.unawaited(c, e.At) {
		c.excuse = cmp.Or(c.excuse, "limit")
		return true
	}
	piped := w.script.Server.Transport != "http" && !(len(c.received) > 0 && c.atAPI())
	signs := []time.Duration{c.begins}
	for _, list := range [][]trace.Event{c.received, c.progresses, c.asks, c.asked, c.told, c.answers} {
		for _, s := range list {
			signs = append(signs, s.At)
		}
	}
	if piped {
		for _, s := range w.all {
			if !isClient(s.Who) && s.At > c.begins && s.At < e.At {
				signs = append(signs, s.At)
			}
		}
	}
	signs = append(append(signs, w.toldBeside(c)...), w.announcedBeside(c)...)
	limits, late := w.limits(), func(d time.Duration) time.Duration { return d + d/8 + moment }
	if piped {
		late = func(d time.Duration) time.Duration { return 2*d + moment } // a message about another call begins the whole time again
	}
	if !slices.ContainsFunc(signs, func(at time.Duration) bool {
		return slices.ContainsFunc(limits, func(d time.Duration) bool { return e.At-at >= d && e.At-at <= late(d) })
	}) {
		return false
	}
	if piped && len(c.received) > 0 && len(c.answers) == 0 && !c.restsAtServer(e.At) {
		last := c.received[len(c.received)-1]
		has, quietly := false, false // the server has the call; it has lost its session without a sign
		for _, s := range w.all {
			if s.Kind == trace.Received && s.Mark == c.mark {
				has, quietly = true, false
			}
			if !has || s.At < last.At || s.At+3*moment >= e.At {
				continue
			}
			if quietly = quietly || s.Kind == trace.Loses && s.Text != ""; s.Kind == trace.Loses && s.Text == "" && !quietly || s.Kind == trace.Died && s.Who == last.Who || quietly && s.Failed == "404" && strings.HasPrefix(s.Mark, c.owner+".") {
				return false // what it waited for was lost before, as dragoman knew
			}
		}
	}
	if w.waitedForClient(c, e.At) {
		return false
	}
	if at, ok := c.answered(); ok && (len(c.received) == 0 || at >= c.received[len(c.received)-1].At) && at+moment < e.At && c.plan.How != script.Closes && c.plan.How != script.Cut {
		return false // its answer is lost, and was not one that tells of pages, after which the call is sent again
	}
	if c.excuse == "" {
		c.excuse = "limit"
	}
	return true
}

// toldBeside returns when the server had the answers to the questions of other calls in the session of c, which is of a client of 2026-07-28: until
// then it may have waited for them, so that its silence counts from there.
func (w *world) toldBeside(c *call) (all []time.Duration) {
	if w.modernServer() || !w.isModern(c.owner) || len(c.received) == 0 {
		return nil
	}
	for _, other := range w.calls {
		for _, t := range other.told {
			if other != c && other.owner == c.owner && t.Session == c.received[0].Session {
				all = append(all, t.At)
			}
		}
	}
	return all
}

// announcedBeside returns when the server announced something on the standing stream of the session of c, which is of a client of 2026-07-28: that goes
// on the stream of the newest call, as what any call there may be about, so that its silence counts from there.
func (w *world) announcedBeside(c *call) (all []time.Duration) {
	if w.modernServer() || !w.isModern(c.owner) || len(c.received) == 0 {
		return nil
	}
	for _, e := range w.all {
		if e.Kind == trace.Changes && e.Session == c.received[0].Session && e.Text == "notifications/announced" {
			all = append(all, e.At)
		}
	}
	return all
}

// waitedForClient reports whether c, of a client of 2026-07-28 at a server with a session, ends with silence although the server waited for the
// answer to the question of another call in the same session within that limit.
func (w *world) waitedForClient(c *call, end time.Duration) bool {
	limit := w.setting("upstream.silence_timeout")
	for _, line := range w.script.Settings {
		if value, own := strings.CutPrefix(line, "limits.time:"); own {
			for _, d := range durations(value) {
				limit = min(limit, d)
			}
		}
	}
	if w.modernServer() || limit == 0 || !w.isModern(c.owner) || end-c.begins >= 10*time.Minute || w.script.Replicas > 1 || w.setting("bridge.park_timeout") > 0 {
		return false
	}
	for _, other := range w.calls {
		for _, a := range other.asks {
			if other == c || other.owner != c.owner || len(c.received) == 0 || a.Session != c.received[0].Session || a.At >= end {
				continue
			}
			if told := find(other.told, a.N); told != nil && find(other.asked, a.N) != nil && told.At > end-limit+moment || told == nil && len(other.ends) == 0 && other.how == "" {
				return true
			}
		}
	}
	return false
}

// lostOnTheWay reports whether the client of c has asked for the rest of its answer's stream, which had ended, and its answer to a question was lost with
// a connection: the server waits for that, and what the client has opened has no limit, like any standing stream.
func (w *world) lostOnTheWay(c *call) bool {
	return len(c.resumes) > 0 && slices.ContainsFunc(c.replies, func(r trace.Event) bool {
		return !isKey(r.ID) && find(c.told, r.N) == nil && w.excuse(c, r.At, "link-")
	})
}

// resumedInVain reports whether the client of c has asked for the rest of its answer's stream, which had ended, and the server of Streamable HTTP
// has lost the session: dragoman does not know that the event belonged to a call, and opens a standing stream in the session that has replaced it.
// So does a replica that has sent nothing in that session, as it does not know that the call was sent there.
func (w *world) resumedInVain(c *call) bool {
	if len(c.resumes) == 0 || len(c.received) == 0 || w.script.Server.Transport != "http" {
		return false
	}
	sent, asked := c.received[len(c.received)-1], c.resumes[0].At
	unaware := w.standsUnaware(sent.Session, asked)
	lost := slices.ContainsFunc(w.all, func(e trace.Event) bool {
		return (e.Kind == trace.Loses || e.Kind == trace.Died && strings.HasPrefix(e.Who, "server")) && (e.At >= sent.At && e.At < w.over || unaware && e.At < asked)
	})
	if lost {
		c.excuse = cmp.Or(c.excuse, "resumed-in-vain")
	}
	return lost
}

// standsUnaware reports whether a replica opens a standing stream of the server soon after a time until when it has sent nothing in a session.
func (w *world) standsUnaware(session string, at time.Duration) bool {
	via, aware := map[int]string{}, map[string]bool{} // by the connection, and by the replica
	for _, e := range w.all {
		switch replica := via[e.Conn]; {
		case e.Kind == trace.Accepted:
			via[e.Conn] = e.Via
		case e.Kind == trace.Started:
			delete(aware, e.Who)
		case e.At < at:
			aware[replica] = aware[replica] || e.Session == session
		case e.Kind == trace.Standing && e.At <= at+moment+w.hesitation && !aware[replica]:
			return true
		}
	}
	return false
}
