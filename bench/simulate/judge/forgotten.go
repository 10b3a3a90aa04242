package judge

import (
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// forgotten reports whether, at a time, dragoman may not know any more what a client has subscribed to: docs/replicas.md says what is kept
// where. Only clients over Streamable HTTP have sessions that are in several replicas, or go on when dragoman has been started again; from
// 2026-07-28 on a subscription is an open request.
//
// A server with sessions has the subscriptions until it loses these. Then a replica restores those that it finds in the store; a process
// without one, those that have gone through it. A server without sessions leaves them to the replica that has the session, and to the store.
func (w *world) forgotten(client string, subscribed, at time.Duration) bool {
	if c := w.client(client); c.Transport != "http" || c.Revision >= modern {
		return false
	}
	var died, lost []time.Duration
	for _, e := range w.all {
		switch {
		case e.At > at:
		case e.Kind == trace.Died && e.Who != "" && e.Who[0] == 'r':
			died = append(died, e.At)
		case e.Kind == trace.Loses, e.Kind == trace.Died && strings.HasPrefix(e.Who, "server"):
			lost = append(lost, e.At)
		}
	}
	several := w.script.Replicas > 1
	between := func(all []time.Duration, from, to time.Duration) bool {
		for _, t := range all {
			if from <= t && t <= to {
				return true
			}
		}
		return false
	}
	sessions := w.script.Server.Revision == "both" || w.script.Server.Revision < modern
	if !w.script.Store {
		if !sessions {
			return between(died, subscribed, at)
		}
		for _, l := range lost {
			if between(died, subscribed, l) {
				return true
			}
		}
		return false
	}
	for _, t := range w.troubles {
		if !strings.HasPrefix(t.what, "store-") || t.from > at {
			continue
		}
		empty := t.what == "store-empty"
		late := !empty && t.from <= subscribed && subscribed <= t.to // written when the store is there again
		if late && between(died, subscribed, t.to) {
			return true
		}
		if !sessions {
			if empty && subscribed <= t.from && between(died, max(subscribed, t.from-reopens), at) {
				return true
			}
			continue
		}
		for _, l := range lost {
			if several && !empty && l < subscribed && between(died, max(subscribed, t.from-15*time.Second), t.to) {
				return true // another replica has the client since, and may learn of the loss only now
			}
			apart := several || between(died, subscribed, l)
			if l >= subscribed && apart && (empty && subscribed <= t.from && t.from <= l+reopens || !empty && t.from <= l+reopens && l <= t.to) {
				return true
			}
		}
	}
	return false
}
