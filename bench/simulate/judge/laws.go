package judge

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// own: nothing that is one client's reaches another.
func own(w *world, wrong func(time.Duration, string, ...any)) {
	for _, e := range w.all {
		if !isClient(e.Who) || len(e.Raw) == 0 {
			continue
		}
		switch e.Kind {
		case trace.Answered, trace.Progressed, trace.Logged, trace.Asked, trace.Revoked, trace.Completed, trace.Updated, trace.Refused:
		default:
			continue
		}
		if e.Kind == trace.Answered && e.Mark == "" && strings.HasPrefix(e.Method, "tasks/") { // whose task that may be: see tasks
			continue
		}
		for owner, mark := range marksIn(e.Raw) {
			if string(owner) != e.Who {
				wrong(e.At, "%s got what is about %s", e.Who, mark)
				break
			}
		}
	}
}

// marksIn are the owners and the marks that are words of text: c1 and c1.7.
func marksIn(text []byte) iter.Seq2[[]byte, []byte] {
	word := func(at int) bool {
		return at >= 0 && at < len(text) && (text[at] == '_' || isDigit(text[at]) || 'a' <= text[at]|0x20 && text[at]|0x20 <= 'z')
	}
	digits := func(from int) int {
		for from < len(text) && isDigit(text[from]) {
			from++
		}
		return from
	}
	return func(yield func(owner, mark []byte) bool) {
		for at := 0; ; at++ {
			next := bytes.IndexByte(text[at:], 'c')
			if next < 0 {
				return
			}
			at += next
			dot := digits(at + 1)
			if word(at-1) || dot == at+1 || dot == len(text) || text[dot] != '.' {
				continue
			}
			if end := digits(dot + 1); end > dot+1 && !word(end) && !yield(text[at:dot], text[at:end]) {
				return
			}
		}
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isClient(who string) bool {
	return len(who) > 1 && who[0] == 'c' && who[1] >= '0' && who[1] <= '9'
}

// once: nothing is carried out twice, and an answer is the answer of its call.
func once(w *world, wrong func(time.Duration, string, ...any)) {
	for _, c := range w.calls {
		most := 1
		if w.modernServer() {
			most += len(c.plan.Ask) // it is sent again with the answers
		}
		most += c.required() // and when its pages were opened
		if c.plan.As == script.GatedTwice && w.gates() && len(c.received) > 0 && c.received[0].Method == "tools/call" {
			wrong(c.received[0].At, "%s reaches the server with two values of an argument, of which the gate was asked about one", c.mark)
		}
		// What is asked of an API, and a read, may be repeated on another connection or in another session.
		repeats := len(c.received) > 0 && w.troubledWithin(c.owner, c.begins, c.received[len(c.received)-1].At) && (c.received[0].Method == "GET" || c.received[0].Method == "resources/read")
		if repeats {
			most++
		}
		if len(c.received) > most {
			wrong(c.received[most].At, "%s reaches the server %d times", c.mark, len(c.received))
		}
		for _, e := range c.ends {
			if e.Kind != trace.Answered || e.Failed != "" {
				continue
			}
			if c.shared {
				continue
			}
			if !strings.HasPrefix(e.Text, c.mark+" done ") {
				wrong(e.At, "%s is answered with %.60q", c.mark, e.Text)
				continue
			}
			if n, _, _ := strings.Cut(strings.TrimPrefix(e.Text, c.mark+" done "), " "); n != "1" && !repeats {
				wrong(e.At, "%s was carried out %s times", c.mark, n)
			}
			if len(c.received) == 0 {
				wrong(e.At, "%s is answered though the server has not seen it", c.mark)
			}
		}
		if !c.shared && len(c.ends) > 0 && len(c.received) == 0 && c.ends[0].Kind == trace.Answered && c.ends[0].Failed == "" {
			wrong(c.ends[0].At, "%s never reached the server", c.mark)
		}
	}
}

func (w *world) modernServer() bool {
	return w.script.Server.Revision == "both" || w.script.Server.Revision >= "2026"
}

// order: the server is initialized before it is called, and told so.
func order(w *world, wrong func(time.Duration, string, ...any)) {
	begun, told := map[string]bool{}, map[string]bool{}
	for _, e := range w.all {
		if e.Session == "" || isClient(e.Who) || e.Kind == trace.Received && e.Method == "initialize" && w.troubledWithin("", e.At, e.At+moment) {
			continue
		}
		switch key := e.Who + " " + e.Session; {
		case e.Kind == trace.Received && e.Method == "initialize":
			if begun[key] {
				wrong(e.At, "session %s is initialized twice", e.Session)
			}
			begun[key] = true
		case e.Kind == trace.Initialized:
			if told[key] {
				wrong(e.At, "session %s is told twice that it is initialized", e.Session)
			}
			told[key] = true
		case e.Kind == trace.Received && e.Method != "ping" && begun[key] && !told[key]:
			wrong(e.At, "%s before notifications/initialized in session %s", e.Method, e.Session)
		}
	}
}

// progress: it belongs to its call, in order, before the answer, and none is missing.
func progress(w *world, wrong func(time.Duration, string, ...any)) {
	for _, c := range w.calls {
		last := 0
		for _, e := range c.progressed {
			if e.Who != c.owner {
				wrong(e.At, "progress of %s came to %s", c.mark, e.Who)
			}
			if e.N <= last {
				wrong(e.At, "progress %d of %s came after %d", e.N, c.mark, last)
			}
			last = e.N
			if len(c.ends) > 0 && c.ends[0].Kind == trace.Answered && e.At > c.ends[0].At { // over HTTP+SSE it goes on when the POST's connection breaks
				wrong(e.At, "progress %d of %s came after its end", e.N, c.mark)
			}
		}
		if len(c.ends) > 0 && c.ends[0].Kind == trace.Answered && c.ends[0].Failed == "" && c.how == "" &&
			len(c.progressed) < len(c.progresses) && !w.troubledWithin(c.owner, c.begins, c.ends[0].At) && !w.skipped(c) {
			wrong(c.ends[0].At, "%s got %d of %d progress notifications", c.mark, len(c.progressed), len(c.progresses))
		}
	}
}

// skipped reports whether all the progress that the client has not got came while it answered a question: of that only the last is kept
// for the request that brings the answer (outbox.Kept).
func (w *world) skipped(c *call) bool {
	for i, p := range c.progresses {
		if find(c.progressed, p.N) != nil {
			continue
		}
		asked := false
		for _, e := range w.all {
			asked = asked || e.Kind == trace.Asked && e.Who == c.owner && isKey(e.ID) && p.At <= e.At+moment && e.At <= c.ends[0].At
		}
		if !asked || i == len(c.progresses)-1 {
			return false
		}
	}
	return true
}

// isKey reports whether the id of a question is none of JSON-RPC, but a key: as from 2026-07-28 on, it is part of a result.
func isKey(id string) bool { return id != "" && id[0] >= 'a' }

// forged is in what clients send as the answer to a question that they were not asked.
var forged = []byte("forged")

// questions: each reaches the client of its call, and its answer the server, once, in a moment.
func questions(w *world, wrong func(time.Duration, string, ...any)) {
	for _, c := range w.calls {
		end := w.over
		if len(c.ends) > 0 {
			end = c.ends[0].At
		}
		if c.how != "" && c.given < end {
			end = c.given
		}
		for _, a := range c.asks {
			if c.plan.Away && (a.Failed == "no stream" || a.Failed == "kept" && !w.hears(c.owner, a.At)) {
				if w.onPipe(c.owner) && !w.closesStreams() && !w.ungranted(a.At) && !w.troubledWithin(c.owner, 0, a.At) {
					wrong(a.At, "question %d of %s finds no stream", a.N, c.mark)
				}
				continue
			}
			if a.At+moment > end || w.troubledWithin(c.owner, c.begins, a.At+moment) || a.Failed == "kept" && end < a.At+reopens && !w.stands(a.Session, a.At, end) {
				continue
			}
			if c.finished > 0 && a.At > c.finished && find(c.told, a.N) == nil {
				wrong(a.At, "question %d of %s is not refused, though its client has said that it says no more", a.N, c.mark)
			}
			if find(c.asked, a.N) == nil && find(c.told, a.N) == nil {
				wrong(a.At, "question %d of %s reaches no client", a.N, c.mark)
			}
		}
		for _, a := range c.asks {
			const patience = 12 * time.Second
			if !isKey(a.ID) && w.script.Server.Transport != "http" && w.script.Replicas == 1 && a.At+patience < w.over && w.unreached(c, a, a.At+patience) {
				wrong(a.At, "question %d of %s, which cannot reach its client, is not refused in %v", a.N, c.mark, patience)
			}
		}
		seen := map[int]int{}
		for _, a := range c.asked {
			if a.Who != c.owner {
				wrong(a.At, "question %d of %s came to %s", a.N, c.mark, a.Who)
			}
			if find(c.asks, a.N) == nil {
				wrong(a.At, "question %d of %s was never asked", a.N, c.mark)
			}
			if seen[a.N]++; seen[a.N] > 1 && seen[a.N] > count(c.asks, a.N) && !w.troubledWithin(c.owner, c.begins, a.At) {
				wrong(a.At, "question %d of %s came twice", a.N, c.mark)
			}
			if v := find(c.withdrawn, a.N); v != nil && v.Failed == "" && a.At > w.saidBy(v.At) && !w.troubledWithin(c.owner, v.At, a.At) {
				wrong(a.At, "question %d of %s came after it was withdrawn", a.N, c.mark)
			}
		}
		told := map[int]int{}
		for _, t := range c.told {
			made := bytes.Contains(t.Raw, forged)
			if made && !w.answersUnasked(c, t) {
				wrong(t.At, "question %d of %s was answered by who was not asked", t.N, c.mark)
			}
			if !made {
				told[t.N]++
			}
			if !made && told[t.N] == 2 && !w.answeredElsewhere(c) && !w.saidAgain(c, t) {
				wrong(t.At, "the answer to question %d of %s came twice", t.N, c.mark)
			}
			r, v := find(c.replies, t.N), find(c.withdrawn, t.N)
			switch {
			case made: // its client has not given it yet, or gives it to no avail
			case r != nil && (r.At > t.At || w.leftOnTheWay(c, r)) && w.unanswered(c, t):
			case r != nil && r.At > t.At && w.hungUp(c, t):
			case strings.HasPrefix(t.Text, "error") && w.troubledWithin(c.owner, c.begins, t.At): // it waits where it is not found
			case r != nil && r.Text != t.Text && !c.failed(t.At) && !(isKey(t.ID) && strings.HasPrefix(r.Text, "error ") && t.Text == "cancel"):
				wrong(t.At, "question %d of %s was answered with %q, and the server got %q", t.N, c.mark, r.Text, t.Text)
			case r == nil && strings.Contains(t.Text, c.mark):
				wrong(t.At, "question %d of %s was not answered, and the server got %q", t.N, c.mark, t.Text)
			case v != nil && v.Failed == "" && t.At > v.At+moment && !w.troubledWithin(c.owner, v.At, t.At):
				wrong(t.At, "the answer to question %d of %s came after it was withdrawn", t.N, c.mark)
			}
		}
		for _, t := range c.told { // before its client has answered: only when that is not waited for any more
			a := find(c.asked, t.N)
			if r := find(c.replies, t.N); a == nil || bytes.Contains(t.Raw, forged) || r != nil && r.At <= t.At || w.parked(t.At-a.At) || w.troubledWithin(c.owner, c.begins, t.At) ||
				c.how != "" && c.given <= t.At || find(c.withdrawn, t.N) != nil || c.finished > 0 && c.finished <= t.At {
				continue
			}
			wrong(t.At, "question %d of %s is answered with %q, but not by its client", t.N, c.mark, t.Text)
		}
		for _, r := range c.replies {
			if r.At+moment > end || w.troubledWithin(c.owner, c.begins, r.At+moment) {
				continue
			}
			if a := find(c.asks, r.N); a != nil && isVisit(a.ID) && r.Text != "accept" { // the page is not opened
				continue
			}
			if v := find(c.withdrawn, r.N); find(c.told, r.N) == nil && (v == nil || v.At > r.At+moment) {
				wrong(r.At, "the answer to question %d of %s does not reach the server", r.N, c.mark)
			}
		}
	}
}

// unreached reports whether a question has come to nothing by a time, though the server waits for its answer still.
func (w *world) unreached(c *call, a trace.Event, by time.Duration) bool {
	asked, told := find(c.asked, a.N), find(c.told, a.N)
	if asked != nil && asked.At > by && w.script.Has("limits.replay: 0") {
		asked, told = nil, nil // it waited, though no client could come back for it
	}
	if asked != nil || told != nil || find(c.withdrawn, a.N) != nil || len(c.stopped) > 0 {
		return false
	}
	for _, e := range w.all {
		if (e.Kind == trace.Gone || e.Kind == trace.Died || e.Kind == trace.Loses) && e.At >= a.At && e.At <= by {
			return false
		}
	}
	for _, t := range w.troubles {
		if t.from <= by && t.to >= a.At-moment && t.what != "client-leave" && t.what != "client-forget" && t.what != "client-hang" && t.what != "server-slow" {
			return false
		}
	}
	return true
}

// closesStreams reports whether the server closes standing streams.
func (w *world) closesStreams() bool {
	return slices.ContainsFunc(w.script.Steps, func(s script.Step) bool { return s.Verb == "closestreams" || s.Verb == "streamlife" })
}

// onPipe reports whether a client is on stdio or HTTP+SSE, so that dragoman itself opens its standing stream.
func (w *world) onPipe(name string) bool {
	for _, c := range w.script.Clients {
		if c.Name == name {
			return c.Transport != "http" && c.Revision < modern
		}
	}
	return false
}

// answeredElsewhere reports whether the second answer of a client that gives two may have come to another replica, which passes it on, since
// it does not know what the first has asked.
func (w *world) answeredElsewhere(c *call) bool {
	if w.script.Replicas < 2 || w.script.Server.Transport != "http" || c.plan.Reply != script.ReplyTwice {
		return false
	}
	for _, client := range w.script.Clients {
		if client.Name == c.owner {
			return client.Transport == "http"
		}
	}
	return false
}

// unanswered reports whether t is an answer in the place of a client of 2026-07-28, which has not given one within bridge.park_timeout.
func (w *world) unanswered(c *call, t trace.Event) bool {
	park := 10 * time.Minute
	for _, line := range w.script.Settings {
		if text, ok := strings.CutPrefix(line, "bridge.park_timeout:"); ok {
			park, _ = time.ParseDuration(strings.TrimSpace(text))
		}
	}
	a := find(c.asked, t.N)
	return a != nil && isKey(a.ID) && (t.Text == "cancel" || strings.HasPrefix(t.Text, "error ")) && t.At >= a.At+park && t.At <= a.At+park+moment
}

// failed reports whether the call had ended with an error by then: a client of 2026-07-28 sends its answers with the call, and so knows that
// they did not arrive.
func (c *call) failed(by time.Duration) bool {
	return len(c.ends) > 0 && c.ends[0].Failed != "" && c.ends[0].At <= by
}

// parked reports whether a user's answer is not waited for any longer than that: bridge.park_timeout, or what a call may take.
func (w *world) parked(waited time.Duration) bool {
	return slices.ContainsFunc(w.limits(), func(d time.Duration) bool { return waited >= d && waited <= d+d/8+moment })
}

// find returns the event of a number.
func find(all []trace.Event, n int) *trace.Event {
	for i := range all {
		if all[i].N == n {
			return &all[i]
		}
	}
	return nil
}

// cancellations: what a client cancels, the server is told in a moment; nothing else is cancelled, and nothing that was answered.
func cancellations(w *world, wrong func(time.Duration, string, ...any)) {
	for i, e := range w.all {
		if e.Kind == trace.Loses {
			break // a cancellation may come in the session that was begun in the place of that of its call
		}
		if e.Kind == trace.Stopped && e.Failed == "unknown" && !w.disordered(e.At-30*moment, e.At) && !w.comes(e, i) && !w.atReplica(e) {
			wrong(e.At, "the request %s of session %s is cancelled at the server, which it has not reached", e.ID, e.Session)
		}
	}
	for _, c := range w.calls {
		if len(c.ends) > 0 && c.how == string(trace.Cancels) && c.ends[0].Failed != "" && len(c.answers) == 0 && !w.troubledWithin(c.owner, c.begins, c.ends[0].At) &&
			!(w.script.Replicas > 1 && strings.Contains(c.ends[0].Failed, "closed the stream without answering")) { // it was cancelled through another replica
			wrong(c.ends[0].At, "%s, cancelled at %.3fs, is answered with %q", c.mark, c.given.Seconds(), c.ends[0].Failed)
		}
		if c.cancelled > 0 && len(c.received) > 0 && len(c.stopped) == 0 && !w.overtaken(c) {
			answered, done := c.answered()
			seen := c.received[0].At
			due := max(seen, c.cancelled) + moment
			if !(done && answered <= due) && !(c.isTask() && (len(c.tasked) == 0 || c.tasked[0].At > c.cancelled)) && !w.cancelledElsewhere(c) && !c.waitsForClient(c.cancelled) && due < w.over && !w.troubledBy(c, due, "client-hang") && !(c.atAPI() && w.script.Replicas > 1) {
				wrong(due, "%s, cancelled at %.3fs, is not cancelled at the server", c.mark, c.cancelled.Seconds())
			}
		}
		for _, s := range c.stopped {
			if at, done := c.answered(); done && s.At > at+moment && !w.troubledWithin(c.owner, c.begins, s.At) && c.plan.How != script.Never && c.plan.How != script.Closes && c.plan.How != script.Cut {
				wrong(s.At, "%s is cancelled at the server, which answered at %.3fs", c.mark, at.Seconds())
			}
			if c.how == "" && len(c.ends) == 0 && !w.troubledWithin(c.owner, c.begins, s.At) {
				wrong(s.At, "%s is cancelled at the server, but not by its client", c.mark)
			}
		}
	}
}

// overtaken reports whether the cancellation of c came to the server just before it: they had connections of their own.
func (w *world) overtaken(c *call) bool {
	r := c.received[0]
	return slices.ContainsFunc(w.all, func(e trace.Event) bool {
		return e.Kind == trace.Stopped && e.Failed == "unknown" && e.ID == r.ID && e.Session == r.Session && e.At <= r.At && e.At >= r.At-10*time.Millisecond
	})
}

// comes reports whether the request that e cancels came to the server in a moment after it: it may be on another connection.
func (w *world) comes(e trace.Event, i int) bool {
	for _, r := range w.all[i:] {
		if r.At > e.At+moment {
			return false
		}
		if r.Kind == trace.Received && r.Session == e.Session && r.ID == e.ID {
			return true
		}
	}
	return true
}

// atAPI reports whether the call goes to the API of an adapter: it can be cancelled at the replica that has it alone.
func (c *call) atAPI() bool { return c.received[0].Who == "api" }

// waitsForClient reports whether the call of a client was answered with questions, as from 2026-07-28 on: by the server, so that nothing of
// it is open there, or to the client, which has nothing open that it could cancel.
func (c *call) waitsForClient(at time.Duration) bool {
	last := trace.Event{Kind: trace.Replies}
	for _, list := range [][]trace.Event{c.asked, c.replies} {
		for _, e := range list {
			if e.At <= at && e.At >= last.At {
				last = e
			}
		}
	}
	return last.Kind == trace.Asked && isKey(last.ID) || c.restsAtServer(at)
}

// restsAtServer reports whether the server has answered a call with questions, so that nothing of it is open there.
func (c *call) restsAtServer(at time.Duration) bool {
	asked := time.Duration(-1)
	for _, a := range c.asks {
		if isKey(a.ID) && a.At <= at {
			asked = a.At
		}
	}
	return asked >= 0 && c.received[len(c.received)-1].At <= asked
}

// client returns what the script says of a client.
func (w *world) client(name string) script.Client {
	for _, c := range w.script.Clients {
		if c.Name == name {
			return c
		}
	}
	return script.Client{}
}

// calm: when the faults have stopped, everything works again within a minute.
func calm(w *world, wrong func(time.Duration, string, ...any)) {
	for _, e := range w.all {
		if e.Kind != trace.Expects || !strings.HasSuffix(e.Mark, ".999") {
			continue // the one before may learn that its session is no more
		}
		c := w.byMark[e.Mark]
		switch {
		case c == nil && w.full(e.Who, e.At):
		case c == nil:
			wrong(e.At, "%s cannot begin a session, though all faults have ended", e.Who)
		case len(c.ends) == 0:
			wrong(e.At, "%s, sent after all faults had ended, is not answered", c.mark)
		case !strings.HasPrefix(c.ends[0].Failed, "status") && w.lost(c, c.ends[0]): // too many sessions of clients that have left, or one without the server
		case strings.HasPrefix(c.ends[0].Failed, "status 404") && w.keptByTasks(c.ends[0].At): // its session, the idlest, has made room for another
		case c.ends[0].Failed != "" || c.ends[0].Kind != trace.Answered:
			wrong(e.At, "%s, sent after all faults had ended, ends with %q", c.mark, c.ends[0].Failed)
		}
	}
}

// full reports whether a client is told, from a time on, that there are as many sessions as session.max or bridge.max_sessions allows, or as
// many processes as session.max_processes does.
func (w *world) full(client string, from time.Duration) bool {
	return slices.ContainsFunc(w.all, func(e trace.Event) bool {
		return e.Who == client && e.At >= from && strings.Contains(e.Failed, "too many processes") && w.keptByTasks(e.At) ||
			e.Who == client && e.At >= from && strings.Contains(e.Failed, "too many sessions") &&
				(e.Method == "initialize" && w.script.Has("session.max:") || e.Method == "server/discover" && w.crowded(&call{owner: client}, e.At-1))
	})
}
