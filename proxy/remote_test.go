package proxy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/peertest"
)

// notFound is the response of most servers to a request of a session that they have lost.
const notFound = `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`

const (
	echoCall    = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"}}`
	echoAnswer  = `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"echo"}]}}`
	debugLevel  = `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`
	subscribeTo = `{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":%q}}`
)

const introduction = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true},"elicitation":{}},"clientInfo":{"name":"c","title":"C","version":"1"}}}`

// settled begins a session, and sends the messages that a new server session needs again.
func settled(t *testing.T, srv testServer) (session string) {
	t.Helper()
	session = srv.post("", introduction).header["Mcp-Session-Id"]
	for _, m := range []string{initializedNotice, debugLevel, fmt.Sprintf(subscribeTo, 3, "file:///a"), fmt.Sprintf(subscribeTo, 4, "file:///b"), fmt.Sprintf(subscribeTo, 5, "file:///c"),
		`{"jsonrpc":"2.0","id":6,"method":"resources/unsubscribe","params":{"uri":"file:///c"}}`} {
		if r := srv.post(session, m); r.status >= 300 {
			t.Fatalf("%s: %+v", m, r)
		}
	}
	return session
}

// TestALostSessionIsBegunAgain: the client does not notice.
func TestALostSessionIsBegunAgain(t *testing.T) {
	for _, c := range []struct {
		who, words string
		status     int
	}{
		{"TypeScript SDK", `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`, 404},
		{"server-everything", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":7}`, 400},
		{"TypeScript SDK, a transport that was not initialized", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`, 400},
		{"Go SDK", "session not found\n", 404},
		{"mcp-go", "Invalid session ID\n", 400},
		{"Rust SDK", "Unauthorized: Session not found", 401},
		{"no words", "", 404},
	} {
		t.Run(c.who, func(t *testing.T) {
			f := newForgetful(t, peertest.HTTP, c.status, c.words)
			srv := severalOf(t, f, 1)[0]
			session := settled(t, srv)
			other := srv.initialize("2025-06-18")
			f.Crash()
			sameJSON(t, srv.post(session, echoCall).body, echoAnswer)
			if len(f.Opened()) != 3 {
				t.Errorf("%d sessions begun", len(f.Opened()))
			}
			s := f.last()
			sameJSON(t, `{"p":`+gjson.Get(s.hello, "params").Raw+`}`, `{"p":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"elicitation":{}},"clientInfo":{"name":"c","title":"C","version":"1"}}}`)
			if s.initialized != 1 || s.level != "debug" || !slices.Equal(slices.Sorted(slices.Values(s.subscribed)), []string{"file:///a", "file:///b"}) {
				t.Errorf("restored: %+v", s)
			}
			sameJSON(t, srv.post(session, echoCall).body, echoAnswer)
			if f.ran("7") != 2 || len(f.Opened()) != 3 {
				t.Errorf("ran %d times in %d sessions", f.ran("7"), len(f.Opened()))
			}
			sameJSON(t, srv.post(other, echoCall).body, echoAnswer)
			if len(f.Opened()) != 4 {
				t.Errorf("%d sessions begun", len(f.Opened()))
			}
		})
	}
}

// TestOtherRefusalsAreNoLostSession: they are passed to the client.
func TestOtherRefusalsAreNoLostSession(t *testing.T) {
	for _, c := range []struct {
		status int
		words  string
	}{{400, `{"jsonrpc":"2.0","error":{"code":-32602,"message":"bad"},"id":7}`}, {401, "who are you"}, {403, "Session not found"}, {429, ""}, {503, "session not found"}} {
		f := newForgetful(t, peertest.HTTP, c.status, c.words)
		srv := severalOf(t, f, 1)[0]
		session := settled(t, srv)
		f.Crash()
		if r := srv.post(session, echoCall); gjson.Get(r.body, "error").Raw == "" {
			t.Errorf("%+v: %+v", c, r)
		}
		if len(f.Opened()) != 1 {
			t.Errorf("%+v: %d sessions begun", c, len(f.Opened()))
		}
	}
}

// TestManyCallsOfALostSessionBeginOne session, and so do messages without a response.
func TestManyCallsOfALostSessionBeginOne(t *testing.T) {
	f := newForgetful(t, peertest.HTTP, 404, notFound)
	srv := severalOf(t, f, 1)[0]
	session := settled(t, srv)
	for round := range 3 {
		f.Crash()
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				if i%4 == 0 {
					if r := srv.post(session, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`); r.status != 202 {
						t.Errorf("%+v", r)
					}
					return
				}
				id := fmt.Sprint(round*100 + i)
				r := srv.post(session, strings.Replace(echoCall, `"id":7`, `"id":`+id, 1))
				if gjson.Get(r.body, "result.content.0.text").String() != "echo" || gjson.Get(r.body, "id").Raw != id {
					t.Errorf("%+v", r)
				}
			})
		}
		wg.Wait()
		if len(f.Opened()) != round+2 {
			t.Fatalf("%d sessions begun, round %d", len(f.Opened()), round)
		}
	}
	for _, m := range f.Of("tools/call") {
		if id := gjson.Get(m.Text, "id").Raw; m.Session != "" && f.ran(id) != 1 {
			t.Errorf("call %s ran %d times", id, f.ran(id))
		}
	}
}

// TestAServerThatRefusesAnotherSession: only then does the client learn that its session is lost.
func TestAServerThatRefusesAnotherSession(t *testing.T) {
	f := newForgetful(t, peertest.HTTP, 404, notFound)
	srv := severalOf(t, f, 1)[0]
	session := settled(t, srv)
	f.Crash()
	f.refuses.Store(true)
	for range 2 {
		if r := srv.post(session, echoCall); r.status != 404 || gjson.Get(r.body, "id").Raw != "7" {
			t.Errorf("%+v", r)
		}
		f.refuses.Store(false) // the id stays invalid
	}
}

// TestAnEndedSessionIsNotBegunAgain: the client has ended it.
func TestAnEndedSessionIsNotBegunAgain(t *testing.T) {
	for name, forgotten := range map[string]bool{"known to the server": false, "lost before": true} {
		t.Run(name, func(t *testing.T) {
			f := newForgetful(t, peertest.HTTP, 404, notFound)
			srv := severalOf(t, f, 1)[0]
			session := settled(t, srv)
			if forgotten {
				f.Crash()
			}
			srv.exchange(t.Context(), "DELETE", session, "")
			if r := srv.post(session, echoCall); r.status != 404 || len(f.Opened()) != 1 {
				t.Errorf("%+v, %d sessions", r, len(f.Opened()))
			}
		})
	}
}

// TestAnotherReplicaBeginsALostSession with what the session id contains.
func TestAnotherReplicaBeginsALostSession(t *testing.T) {
	f := newForgetful(t, peertest.HTTP, 404, notFound)
	two := severalOf(t, f, 2)
	session := settled(t, two[0])
	f.Crash()
	sameJSON(t, two[1].post(session, echoCall).body, echoAnswer)
	s := f.last()
	sameJSON(t, `{"p":`+gjson.Get(s.hello, "params").Raw+`}`, `{"p":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"elicitation":{}},"clientInfo":{"name":"c","title":"C","version":"1"}}}`)
	if s.initialized != 1 || s.level != "" || two[1].logs.FilterMessageSnippet("not restored").Len() != 1 {
		t.Errorf("%+v, %v", s, two[1].logs.All())
	}
}

// TestACallInFlightFailsWithAReasonWhenItsSessionIsLost; the session continues.
func TestACallInFlightFailsWithAReasonWhenItsSessionIsLost(t *testing.T) {
	f := newForgetful(t, peertest.HTTP, 404, notFound)
	srv := severalOf(t, f, 1)[0]
	session := settled(t, srv)
	c := srv.open("POST", session, strings.Replace(echoCall, "echo", "hang", 1))
	defer c.leaves()
	if got := string(c.next().Data); !strings.Contains(got, "begun") {
		t.Fatal(got)
	}
	f.Crash()
	got := string(c.next().Data)
	if gjson.Get(got, "id").Raw != "7" || gjson.Get(got, "error.message").String() == "" {
		t.Error(got)
	}
	sameJSON(t, srv.post(session, strings.Replace(echoCall, `"id":7`, `"id":8`, 1)).body, strings.Replace(echoAnswer, `"id":7`, `"id":8`, 1))
}

// TestTheStandingStreamOutlivesALostSession, and tells that lists, and resources with a subscription, may have changed.
func TestTheStandingStreamOutlivesALostSession(t *testing.T) {
	f := newForgetful(t, peertest.HTTP, 404, notFound)
	srv := severalOf(t, f, 1)[0]
	session := settled(t, srv)
	c := srv.open("GET", session, "")
	defer c.leaves()
	const updated = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a"}}`
	tell := func() { f.Opened()[len(f.Opened())-1].Say(updated) }
	tell()
	sameJSON(t, string(c.next().Data), updated)
	for range 2 {
		f.Crash() // no other request is sent: the stream itself shows that the session is lost
		var seen []string
		for range 4 {
			seen = append(seen, string(c.next().Data))
		}
		slices.Sort(seen)
		want := []string{`{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`, updated, strings.Replace(updated, "///a", "///b", 1), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}
		if !slices.Equal(seen, want) {
			t.Errorf("got %q, want %q", seen, want)
		}
		tell()
		sameJSON(t, string(c.next().Data), updated)
	}
	if len(f.Opened()) != 3 {
		t.Errorf("%d sessions", len(f.Opened()))
	}
}

// TestAPipeOutlivesALostSession: the shim keeps working.
func TestAPipeOutlivesALostSession(t *testing.T) {
	f := newForgetful(t, peertest.HTTP, 404, notFound)
	srv := severalOf(t, f, 1)[0]
	c := srv.pipe()
	c.say(introduction)
	c.hear()
	c.say(initializedNotice, debugLevel)
	c.hear()
	eventually(t, "listening", func() bool { return f.last().initialized == 1 })
	for range 2 {
		f.Crash()
		c.say(echoCall)
		for heard := map[string]int{}; heard["answer"] != 1 || heard["changed"] != 2; {
			switch m := c.hear(); {
			case gjson.Get(m, "id").Raw == "7":
				sameJSON(t, m, echoAnswer)
				heard["answer"]++
			case strings.HasSuffix(gjson.Get(m, "method").String(), "list_changed"):
				heard["changed"]++
			default:
				t.Fatal(m)
			}
		}
	}
	if s := f.last(); s.level != "debug" || len(f.Opened()) != 3 {
		t.Errorf("%+v, %d sessions", s, len(f.Opened()))
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// TestAServerThatIsAwayForAWhile: calls fail in the meantime, and the session continues.
func TestAServerThatIsAwayForAWhile(t *testing.T) {
	f := newForgetful(t, peertest.HTTP, 404, notFound)
	srv := severalOf(t, f, 1)[0]
	session := settled(t, srv)
	f.Crash()
	f.Away(503)
	if r := srv.post(session, echoCall); gjson.Get(r.body, "error").Raw == "" || r.status == 404 {
		t.Errorf("%+v", r)
	}
	f.Away(0)
	sameJSON(t, srv.post(session, echoCall).body, echoAnswer)
}
