package tests

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// notFound is the response of most servers to a request of a session that they have lost.
const notFound = `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`

// towerLost and wikiLost are those of servers that answer 200.
const (
	towerLost = `{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"Session 'SESSION' not found or expired. Please re-initialize the connection."}}`
	wikiLost  = `{"jsonrpc":"2.0","id":"ID","error":{"code":-32600,"message":"missing or invalid Mcp-Session-Id"}}`
)

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
		{"argocd-mcp", `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Invalid or expired session ID: SESSION"},"id":"ID"}`, 400},
		{"tower-mcp", towerLost, 200},
		{"Onyx agent-wiki", wikiLost, 200},
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
	for status, words := range map[int]string{404: notFound, 200: towerLost} {
		manyCallsOfALostSession(t, newForgetful(t, peertest.HTTP, status, words))
	}
}

func manyCallsOfALostSession(t *testing.T, f *forgetful) {
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
	for status, words := range map[int]string{404: notFound, 200: towerLost} {
		bubble(t, func(t *testing.T) { standingStreamOfALostSession(t, newForgetful(t, peertest.HTTP, status, words)) })
	}
}

func standingStreamOfALostSession(t *testing.T, f *forgetful) {
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
	for status, words := range map[int]string{404: notFound, 200: wikiLost} {
		pipeOfALostSession(t, newForgetful(t, peertest.HTTP, status, words))
	}
}

func pipeOfALostSession(t *testing.T, f *forgetful) {
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

// TestErrorsThatLookLikeALostSession reach the client as they came: no other session begins, and nothing is sent again.
func TestErrorsThatLookLikeALostSession(t *testing.T) {
	const (
		fault  = `"error":{"code":-32600,"message":"missing or invalid Mcp-Session-Id"}`
		result = `"result":{"content":[{"type":"text","text":"missing or invalid Mcp-Session-Id"}],"isError":true}`
		pong   = `"result":{}`
	)
	tower := func(session string) string {
		return `"error":{"code":-32005,"message":"Session '` + session + `' not found or expired. Please re-initialize the connection."}`
	}
	for _, c := range []struct {
		name, call, ping string
		id               string // of the answer to the call; the call's if it is ""
		pings            int
		unnamed, stream  bool
	}{
		{name: "the server answers a ping", call: fault, ping: pong, pings: 1},
		{name: "a ping gets another text", call: fault, ping: `"error":{"code":-32600,"message":"busy"}`, pings: 1},
		{name: "a ping gets another code", call: fault, ping: `"error":{"code":-32000,"message":"missing or invalid Mcp-Session-Id"}`, pings: 1},
		{name: "another code", call: `"error":{"code":-32601,"message":"missing or invalid Mcp-Session-Id"}`, ping: fault},
		{name: "a code that is text", call: `"error":{"code":"-32600","message":"missing or invalid Mcp-Session-Id"}`, ping: fault},
		{name: "more text", call: `"error":{"code":-32600,"message":"missing or invalid Mcp-Session-Id: x"}`, ping: fault},
		{name: "less text", call: `"error":{"code":-32600,"message":"missing or invalid"}`, ping: fault},
		{name: "another session's", call: tower("x"), ping: tower("x")},
		{name: "a result of a tool", call: result, ping: fault},
		{name: "a session without an id", call: fault, ping: fault, unnamed: true},
		{name: "of no request, on a stream", call: fault, ping: fault, id: "null", stream: true},
		{name: "on a stream", call: fault, ping: fault, stream: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := peertest.NewServer(t, peertest.HTTP, nil)
			s.NoGet = true
			s.Script = func(u *peertest.Turn) {
				switch u.Method {
				case "initialize":
					if !c.unnamed {
						u.Web.Header().Set("Mcp-Session-Id", "s1")
					}
					u.Answer(200, initialized(u.ID))
				case "ping":
					u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,`+c.ping+`}`)
				case "tools/call":
					answer := `{"jsonrpc":"2.0","id":` + cmp.Or(c.id, u.ID) + `,` + c.call + `}`
					if c.stream {
						u.Say(answer, `{"jsonrpc":"2.0","id":`+u.ID+`,`+result+`}`)
						return
					}
					u.Answer(200, answer)
				}
			}
			srv := frontOfWeb(t, s.At().URL)
			session := srv.initialize("2025-06-18")
			want := `{"jsonrpc":"2.0","id":` + cmp.Or(c.id, "7") + `,` + c.call + `}`
			for n := range 2 {
				r := srv.post(session, echoCall)
				if got := r.body + strings.Join(r.events, "\n"); !strings.HasPrefix(got, want) {
					t.Errorf("%s, want %s", got, want)
				}
				if pings := len(s.Of("ping")); pings != c.pings*(n+1) {
					t.Errorf("%d pings", pings)
				}
			}
			if n, calls := len(s.Of("initialize")), len(s.Of("tools/call")); n != 1 || calls != 2 {
				t.Errorf("%d sessions begun, %d calls", n, calls)
			}
		})
	}
}

// TestASessionThatIsLostAgain is begun again once: then the client gets what the server says.
func TestASessionThatIsLostAgain(t *testing.T) {
	s := peertest.NewServer(t, peertest.HTTP, nil)
	s.NoGet = true
	s.Script = func(u *peertest.Turn) {
		switch {
		case u.Method == "initialize":
			u.Web.Header().Set("Mcp-Session-Id", fmt.Sprintf("s%d", len(s.Of("initialize"))))
			u.Answer(200, initialized(u.ID))
		case u.ID != "":
			u.Answer(200, strings.Replace(wikiLost, `"ID"`, u.ID, 1))
		}
	}
	srv := frontOfWeb(t, s.At().URL)
	session := srv.initialize("2025-06-18")
	r := srv.post(session, echoCall)
	sameJSON(t, r.body, strings.Replace(wikiLost, `"ID"`, "7", 1))
	if n, calls := len(s.Of("initialize")), len(s.Of("tools/call")); n != 2 || calls != 2 {
		t.Errorf("%d sessions begun, %d calls", n, calls)
	}
}
