package judge

import (
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// TestCallWithoutAnEnd: a call that never ends is one also where its client leaves when the world is over, but not where that leaves before.
func TestCallWithoutAnEnd(t *testing.T) {
	s := &script.Script{Replicas: 1, Server: script.Server{Transport: "http", Revision: "2025-06-18"}, Clients: []script.Client{{Name: "c1", Transport: "http", Revision: "2025-06-18"}}}
	for _, c := range []struct {
		name   string
		leaves time.Duration
		wrongs int
	}{
		{"before the calm", time.Minute, 0},
		{"at the end", time.Hour, 1},
	} {
		all := []trace.Event{
			{Who: "c1", Kind: trace.Calls, Mark: "c1.2", Method: "tools/call", ID: "3", Session: "s"},
			{Who: "server", Kind: trace.Received, Mark: "c1.2", Method: "tools/call", ID: "3", Session: "session-1"},
		}
		leaves, calm := trace.Event{At: c.leaves, Who: "c1", Kind: trace.Leaves, Session: "s"}, trace.Event{At: 30 * time.Minute, Kind: trace.Calm}
		if leaves.At < calm.At {
			all = append(all, leaves, calm)
		} else {
			all = append(all, calm, leaves)
		}
		wrongs := 0
		for _, v := range Judge(s, append(all, trace.Event{At: time.Hour, Kind: trace.Over})).Violations {
			if v.Law == "ends" {
				wrongs++
			}
		}
		if wrongs != c.wrongs {
			t.Errorf("the client leaves %s: %d violations, want %d", c.name, wrongs, c.wrongs)
		}
	}
}

// TestGateAtALostSession: what a gate asks may be refused since its session is lost, and waits then until the replicas agree at a slow store.
func TestGateAtALostSession(t *testing.T) {
	s := &script.Script{
		Replicas: 2, Store: true, Server: script.Server{Transport: "http", Revision: "2025-06-18"},
		Clients: []script.Client{{Name: "c1", Transport: "http", Revision: "2025-06-18"}}, Settings: []string{"gates: [{tool: act, params: [extra], source: kinds}]"},
	}
	const sent = time.Minute
	for _, c := range []struct {
		name   string
		lost   string
		after  time.Duration
		wrongs int
	}{
		{"a lost session", "404", 1500 * time.Millisecond, 0},
		{"a lost session, for long", "404", 4 * time.Second, 1},
		{"a session that is there", "", 1500 * time.Millisecond, 1},
	} {
		wrongs := 0
		for _, v := range Judge(s, []trace.Event{
			{Kind: trace.Step, Text: "operator store slow 150ms"},
			{At: sent, Who: "c1", Kind: trace.Calls, Mark: "c1.2", Method: "tools/call", ID: "3", Session: "s", Text: "kind=shut"},
			{At: sent, Who: "server", Kind: trace.Answers, Method: "tools/call", ID: `"own"`, Session: "session-1", Failed: c.lost},
			{At: sent + c.after, Who: "c1", Kind: trace.Answered, Mark: "c1.2", Method: "tools/call", ID: "3", Session: "s", Failed: "tool no_extra"},
			{At: time.Hour, Kind: trace.Over},
		}).Violations {
			if v.Law == "ends" {
				wrongs++
			}
		}
		if wrongs != c.wrongs {
			t.Errorf("%s: %d violations, want %d", c.name, wrongs, c.wrongs)
		}
	}
}
