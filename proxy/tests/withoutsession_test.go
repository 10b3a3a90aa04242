package tests

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// answersAll lets requests without a session be answered.
func answersAll(cfg *config.Config) { cfg.Session.Without = config.WithoutOpen }

// newStateful returns a server with sessions. Its tool says in which session it was called.
func newStateful(t *testing.T, over peertest.Over) *peertest.Server {
	s := peertest.NewServer(t, over, func(u *peertest.Turn) {
		switch {
		case u.ID == "" || u.Method == "":
		case u.Method == "initialize":
			if over == peertest.HTTP {
				u.Open()
			}
			u.Answer(200, result(u.ID, `"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}`))
		case u.Method == "tools/call":
			u.Answer(200, result(u.ID, fmt.Sprintf(`"content":[{"type":"text","text":%q}]`, u.Session.ID)))
		default:
			u.Answer(200, result(u.ID, ""))
		}
	})
	s.Sessions = true
	return s
}

const asksWhere = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"where","arguments":{}}}`

// saidIn returns the name that the answer to asksWhere has, and fails if there is none.
func saidIn(t *testing.T, r *peertest.Reply) string {
	t.Helper()
	r.HasStatus(200)
	answer := r.Next()
	name := gjson.Get(answer, "result.content.0.text").String()
	if name == "" || r.Header.Get("Mcp-Session-Id") != "" {
		t.Fatalf("%s %v", answer, r.Header)
	}
	return name
}

var everyTransport = []peertest.Over{peertest.HTTP, peertest.SSE, peertest.Stdio}

// TestFirstRequestsWithoutASessionShareOne: the first requests come together, with the same id and the same progress token. The server
// answers them when it has all, the last one first.
func TestFirstRequestsWithoutASessionShareOne(t *testing.T) {
	for _, over := range everyTransport {
		t.Run(string(over), func(t *testing.T) {
			t.Parallel()
			const clients = 5
			var mu sync.Mutex
			var turns []*peertest.Turn
			s := newStateful(t, over)
			others, all := s.Script, make(chan struct{})
			s.Script = func(u *peertest.Turn) {
				if u.Method != "tools/call" {
					others(u)
					return
				}
				mu.Lock()
				turns = append(turns, u)
				last := len(turns) == clients
				mu.Unlock()
				if !last {
					u.Until(all)
					return
				}
				defer close(all)
				for i := range turns {
					u := turns[len(turns)-1-i]
					n := gjson.Get(u.Text, "params.arguments.n").Raw
					u.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%s}}`, gjson.Get(u.Text, "params._meta.progressToken").Raw, n))
					u.Say(result(u.ID, fmt.Sprintf(`"content":[{"type":"text","text":"%s"}]`, n)))
				}
			}
			p := through(t, s.At(), answersAll)
			var done sync.WaitGroup
			for n := 1; n <= clients; n++ {
				done.Go(func() {
					r := p.client(t, false).Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"same","method":"tools/call","params":{"name":"t","arguments":{"n":%d},"_meta":{"progressToken":"p"}}}`, n))
					progress, answer := r.Next(), r.Next()
					if gjson.Get(progress, "params.progressToken").Raw != `"p"` || gjson.Get(progress, "params.progress").Int() != int64(n) {
						t.Errorf("%d: %s", n, progress)
					}
					if gjson.Get(answer, "id").Raw != `"same"` || gjson.Get(answer, "result.content.0.text").Int() != int64(n) || r.Header.Get("Mcp-Session-Id") != "" {
						t.Errorf("%d: %s %v", n, answer, r.Header)
					}
				})
			}
			done.Wait()
			if n := calls(s, "initialize"); n != 1 {
				t.Errorf("%d sessions", n)
			}
			hello := s.Of("initialize")[0].Text
			if gjson.Get(hello, "params.capabilities").Raw != "{}" || gjson.Get(hello, "params.clientInfo.name").String() != "dragoman" {
				t.Error(hello)
			}
			if calls(s, "notifications/initialized") != 1 {
				t.Errorf("%v", s.Heard())
			}
		})
	}
}

// TestWithoutASession says what each message without a session gets.
func TestWithoutASession(t *testing.T) {
	waits(t)
	s := newStateful(t, peertest.HTTP)
	p := through(t, s.At(), answersAll)
	c := p.client(t, false)
	refused := func(id, method string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found: %s needs a session: send initialize first"}}`, id, method)
	}
	ping := `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	for _, test := range []struct {
		message, version string
		status           int
		want             string
	}{
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "", 202, ""},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "", 202, ""},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, "", 202, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`, "2025-06-18", 200, refused("1", "logging/setLevel")},
		{`{"jsonrpc":"2.0","id":"a","method":"resources/subscribe","params":{"uri":"a:b"}}`, "", 200, refused(`"a"`, "resources/subscribe")},
		{`{"jsonrpc":"2.0","id":"a","method":"resources/unsubscribe","params":{"uri":"a:b"}}`, "", 200, refused(`"a"`, "resources/unsubscribe")},
		{`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, "", 202, ""},
		{ping, "", 200, result("7", "")},
		{ping, "2024-11-05", 200, result("7", "")},
		{"[" + ping + `,{"jsonrpc":"2.0","id":8,"method":"resources/subscribe","params":{"uri":"a:b"}},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}]`, "", 200, "[" + result("7", "") + "," + refused("8", "resources/subscribe") + "]"},
		{"[" + ping + "]", "2025-06-18", 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"JSON-RPC batching is not supported in 2025-06-18"}}`},
		{`{"jsonrpc":"2.0","id":1`, "", 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: unexpected end of JSON at byte 23"}}`},
	} {
		c.Version = test.version
		r := c.Say(test.message)
		if r.HasStatus(test.status); test.want != "" {
			if got := r.Next(); got != test.want {
				t.Errorf("%s\n got  %s\n want %s", test.message, got, test.want)
			}
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		r := c.Do(method, "", map[string][]string{"Accept": {"text/event-stream"}})
		if r.HasStatus(405); r.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %v", method, r.Header)
		}
	}
	c.Session, c.Version = "unknown", ""
	c.Say(ping).HasStatus(404)
	for _, method := range []string{"notifications/cancelled", "resources/subscribe", "logging/setLevel"} {
		if calls(s, method) != 0 {
			t.Errorf("the server got %s", method)
		}
	}
}

// TestRefusedWithoutASession: the error of the default names the setting.
func TestRefusedWithoutASession(t *testing.T) {
	waits(t)
	p := through(t, newStateful(t, peertest.HTTP).At())
	r := p.client(t, false).Say(asksWhere)
	r.HasStatus(400)
	if answer := r.Next(); !strings.Contains(answer, "session.without: open") {
		t.Error(answer)
	}
}

// TestPooledSessionIsOfOnePrincipal: a session is of one principal and one revision, and never of a client that sends initialize.
func TestPooledSessionIsOfOnePrincipal(t *testing.T) {
	waits(t)
	s := newStateful(t, peertest.HTTP)
	p := through(t, s.At(), answersAll)
	c := p.client(t, false)
	ada := saidIn(t, c.Say(asksWhere, "Authorization", "Bearer ada"))
	bob := saidIn(t, c.Say(asksWhere, "Authorization", "Bearer bob"))
	none := saidIn(t, c.Say(asksWhere))
	if again := saidIn(t, p.client(t, false).Say(asksWhere, "Authorization", "Bearer ada")); again != ada || ada == bob || none == ada || none == bob {
		t.Errorf("%q, then %q; %q, %q", ada, again, bob, none)
	}
	c.Initialize("2025-06-18", "{}")
	r := c.Say(asksWhere)
	if own := gjson.Get(r.Next(), "result.content.0.text").String(); own == none || own == "" {
		t.Errorf("a client with a session is in that of others")
	}
	if n := len(s.Opened()); n != 4 {
		t.Errorf("%d sessions", n)
	}
}

// TestPooledSessionBeginsAgain: the server loses the session, or dies, and is soon there again.
func TestPooledSessionBeginsAgain(t *testing.T) {
	for _, over := range everyTransport {
		t.Run(string(over), func(t *testing.T) {
			t.Parallel()
			s := newStateful(t, over)
			c := through(t, s.At(), answersAll, quickly).client(t, false)
			first := saidIn(t, c.Say(asksWhere))
			s.Crash()
			for end := time.Now().Add(patience); ; {
				r := c.Say(asksWhere)
				r.HasStatus(200)
				answer := r.Next()
				if name := gjson.Get(answer, "result.content.0.text").String(); name != "" && name != first {
					break
				}
				if over == peertest.HTTP || time.Now().After(end) { // a pipe may be lost with a call on it
					t.Fatal(answer)
				}
			}
		})
	}
}

// TestPooledSessionsAreBounded: they count for session.max, and end when they are not used.
func TestPooledSessionsAreBounded(t *testing.T) {
	waits(t)
	s := newStateful(t, peertest.Stdio)
	p := through(t, s.At(), answersAll, func(cfg *config.Config) { cfg.Session.Max = 1 })
	c := p.client(t, false)
	first := saidIn(t, c.Say(asksWhere))
	r := c.Say(asksWhere, "Authorization", "Bearer other")
	r.HasStatus(503)
	if answer := r.Next(); !strings.Contains(answer, "too many sessions") || gjson.Get(answer, "id").Raw != "1" || r.Header.Get("Retry-After") == "" {
		t.Errorf("%s %v", answer, r.Header)
	}
	c.Say(initialize("2025-06-18", "{}")).HasStatus(503)
	if saidIn(t, c.Say(asksWhere)) != first {
		t.Error("the session has ended")
	}
	peertest.Eventually(t, "the process ends", func() bool {
		for _, idle := range p.Table.DropIdle(time.Now().Add(time.Hour)) { // the request may not have left it yet
			p.Table.Retire(idle, report.ErrIdle)
		}
		return p.Table.Len() == 0
	})
	if saidIn(t, c.Say(asksWhere, "Authorization", "Bearer other")) == first {
		t.Error("the session has not ended")
	}
}

// TestServerCannotAskWithoutASession: dragoman answers pings, and refuses all else, at once.
func TestServerCannotAskWithoutASession(t *testing.T) {
	for _, over := range everyTransport {
		t.Run(string(over), func(t *testing.T) {
			t.Parallel()
			s := newStateful(t, over)
			others := s.Script
			s.Script = func(u *peertest.Turn) {
				switch u.Method {
				case "tools/call":
					pong := u.Asks(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
					no := u.Asks(`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`)
					u.Say(result(u.ID, fmt.Sprintf(`"content":[{"type":"text","text":%q}]`, gjson.Get(pong, "result").Raw+gjson.Get(no, "error.message").String())))
				case "notifications/initialized":
					if over == peertest.Stdio {
						u.Asks(`{"jsonrpc":"2.0","id":"early","method":"roots/list"}`)
						u.Say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
					}
				default:
					others(u)
				}
			}
			c := through(t, s.At(), answersAll).client(t, false)
			if said := saidIn(t, c.Say(asksWhere)); said != "{}the client has no session in which it could be asked" {
				t.Errorf("%q", said)
			}
		})
	}
}

// TestWithoutASessionAtAServerWithoutAHandshake: two calls with one id are under way at a server of 2026-07-28.
func TestWithoutASessionAtAServerWithoutAHandshake(t *testing.T) {
	for _, over := range []peertest.Over{peertest.HTTP, peertest.Stdio} {
		inBubble(t, string(over), func(t *testing.T) {
			both := make(chan struct{})
			s := peertest.NewServer(t, over, func(u *peertest.Turn) {
				n := gjson.Get(u.Text, "params.arguments.n").Raw
				switch {
				case u.ID == "":
				case u.Method == "server/discover":
					u.Answer(200, result(u.ID, discoveredModern))
				case u.Method == "tools/call":
					if n == "2" {
						close(both)
					} else {
						u.Until(both)
					}
					u.Answer(200, result(u.ID, fmt.Sprintf(`"resultType":"complete","content":[{"type":"text","text":"%s"}]`, n)))
				case u.Method == "tools/list":
					u.Answer(200, result(u.ID, `"resultType":"complete","tools":[{"name":"t","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"`))
				default:
					u.Answer(400, rpcError(u.ID, `"code":-32601,"message":"no such method"`))
				}
			})
			p := through(t, s.At(), answersAll)
			call := func(n string) *peertest.Reply {
				return p.client(t, false).Say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"n":` + n + `}}}`)
			}
			first := call("1")
			s.Gets(1, "tools/call")
			if said := saidIn(t, call("2")); said != "2" {
				t.Errorf("the second call: %s", said)
			}
			if said := saidIn(t, first); said != "1" {
				t.Errorf("the first call: %s", said)
			}
		})
	}
}

// TestReloadBeginsAnotherPooledSession if the server is reached in another way by then: no client of it could begin one.
func TestReloadBeginsAnotherPooledSession(t *testing.T) {
	waits(t)
	p := through(t, newStateful(t, peertest.HTTP).At(), answersAll)
	c := p.client(t, false)
	first := saidIn(t, c.Say(asksWhere))
	cfg := p.Now().Config
	if err := p.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if saidIn(t, c.Say(asksWhere)) != first {
		t.Error("a reload that changes nothing ends the session")
	}
	cfg.Upstream.Headers = map[string]string{"X-New": "1"}
	if err := p.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if saidIn(t, c.Say(asksWhere)) == first {
		t.Error("the session of before is still used")
	}
	cfg.Session.Without = config.WithoutRefuse
	if err := p.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	c.Say(asksWhere).HasStatus(400)
}

// TestServerRefusesAPooledSession: each request gets the refusal, with its own id, and the next one asks the server again.
func TestServerRefusesAPooledSession(t *testing.T) {
	waits(t)
	s := newStateful(t, peertest.HTTP)
	others := s.Script
	s.Script = func(u *peertest.Turn) {
		if u.Method == "initialize" && u.Header.Get("Authorization") == "" {
			u.Web.Header().Set("WWW-Authenticate", "Bearer")
			u.Refuse(401)
			return
		}
		others(u)
	}
	c := through(t, s.At(), answersAll).client(t, false)
	for range 2 {
		r := c.Say(asksWhere)
		r.HasStatus(401)
		if answer := r.Next(); gjson.Get(answer, "id").Raw != "1" || r.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %v", answer, r.Header)
		}
	}
	if saidIn(t, c.Say(asksWhere, "Authorization", "Bearer mine")) == "" || calls(s, "initialize") < 3 {
		t.Errorf("%v", s.Heard())
	}
}

// TestPooledSessionKeepsStreamsApart: a server says on the stream of one client's request what is about another's, with an id or a token
// that both clients use, or with one that it knows nothing of.
func TestPooledSessionKeepsStreamsApart(t *testing.T) {
	waits(t)
	var mu sync.Mutex
	turns := map[string]*peertest.Turn{}
	s := newStateful(t, peertest.HTTP)
	others, both, asked := s.Script, make(chan struct{}), make(chan struct{})
	s.Script = func(u *peertest.Turn) {
		if u.Method != "tools/call" {
			others(u)
			return
		}
		mu.Lock()
		n := gjson.Get(u.Text, "params.arguments.n").Raw
		turns[n] = u
		last := len(turns) == 2
		mu.Unlock()
		if last {
			close(both)
		}
		if u.Until(both); n != "1" {
			u.Until(asked)
			u.Say(result(u.ID, `"content":[{"type":"text","text":"2"}]`))
			return
		}
		defer close(asked)
		b := turns["2"]
		u.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":2}}`, gjson.Get(b.Text, "params._meta.progressToken").Raw))
		u.Say(result(b.ID, `"content":[{"type":"text","text":"2"}]`))
		u.Say(result(`77`, `"content":[{"type":"text","text":"of another"}]`))
		u.Say(result(`"77"`, `"content":[{"type":"text","text":"of another"}]`))
		u.Say(result(u.ID, `"content":[{"type":"text","text":"1"}]`))
	}
	p := through(t, s.At(), answersAll)
	var done sync.WaitGroup
	for n := 1; n <= 2; n++ {
		done.Go(func() {
			r := p.client(t, false).Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"t","arguments":{"n":%d},"_meta":{"progressToken":"p"}}}`, n))
			if answer := r.Next(); gjson.Get(answer, "result.content.0.text").Int() != int64(n) {
				t.Errorf("%d: %s", n, answer)
			}
		})
	}
	done.Wait()
}
