package judge

import (
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// TestCancellationThatOvertakesItsCall: a cancellation that comes to dragoman before its call goes to the server, where that is no fault
// only if the call goes to an adapter's API behind it.
func TestCancellationThatOvertakesItsCall(t *testing.T) {
	s := &script.Script{Replicas: 1, Server: script.Server{Transport: "http", Revision: "2025-03-26"}, Clients: []script.Client{{Name: "c1", Transport: "http", Revision: "2025-06-18"}}}
	for _, c := range []struct {
		name   string
		api    trace.Event
		wrongs int
	}{
		{"behind it", trace.Event{At: 2, Who: "api", Kind: trace.Received, Mark: "c1.2", Method: "POST"}, 0},
		{"before it", trace.Event{At: 0, Who: "api", Kind: trace.Received, Mark: "c1.2", Method: "POST"}, 1},
		{"not", trace.Event{At: 2, Who: "c1", Kind: trace.Note}, 1},
	} {
		wrongs := 0
		for _, v := range Judge(s, []trace.Event{
			{Who: "c1", Kind: trace.Calls, Mark: "c1.2", Method: "tools/call", ID: "3", Session: "s"},
			c.api,
			{At: 1, Who: "c1", Kind: trace.Cancels, Mark: "c1.2", Method: "tools/call", ID: "3", Session: "s"},
			{At: 1, Who: "server", Kind: trace.Stopped, Method: "notifications/cancelled", ID: "3", Session: "session-1", Failed: "unknown"},
			{At: 3, Who: "api", Kind: trace.Stopped, Mark: "c1.2"},
			{At: 2 * time.Second, Kind: trace.Note},
			{At: 2 * time.Second, Kind: trace.Over},
		}).Violations {
			if v.Law == "cancel" {
				wrongs++
			}
		}
		if wrongs != c.wrongs {
			t.Errorf("the call comes to the API %s: %d violations, want %d", c.name, wrongs, c.wrongs)
		}
	}
}
