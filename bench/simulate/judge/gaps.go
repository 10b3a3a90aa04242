package judge

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// gaps: a client that has subscribed to a resource is told of it when dragoman subscribes again for it, since it may have missed an update
// between the two. Looked at are resources that one client alone subscribes to, one before 2026-07-28, in front of one
// replica.
func gaps(w *world, wrong func(time.Duration, string, ...any)) {
	type watch struct {
		client string
		shared bool            // others subscribe to it, too
		wanted bool            // at present
		open   map[string]bool // the listens of 2026-07-28 at the server that have it
		gap    time.Duration   // since when the server has no subscription; -1 if it has
	}
	if w.script.Replicas > 1 {
		return
	}
	all := map[string]*watch{}
	old := map[string]bool{}
	for _, c := range w.script.Clients {
		old[c.Name] = c.Revision < modern
	}
	for i, e := range w.all {
		switch key := fmt.Sprint(e.ID, " ", e.Conn); {
		case e.Kind == trace.Subscribes:
			v := all[e.Text]
			if v == nil {
				v = &watch{client: e.Who, shared: !old[e.Who], open: map[string]bool{}}
				all[e.Text] = v
			}
			v.shared = v.shared || v.client != e.Who
			v.wanted, v.gap = true, -1
		case e.Kind == trace.Unsubscribe:
			if v := all[e.Text]; v != nil {
				v.wanted = false
			}
		case isClient(e.Who) && (e.Kind == trace.Leaves || e.Kind == trace.Ends || e.Kind == trace.Begins || e.Kind == trace.Closed):
			for _, v := range all {
				v.wanted = v.wanted && v.client != e.Who
			}
		case e.Kind == trace.Loses, e.Kind == trace.Died && strings.HasPrefix(e.Who, "server"):
			for _, v := range all {
				if e.Kind == trace.Died {
					clear(v.open) // a listen belongs to no session
				}
				if len(v.open) == 0 && v.gap < 0 {
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
				if v.wanted && !v.shared && v.gap >= 0 && !w.hindered(v.client, v.gap, w.all[open].At+moment) && !w.toldOf(v.client, uri, v.gap, open) {
					wrong(e.At, "%s is not told of %s, of which it may have missed an update since %.3fs", v.client, uri, v.gap.Seconds())
				}
				v.gap = -1
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

// hindered reports whether there was trouble for a client, other than that the server loses what it knows.
func (w *world) hindered(client string, from, to time.Duration) bool {
	for _, t := range w.troubles {
		if (t.client == "" || t.client == client) && t.from <= to && t.to >= from && (!strings.HasPrefix(t.what, "server-") || t.what == "server-slow" || t.what == "server-deaf" || t.what == "server-status") {
			return true
		}
	}
	return false
}

// toldOf reports whether a client was told of a resource from a time on until a moment after event i, or left.
func (w *world) toldOf(client, uri string, from time.Duration, i int) bool {
	for j, e := range w.all {
		if e.At < from || e.Who != client {
			continue
		}
		if e.At > w.all[i].At+moment {
			return false
		}
		if e.Kind == trace.Updated && e.Text == uri || j > i && (e.Kind == trace.Leaves || e.Kind == trace.Ends || e.Kind == trace.Closed || e.Kind == trace.Unsubscribe) {
			return true
		}
	}
	return w.over <= w.all[i].At+moment
}
