package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// pings: each of the server's is answered within ten seconds; one that is kept since no stream is there, from when the stream goes on.
func pings(w *world, wrong func(time.Duration, string, ...any)) {
	const within = 10 * time.Second
	type ping struct{ who, session, id string }
	ponged, ended := map[ping]trace.Event{}, map[string]time.Duration{}
	for _, e := range w.all {
		switch e.Kind {
		case trace.Ponged:
			ponged[ping{e.Who, e.Session, e.ID}] = e
		case trace.Gone, trace.Died:
			ended[e.Who+" "+e.Session] = e.At
		}
	}
	for i, e := range w.all {
		if e.Kind == trace.Pings && e.Failed == "kept" {
			again := w.standsAgain(i)
			if again == nil {
				continue
			}
			if again.Text == "GET" && w.primes() && w.allModern() && !w.troubledWithin("", e.At, again.At) {
				wrong(again.At, "the stream of session %s, which has an event already, is opened anew: ping %s is lost", e.Session, e.ID)
			}
			if again.Text == "GET" {
				continue
			}
			e.At, e.Failed = again.At, ""
		}
		if e.Kind != trace.Pings || e.Failed != "" && e.Failed != "kept" || w.troubledWithin("", e.At, e.At+within) || e.At+within > w.over {
			continue
		}
		if pong, is := ponged[ping{e.Who, e.Session, e.ID}]; is && pong.At < e.At+within {
			if pong.Failed != "" {
				wrong(pong.At, "ping %s in session %s is answered with %q", e.ID, e.Session, pong.Failed)
			}
			continue
		}
		if at, is := ended[e.Who+" "+e.Session]; is && at < e.At+within {
			continue
		}
		if at, is := ended[e.Who+" "]; is && at > e.At && at < e.At+within {
			continue
		}
		if w.tooOld(&e, e.At+within) {
			continue
		}
		wrong(e.At, "ping %s in session %s is not answered in %v", e.ID, e.Session, within)
	}
}

// tooOld reports whether the client that gets a ping cannot answer it by a time, since its session is as old as session.max_age allows.
func (w *world) tooOld(ping *trace.Event, by time.Duration) bool {
	age := w.setting("session.max_age")
	return age > 0 && slices.ContainsFunc(w.all, func(p trace.Event) bool {
		return p.Kind == trace.Pinged && p.Session != "" && (p.ID == ping.ID || strings.HasPrefix(p.ID, `"dragoman:`)) && ping.At <= p.At && p.At <= by && slices.ContainsFunc(w.all, func(b trace.Event) bool {
			return b.Kind == trace.Began && b.Who == p.Who && b.Session == p.Session && b.At+age <= p.At
		})
	})
}

// standsAgain returns the first event after the ping i by which a standing stream is opened in its session, or that of the ping goes on; nil if
// none is.
func (w *world) standsAgain(i int) *trace.Event {
	ping := &w.all[i]
	for j := i + 1; j < len(w.all); j++ {
		e := &w.all[j]
		if e.Kind == trace.Standing && e.Session == ping.Session && (e.Text == "GET" || strings.HasPrefix(e.Text, "GET after "+ping.Text+".")) {
			return e
		}
	}
	return nil
}

// primes reports whether each stream of the server begins with an id.
func (w *world) primes() bool {
	return w.script.Server.Transport == "http" && w.script.Server.Revision == "2025-11-25"
}

// allModern reports whether all clients leave it to dragoman to go on with a stream of a handshake server.
func (w *world) allModern() bool {
	for _, c := range w.script.Clients {
		if c.Revision < "2026" {
			return false
		}
	}
	return true
}
