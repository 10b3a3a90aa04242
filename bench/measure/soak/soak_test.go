package soak

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// TestScriptsArePlayedOnRealSockets plays a script with a server of the newest revision, and no proxy between them.
func TestScriptsArePlayedOnRealSockets(t *testing.T) {
	played, err := script.Parse("world seed=1 replicas=1 store=false portable=false\nserver http 2026-07-28\nclient c1 http 2026-07-28\n" +
		"client c2 http 2026-07-28\nsteps\nc1 call 1 how=sse progress=2\nc2 call 1 ask=elicit\nserver log 1\nwait 2s\n")
	if err != nil {
		t.Fatal(err)
	}
	s, err := startServer("2026-07-28")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	l := &load{addrs: []string{s.addr}, server: s, modern: true}
	if l.playOne(t.Context(), played); l.err() != nil || l.good.Load() < 6 {
		t.Errorf("%d of %d calls were answered: %v", l.good.Load(), l.calls.Load(), l.err())
	}
}

func TestFaultsAreNoticed(t *testing.T) {
	for what, e := range map[string]trace.Event{
		"the answer of another call": {Kind: trace.Answered, Mark: "c1.7", Raw: []byte(`{"result":"c2.9 done 1"}`)},
		"gets no answer at the end":  {Kind: trace.Answered, Mark: "c1.998", Failed: "-32603"},
		"0 of 2 calls":               {Kind: trace.Calls, Mark: "c1.1"},
	} {
		l := &load{}
		l.judge(t.Context(), []trace.Event{{Kind: trace.Calls, Mark: "c1.999"}, e}, time.Now(), map[string]string{"c1": "c1"})
		if err := l.err(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := (&subject{before: sample{20, 30, 10, 0}, last: sample{40, 90, 12, 0}}).leftover(); err == nil || !strings.Contains(err.Error(), "goroutines: 30.0 before the load, 90.0 after") || strings.Contains(err.Error(), "files") {
		t.Error(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	l := &load{}
	if l.judge(over, nil, time.Now(), map[string]string{"c1": "c1"}); len(l.errs) > 0 {
		t.Errorf("the end of a run is an error: %v", l.errs)
	}
}
