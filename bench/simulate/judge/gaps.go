package judge

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// gaps: a client that has subscribed to a resource is told of it when dragoman subscribes again for it, since it may have missed an update
// between the two. Looked at are resources that one client alone subscribes to, one before 2026-07-28 that has a standing stream, in front of
// one replica.
func gaps(w *world, wrong func(time.Duration, string, ...any)) {
	type watch struct {
		client string
		shared bool            // others subscribe to it, too
		wanted bool            // at present
		had    bool            // the server has had a subscription since it is wanted
		open   map[string]bool // the listens of 2026-07-28 at the server that have it
		gap    time.Duration   // since when the server has no subscription; -1 if it has
	}
	if w.script.Replicas > 1 {
		return
	}
	all := map[string]*watch{}
	hears, away := map[string]bool{}, map[string]bool{} // clients with a standing stream; those that have none on which they could be told
	for _, c := range w.script.Clients {
		hears[c.Name] = c.Revision < modern && !c.Without("stream")
	}
	for i, e := range w.all {
		if e.Kind == trace.Leaves || e.Kind == trace.Opened {
			away[e.Who] = e.Kind == trace.Leaves
		}
		switch key := fmt.Sprint(e.ID, " ", e.Conn); {
		case e.Kind == trace.Subscribes:
			v := all[e.Text]
			if v == nil {
				v = &watch{client: e.Who, shared: !hears[e.Who], open: map[string]bool{}}
				all[e.Text] = v
			}
			v.shared = v.shared || v.client != e.Who
			v.wanted, v.gap = !away[e.Who], -1
		case e.Kind == trace.Unsubscribe:
			if v := all[e.Text]; v != nil {
				v.wanted, v.had = false, false
			}
		case isClient(e.Who) && (e.Kind == trace.Leaves || e.Kind == trace.Ends || e.Kind == trace.Begins || e.Kind == trace.Closed):
			for _, v := range all {
				v.wanted, v.had = v.wanted && v.client != e.Who, v.had && v.client != e.Who
			}
		case e.Kind == trace.Loses, e.Kind == trace.Died && strings.HasPrefix(e.Who, "server"):
			for _, v := range all {
				if e.Kind == trace.Died {
					clear(v.open) // a listen belongs to no session
				}
				if v.had && len(v.open) == 0 && v.gap < 0 {
					v.gap = e.At
				}
			}
		case (e.Kind == trace.Answers || e.Kind == trace.Stopped) && e.Method == "subscriptions/listen":
			for _, v := range all {
				if delete(v.open, key); len(v.open) == 0 && v.gap < 0 {
					v.gap = e.At
				}
			}
		case e.Kind == trace.Received && e.Method == "resources/subscribe", e.Kind == trace.Standing && e.Method == "subscriptions/listen":
			for uri, v := range all {
				if !bytes.Contains(append([]byte(e.Text), e.Raw...), []byte(`"`+uri+`"`)) {
					continue
				}
				if e.Kind == trace.Standing {
					v.open[key] = true
				}
				open := w.carries(i)
				if open < 0 {
					continue // it is lost before: the gap goes on
				}
				if v.wanted && !v.shared && v.gap >= 0 && (w.client(v.client).Transport != "http" || w.hears(v.client, w.all[open].At)) && !w.hindered(v.client, v.gap, w.all[open].At+moment) && !w.toldOf(v.client, uri, v.gap, i, open) {
					wrong(e.At, "%s is not told of %s, of which it may have missed an update since %.3fs", v.client, uri, v.gap.Seconds())
				}
				v.gap, v.had = -1, v.wanted
			}
		}
	}
}

// carries returns the event from which on a stream carries updates in the session in which event i subscribes: before, the client is not
// told. It is negative if the session ends before.
func (w *world) carries(i int) int {
	session := w.all[i].Session
	for _, e := range w.all[:i+1] {
		if e.Kind == trace.Standing && e.Session == session {
			return i
		}
	}
	for j, e := range w.all[i:] {
		switch {
		case e.Kind == trace.Standing && e.Session == session:
			return i + j
		case e.Kind == trace.Loses, e.Kind == trace.Died && e.Who == w.all[i].Who, e.Kind == trace.Gone && e.Session == session:
			return -1
		}
	}
	return -1
}

// listening is which clients before 2026-07-28 listen, and may expect what the server says to all.
type listening struct {
	w      *world
	since  map[string]time.Duration // since when a stream of the client is open, or on stdio and HTTP+SSE its session is there
	broken time.Duration            // when the server has closed streams, or lost sessions, of which dragoman learns later
}

func (w *world) listening() *listening {
	return &listening{w: w, since: map[string]time.Duration{}, broken: -time.Hour}
}

// read takes what happens next.
func (l *listening) read(e trace.Event) {
	switch {
	case e.Kind == trace.Opened && l.w.client(e.Who).Transport == "http", e.Kind == trace.Began && l.w.client(e.Who).Transport != "http":
		if l.w.client(e.Who).Revision < modern {
			l.since[e.Who] = e.At
		}
	case isClient(e.Who) && (e.Kind == trace.Leaves || e.Kind == trace.Closed || e.Kind == trace.Ends || e.Kind == trace.Begins || e.Kind == trace.Finishes):
		delete(l.since, e.Who)
	case e.Kind == trace.Loses && e.Text != "":
		l.broken = time.Duration(1<<63 - 1) // until the next request
	case e.Kind == trace.Step && e.Text == "server closestreams":
		l.broken = max(l.broken, e.At)
	case e.Kind == trace.Expires:
		l.broken = max(l.broken, e.At+within-reopens)
	}
}

const (
	reopens = 40 * time.Second // after some trouble all is opened again within 30 s
	within  = 2 * time.Second  // a standing stream that was open for longOpen is opened again, and one that was not may take longer
)

// surely reports whether a client has listened long enough, since the last trouble, to be told of what the server says at a time.
func (l *listening) surely(client string, at time.Duration) bool {
	since, does := l.since[client]
	return does && at >= since+moment && at-reopens > l.broken && !l.w.troubledWithin(client, max(since-moment, at-reopens), at+moment)
}

// known: where a client has subscribed to a resource and listens, the server knows of a subscription to it. Looked at are clients before
// 2026-07-28, and updates of which the server tells none.
func known(w *world, wrong func(time.Duration, string, ...any)) {
	asks := map[string]trace.Event{}               // by client and id: requests to subscribe
	wants := map[string]map[string]time.Duration{} // by client and URI: since when
	l := w.listening()
	for i, e := range w.all {
		l.read(e)
		switch {
		case e.Kind == trace.Subscribes && w.client(e.Who).Revision < modern:
			asks[e.Who+" "+e.ID] = e
		case e.Kind == trace.Answered && e.Failed == "" && e.Method == "resources/subscribe":
			if wants[e.Who] == nil {
				wants[e.Who] = map[string]time.Duration{}
			}
			wants[e.Who][asks[e.Who+" "+e.ID].Text] = e.At
			delete(asks, e.Who+" "+e.ID)
		case e.Kind == trace.Unsubscribe:
			delete(wants[e.Who], e.Text)
			maps.DeleteFunc(asks, func(_ string, a trace.Event) bool { return a.Who == e.Who && a.Text == e.Text }) // its answer may come late
		case isClient(e.Who) && (e.Kind == trace.Ends || e.Kind == trace.Begins):
			delete(wants, e.Who)
		case e.Kind == trace.Step && strings.HasPrefix(e.Text, "server update "):
			uri, _, _ := strings.Cut(strings.TrimPrefix(e.Text, "server update "), " ")
			if w.tells(uri, i) {
				continue
			}
			for client, uris := range wants {
				if since, does := uris[uri]; does && e.At >= since+moment && l.surely(client, e.At) && !w.troubledWithin(client, since, since) && !w.forgotten(client, since, e.At) {
					wrong(e.At, "the server knows of no subscription to %s, of which %s has one since %.3fs", uri, client, since.Seconds())
				}
			}
		}
	}
}

// announcements: what the server says to all, and no revision knows, reaches the clients that listen.
func announcements(w *world, wrong func(time.Duration, string, ...any)) {
	if w.script.Has("upstream.share_child:") { // it may be about one of those that share the process
		return
	}
	l, judged := w.listening(), 0
	for i, e := range w.all {
		if l.read(e); e.Kind != trace.Changes || e.N <= judged {
			continue
		}
		judged = e.N
		for client := range l.since {
			if l.surely(client, e.At) && !w.ungranted(e.At) && !w.announced(client, i) {
				wrong(e.At, "announcement %d of the server does not reach %s", e.N, client)
			}
		}
	}
}

// announced reports whether the announcement that is event i reaches a client in a moment, or the client leaves.
func (w *world) announced(client string, i int) bool {
	for _, e := range w.all[i:] {
		switch {
		case e.At > w.all[i].At+moment:
			return false
		case e.Who != client:
		case e.Kind == trace.Changed && e.N == w.all[i].N, e.Kind == trace.Leaves, e.Kind == trace.Ends, e.Kind == trace.Closed:
			return true
		}
	}
	return true // the world ends
}

// tells reports whether the server tells a subscription of the update of a resource that is event i.
func (w *world) tells(uri string, i int) bool {
	for _, e := range w.all[i:] {
		if e.At > w.all[i].At {
			return false
		}
		if e.Kind == trace.Updates && e.Text == uri {
			return true
		}
	}
	return false
}

// resumed: a stream that the server has closed goes on behind its last event, where dragoman itself opens it again. Looked at are worlds in
// which that is so of all streams.
func resumed(w *world, wrong func(time.Duration, string, ...any)) {
	type standing struct {
		conn   int
		event  time.Duration // of the last event; -1 for none
		closed bool          // by the server
	}
	for _, c := range w.script.Clients {
		if c.Transport == "http" && c.Revision < modern {
			return
		}
	}
	all := map[string]*standing{}
	for _, e := range w.all {
		st := all[e.Session]
		switch {
		case e.Kind == trace.Standing && e.Method == "" && w.script.Server.Transport == "http":
			if st == nil {
				st = &standing{event: -1}
				all[e.Session] = st
			}
			if e.Text == "GET" && st.closed && st.event >= 0 && !w.troubledWithin("", st.event, e.At) {
				wrong(e.At, "the stream of session %s, which has an event since %.3fs, is opened anew", e.Session, st.event.Seconds())
			}
			if st.conn, st.closed = e.Conn, false; w.primes() {
				st.event = e.At
			}
		case e.Kind == trace.Step && e.Text == "server closestreams":
			for _, st := range all {
				st.closed = true
			}
		case e.Kind == trace.Expires && st != nil && st.conn == e.Conn:
			st.closed = true
		case st != nil && !isClient(e.Who) && e.Conn == st.conn && e.Failed == "":
			switch e.Kind {
			case trace.Pings, trace.Logs, trace.Updates, trace.Changes, trace.Asks:
				st.event = e.At
			}
		}
	}
}

// hindered reports whether there was trouble for a client, other than that the server loses what it knows.
func (w *world) hindered(client string, from, to time.Duration) bool {
	for _, t := range w.troubles {
		if (t.client == "" || t.client == client) && t.from <= to && t.to >= from && (!strings.HasPrefix(t.what, "server-") || t.what == "server-slow" || t.what == "server-deaf" || t.what == "server-status") {
			return true
		}
	}
	return false
}

// toldOf reports whether a client was told of a resource from a time on until a moment after event open, or left behind event i, in which
// the server has the subscription again. It is told when the server has granted a standing stream.
func (w *world) toldOf(client, uri string, from time.Duration, i, open int) bool {
	until := w.all[open].At + moment
	if slow := w.hesitation; slow > 0 {
		until += 2 * (slow + moment) // it may have been asked for the stream in the session before
	}
	for j, e := range w.all {
		if e.At < from || e.Who != client {
			continue
		}
		if e.At > until {
			return false
		}
		if e.Kind == trace.Updated && e.Text == uri || j > i && (e.Kind == trace.Leaves || e.Kind == trace.Ends || e.Kind == trace.Closed || e.Kind == trace.Unsubscribe && e.Text == uri) {
			return true
		}
	}
	return w.over <= until
}
