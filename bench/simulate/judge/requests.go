package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// requests: each request without a mark is answered, and a ping soon, whatever else waits.
func requests(w *world, wrong func(time.Duration, string, ...any)) {
	type request struct{ who, session, id, method string }
	open, slowest, begins := map[request]trace.Event{}, time.Duration(0), time.Duration(-1) // begins: when a session began last
	restored := restoring{}
	for _, e := range w.all {
		restored.read(e)
		of := request{e.Who, e.Session, e.ID, e.Method}
		switch e.Kind {
		case trace.Step:
			if step, err := script.ParseStep(e.Text); err == nil && step.Who == "server" && step.Verb == "slow" {
				d, _ := time.ParseDuration(step.Word(0))
				slowest = max(slowest, d)
			}
		case trace.Received:
			if e.Method == "initialize" {
				begins = e.At
			}
		case trace.Requests:
			open[of] = e
		case trace.Answered, trace.Refused:
			asked, is := open[of]
			delete(open, of)
			due := asked.At + slowest + moment
			if is && w.onPipe(e.Who) && w.ungranted(asked.At) {
				due += streamTime
			}
			if begins+slowest >= asked.At { // in the place of one that was lost, and as slowly
				due += slowest
			}
			due += time.Duration(restored.steps(asked)) * slowest
			if is && e.Method == "ping" && e.At > due && !w.troubledBy(&call{owner: e.Who, begins: asked.At}, e.At, "server-slow") {
				wrong(e.At, "%s waits %.3fs for the answer to its ping", e.Who, (e.At - asked.At).Seconds())
			}
		case trace.Leaves, trace.Ends, trace.Begins, trace.Closed:
			for of := range open {
				if of.who == e.Who {
					delete(open, of)
				}
			}
		}
	}
	for of, e := range open {
		if e.At+20*time.Minute < w.over && !w.troubledWithin(of.who, e.At, e.At+10*time.Minute) {
			wrong(e.At, "%s of %s is never answered", of.method, of.who)
		}
	}
}

// restoring is what dragoman has asked of the server in each session, and which requests the server has refused since it had lost theirs.
type restoring struct {
	answers []trace.Event // to what dragoman has asked
	refused []trace.Event
	sent    []trace.Event
}

func (r *restoring) read(e trace.Event) {
	switch {
	case e.Kind == trace.Answers && e.Failed == "404":
		r.refused = append(r.refused, e)
	case e.Kind == trace.Answers && strings.HasPrefix(e.ID, `"dragoman`):
		r.answers = append(r.answers, e)
	case e.Kind == trace.Received && e.Method == "ping":
		r.sent = append(r.sent, e)
	}
}

// steps returns how often, since a ping was asked that came in a lost session, dragoman has waited for the server in the session in which it has
// sent the ping again: for what restores that, and for the sign that it is there, if another replica has begun it.
func (r *restoring) steps(asked trace.Event) (n int) {
	its := func(e trace.Event) bool { return e.At >= asked.At && e.ID == asked.ID && e.Method == asked.Method }
	if !slices.ContainsFunc(r.refused, its) {
		return 0
	}
	again := slices.IndexFunc(r.sent, its)
	for _, a := range r.answers {
		if again >= 0 && a.Session == r.sent[again].Session && a.At >= asked.At && a.At <= r.sent[again].At {
			n++
		}
	}
	return n
}

// accepted: over HTTP+SSE and stdio, a request that dragoman has accepted is answered before it closes the stream.
func accepted(w *world, wrong func(time.Duration, string, ...any)) {
	for _, c := range w.calls {
		if w.client(c.owner).Transport == "http" || c.how != "" || len(c.ends) == 0 || len(c.tasked) > 0 { // its client may ask for the task later
			continue
		}
		e := c.ends[0]
		if c.finished > 0 && (e.At >= c.finished+w.drain() || w.cutsOff("p"+c.owner[1:], e.At)) { // on stdio it is waited for no longer
			continue
		}
		if e.Kind != trace.Refused || !closed(e.Failed) || e.At < max(c.begins, c.cameBack())+moment || c.waitsForClient(e.At) { // it may still have been under way
			continue
		}
		if !w.troubledLike(c, e.At, "link-", "client-", "operator-kill", "operator-down") {
			wrong(e.At, "%s, accepted at %.3fs, has no answer when its stream is closed", c.mark, c.begins.Seconds())
		}
	}
}

// closed reports whether a request was refused since the stream was closed as the transport has it.
func closed(failed string) bool {
	return failed == "ended: the stream was closed" || failed == "ended: EOF"
}

// connections: dragoman opens no connection to the server while one of the same process, over which an answer has come as it should, lies idle.
func connections(w *world, wrong func(time.Duration, string, ...any)) {
	if w.script.Server.Transport != "http" || w.script.Portable { // there they are not kept for long
		return
	}
	const lives = 10 * time.Minute // no exchange begins on a connection that is older
	type conn struct {
		via     string
		born    time.Duration
		idle    time.Duration // since when; 0 for not
		session string        // of its last request
		idlers  []int         // those that lay idle when it was opened; nil once it was used
	}
	conns, wakes := map[int]*conn{}, time.Duration(0)
	used := func(n int, at time.Duration, i int) bool { // in this instant, in which several requests may set out
		for ; i > 0 && w.all[i-1].At == at; i-- {
		}
		for ; i < len(w.all) && w.all[i].At == at; i++ {
			if w.all[i].Kind == trace.Received && w.all[i].Conn == n {
				return true
			}
		}
		return false
	}
	for i, e := range w.all {
		at := conns[e.Conn]
		switch e.Kind {
		case trace.Cancels, trace.Unheard, trace.Leaves, trace.Ends, trace.Withdraws, trace.Stopped: // what ends connections, too
			wakes = e.At
		case trace.Accepted:
			fresh := &conn{via: e.Via, born: e.At}
			for n, c := range conns {
				if c.via == e.Via && e.At <= c.born+lives && c.idle > wakes+moment && e.At > c.idle+10*time.Millisecond && e.At < c.idle+4*moment && !w.troubledWithin("", c.idle-2*time.Minute, e.At) { // after one that it has lost it trusts others less
					fresh.idlers = append(fresh.idlers, n)
				}
			}
			conns[e.Conn] = fresh
		case trace.Received:
			if at != nil {
				at.idlers = slices.DeleteFunc(at.idlers, func(n int) bool { return used(n, e.At, i) })
			}
			if at != nil && len(at.idlers) > 0 { // streams have connections of their own
				wrong(e.At, "%s opens connection %d for %s while %d lies idle", at.via, e.Conn, e.Method, at.idlers[0])
				return
			}
			if at != nil {
				at.idle, at.session = 0, e.Session
			}
		case trace.Gone: // the end of a session does not wait for the answers to what dragoman has sent in it just before
			for _, c := range conns {
				if c.session == e.Session && e.At < c.idle+10*time.Millisecond || c == at {
					c.idle, c.idlers = 0, nil
				}
			}
		case trace.Answers:
			if at != nil {
				if at.idle = 0; e.Failed == "" && w.plainly(e.Mark) {
					at.idle = e.At
				}
			}
		default:
			if at != nil && !isClient(e.Who) {
				at.idle, at.idlers = 0, nil
			}
		}
	}
}

// plainly reports whether the call of a mark is answered in a way that leaves its connection in order.
func (w *world) plainly(mark string) bool {
	c := w.byMark[mark]
	if c == nil {
		return mark == ""
	}
	switch c.plan.How {
	case "", script.JSON, script.SSE, script.Error, script.Lines:
		return c.how == ""
	}
	return false
}
