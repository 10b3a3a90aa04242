package observe

import (
	"fmt"
	"testing"
	"time"
)

// TestEndedSessionsAreRemembered, with when and why they ended, and apart from those that live.
func TestEndedSessionsAreRemembered(t *testing.T) {
	made := time.Now().Add(-time.Hour)
	p := Peers{Session: "a", Client: "cursor 0.41", ServerRevision: "2025-11-25"}
	quiet := Peers{Session: "b", Client: "quiet 1", ServerRevision: "2025-11-25"}
	r := observed(t, func(o *Observer) {
		one(o, p, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, pong)
		open := o.Begin(&p, o.Keep([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)), false)
		open.Came(Message{Edge: ClientEdge, Direction: ToServer, Copy: o.Keep([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`))})
		o.Session(Session{Peers: p, Made: made, Ended: true, Why: "the key is hunter2"})
		open.End("failed", "")
		o.Session(Session{Peers: quiet, Made: made, Ended: true, Why: "idle"}) // it had no call while it was watched
		o.Session(Session{Peers: Peers{Session: "c", Client: "c 1", ServerRevision: "2025-11-25"}})
	})
	if live := r.Totals().Sessions; len(live) != 1 || live[0].Session != "c" || live[0].Ended != "" {
		t.Errorf("those that live: %+v", live)
	}
	ended := map[string]SessionRow{}
	for _, s := range r.Ended() {
		ended[s.Session] = s
	}
	a, b := ended["a"], ended["b"]
	if len(ended) != 2 || a.Why != "the key is …" || a.Calls != 2 || a.Open != 0 || a.Errors != 1 || b.Why != "idle" || b.Calls != 0 || b.Client != "quiet 1" {
		t.Errorf("those that have ended: %+v", ended)
	}
	for _, s := range ended {
		if at, err := time.Parse(time.RFC3339, s.Ended); err != nil || time.Since(at) > time.Hour || s.Since != seconds(made) {
			t.Errorf("%+v", s)
		}
	}
}

// TestEndedSessionsAreBounded: the one that ended first is forgotten first, and before any that lives.
func TestEndedSessionsAreBounded(t *testing.T) {
	r := NewRing(plain{})
	at := time.Now()
	peers := func(name string, n int) Peers {
		return Peers{Session: fmt.Sprint(name, n), ServerRevision: "2025-11-25"}
	}
	for n := range maxSessions - maxEnded {
		r.Session(&Session{At: at, Peers: peers("live", n)})
	}
	for n := range 3 * maxEnded {
		r.Session(&Session{At: at.Add(time.Duration(n) * time.Second), Peers: peers("ended", n), Ended: true})
	}
	ended := r.Ended()
	if len(ended) != maxEnded || ended[0].Session != fmt.Sprint("ended", 3*maxEnded-1) {
		t.Errorf("%d, the newest %+v", len(ended), ended[0])
	}
	if live := r.Totals().Sessions; len(live) != maxSessions-maxEnded {
		t.Errorf("%d live", len(live))
	}
	for n := range maxEnded {
		r.Session(&Session{At: at, Peers: peers("more", n)})
	}
	if live, ended := r.Totals().Sessions, r.Ended(); len(live) != maxSessions || len(ended) != 0 {
		t.Errorf("with more that live: %d live, %d ended", len(live), len(ended))
	}
}

// TestASessionThatIsTakenUpAgainLives, for example by another process of dragoman and back.
func TestASessionThatIsTakenUpAgainLives(t *testing.T) {
	r := NewRing(plain{})
	p := Peers{Session: "a", ServerRevision: "2025-11-25"}
	for i, ended := range []bool{false, true, false} {
		r.Session(&Session{At: time.Now(), Peers: p, Ended: ended})
		if live := len(r.Totals().Sessions) == 1; live == ended || len(r.Ended()) == 1 != ended {
			t.Errorf("step %d: lives %v", i, live)
		}
	}
}

// TestARecordingSaysHowSessionsEnded, in the one list that it has.
func TestARecordingSaysHowSessionsEnded(t *testing.T) {
	r := NewPast(plain{})
	p := Peers{Session: "a", ServerRevision: "2025-11-25"}
	r.Session(&Session{At: time.Now().Add(-time.Hour), Peers: p})
	r.Session(&Session{At: time.Now(), Peers: p, Ended: true, Why: "the client left"})
	if all := r.Totals().Sessions; len(all) != 1 || all[0].Ended == "" || all[0].Why != "the client left" || len(r.Ended()) != 0 {
		t.Errorf("%+v", all)
	}
}
