package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// users: a call reaches the server with the token of its own client, or with none if the tokens are dragoman's; and two users share no
// session of the server.
func users(w *world, wrong func(time.Duration, string, ...any)) {
	user, dragomans, shared := map[string]string{}, false, false
	for _, c := range w.script.Clients {
		user[c.Name] = c.User
	}
	for _, line := range w.script.Settings {
		dragomans = dragomans || strings.HasPrefix(line, "auth.tokens:")
		shared = shared || line == "upstream.share_child: true"
	}
	type session struct{ who, id string }
	first := map[session]string{}
	for _, e := range w.all {
		if e.Kind != trace.Received {
			continue
		}
		if (dragomans || e.Who == "api") && e.User != "" {
			wrong(e.At, "%s gets the token of %s, which is not for it, with %s", e.Who, e.User, e.Method)
		}
		c := w.byMark[e.Mark]
		if c == nil {
			continue
		}
		if want := user[c.owner]; e.Who != "api" && e.User != want && !dragomans && w.script.Server.Transport != "stdio" {
			wrong(e.At, "%s came with the token of %q, and is of %q", e.Mark, e.User, want)
		}
		if e.Session == "" || shared {
			continue
		}
		in := session{e.Who, e.Session}
		if other, is := first[in]; is && user[other] != user[c.owner] {
			wrong(e.At, "%s and %s are in one session of the server, and of two users", c.mark, other)
		} else if !is {
			first[in] = c.owner
		}
	}
}

// lacking: a call that fails since its client, of 2026-07-28, cannot be asked what a server with a session asks, says what the client lacks.
// A process that is shared can ask no client.
func lacking(w *world, wrong func(time.Duration, string, ...any)) {
	if w.script.Has("upstream.share_child: true") {
		return
	}
	for _, c := range w.calls {
		if len(c.ends) == 0 || c.ends[0].Failed == "" || !c.plan.Needs || c.how != "" || c.shared || len(c.plan.Ask) != 1 || w.troubledWithin(c.owner, c.begins, c.ends[0].At) {
			continue
		}
		for _, t := range c.told {
			if w.script.Server.Transport != "http" && slices.ContainsFunc(w.calls, func(o *call) bool {
				return o != c && o.owner == c.owner && o.begins <= t.At && (len(o.ends) == 0 || o.ends[0].At >= t.At)
			}) {
				continue // on a pipe nothing says which of the calls the question belongs to
			}
			capability, _, _ := strings.Cut(t.Method, "/")
			lacks, required := w.client(c.owner).Without(capability), `"`+capability+`"`
			if mode := map[string]string{"elicit": "form", "url": "url"}[c.plan.Ask[0]]; mode != "" {
				lacks, required = lacks || w.client(c.owner).Without(mode), required+`:{"`+mode+`"`
			}
			if !isKey(t.ID) && w.isModern(c.owner) && lacks && !strings.Contains(string(c.ends[0].Raw), `"requiredCapabilities":{`+required) {
				wrong(c.ends[0].At, "%s, whose client lacks %s, ends with %q, which does not say so", c.mark, capability, c.ends[0].Failed)
			}
		}
	}
}

// deleted: a session of the server, over Streamable HTTP, ends there in a moment when its client has ended its own, or has left over HTTP+SSE.
func deleted(w *world, wrong func(time.Duration, string, ...any)) {
	if w.script.Server.Transport != "http" {
		return
	}
	in := map[string]string{} // the sessions of clients before 2026-07-28, by their last calls
	for _, e := range w.all {
		switch c := w.client(e.Who); {
		case e.Kind == trace.Received && e.Session != "":
			if of := w.byMark[e.Mark]; of != nil && !w.isModern(of.owner) {
				in[of.owner] = e.Session
			}
		case e.Kind == trace.Loses, e.Kind == trace.Died && e.Who == "server":
			clear(in)
		case e.Kind == trace.Begins:
			delete(in, e.Who)
		case e.Kind == trace.Ends && c.Transport == "http", e.Kind == trace.Leaves && c.Transport == "sse":
			session := in[e.Who]
			delete(in, e.Who)
			if session != "" && e.At+moment < w.over && !w.troubledLike(&call{owner: e.Who, begins: e.At - reopens}, e.At+moment, "link-", "server-", "operator-", "store-") && !w.goneBy(session, e.At+moment) && !w.leftFor(session, e.At) {
				wrong(e.At+moment, "session %s of %s, which has ended its own, does not end at the server", session, e.Who)
			}
		}
	}
}

// leftFor reports whether a replica had begun a session in the place of a lost one while the store could not be used, and another one, which ends now, is that of
// all replicas since: the server has what was left until it lets go of it.
func (w *world) leftFor(session string, ends time.Duration) bool {
	apart := slices.ContainsFunc(w.all, func(e trace.Event) bool {
		return e.Kind == trace.Answers && e.ID == `"dragoman:0"` && e.Session == session && w.withoutStore(e.At)
	})
	return apart && w.script.Replicas > 1 && slices.ContainsFunc(w.all, func(e trace.Event) bool {
		return e.Kind == trace.Gone && ends <= e.At && e.At <= ends+moment
	})
}

// goneBy reports whether a session has ended at the server by a time.
func (w *world) goneBy(session string, by time.Duration) bool {
	return slices.ContainsFunc(w.all, func(e trace.Event) bool {
		return e.At <= by && e.Session == session && e.Kind == trace.Gone
	})
}
