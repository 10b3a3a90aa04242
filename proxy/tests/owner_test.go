package tests

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// as sends a request with these further headers.
func (c *webClient) as(method, session, body string, header ...string) (status int, text string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base+"/mcp", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	if method == http.MethodGet && res.StatusCode == 200 {
		return 200, "" // the stream is open
	}
	out, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, string(out)
}

// begins returns the session of a client that initializes with these headers.
func (c *webClient) begins(header ...string) string {
	c.t.Helper()
	req, _ := http.NewRequest(http.MethodPost, c.base+"/mcp", strings.NewReader(initialize("2025-06-18", `{}`)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	res.Body.Close()
	session := res.Header.Get("Mcp-Session-Id")
	if session == "" {
		c.t.Fatalf("initialize: %d", res.StatusCode)
	}
	return session
}

// TestASessionBelongsToTheClientThatBeganIt: a request of another client with the session's id is
// answered like one with an unknown id, and the session continues.
func TestASessionBelongsToTheClientThatBeganIt(t *testing.T) {
	token := func(is string) []string { return []string{"X-Dragoman-Token", is} }
	user := func(is string) []string { return []string{"X-User", is} }
	bearer := func(claims string) []string { return []string{"Authorization", jwt(claims, "x")} }
	for _, c := range []struct {
		name          string
		mine, foreign []string
		change        func(*config.Config)
	}{
		{"token", token("a"), token("b"), func(c *config.Config) { c.Auth.Tokens = []string{"a", "b"} }},
		{"bearer", []string{"Authorization", "Bearer a"}, []string{"Authorization", "Bearer b"}, func(c *config.Config) { c.Auth.Tokens = []string{"a", "b"} }},
		{"header", user("ann"), user("bob"), func(c *config.Config) { c.Bridge.Principal = "header:X-User" }},
		{"no header", user("ann"), nil, func(c *config.Config) { c.Bridge.Principal = "header:X-User" }},
		{"claims", bearer(`{"iss":"i","sub":"ann"}`), bearer(`{"iss":"i","sub":"bob"}`), func(c *config.Config) { c.Bridge.Principal = "claim:iss+sub" }},
		{"token and header", append(token("a"), user("ann")...), append(token("b"), user("ann")...), func(c *config.Config) {
			c.Auth.Tokens, c.Bridge.Principal = []string{"a", "b"}, "header:X-User"
		}},
	} {
		for _, piped := range []bool{false, true} {
			if piped && strings.HasPrefix(c.name, "claims") {
				continue // a server on stdio checks no token
			}
			t.Run(c.name+" "+transportName(piped), func(t *testing.T) {
				s := newFaultyServer(t, "", false)
				s.stands = func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				}
				client := serving(t, func(cfg *config.Config) {
					if cfg.Upstream.URL = s.URL; piped {
						cfg.Upstream.URL, cfg.Upstream.Command = "", []string{os.Args[0]}
						cfg.Upstream.Env = map[string]string{badChild: "is good"}
					}
					c.change(cfg)
				})
				session := client.begins(c.mine...)
				for _, try := range []struct {
					method, body string
					more         []string
				}{
					{"POST", callOne, nil}, {"POST", pingOne, nil}, {"POST", `{"jsonrpc":"2.0","id":"s1","result":{}}`, nil},
					{"POST", `[` + pingOne + `]`, nil},
					{"GET", "", nil}, {"GET", "", []string{"Last-Event-ID", "1-1"}}, {"DELETE", "", nil},
				} {
					status, said := client.as(try.method, session, try.body, append(try.more, c.foreign...)...)
					unknown, toldThen := client.as(try.method, "unknown", try.body, append(try.more, c.foreign...)...)
					if status != 404 || status != unknown || said != toldThen {
						t.Errorf("%s %s of another client: %d %s; with an unknown id %d %s", try.method, try.body, status, said, unknown, toldThen)
					}
				}
				if status, said := client.as("POST", session, pingOne, c.mine...); status != 200 || said != pingAnswer {
					t.Errorf("its owner gets %d %s", status, said)
				}
				if status, _ := client.as("GET", session, "", c.mine...); status != 200 {
					t.Errorf("its owner's GET: %d", status)
				}
				if status, said := client.as("DELETE", session, "", c.mine...); status >= 300 {
					t.Errorf("its owner's DELETE: %d %s", status, said)
				}
			})
		}
	}
}

// TestMessagesAreTheClientsThatOpenedTheStream: the same on HTTP+SSE.
func TestMessagesAreTheClientsThatOpenedTheStream(t *testing.T) {
	client := serving(t, func(cfg *config.Config) {
		cfg.Upstream.Command, cfg.Upstream.Env = []string{os.Args[0]}, map[string]string{badChild: "is good"}
		cfg.Auth.Tokens, cfg.Bridge.Principal = []string{"a", "b"}, "header:X-User"
	})
	open, _ := http.NewRequest(http.MethodGet, client.base+"/sse", nil)
	open.Header.Set("X-Dragoman-Token", "a")
	open.Header.Set("X-User", "ann")
	res, err := client.http.Do(open)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	uri := ""
	for in := bufio.NewScanner(res.Body); uri == "" && in.Scan(); {
		uri, _ = strings.CutPrefix(in.Text(), "data: ")
		if !strings.HasPrefix(in.Text(), "data: ") {
			uri = ""
		}
	}
	post := func(uri, token, user string) (int, string) {
		req, _ := http.NewRequest(http.MethodPost, client.base+uri, strings.NewReader(initialize("2024-11-05", `{}`)))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Dragoman-Token", token)
		req.Header.Set("X-User", user)
		res, err := client.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(body)
	}
	unknown, told := post("/messages?session=unknown", "b", "bob")
	for _, who := range [][2]string{{"b", "ann"}, {"a", "bob"}, {"a", ""}} {
		if status, said := post(uri, who[0], who[1]); status != 404 || status != unknown || said != told {
			t.Errorf("%v: %d %s", who, status, said)
		}
	}
	if status, said := post(uri, "a", "ann"); status != 202 {
		t.Errorf("its owner: %d %s", status, said)
	}
}

// TestSessionsHoldTheirOwnerAcrossReplicas, whether a request is forwarded or the session is
// resumed.
func TestSessionsHoldTheirOwnerAcrossReplicas(t *testing.T) {
	for name, start := range map[string]func(*testing.T) peer{
		"without sessions": func(t *testing.T) peer { return newSessionless(t, nil) },
		"with sessions":    func(t *testing.T) peer { return newSessionServer(t, "2025-11-25", "") },
	} {
		t.Run(name, func(t *testing.T) {
			all := peersOf(t, 2, start(t), func(c *config.Config) { c.Bridge.Principal = "header:X-User" })
			session := all[0].post("", initialize("2025-11-25", `{}`), "X-User", "ann").header["Mcp-Session-Id"]
			unknown := all[1].post("unknown", pingOne, "X-User", "bob")
			for _, srv := range all {
				for _, method := range []string{"POST", "DELETE"} {
					r := srv.exchange(context.Background(), method, session, pingOne, "X-User", "bob")
					if r.status != 404 || r.body != unknown.body {
						t.Errorf("%s: %+v", method, r)
					}
				}
			}
			for _, srv := range all {
				if r := srv.post(session, pingOne, "X-User", "ann"); r.status != 200 {
					t.Errorf("its owner: %+v", r)
				}
			}
		})
	}
}

// TestTokensThatStayKeepTheirSessions while other tokens are added and removed.
func TestTokensThatStayKeepTheirSessions(t *testing.T) {
	s := newFaultyServer(t, "", false)
	file := filepath.Join(t.TempDir(), "tokens")
	tokens := func(list string) {
		if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tokens("a\nb\n")
	client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Auth.TokenFile = s.URL, file })
	a, b := client.begins("X-Dragoman-Token", "a"), client.begins("X-Dragoman-Token", "b")
	tokens("c\na\n")
	if err := client.srv.Reload(client.srv.Now().Config); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		session, token string
		want           int
	}{{a, "a", 200}, {b, "b", 401}, {b, "c", 404}, {a, "c", 404}} {
		if status, said := client.as("POST", c.session, pingOne, "X-Dragoman-Token", c.token); status != c.want {
			t.Errorf("%s: %d %s", c.token, status, said)
		}
	}
}

// TestARefreshedTokenNeverEndsASession, whatever the server is: the server checks the token.
func TestARefreshedTokenNeverEndsASession(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for _, by := range []string{"authorization", "claim:iss+sub"} {
			t.Run(transportName(modern)+" "+by, func(t *testing.T) {
				s := newFaultyServer(t, "", modern)
				rest := s.Script
				s.Script = func(u *peertest.Turn) {
					if u.Method == "initialize" && modern {
						u.Answer(400, rpcError("null", `"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}`))
						return
					}
					rest(u)
				}
				client := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Bridge.Principal = s.URL, by })
				old, fresh := jwt(adaClaims, "1"), jwt(adaClaims, "2")
				session := client.begins("Authorization", old)
				const list = `{"jsonrpc":"2.0","id":7,"method":"prompts/list"}`
				for _, token := range []string{old, fresh} {
					if status, said := client.as("POST", session, list, "Authorization", token); status != 200 {
						t.Errorf("%d %s", status, said)
					}
				}
				var seen []string
				for _, m := range s.Of("prompts/list") {
					seen = append(seen, m.Header.Get("Authorization"))
				}
				if len(seen) != 2 || seen[0] != old || seen[1] != fresh {
					t.Errorf("the server saw %q", seen)
				}
			})
		}
	}
}

// TestAnswersCarryTheirOwnCredentials: a call at a modern server continues with the Authorization of the
// POST that answered its question, or with none if that POST had none.
func TestAnswersCarryTheirOwnCredentials(t *testing.T) {
	const one = `"inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://x"}}},"requestState":"S1"`
	for _, answer := range []string{"mine", "refreshed", ""} {
		f := asksFirst(false, one)
		srv := front(t, f)
		session := srv.post("", initialize("2025-11-25", `{"elicitation":{"url":{}}}`), "Authorization", "mine").header["Mcp-Session-Id"]
		events := srv.reads(session, toolCalled("5"), "Authorization", "mine")
		question := <-events
		var more []string
		if answer != "" {
			more = []string{"Authorization", answer}
		}
		srv.post(session, `{"jsonrpc":"2.0","id":`+gjson.Get(question, "id").Raw+`,"result":{"action":"accept"}}`, more...)
		for range events { // until the call is answered
		}
		var by []string
		for _, m := range f.Of("tools/call") {
			by = append(by, m.Header.Get("Authorization"))
		}
		if len(by) != 2 || by[0] != "mine" || by[1] != answer {
			t.Errorf("answered by %q: the calls came by %q", answer, by)
		}
	}
}

// TestAnswersOfTwoClientsEndTheCall: no answer goes to the server with another client's
// credentials.
func TestAnswersOfTwoClientsEndTheCall(t *testing.T) {
	const two = `"inputRequests":{"e":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}},"r":{"method":"roots/list","params":{}}},"requestState":"S"`
	f := asksFirst(false, two)
	srv := front(t, f)
	session := srv.initializeWith("2025-11-25", `{"elicitation":{},"roots":{}}`)
	events := srv.reads(session, toolCalled("5"), "Authorization", "mine")
	for range 2 {
		q := <-events
		answer, by := `{"action":"accept","content":{}}`, "mine"
		if gjson.Get(q, "method").String() == "roots/list" {
			answer, by = `{"roots":[]}`, "foreign"
		}
		srv.post(session, `{"jsonrpc":"2.0","id":`+gjson.Get(q, "id").Raw+`,"result":`+answer+`}`, "Authorization", by)
	}
	sameJSON(t, <-events, result("5", `"content":[{"type":"text","text":"the answers came with different Authorization headers; call again"}],"isError":true`))
	if n := len(f.said("tools/call")); n != 1 {
		t.Errorf("%d calls", n)
	}
}
