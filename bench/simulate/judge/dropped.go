package judge

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// dropped: what the metrics of the processes have as dropped, or as lost in translation, is what went missing between the peers.
func dropped(w *world, wrong func(time.Duration, string, ...any)) {
	if w.killed() {
		return
	}
	drops, removed := map[string]int{}, 0
	for _, e := range w.all {
		switch {
		case e.Kind == trace.Dropped:
			drops[e.Text] += e.N
		case e.Kind == trace.Removed && strings.HasPrefix(e.Text, "C14 "):
			removed += e.N
		}
	}
	full := drops["queue_full"] + drops["no_room"]
	if n, all := w.unread(), w.missing(); n > full {
		wrong(w.over, "%d updates did not reach clients that listen, and %d notifications were counted as dropped", n, full)
	} else if full > all && !w.troubledLike(&call{}, w.over, "server-", "store-") {
		wrong(w.over, "%d notifications were counted as dropped, and %d did not reach their clients", full, all)
	}
	for _, r := range []struct{ reason, plan string }{{"malformed", script.Garbage}, {"unattributed", script.Stray}} {
		if r.plan == script.Garbage && w.script.Server.Transport == "stdio" {
			continue // a line that is no message is none of the protocol, and only logged
		}
		if n := w.answeredBehind(r.plan); drops[r.reason] < n {
			wrong(w.over, "the server sent %d messages that reach no client before answers that did (%s), and %d were counted as %s", n, r.plan, drops[r.reason], r.reason)
		}
	}
	if n, all := drops["unattributed"], w.sent(script.Stray)+w.missing()+w.listens(); n > all {
		wrong(w.over, "%d notifications were counted as unattributed, and %d did not reach their clients", n, all)
	}
	if n, all := drops["malformed"], w.sent(script.Garbage)+w.sent(script.Broken)+w.sent(script.Cut); n > all && !w.troubledLike(&call{}, w.over, "server-", "link-") {
		wrong(w.over, "%d messages were counted as malformed, and the server sent %d", n, all)
	}
	if n, all := drops["unknown_id"]+drops["late_answer"], w.answersUnread(); n > all && !w.troubledLike(&call{}, w.over, "server-") { // dragoman itself may not have waited for a slow one
		wrong(w.over, "%d answers were counted as dropped, and %d did not reach their peers", n, all)
	}
	if came, sent, again := w.messagesOfProgress(); removed < came || removed > sent+again {
		wrong(w.over, "of %d messages of progress for clients of 2024-11-05, which has none, the notifications of %d came, and %d were counted as removed", sent, came, removed)
	}
}

// killed reports whether a process of dragoman was: what it had counted is lost.
func (w *world) killed() bool {
	return slices.ContainsFunc(w.script.Steps, func(s script.Step) bool { return s.Who == "operator" && s.Verb == "kill" })
}

// unread counts the updates of resources that did not reach clients whose subscriptions and streams were open before, and stay so: a client
// read nothing for a while.
func (w *world) unread() (n int) {
	type update struct {
		client, uri string
		n           int
	}
	wants, hears := map[string]map[string]time.Duration{}, map[string]time.Duration{}
	asked := map[string]string{} // by client and id: the URI of a request that subscribes, or ends that
	due := map[update]bool{}
	forget := func(client, uri string) {
		for u := range due {
			if u.client == client && (uri == "" || u.uri == uri) {
				delete(due, u)
			}
		}
	}
	for _, e := range w.all {
		switch {
		case e.Kind == trace.Updates && e.Failed == "":
			for client, uris := range wants {
				since, does := uris[e.Text]
				open, is := hears[client]
				if does && is && e.At >= max(since, open)+moment && !w.troubledBy(&call{owner: client, begins: max(since, open)}, e.At+moment, "client-deaf", "server-slow") && !w.forgotten(client, since, e.At) {
					due[update{client, e.Text, e.N}] = true
				}
			}
		case !isClient(e.Who):
		case e.Kind == trace.Updated && e.N == 0: // dragoman says that it may have missed some
			forget(e.Who, e.Text)
		case e.Kind == trace.Updated:
			delete(due, update{e.Who, e.Text, e.N})
		case e.Kind == trace.Subscribes:
			if wants[e.Who] == nil {
				wants[e.Who] = map[string]time.Duration{}
			}
			if asked[e.Who+" "+e.ID] = e.Text; w.isModern(e.Who) {
				wants[e.Who][e.Text] = e.At
			}
		case e.Kind == trace.Unsubscribe:
			asked[e.Who+" "+e.ID] = e.Text
			delete(wants[e.Who], e.Text)
			forget(e.Who, e.Text)
		case e.Kind == trace.Answered && wants[e.Who] == nil:
		case e.Kind == trace.Answered && e.Method == "resources/subscribe" && e.Failed == "":
			wants[e.Who][asked[e.Who+" "+e.ID]] = e.At
		case e.Kind == trace.Answered && e.Method == "resources/unsubscribe": // the server may have read it behind a later request to subscribe
			delete(wants[e.Who], asked[e.Who+" "+e.ID])
			forget(e.Who, asked[e.Who+" "+e.ID])
		case e.Kind == trace.Opened:
			hears[e.Who] = e.At + w.hesitates(e.At)
		case e.Kind == trace.Leaves && w.over < e.At+moment: // the end of the world
		case e.Kind == trace.Leaves || e.Kind == trace.Ends || e.Kind == trace.Begins || e.Kind == trace.Closed || e.Kind == trace.Finishes:
			delete(wants, e.Who)
			delete(hears, e.Who)
			forget(e.Who, "")
		}
	}
	return len(due)
}

// missing counts the notifications that the server has sent and a client has not got, for each client that may have been one that they were for.
func (w *world) missing() (n int) {
	type notification struct {
		what, mark string
		n          int
	}
	sent := map[notification]int{}
	wanted := map[string]map[string]bool{} // by URI: the clients that have ever subscribed to it
	for _, e := range w.all {
		if e.Kind == trace.Subscribes {
			if wanted[e.Text] == nil {
				wanted[e.Text] = map[string]bool{}
			}
			wanted[e.Text][e.Who] = true
		}
	}
	all := len(w.script.Clients)
	for _, e := range w.all {
		switch e.Kind {
		case trace.Updates:
			sent[notification{e.Text, "", e.N}] = len(wanted[e.Text])
		case trace.Changes:
			sent[notification{e.Text, "", e.N}] += all
		case trace.Logs:
			if isClient(e.Mark) {
				sent[notification{"log", e.Mark, e.N}]++
			} else {
				sent[notification{"log", e.Mark, e.N}] += all
			}
		case trace.Progresses:
			sent[notification{"progress", e.Mark, e.N}]++
		case trace.Completes:
			sent[notification{"complete", e.Mark, e.N}]++
		case trace.Updated, trace.Changed:
			sent[notification{e.Text, "", e.N}]--
		case trace.Logged:
			sent[notification{"log", e.Mark, e.N}]--
		case trace.Progressed:
			sent[notification{"progress", e.Mark, e.N}]--
		case trace.Completed:
			sent[notification{"complete", e.Mark, e.N}]--
		}
	}
	for _, left := range sent {
		n += max(left, 0)
	}
	return n
}

// answeredBehind counts the calls of a plan whose answer has reached the client, and with it whatever the server had sent before.
func (w *world) answeredBehind(plan string) (n int) {
	for _, c := range w.calls {
		if c.plan.How == plan && len(c.answers) > 0 && len(c.ends) > 0 && c.ends[0].Kind == trace.Answered && c.ends[0].Failed == "" && c.answers[len(c.answers)-1].Failed == "" {
			n++
		}
	}
	return n
}

// listens counts the subscriptions of 2026-07-28 at the server. Each is acknowledged, perhaps behind its end.
func (w *world) listens() (n int) {
	for _, e := range w.all {
		if e.Kind == trace.Standing && e.Method == "subscriptions/listen" {
			n++
		}
	}
	return n
}

// sent counts the answers of a plan.
func (w *world) sent(plan string) (n int) {
	for _, c := range w.calls {
		if c.plan.How == plan {
			n += len(c.answers)
		}
	}
	return n
}

// answersUnread counts the answers that have not reached their peer, or may not have, and those that their peer did not expect.
func (w *world) answersUnread() (n int) {
	open, pings := map[string]int{}, 0
	for _, c := range w.calls {
		n += len(c.answers)
		if len(c.ends) > 0 && c.ends[0].Kind == trace.Answered && c.ends[0].Failed == "" {
			n--
		}
		n += max(len(c.replies)-len(c.told), 0)
	}
	for _, e := range w.all {
		switch {
		case e.Kind == trace.Note && e.Text == "garbage answer", e.Kind == trace.Answers && e.Method == "resources/unsubscribe": // dragoman unsubscribes for clients that have left
			n++
		case e.Kind == trace.Note && e.Text == "a ghost": // its session may end while its request is answered
			n++
		case e.Kind == trace.Pings:
			pings++
		case e.Kind == trace.Ponged:
			pings--
		case e.Mark != "" || !isClient(e.Who):
		case e.Kind == trace.Requests || e.Kind == trace.Subscribes || e.Kind == trace.Unsubscribe || e.Kind == trace.Begins:
			open[e.Who+" "+e.ID]++
		case e.Kind == trace.Answered || e.Kind == trace.Began || e.Kind == trace.Opened:
			delete(open, e.Who+" "+e.ID)
		}
	}
	return n + len(open) + max(pings, 0) + w.sent(script.Other) + w.sent(script.Twice)
}

// messagesOfProgress counts, of the notifications of progress with a message for clients of 2024-11-05, those that came and those that were
// sent. Some may have been read again, as their stream was: it had broken off.
func (w *world) messagesOfProgress() (came, sent, again int) {
	for _, c := range w.calls {
		if w.client(c.owner).Revision != "2024-11-05" {
			continue
		}
		for _, p := range c.progresses {
			if !bytes.Contains(p.Raw, []byte(`"message":`)) {
				continue
			}
			sent++
			got := find(c.progressed, p.N)
			if got != nil {
				came++
			}
			if got == nil || got.At > p.At {
				resumed := 0 // the server sends it each time
				for _, r := range c.resumes {
					if r.At >= p.At && (got == nil || r.At <= got.At) {
						resumed++
					}
				}
				again += max(resumed, 1)
			}
		}
	}
	return came, sent, again
}
