package tests

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// hinting is a modern server that sets ttlMs and cacheScope of each list and resource.
func hinting(piped bool, hints string) *fakeServer {
	return modernServer(piped, `"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}}`, func(id, method, m string) ([]string, error) {
		if method == "subscriptions/listen" {
			return one(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+id+`},"notifications":{}}}`,
				result(id, `"resultType":"complete"`))
		}
		members := libraryResult(method, m)
		return one(result(id, `"resultType":"complete",`+hints+members))
	})
}

const wantTools = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`

// fleet is a server with a process for each session.
type fleet struct {
	make func() *fakeServer
	mu   sync.Mutex
	all  []*fakeServer
}

func (l *fleet) origin(piped bool) origin.Origin {
	return origin.Opened(piped, func(context.Context) (upstream.Conn, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		f := l.make()
		l.all = append(l.all, f)
		return f.conn(), nil
	})
}

// said returns the messages of a method that all processes got.
func (l *fleet) said(method string) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.all {
		list = append(list, f.said(method)...)
	}
	return list
}

// TestResultsAreCachedAsTheServerAllows: results are cached as long as the server's ttlMs says, and shared
// as its cacheScope says. Handshake clients get results without these members.
func TestResultsAreCachedAsTheServerAllows(t *testing.T) {
	for _, c := range []struct {
		hints         string
		same, another int // requests that the server gets if one principal asks twice, and if then another one asks
	}{
		{hints: `"ttlMs":60000,"cacheScope":"public",`, same: 1, another: 1},
		{hints: `"ttlMs":60000,"cacheScope":"private",`, same: 1, another: 2},
		{hints: `"ttlMs":60000,`, same: 1, another: 2},
		{hints: `"ttlMs":6e4,"cacheScope":"PUBLIC",`, same: 1, another: 2},
		{hints: `"ttlMs":0,"cacheScope":"public",`, same: 2, another: 3},
		{hints: `"ttlMs":-1,"cacheScope":"public",`, same: 2, another: 3},
		{hints: `"ttlMs":"60000","cacheScope":"public",`, same: 2, another: 3},
		{hints: ``, same: 2, another: 3},
	} {
		bothInBubbles(t, func(t *testing.T, piped bool) {
			f := &fleet{make: func() *fakeServer { return hinting(piped, c.hints) }}
			srv := frontOf(t, f.origin(piped), keeping)
			srv.standStill()
			ada := []string{"Authorization", "Bearer a"}
			begin := func(header ...string) string {
				return srv.post("", initialize("2025-11-25", `{}`), header...).header["Mcp-Session-Id"]
			}
			one, two, eve := begin(ada...), begin(ada...), begin("Authorization", "Bearer b")
			for _, session := range []string{one, two} {
				sameJSON(t, srv.post(session, wantTools, ada...).body, result("7", libraryResult("tools/list", "")))
			}
			if n := len(f.said("tools/list")); n != c.same {
				t.Errorf("%s: one principal: asked %d times, want %d", c.hints, n, c.same)
			}
			sameJSON(t, srv.post(eve, wantTools, "Authorization", "Bearer b").body, result("7", libraryResult("tools/list", "")))
			if n := len(f.said("tools/list")); n != c.another {
				t.Errorf("%s: another principal: asked %d times, want %d", c.hints, n, c.another)
			}
		})
	}
}

// TestASessionIsNotAPrincipal: a request in the same session with another token does not get the
// cached result.
func TestASessionIsNotAPrincipal(t *testing.T) {
	f := hinting(false, `"ttlMs":60000,"cacheScope":"private",`)
	srv := front(t, f, keeping)
	session := srv.initialize("2025-06-18")
	for range 2 {
		srv.post(session, wantTools, "Authorization", "Bearer a")
		srv.post(session, wantTools, "Authorization", "Bearer b")
	}
	if n := len(f.said("tools/list")); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// TestInputRequiredIsNotCached: input_required is not cached, and the result of a retry is not shared.
func TestInputRequiredIsNotCached(t *testing.T) {
	f := modernServer(false, `"capabilities":{"resources":{}}`, func(id, _, m string) ([]string, error) {
		if gjson.Get(m, "params.inputResponses").Exists() {
			return one(result(id, `"resultType":"complete","ttlMs":60000,"cacheScope":"public","contents":[]`))
		}
		return one(result(id, `"resultType":"input_required","ttlMs":60000,"cacheScope":"public","inputRequests":{"a":{"method":"roots/list"}}`))
	})
	srv := front(t, f, keeping)
	session := srv.initializeWith("2025-11-25", `{"roots":{}}`)
	for n := range 2 {
		ctx := t.Context()
		req, resp := srv.begin(ctx, "POST", session, `{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"u:1"}}`)
		if resp.Stream == nil {
			t.Fatalf("no stream: %s", resp.Body)
		}
		e, err := resp.Stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		id := gjson.GetBytes(e.Data, "id").Raw
		srv.post(session, `{"jsonrpc":"2.0","id":`+id+`,"result":{"roots":[]}}`)
		if r := srv.read(req, resp); !strings.Contains(strings.Join(r.events, ""), `"contents":[]`) {
			t.Errorf("%+v", r)
		}
		if got := len(f.said("resources/read")); got != 2*(n+1) {
			t.Errorf("asked %d times", got)
		}
	}
	if _, bytes := srv.Results.Size(); bytes > 2*results.Overhead {
		t.Errorf("%d bytes are kept", bytes)
	}
}

// TestSessionsOfOnePrincipalAskOnce: the server gets one request for all sessions, and a client
// that stops waiting does not end it.
func TestSessionsOfOnePrincipalAskOnce(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		gate := make(chan struct{})
		f := &fleet{make: func() *fakeServer {
			f := hinting(piped, `"ttlMs":60000,`)
			script := f.Script
			f.Script = func(u *peertest.Turn) {
				if u.Method == "resources/read" {
					<-gate
				}
				script(u)
			}
			return f
		}}
		srv := frontOf(t, f.origin(piped), keeping)
		read := `{"jsonrpc":"2.0","id":%d,"method":"resources/read","params":{"uri":"u:1"}}`
		var sessions []string
		for range 8 {
			sessions = append(sessions, srv.initialize("2025-11-25"))
		}
		var all sync.WaitGroup
		for n, session := range sessions {
			all.Go(func() {
				r := srv.post(session, fmt.Sprintf(read, n))
				sameJSON(t, r.body, result(fmt.Sprint(n), libraryResult("resources/read", `{"params":{"uri":"u:1"}}`)))
			})
		}
		eventually(t, "all wait", func() bool {
			return counted(t, srv.Metrics, "dragoman_cache_lookups_total") >= 1 && len(f.said("resources/read")) == 1
		})
		close(gate)
		all.Wait()
		if n := len(f.said("resources/read")); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestChangesAtAModernServerInvalidateTheCache(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := hinting(piped, `"ttlMs":60000,`)
		f.on("tools/call", func(u *peertest.Turn) {
			u.Say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, result(u.ID, `"resultType":"complete","content":[]`))
		})
		srv := front(t, f, keeping)
		session := srv.initialize("2025-11-25")
		for range 2 {
			srv.post(session, wantTools)
		}
		before := len(f.said("tools/list"))
		srv.post(session, `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"t"}}`)
		eventually(t, "dropped", func() bool { n, _ := srv.Results.Size(); return n == 0 })
		srv.post(session, wantTools)
		if n := len(f.said("tools/list")); n <= before {
			t.Errorf("asked %d times", n)
		}
	})
}
