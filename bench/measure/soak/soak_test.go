package soak

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/bench/measure/load"
)

// newVisitor returns a client of a server, with no proxy between them.
func newVisitor(t *testing.T, h http.Handler) *visitor {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return &visitor{Tally: &load.Tally{}, http: s.Client(), urls: []string{s.URL}, session: "s", user: "u", rand: rand.New(rand.NewPCG(1, 1))}
}

func TestGoodCallsAreAnsweredAndOthersAreNot(t *testing.T) {
	for tool, good := range map[string]int{echo: 1, events: 1, lie: 0, cut: 0} {
		v := newVisitor(t, &server{})
		if v.behave(t.Context(), tool); v.Done("") != good || (v.Err() == nil) != (good == 1) {
			t.Errorf("%s: %s", tool, v)
		}
	}
}

func TestAnswerOfAnotherCallIsAFailure(t *testing.T) {
	v := newVisitor(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, (&server{}).saying(request{id: "1"}, "s 99"))
	}))
	if v.behave(t.Context(), echo); v.Err() == nil || !strings.Contains(v.Err().Error(), "the answer of another call") {
		t.Error(v)
	}
	if (&subject{visitor: v}).judge() == nil {
		t.Error("a run without samples passed")
	}
}

func TestClientsAnswerQuestions(t *testing.T) {
	for what, v := range map[string]*visitor{"asked in a session": newVisitor(t, &server{}), "answered at any replica": newVisitor(t, &server{modern: true})} {
		v.modern = strings.Contains(what, "replica")
		for range 12 {
			if v.modern {
				v.converse(t.Context())
			} else {
				v.host(t.Context())
			}
		}
		if v.Done(what) == 0 {
			t.Error(v)
		}
	}
}

func TestPipeServerEndsWithACutAnswer(t *testing.T) {
	v := newVisitor(t, &server{})
	in := strings.Join([]string{v.call(echo).body, v.call(events).body, v.call(hang).body, v.call(cut).body, v.call(echo).body}, "\n")
	var out strings.Builder
	if err := ServePipe(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 4 || !strings.Contains(lines[0], `"u s 1"`) || lines[1] != changed || !strings.Contains(lines[2], `"u s 2"`) || len(lines[3]) != 20 {
		t.Errorf("%q", lines)
	}
}
