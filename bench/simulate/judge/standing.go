package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// streamTime is how long what a client on a pipe sends behind notifications/initialized waits for the server's standing stream.
const streamTime = 2 * time.Second

// ungranted reports whether the server may not have granted a standing stream yet at a time, since it takes at least streamTime for it.
func (w *world) ungranted(at time.Duration) bool {
	hesitation := time.Duration(0)
	for i, step := range w.stepsOf("server", "hesitate") {
		from := w.all[i].At
		if from > at {
			break
		}
		if hesitation >= streamTime && at <= from+hesitation {
			return true // it was asked for before
		}
		hesitation, _ = time.ParseDuration(step.Word(0))
	}
	return hesitation >= streamTime
}

// subscriptions: an update of a resource reaches the clients that have subscribed to it and listen, also in the session that has replaced a lost
// one, when a stream has been opened again.
func subscriptions(w *world, wrong func(time.Duration, string, ...any)) {
	wants := map[string]map[string]time.Duration{} // by client and URI: since when
	hears := map[string]time.Duration{}            // since when a stream of the client is open
	asked := map[string]string{}                   // what is subscribed to, by client and id
	unaware := map[string]bool{}                   // clients of which nothing has come since the server has lost their session without a sign
	for i, e := range w.all {
		if e.Kind == trace.Loses && e.Text != "" {
			for _, c := range w.script.Clients {
				unaware[c.Name] = true
			}
		} else if unaware[e.Who] && says(e.Kind) {
			w.aware(unaware, e.Who)
		}
		switch e.Kind {
		case trace.Subscribes:
			if wants[e.Who] == nil {
				wants[e.Who] = map[string]time.Duration{}
			}
			wants[e.Who][e.Text] = e.At
			asked[e.Who+" "+e.ID] = e.Text
		case trace.Answered, trace.Refused:
			if uri, is := asked[e.Who+" "+e.ID]; is && e.Failed != "" {
				delete(wants[e.Who], uri)
			}
			delete(asked, e.Who+" "+e.ID)
		case trace.Unsubscribe:
			delete(wants[e.Who], e.Text)
		case trace.Opened:
			hears[e.Who] = e.At + w.hesitates(e.At)
		case trace.Leaves, trace.Ends, trace.Closed, trace.Begins:
			if !isClient(e.Who) {
				continue
			}
			delete(hears, e.Who)
			if c := w.client(e.Who); e.Kind == trace.Ends || e.Kind == trace.Begins || c.Revision >= "2026" || c.Transport != "http" {
				delete(wants, e.Who) // else the session has the subscriptions
			}
		case trace.Updates:
			if e.Failed != "" { // no stream carries it, or it waits for one
				continue
			}
			for client, uris := range wants {
				subscribed, does := uris[e.Text]
				since := subscribed
				if open, is := hears[client]; is {
					since = max(since, open)
				} else if w.client(client).Transport == "http" {
					continue
				}
				if !does || unaware[client] || e.At < since+moment || w.troubledWithin(client, max(since, e.At-reopens), e.At+moment) || w.forgotten(client, subscribed, e.At) {
					continue
				}
				if !w.updated(client, e, i) {
					wrong(e.At, "%s is not told of %s, to which it subscribed at %.3fs", client, e.Text, since.Seconds())
				}
			}
		}
	}
}

// says reports whether a client sends something by an event of this kind, so that dragoman learns of the loss of its session.
func says(kind trace.Kind) bool {
	switch kind {
	case trace.Begins, trace.Calls, trace.Requests, trace.Subscribes, trace.Unsubscribe, trace.Replies, trace.Cancels, trace.Pinged, trace.Polls, trace.Opened:
		return true
	}
	return false
}

// aware notes that dragoman learns of the loss of the session of a client. Clients of 2026-07-28 of one user may share it.
func (w *world) aware(unaware map[string]bool, client string) {
	delete(unaware, client)
	for _, c := range w.script.Clients {
		if of := w.client(client); of.Revision >= modern && c.Revision >= modern && c.User == of.User {
			delete(unaware, c.Name)
		}
	}
}

// hesitates returns how long the server waits before it begins a standing stream that it is asked for at a time.
func (w *world) hesitates(at time.Duration) (d time.Duration) {
	for i, step := range w.stepsOf("server", "hesitate") {
		if w.all[i].At > at {
			break
		}
		d, _ = time.ParseDuration(step.Word(0))
	}
	return d
}

// updated reports whether the client is told of an update in a moment, or leaves. The server tells several streams of it, so that the client may have been
// told on the one before. If its own had just ended, dragoman says what it may have missed, without a version, when another is open.
func (w *world) updated(client string, update trace.Event, i int) bool {
	for i > 0 && w.all[i-1].At == update.At {
		i--
	}
	late, stands := update.At+moment+w.hesitates(update.At), false
	for _, e := range w.all[i:] {
		stands = stands || e.Kind == trace.Standing
		switch {
		case e.At > late:
			return false
		case e.Who != client:
		case e.Kind == trace.Updated && e.Text == update.Text && e.N == 0 && stands:
			return true
		case e.At > update.At+moment:
		case e.Kind == trace.Updated && e.Text == update.Text && e.N >= update.N || e.Kind == trace.Closed || e.Kind == trace.Leaves || e.Kind == trace.Ends || e.Kind == trace.Unsubscribe:
			return true
		}
	}
	return true // the world ends
}

// longOpen is how long a standing stream must have been open to be opened again soon, though nothing came on it: gateways end each after a while.
const longOpen = 10 * time.Second

// reopened: a standing stream that has ended for its age is opened again within a moment or two, however often that happens. One that began as the rest
// of a call's stream, of which the server knows nothing, is the client's to open again, and not for ever.
func reopened(w *world, wrong func(time.Duration, string, ...any)) {
	opened := map[int]time.Duration{}     // by connection, in sessions that the server has
	resumed := map[string]time.Duration{} // by client: when it asked for the rest of a call's stream
	for i, e := range w.all {
		at, is := opened[e.Conn]
		switch {
		case e.Kind == trace.Resumes:
			resumed[e.Who] = e.At
		case e.Kind == trace.Standing && strings.HasPrefix(e.Text, "GET after") && w.resumes(resumed, e):
			delete(opened, e.Conn)
		case e.Kind == trace.Standing:
			opened[e.Conn] = e.At
		case e.Kind == trace.Loses:
			clear(opened)
		case e.Kind != trace.Expires || !is || e.At < at+longOpen:
		case e.At+within >= w.over || w.troubledWithin("", e.At-reopens, e.At+within+w.hesitation) || w.standsOrEnds(i, e.At+within+w.hesitation):
		default:
			wrong(e.At+within, "the standing stream of session %s, open for %s, is not opened again in %v", e.Session, e.Text, within)
		}
	}
}

// resumes reports whether a client that has just asked for the rest of a call's stream has the session in which the server begins a standing stream.
func (w *world) resumes(resumed map[string]time.Duration, standing trace.Event) bool {
	return slices.ContainsFunc(w.all, func(e trace.Event) bool {
		if e.Kind != trace.Received || e.Session != standing.Session {
			return false
		}
		client, _, _ := strings.Cut(e.Mark, ".")
		at, is := resumed[client]
		return is && standing.At <= at+moment+w.hesitation
	})
}

// stands reports whether the server begins a standing stream of a session between two times.
func (w *world) stands(session string, from, to time.Duration) bool {
	return slices.ContainsFunc(w.all, func(e trace.Event) bool {
		return e.Kind == trace.Standing && e.Session == session && from <= e.At && e.At <= to
	})
}

// standsOrEnds reports whether the session of the stream that event i ends has another one by a time, or ends, or its client may have left.
func (w *world) standsOrEnds(i int, by time.Duration) bool {
	for _, e := range w.all[i+1:] {
		if e.At > by {
			return false
		}
		switch e.Kind {
		case trace.Standing, trace.Gone:
			if e.Session == w.all[i].Session {
				return true
			}
		case trace.Loses, trace.Died, trace.Leaves, trace.Ends, trace.Begins, trace.Finishes:
			return true
		}
	}
	return true
}
