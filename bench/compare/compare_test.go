package main

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/translate"
)

// start runs a role inside the test.
func start(t *testing.T, role, upstream string) (url string) {
	t.Helper()
	testset.Need(t, testset.Measurements)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- roles()[role](ctx, ln, upstream) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", role, err)
		}
	})
	return "http://" + ln.Addr().String() + "/mcp"
}

func TestEveryCallIsAnsweredOnEveryWay(t *testing.T) {
	server := start(t, "server", "")
	work, err := works()
	if err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{direct: server, bare: start(t, bare, server), standard: start(t, standard, server)} {
		w := &way{name: name, url: url, speaks: translate.Oldest()}
		for i := range work {
			var c cell
			if err := c.turn(t.Context(), w, &work[i], 2, time.Millisecond); err != nil {
				t.Fatalf("%s, %s: %v", name, work[i].name, err)
			}
			if c.calls < 2 || c.latency.Total() != uint64(c.calls) || c.wall <= 0 {
				t.Errorf("%s, %s: %d calls, %d counted, in %v", name, work[i].name, c.calls, c.latency.Total(), c.wall)
			}
		}
	}
}

func TestAnOpenLoopMakesTheCallsThatAreDue(t *testing.T) {
	server := start(t, "server", "")
	work, err := works()
	if err != nil {
		t.Fatal(err)
	}
	c := cell{rate: 500}
	if err := c.turn(t.Context(), &way{name: direct, url: server, speaks: translate.Oldest()}, &work[small], 2, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if c.calls+c.missed != 10 || c.latency.Total() != 10 {
		t.Errorf("%d calls and %d missed, %d measured, want the 10 that were due", c.calls, c.missed, c.latency.Total())
	}
}

func TestClientsOfTheNewestRevisionCallWithoutASession(t *testing.T) {
	server := start(t, "modern", "")
	work, err := works()
	if err != nil {
		t.Fatal(err)
	}
	w := &way{url: server, server: server, speaks: translate.Lookup(translate.Modern())}
	perCall, err := w.requestsPerCall(&work[small])
	if err != nil {
		t.Fatal(err)
	}
	if perCall != 1 {
		t.Errorf("%v requests for each call, want 1", perCall)
	}
	w.speaks = translate.Oldest()
	if c, err := dial(w); err == nil {
		c.conn.Close()
		t.Error("a server without a handshake took one")
	}
}

func TestAnUnexpectedAnswerIsAnError(t *testing.T) {
	work, err := works()
	if err != nil {
		t.Fatal(err)
	}
	c, err := dial(&way{url: start(t, "server", ""), speaks: translate.Oldest()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.conn.Close()
	other := work[small]
	other.answer = work[large].answer
	if _, err := c.warm(&other, c.wrap(work[small].request)); err == nil {
		t.Error("a small answer passed for a large one")
	}
	if err := c.call(c.wrap(work[small].request), len(work[small].answer)+1); err == nil {
		t.Error("an answer of another length was counted")
	}
}

func TestGoalsHaveThreeVerdicts(t *testing.T) {
	for got, want := range map[float64]string{1: "reached", 1.5: "within the limit", 2.5: "MISSED"} {
		if line := (goal{"x", got, 1, 2}).String(); !strings.HasSuffix(line, want) {
			t.Errorf("%v: %q, want %s", got, line, want)
		}
	}
}

// TestCollectorTakesWhatItIsSent: spans are not decoded, since only dragoman is measured.
func TestCollectorTakesWhatItIsSent(t *testing.T) {
	resp, err := http.Post(start(t, "collector", ""), "application/x-protobuf", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
}

// TestBalancerSendsEachRequestElsewhere checks that a session that one server has is unknown at the other: the requests
// of a client go to both in turn.
func TestBalancerSendsEachRequestElsewhere(t *testing.T) {
	server := start(t, "modern", "")
	counts := func(backend string) int64 {
		n, err := (&way{server: backend}).counted()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	other := start(t, "modern", "")
	work, err := works()
	if err != nil {
		t.Fatal(err)
	}
	c, err := dial(&way{url: start(t, "balancer", server+","+other), speaks: translate.Lookup(translate.Modern())})
	if err != nil {
		t.Fatal(err)
	}
	defer c.conn.Close()
	for range 10 {
		if err := c.do(c.wrap(work[small].request)); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := counts(server), counts(other); a != 5 || b != 5 {
		t.Errorf("the servers got %d and %d of 10 requests", a, b)
	}
}
