// Package judge says whether what happened in a world may happen. It shares no code with the product: it knows the schedule, what each
// peer has seen, and what a client of a well-behaved server may expect.
package judge

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// Violation is something that may not happen.
type Violation struct {
	Law  string
	At   time.Duration // since the beginning of the world
	Text string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s at %.3fs: %s", v.Law, v.At.Seconds(), v.Text)
}

// Verdict is what the judge says of a world.
type Verdict struct {
	Violations []Violation    // in the order of time
	Calls      int            // how many calls were judged
	Excused    int            // how many of them ended otherwise than their plan says, for a reason
	ByCause    map[string]int // the excused ones by the reason
}

// law looks at a world and reports what may not happen.
type law struct {
	name string
	hold func(*world, func(at time.Duration, format string, a ...any))
}

// laws are all laws that need the model of the world. Those of messages look at the trace only.
var laws = []law{
	{"strange", strange},
	{"ends", ends},
	{"own", own},
	{"once", once},
	{"order", order},
	{"progress", progress},
	{"questions", questions},
	{"revoked", revoked},
	{"pages", pages},
	{"tasks", tasks},
	{"cancel", cancellations},
	{"ping", pings},
	{"subscription", subscriptions},
	{"reopened", reopened},
	{"gaps", gaps},
	{"known", known},
	{"announcements", announcements},
	{"resumed", resumed},
	{"drain", drains},
	{"shutdown", prompt},
	{"ending", endsBehind},
	{"listens", listens},
	{"refused", refused},
	{"requests", requests},
	{"accepted", accepted},
	{"connections", connections},
	{"calm", calm},
	{"budget", budget},
	{"whole", whole},
	{"users", users},
	{"written", written},
	{"gates", gates},
	{"capability", lacking},
	{"counted", counted},
	{"dropped", dropped},
	{"waited", waited},
	{"deleted", deleted},
}

var lawsOfMessages = []func(*script.Script, []trace.Event) []Violation{validity, bytesPass}

// Judge judges a world.
func Judge(s *script.Script, all []trace.Event) *Verdict {
	w := newWorld(s, all)
	v := &Verdict{ByCause: map[string]int{}}
	for _, l := range laws {
		l.hold(w, func(at time.Duration, format string, a ...any) {
			v.Violations = append(v.Violations, Violation{l.name, at, fmt.Sprintf(format, a...)})
		})
	}
	for _, broken := range lawsOfMessages {
		v.Violations = append(v.Violations, broken(s, all)...)
	}
	sort.SliceStable(v.Violations, func(i, j int) bool { return v.Violations[i].At < v.Violations[j].At })
	v.Calls = len(w.calls)
	for _, c := range w.calls {
		if c.excuse != "" {
			v.Excused++
			v.ByCause[c.excuse]++
		}
	}
	return v
}

// moment is what may pass between a cause and its effect, where nothing is in the way.
const moment = time.Second

// world is what happened, by what it is about.
type world struct {
	script     *script.Script
	all        []trace.Event
	calls      []*call
	byMark     map[string]*call
	steps      []done
	troubles   []trouble
	calm       time.Duration // from here on nothing may go wrong
	over       time.Duration
	up         map[string]bool   // the replicas that run
	hesitation time.Duration     // how long the server waits at most before a standing stream begins
	agreeing   time.Duration     // how long replicas take at most to agree on a session, and read what it must know, at a store that is slow
	gone       map[string]bool   // the processes of the server whose input dragoman has closed
	owner      map[string]string // the process of dragoman that has begun one of the server
}

// done is a step of the schedule, and its event.
type done struct {
	event int
	step  script.Step
}

// stepsOf returns the steps of this verb that a client, the server or the operator takes, by the indexes of their events.
func (w *world) stepsOf(who, verb string) iter.Seq2[int, script.Step] {
	return func(yield func(int, script.Step) bool) {
		for _, d := range w.steps {
			if d.step.Who == who && d.step.Verb == verb && !yield(d.event, d.step) {
				return
			}
		}
	}
}

// call is a request with a mark, from both ends.
type call struct {
	mark, owner string
	method      string
	plan        script.Plan
	session     string // that the client named
	id          string
	begins      time.Duration
	ends        []trace.Event // Answered, Refused
	received    []trace.Event
	answers     []trace.Event
	stopped     []trace.Event
	resumes     []trace.Event // its stream has ended, and its client asks for the rest
	progressed  []trace.Event // at the client
	progresses  []trace.Event // at the server
	asks        []trace.Event
	asked       []trace.Event
	completes   []trace.Event // at the server: a page was opened
	completed   []trace.Event // at the client
	tasks       []trace.Event // answers of the server that are a task
	tasked      []trace.Event // what its client is told of the task
	replies     []trace.Event
	told        []trace.Event
	withdrawn   []trace.Event
	given       time.Duration // when the client gave it up: it has cancelled it, closed its way back, or left; 0: it has not
	finished    time.Duration // when its client said that it says no more; 0: it has not
	cancelled   time.Duration // when it was cancelled, also after it was given up; 0: it was not
	how         string        // how: cancels, unheard, leaves
	shared      bool          // the client gave its id to another call while it was open
	excuse      string
}

// trouble is a time in which something else may happen than the plan says, to one client or to all.
type trouble struct {
	what     string
	from, to time.Duration
	client   string // "" touches all
	event    int    // the one that makes it
}

func newWorld(s *script.Script, all []trace.Event) *world {
	w := &world{script: s, all: all, byMark: map[string]*call{}, up: map[string]bool{}, gone: map[string]bool{}, owner: map[string]string{}, calm: -1, over: -1}
	for i, e := range all {
		switch e.Kind {
		case trace.Calm:
			w.calm = e.At
		case trace.Over:
			w.over = e.At
		case trace.Calls:
			if w.byMark[e.Mark] != nil {
				continue // sent again, with the answers to its questions
			}
			c := &call{mark: e.Mark, owner: e.Who, method: e.Method, plan: script.ParsePlan(e.Text), session: e.Session, id: e.ID, begins: e.At}
			for _, other := range w.calls {
				if other.owner == c.owner && other.id == c.id && other.session == c.session && len(other.ends) == 0 {
					c.shared, other.shared = true, true
				}
			}
			w.calls = append(w.calls, c)
			w.byMark[e.Mark] = c
		case trace.Finishes:
			for _, c := range w.calls {
				if c.owner == e.Who && len(c.ends) == 0 {
					c.finished = e.At
				}
			}
		case trace.Leaves, trace.Ends:
			if w.calm >= 0 { // it waits for nothing any more because the world is over
				continue
			}
			for _, c := range w.calls {
				if c.owner == e.Who && len(c.ends) == 0 && c.how == "" {
					c.given, c.how = e.At, string(e.Kind)
				}
			}
		}
		if c := w.byMark[e.Mark]; c != nil {
			c.add(e)
		}
		w.troubled(i, e)
	}
	if w.over < 0 && len(all) > 0 {
		w.over = all[len(all)-1].At
	}
	return w
}

// add notes an event that is about the call.
func (c *call) add(e trace.Event) {
	client := e.Who == c.owner
	switch e.Kind {
	case trace.Answered, trace.Refused:
		if client {
			c.ends = append(c.ends, e)
		}
	case trace.Received:
		c.received = append(c.received, e)
	case trace.Answers:
		if e.Failed == "404" { // it has lost the session, and dragoman begins another: no answer of the call
			return
		}
		if e.Failed == "task" {
			c.tasks = append(c.tasks, e)
			return
		}
		c.answers = append(c.answers, e)
	case trace.Tasked:
		c.tasked = append(c.tasked, e)
	case trace.Stopped:
		c.stopped = append(c.stopped, e)
	case trace.Resumes:
		c.resumes = append(c.resumes, e)
	case trace.Progressed:
		c.progressed = append(c.progressed, e)
	case trace.Progresses:
		c.progresses = append(c.progresses, e)
	case trace.Asks:
		c.asks = append(c.asks, e)
	case trace.Asked:
		c.asked = append(c.asked, e)
	case trace.Replies:
		c.replies = append(c.replies, e)
	case trace.Told:
		c.told = append(c.told, e)
	case trace.Completes:
		c.completes = append(c.completes, e)
	case trace.Completed:
		c.completed = append(c.completed, e)
	case trace.Withdraws:
		c.withdrawn = append(c.withdrawn, e)
	case trace.Cancels, trace.Unheard:
		if e.Kind == trace.Cancels && len(c.ends) == 0 {
			c.cancelled = e.At
		}
		if c.how == "" && len(c.ends) == 0 {
			c.given, c.how = e.At, string(e.Kind)
		}
	}
}

// strange: a peer has seen something that it cannot place.
func strange(w *world, wrong func(time.Duration, string, ...any)) {
	for _, e := range w.all {
		if strings.HasPrefix(e.Text, "a request was answered by status") && w.excuse(&call{owner: e.Who}, e.At, "link-half") {
			continue // it counts as gone, and its requests as given up
		}
		if strings.HasPrefix(e.Text, "the end of a question that was not asked") && (w.excuse(&call{owner: e.Who}, e.At, "link-") || w.excuse(&call{owner: e.Who}, e.At, "client-")) {
			continue // the question was lost on its way
		}
		if strings.HasPrefix(e.Text, "a session that was ended") && slices.ContainsFunc(w.troubles, func(t trouble) bool {
			return !strings.HasPrefix(t.what, "client-") && t.from <= e.At && t.to >= e.At-10*time.Second
		}) {
			continue // the other replicas may not know it yet
		}
		if strings.HasPrefix(e.Text, "the end of a question that was not asked") && w.withdrawsUnsent(&e) {
			continue
		}
		of := &call{owner: e.Who, session: e.Session, begins: e.At}
		if strings.HasPrefix(e.Text, "the list of tools lacks") && (w.excuse(of, e.At, "") || w.withoutServer(of)) {
			continue // dragoman has tools of its own that serve without the server
		}
		if e.Kind == trace.Strange && !w.passedOn(&e) {
			wrong(e.At, "%s: %s %s", e.Who, e.Text, e.Failed)
		}
	}
}

// withdrawsUnsent reports whether the server has withdrawn a question that it had no stream to ask on: this comes on the stream of the call,
// as the server sends it.
func (w *world) withdrawsUnsent(e *trace.Event) bool {
	for _, c := range w.calls {
		if c.owner != e.Who {
			continue
		}
		for _, v := range c.withdrawn {
			if a := find(c.asks, v.N); a != nil && a.Failed != "" && v.At <= e.At && e.At <= v.At+moment && bytes.Equal(v.Raw, e.Raw) {
				return true
			}
		}
	}
	return false
}

// passedOn reports whether e is a response to an id that no request had, of a peer that sends such, as the other would get it from that
// itself: over HTTP it may be that to a request which the client has made at another replica, and between clients and servers of
// 2026-07-28 messages pass unchanged.
func (w *world) passedOn(e *trace.Event) bool {
	if !isClient(e.Who) && bytes.Contains(e.Raw, forged) { // another replica may have asked
		return w.script.Server.Transport == "http" && slices.ContainsFunc(w.script.Clients, func(c script.Client) bool { return c.Transport == "http" })
	}
	if e.Text != `an answer to the id "never-given", which no request had` || w.script.Server.Transport != "http" {
		return false
	}
	for _, c := range w.script.Clients {
		if c.Name == e.Who && (c.Transport != "http" || c.Revision >= modern && w.script.Server.Revision < modern) {
			return false
		}
	}
	for _, c := range w.calls {
		if at, ok := c.answered(); ok && c.owner == e.Who && c.plan.How == script.Other && at <= e.At && (e.At <= at+moment || w.troubledWithin(e.Who, at, e.At)) {
			return true
		}
	}
	return false
}

// ends: each call ends once, with the answer of its own or with an error that something excuses, soon after what ends it.
func ends(w *world, wrong func(time.Duration, string, ...any)) {
	for _, c := range w.calls {
		if len(c.ends) > 1 {
			wrong(c.ends[1].At, "%s ends %d times", c.mark, len(c.ends))
		}
		if len(c.ends) == 0 {
			if c.how == "" && !c.shared && !w.excuse(c, w.over, "client-") && !w.resumedInVain(c) && !w.lostOnTheWay(c) {
				wrong(w.over, "%s, sent at %.3fs, never ends", c.mark, c.begins.Seconds())
			}
			continue
		}
		e := c.ends[0]
		if e.Kind == trace.Answered && e.Failed == "" {
			if at, ok := c.answered(); ok && c.how == "" && e.At > max(at, c.cameBack(), w.batchDone(c))+moment && !w.excuse(c, e.At, "") {
				wrong(e.At, "%s is answered %.3fs after the server's answer", c.mark, (e.At - at).Seconds())
			}
			continue
		}
		if !c.foreseen(e) && !w.cannotVisit(c, e) && !w.lostTask(c, e) && !w.onlyAsTask(c, e) && !w.gatedTwice(c, e) && !w.lostQuietly(c, e) && !w.refusedByGate(c, e) && !w.excuse(c, e.At, "") && !w.limit(c, e) && !w.lost(c, e) && !w.lostWhileAsked(c, e) && !w.takenForOlder(c, e) && !(e.Kind == trace.Refused && (w.resumedInVain(c) || w.closedIdle(c, e))) {
			wrong(e.At, "%s ends with %q, which nothing excuses (sent %.3fs)", c.mark, e.Failed, c.begins.Seconds())
		}
	}
}

// batchDone returns when the others have ended that came in one batch with c: their answers may come together. It is 0 if c came in none.
func (w *world) batchDone(c *call) (at time.Duration) {
	for i, step := range w.stepsOf(c.owner, "batch") {
		if w.all[i].At != c.begins || !slices.Contains(step.Words, strings.TrimPrefix(c.mark, c.owner+".")) {
			continue
		}
		for _, n := range step.Words {
			if of := w.byMark[c.owner+"."+n]; of != nil && of != c && len(of.ends) > 0 {
				at = max(at, of.ends[0].At)
			}
		}
		break
	}
	return at
}

// closedIdle reports whether the connection of c was closed just when the call was sent, as it had been idle for two minutes, or an eighth longer:
// the call has crossed that, as HTTP allows.
func (w *world) closedIdle(c *call, end trace.Event) bool {
	const idle = 2 * time.Minute
	last := time.Duration(-1)
	for _, e := range w.all {
		if e.Who == c.owner && e.Conn == end.Conn && e.At < c.begins {
			last = e.At
		}
	}
	if last < 0 || end.At > c.begins || len(c.received) > 0 || c.begins < last+idle || c.begins > last+idle+idle/8 {
		return false
	}
	c.excuse = "idle"
	return true
}

// lostQuietly reports whether the server had lost the session of c without a sign, as another request has shown just now.
func (w *world) lostQuietly(c *call, end trace.Event) bool {
	lost := false
	for _, e := range w.all {
		switch {
		case e.Kind == trace.Loses && e.Text != "" && e.At >= c.begins:
			lost = true
		case lost && !isClient(e.Who) && e.Failed == "404" && e.At <= end.At && e.At >= end.At-moment:
			c.excuse = "server-loses"
			return true
		}
	}
	return false
}

// gatedTwice reports whether the call has two values of which a gate can be asked about one: it is refused.
func (w *world) gatedTwice(c *call, e trace.Event) bool {
	return c.plan.As == script.GatedTwice && w.gates() && e.At <= w.gateTime(c)
}

// gates reports whether dragoman has gates.
func (w *world) gates() bool {
	return slices.ContainsFunc(w.script.Settings, func(line string) bool { return strings.HasPrefix(line, "gates:") })
}

// answered returns when the server has answered for the last time.
func (c *call) answered() (time.Duration, bool) {
	if len(c.answers) == 0 {
		return 0, false
	}
	return c.answers[len(c.answers)-1].At, true
}

// cameBack returns when a client of 2026-07-28 has sent the call again, with its answers: only then it can get the server's.
func (c *call) cameBack() (at time.Duration) {
	for _, a := range c.asked {
		if r := find(c.replies, a.N); r != nil && isKey(a.ID) {
			at = max(at, r.At)
		}
	}
	return at
}

// foreseen reports whether the plan of the call leads to an end with an error, or the client itself, and not later than it should.
func (c *call) foreseen(e trace.Event) bool {
	soon := func(at time.Duration) bool {
		if c.plan.How == script.Closes || c.plan.How == script.Cut {
			return e.At <= at+35*time.Second // it tries to go on with the stream first
		}
		return e.At <= at+moment
	}
	if c.how != "" || c.shared { // an answer is not owed, or may be that of another
		return true
	}
	if c.finished > 0 && len(c.tasked) > 0 { // it cannot ask for the result any more
		return true
	}
	if c.finished > 0 && slices.ContainsFunc(c.asks, func(a trace.Event) bool {
		return isVisit(a.ID) || find(c.replies, a.N) == nil && soon(max(a.At, c.finished))
	}) { // it cannot answer any more
		return true
	}
	switch c.plan.How {
	case script.Error, script.Status, script.Busy, script.Closes, script.Cut, script.Garbage, script.Null, script.Broken:
		if at, ok := c.answered(); ok && soon(at) {
			return true
		}
	}
	if at, ok := c.answered(); ok && c.plan.How == script.Nameless && soon(at) && !strings.Contains(e.Failed, "without answering") {
		return true
	}
	if c.plan.Needs && slices.ContainsFunc(c.told, func(t trace.Event) bool { return strings.HasPrefix(t.Text, "error ") && soon(t.At) }) {
		return true
	}
	if c.plan.Reply != "" && c.plan.Reply != script.Accept && c.plan.Reply != script.ReplyTwice { // it may be an error, which ends the call
		for _, list := range [][]trace.Event{c.told, c.replies} {
			for _, t := range list {
				if soon(t.At) {
					return true
				}
			}
		}
	}
	return false
}

// withoutServer reports whether the session of the call began in a trouble, with the tools of dragoman's own alone: it stays so, but for that of a
// client of 2026-07-28, in whose place another begins soon.
func (w *world) withoutServer(c *call) bool {
	const soon = 12 * time.Second
	alone := false
	if w.isModern(c.owner) {
		alone = w.troubledWithin(c.owner, c.begins-soon, c.begins)
	} else {
		alone = slices.ContainsFunc(w.all, func(b trace.Event) bool {
			return b.Kind == trace.Began && b.Who == c.owner && b.Session == c.session && b.At <= c.begins && w.troubledWithin(c.owner, b.At, b.At)
		})
	}
	if alone = alone && w.script.Has("adapters."); alone {
		c.excuse = "without-server"
	}
	return alone
}

// isModern reports whether a client is of 2026-07-28.
func (w *world) isModern(name string) bool {
	return slices.ContainsFunc(w.script.Clients, func(c script.Client) bool { return c.Name == name && c.Revision >= modern })
}

// lost reports whether the session of the call is no more, as it may be after some troubles: the client is told so by 404.
func (w *world) lost(c *call, e trace.Event) bool {
	if strings.HasSuffix(e.Failed, "Unknown tool") || strings.HasSuffix(e.Failed, "Method not found") {
		return w.withoutServer(c)
	}
	if !strings.HasPrefix(e.Failed, "status 404") && !strings.Contains(e.Failed, "too many sessions") {
		return false
	}
	for _, line := range w.script.Settings {
		if strings.HasPrefix(line, "session.") { // how long it lasts, or how many there are
			c.excuse = "session-lost"
			return true
		}
	}
	if strings.Contains(e.Failed, "too many sessions") && w.crowded(c, e.At-1) { // others may leave in the same instant
		c.excuse = "sessions-used"
		return true
	}
	began := time.Duration(0)
	for _, b := range w.all {
		if b.Kind == trace.Began && b.Who == c.owner && b.Session == c.session && b.At <= c.begins {
			began = b.At
		}
	}
	if age := w.setting("session.max_age"); age > 0 && e.At >= began+age {
		c.excuse = "session-old"
		return true
	}
	for _, t := range w.troubles {
		if t.from >= began && t.from <= e.At && (strings.HasPrefix(t.what, "operator-") || strings.HasPrefix(t.what, "server-") || strings.HasPrefix(t.what, "store-")) {
			c.excuse = "session-lost"
			return true
		}
	}
	return false
}

// lostWhileAsked reports whether the call ends since it was lost while its client had the question, as clients are asked from 2026-07-28
// on: nothing is open then, so that the client learns of it when it comes back with its answer.
func (w *world) lostWhileAsked(c *call, e trace.Event) bool {
	if len(c.asked) == 0 || len(c.replies) == 0 || c.asked[0].ID == "" || c.asked[0].ID[0] < 'a' { // an id of JSON-RPC, and no key
		return false
	}
	asked, replied := c.asked[len(c.asked)-1].At, c.replies[len(c.replies)-1].At
	for _, t := range w.troubles {
		if t.client == "" && t.to >= asked && t.from <= replied && e.At <= replied+moment {
			c.excuse = t.what
			return true
		}
	}
	return false
}

// excuse reports whether a trouble excuses what becomes of c at the time at, and notes which. Only troubles whose name begins with kind count.
func (w *world) excuse(c *call, at time.Duration, kind string) bool {
	for _, t := range w.troubles {
		if (t.client == "" || t.client == c.owner) && strings.HasPrefix(t.what, kind) && t.from <= at && at <= t.to && t.to >= c.begins && !w.repeats(c, t) {
			if c.excuse == "" {
				c.excuse = t.what
			}
			return true
		}
	}
	return false
}

// repeats reports whether c began after the server of Streamable HTTP had forgotten the sessions: it refuses the call then, which is sent again in
// another session.
func (w *world) repeats(c *call, t trouble) bool {
	return (t.what == "server-lose" || t.what == "server-loses") && w.script.Server.Transport == "http" && w.script.Replicas == 1 && c.begins > t.from
}

// troubledWithin reports whether there was any trouble for a client between two times.
func (w *world) troubledWithin(client string, from, to time.Duration) bool {
	for _, t := range w.troubles {
		if (t.client == "" || client == "" || t.client == client) && t.from <= to && t.to >= from {
			return true
		}
	}
	return false
}
