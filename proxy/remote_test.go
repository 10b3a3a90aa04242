package proxy

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
)

// forgetfulServer is a Streamable HTTP server that can forget its sessions, as a restarted one
// does.
type forgetfulServer struct {
	status  int    // the status for requests without a known session
	words   string // the body of that response
	refuses bool   // it begins no sessions

	mu       sync.Mutex
	sessions map[string]*forgetfulSession
	begun    []*forgetfulSession // all sessions so far
	ran      map[string]int      // tools/call by id
	web      *httptest.Server
}

type forgetfulSession struct {
	id, hello   string
	initialized int
	level       string
	subscribed  []string
	events      chan string // the events of the GET
	gone        chan struct{}
}

func (f *forgetfulServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m := string(body)
	id, method := gjson.Get(m, "id"), gjson.Get(m, "method").String()
	f.mu.Lock()
	s := f.sessions[r.Header.Get("Mcp-Session-Id")]
	if method == "initialize" && !f.refuses {
		s = &forgetfulSession{id: rand.Text(), hello: m, events: make(chan string, 10), gone: make(chan struct{})}
		f.sessions[s.id] = s
		f.begun = append(f.begun, s)
		w.Header().Set("Mcp-Session-Id", s.id)
	}
	if s == nil {
		f.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.status)
		io.WriteString(w, f.words)
		return
	}
	result := "{}"
	switch method {
	case "initialize":
		result = fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true},"prompts":{},"logging":{},"resources":{"subscribe":true,"listChanged":true}},"serverInfo":{"name":"s","version":"2"}}`,
			gjson.Get(m, "params.protocolVersion").String())
	case "notifications/initialized":
		s.initialized++
	case "logging/setLevel":
		s.level = gjson.Get(m, "params.level").String()
	case "resources/subscribe":
		s.subscribed = append(s.subscribed, gjson.Get(m, "params.uri").String())
	case "tools/call":
		f.ran[id.Raw]++
		result = fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, gjson.Get(m, "params.name").String())
	}
	if r.Method == http.MethodDelete {
		delete(f.sessions, s.id)
	}
	f.mu.Unlock()
	switch {
	case r.Method == http.MethodDelete:
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for {
			select {
			case e := <-s.events:
				fmt.Fprintf(w, "data: %s\n\n", e)
				w.(http.Flusher).Flush()
			case <-s.gone:
				panic(http.ErrAbortHandler)
			case <-r.Context().Done():
				return
			}
		}
	case !id.Exists():
		w.WriteHeader(http.StatusAccepted)
	case gjson.Get(m, "params.name").String() == "hang":
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"begun"}}`+"\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-s.gone:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
		}
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id.Raw, result)
	}
}

// forget simulates a restart: all sessions are lost, and all streams break off.
func (f *forgetfulServer) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sessions {
		close(s.gone)
	}
	clear(f.sessions)
}

func (f *forgetfulServer) last() forgetfulSession {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := *f.begun[len(f.begun)-1]
	s.subscribed = slices.Sorted(slices.Values(s.subscribed))
	return s
}

func (f *forgetfulServer) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.begun)
}

// beforeForgetful returns n proxies with one key in front of a server.
func beforeForgetful(t *testing.T, f *forgetfulServer, n int) []testServer {
	t.Helper()
	leavesNothing(t)
	if f.status == 0 {
		f.status, f.words = 404, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`
	}
	f.sessions, f.ran = map[string]*forgetfulSession{}, map[string]int{}
	f.web = httptest.NewServer(f)
	cfg := config.Default()
	cfg.Upstream.URL, cfg.Upstream.HandshakeTimeout = f.web.URL, patience
	key := make([]byte, sealed.KeyBytes)
	rand.Read(key)
	cfg.Session.KeyFile = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(cfg.Session.KeyFile, []byte(base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	var all []testServer
	for range n {
		core, logs := observer.New(zap.DebugLevel)
		srv, err := New(cfg, zap.New(core))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, testServer{srv, t, logs})
	}
	t.Cleanup(func() {
		for _, srv := range all {
			srv.close()
		}
		f.web.CloseClientConnections()
		f.web.Close()
	})
	return all
}

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
			f := &forgetfulServer{status: c.status, words: c.words}
			srv := beforeForgetful(t, f, 1)[0]
			session := settled(t, srv)
			other := srv.initialize("2025-06-18")
			f.forget()
			sameJSON(t, srv.post(session, echoCall).body, echoAnswer)
			if f.count() != 3 {
				t.Errorf("%d sessions begun", f.count())
			}
			s := f.last()
			sameJSON(t, `{"p":`+gjson.Get(s.hello, "params").Raw+`}`, `{"p":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"elicitation":{}},"clientInfo":{"name":"c","title":"C","version":"1"}}}`)
			if s.initialized != 1 || s.level != "debug" || !slices.Equal(s.subscribed, []string{"file:///a", "file:///b"}) {
				t.Errorf("restored: %+v", s)
			}
			sameJSON(t, srv.post(session, echoCall).body, echoAnswer)
			if f.ran["7"] != 2 || f.count() != 3 {
				t.Errorf("ran %d times in %d sessions", f.ran["7"], f.count())
			}
			sameJSON(t, srv.post(other, echoCall).body, echoAnswer)
			if f.count() != 4 {
				t.Errorf("%d sessions begun", f.count())
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
		f := &forgetfulServer{status: c.status, words: c.words}
		srv := beforeForgetful(t, f, 1)[0]
		session := settled(t, srv)
		f.forget()
		if r := srv.post(session, echoCall); gjson.Get(r.body, "error").Raw == "" {
			t.Errorf("%+v: %+v", c, r)
		}
		if f.count() != 1 {
			t.Errorf("%+v: %d sessions begun", c, f.count())
		}
	}
}

// TestManyCallsOfALostSessionBeginOne session, and so do messages without a response.
func TestManyCallsOfALostSessionBeginOne(t *testing.T) {
	f := &forgetfulServer{}
	srv := beforeForgetful(t, f, 1)[0]
	session := settled(t, srv)
	for round := range 3 {
		f.forget()
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
		if f.count() != round+2 {
			t.Fatalf("%d sessions begun, round %d", f.count(), round)
		}
	}
	for id, times := range f.ran {
		if times != 1 {
			t.Errorf("call %s ran %d times", id, times)
		}
	}
}

// TestAServerThatRefusesAnotherSession: only then does the client learn that its session is lost.
func TestAServerThatRefusesAnotherSession(t *testing.T) {
	f := &forgetfulServer{}
	srv := beforeForgetful(t, f, 1)[0]
	session := settled(t, srv)
	f.forget()
	f.refuses = true
	for range 2 {
		if r := srv.post(session, echoCall); r.status != 404 || gjson.Get(r.body, "id").Raw != "7" {
			t.Errorf("%+v", r)
		}
		f.refuses = false // the id stays invalid
	}
}

// TestAnEndedSessionIsNotBegunAgain: the client has ended it.
func TestAnEndedSessionIsNotBegunAgain(t *testing.T) {
	for name, forgotten := range map[string]bool{"known to the server": false, "lost before": true} {
		t.Run(name, func(t *testing.T) {
			f := &forgetfulServer{}
			srv := beforeForgetful(t, f, 1)[0]
			session := settled(t, srv)
			if forgotten {
				f.forget()
			}
			srv.exchange(t.Context(), "DELETE", session, "")
			if r := srv.post(session, echoCall); r.status != 404 || f.count() != 1 {
				t.Errorf("%+v, %d sessions", r, f.count())
			}
		})
	}
}

// TestAnotherReplicaBeginsALostSession with what the session id contains.
func TestAnotherReplicaBeginsALostSession(t *testing.T) {
	f := &forgetfulServer{}
	two := beforeForgetful(t, f, 2)
	session := settled(t, two[0])
	f.forget()
	sameJSON(t, two[1].post(session, echoCall).body, echoAnswer)
	s := f.last()
	sameJSON(t, `{"p":`+gjson.Get(s.hello, "params").Raw+`}`, `{"p":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"elicitation":{}},"clientInfo":{"name":"c","title":"C","version":"1"}}}`)
	if s.initialized != 1 || s.level != "" || two[1].logs.FilterMessageSnippet("not restored").Len() != 1 {
		t.Errorf("%+v, %v", s, two[1].logs.All())
	}
}

// TestACallInFlightFailsWithAReasonWhenItsSessionIsLost; the session continues.
func TestACallInFlightFailsWithAReasonWhenItsSessionIsLost(t *testing.T) {
	f := &forgetfulServer{}
	srv := beforeForgetful(t, f, 1)[0]
	session := settled(t, srv)
	c := srv.open("POST", session, strings.Replace(echoCall, "echo", "hang", 1))
	defer c.leaves()
	if got := string(c.next().Data); !strings.Contains(got, "begun") {
		t.Fatal(got)
	}
	f.forget()
	got := string(c.next().Data)
	if gjson.Get(got, "id").Raw != "7" || gjson.Get(got, "error.message").String() == "" {
		t.Error(got)
	}
	sameJSON(t, srv.post(session, strings.Replace(echoCall, `"id":7`, `"id":8`, 1)).body, strings.Replace(echoAnswer, `"id":7`, `"id":8`, 1))
}

// TestTheStandingStreamOutlivesALostSession, and carries the list_changed notifications.
func TestTheStandingStreamOutlivesALostSession(t *testing.T) {
	f := &forgetfulServer{}
	srv := beforeForgetful(t, f, 1)[0]
	session := settled(t, srv)
	c := srv.open("GET", session, "")
	defer c.leaves()
	const updated = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a"}}`
	tell := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.begun[len(f.begun)-1].events <- updated
	}
	tell()
	sameJSON(t, string(c.next().Data), updated)
	for range 2 {
		f.forget() // no other request is sent: the stream itself shows that the session is lost
		seen := map[string]bool{string(c.next().Data): true, string(c.next().Data): true}
		if want := []string{`{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}; !slices.Equal(slices.Sorted(maps.Keys(seen)), want) {
			t.Errorf("%v", seen)
		}
		tell()
		sameJSON(t, string(c.next().Data), updated)
	}
	if f.count() != 3 {
		t.Errorf("%d sessions", f.count())
	}
}

// TestAPipeOutlivesALostSession: the shim keeps working.
func TestAPipeOutlivesALostSession(t *testing.T) {
	f := &forgetfulServer{}
	srv := beforeForgetful(t, f, 1)[0]
	c := srv.pipe()
	c.say(introduction)
	c.hear()
	c.say(initializedNotice, debugLevel)
	c.hear()
	eventually(t, "listening", func() bool { return f.last().initialized == 1 })
	for range 2 {
		f.forget()
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
	if s := f.last(); s.level != "debug" || f.count() != 3 {
		t.Errorf("%+v, %d sessions", s, f.count())
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// TestAServerThatIsAwayForAWhile: calls fail in the meantime, and the session continues.
func TestAServerThatIsAwayForAWhile(t *testing.T) {
	f := &forgetfulServer{}
	srv := beforeForgetful(t, f, 1)[0]
	session := settled(t, srv)
	f.forget()
	f.mu.Lock()
	status, words := f.status, f.words
	f.status, f.words, f.refuses = 503, "starting", true
	f.mu.Unlock()
	if r := srv.post(session, echoCall); gjson.Get(r.body, "error").Raw == "" || r.status == 404 {
		t.Errorf("%+v", r)
	}
	f.mu.Lock()
	f.status, f.words, f.refuses = status, words, false
	f.mu.Unlock()
	sameJSON(t, srv.post(session, echoCall).body, echoAnswer)
}
