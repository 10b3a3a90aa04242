package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/requests"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// modernServer refuses initialize like a modern server, answers server/discover with these members,
// and everything else with rest.
func modernServer(piped bool, discovered string, rest func(id, method, m string) ([]string, error)) *fakeServer {
	f := newFake(func(u *peertest.Turn) {
		switch {
		case u.Method == "initialize":
			u.Say(rpcError(u.ID, `"code":-32601,"message":"Method not found"`))
		case u.Method == "server/discover":
			u.Say(result(u.ID, `"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private",`+discovered))
		case rest != nil && u.ID != "":
			replies(func(m string) ([]string, error) { return rest(u.ID, u.Method, m) })(u)
		}
	})
	f.piped, f.NoGet = piped, !piped
	return f
}

func result(id, members string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{` + members + `}}`
}

func rpcError(id, members string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{` + members + `}}`
}

func TestInitializeIsAnsweredFromDiscover(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := modernServer(piped, `"capabilities":{"tools":{},"logging":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, nil)
		srv := front(t, f)
		r := srv.post("", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"roots":{"listChanged":true},"sampling":{}},"clientInfo":{"name":"c","version":"1"}}}`)
		sameJSON(t, r.body, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"unknown-server","version":"0.0.0"}}}`)
		if r.header["Mcp-Session-Id"] == "" {
			t.Error("no session id")
		}
		sameList(t, "asked", f.said("server/discover"), []string{
			`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{},"sampling":{}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}}`,
		})
		session := r.header["Mcp-Session-Id"]
		sameJSON(t, srv.post(session, `{"jsonrpc":"2.0","id":3,"method":"ping"}`).body, result("3", ""))
		if r := srv.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.status != 202 {
			t.Errorf("%+v", r)
		}
		if r := srv.exchange(t.Context(), "DELETE", session, ""); r.status >= 400 {
			t.Errorf("%+v", r)
		}
	})
}

// TestRefusedInitializeStandsWithoutDiscover: the refusal of a server that is not modern is passed
// on unchanged.
func TestRefusedInitializeStandsWithoutDiscover(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := newFake(replies(func(m string) ([]string, error) {
			return one(rpcError(gjson.Get(m, "id").Raw, `"code":-32602,"message":"no `+gjson.Get(m, "method").String()+`"`))
		}))
		f.piped = piped
		srv := front(t, f, func(cfg *config.Config) { cfg.Upstream.Version = "2025-11-25" })
		sameJSON(t, srv.post("", initialize("2025-06-18", `{}`)).body, rpcError("0", `"code":-32602,"message":"no initialize"`))
	})
}

func TestModernRefusalsByHTTPStatus(t *testing.T) {
	for _, code := range []int{400, 404} {
		f := modernServer(false, `"capabilities":{"tools":{}},"instructions":"hi",`+identity, nil)
		f.on("initialize", func(u *peertest.Turn) { u.Answer(code, rpcError("null", `"code":-32602,"message":"_meta is missing"`)) })
		srv := front(t, f)
		r := srv.post("", initialize("2025-11-25", `{}`))
		sameJSON(t, r.body, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"},"instructions":"hi"}}`)
	}
}

const annotatedTool = `{"name":"größe","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"note":{"type":"string","x-mcp-header":"Note"}}}}`

func TestToolsWithWrongAnnotationsAreLeftOut(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}`,
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":""}}}`,
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`,
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":7}}}`,
		`{"type":"object","x-mcp-header":"A"}`,
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"string","x-mcp-header":"A"}]}}}`,
	} {
		f := modernServer(false, `"capabilities":{"tools":{}}`, func(id, _, _ string) ([]string, error) {
			return one(result(id, `"resultType":"complete","tools":[{"name":"bad","inputSchema":`+schema+`},{"name":"good","inputSchema":{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string","x-mcp-header":"B","default":"x-mcp-header"}}}}}}]`))
		})
		srv := front(t, f)
		r := srv.post(srv.initialize("2025-11-25"), `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`)
		if names := gjson.Get(r.body, "result.tools.#.name").Raw; names != `["good"]` {
			t.Errorf("%s: %s", schema, names)
		}
		if n := srv.logs.FilterMessageSnippet("tool left out").Len(); n != 1 {
			t.Errorf("%s: %d warnings", schema, n)
		}
	}
}

// asksFirst sends this question before it answers a call, and accepts any answer.
func asksFirst(piped bool, asks string) *fakeServer {
	return modernServer(piped, `"capabilities":{"tools":{},"prompts":{}}`, func(id, method, m string) ([]string, error) {
		switch {
		case method == "tools/list":
			return one(result(id, `"resultType":"complete","tools":[]`))
		case !gjson.Get(m, "params.inputResponses").Exists() && method != "other":
			return one(result(id, `"resultType":"input_required",`+asks))
		}
		return one(result(id, `"resultType":"complete","content":[{"type":"text","text":"done"}]`))
	})
}

// reads reads a stream in the background, event by event.
func (srv testServer) reads(session, body string, header ...string) <-chan string {
	events := make(chan string, 16)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	go func() {
		defer close(events)
		defer cancel()
		req, resp := srv.begin(ctx, "POST", session, body, header...)
		if resp.Stream == nil {
			events <- string(resp.Body)
		} else {
			for {
				e, err := resp.Stream.Next()
				if err != nil {
					break
				}
				events <- string(e.Data)
			}
			resp.Stream.Close()
		}
		_ = req
		resp.Done()
	}()
	return events
}

func toolCalled(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"t","arguments":{}}}`
}

func TestServerThatAlwaysAsks(t *testing.T) {
	rounds := 0
	f := modernServer(false, `"capabilities":{"prompts":{}}`, func(id, _, _ string) ([]string, error) {
		rounds++
		return one(result(id, `"resultType":"input_required","inputRequests":{"e":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{}}}}`))
	})
	srv := front(t, f)
	r := srv.post(srv.initialize("2025-11-25"), `{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"p"}}`)
	sameJSON(t, r.body, rpcError("7", `"code":-32603,"message":"the server asked for input more than 10 times"`))
	if rounds != 11 {
		t.Errorf("%d rounds", rounds)
	}
}

func TestLoadShedding(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var at []time.Time
		f := modernServer(false, `"capabilities":{}`, func(id, _, _ string) ([]string, error) {
			at = append(at, time.Now())
			return one(result(id, `"resultType":"input_required","requestState":"S"`))
		})
		srv := front(t, f)
		session := srv.initialize("2025-11-25")
		sameJSON(t, srv.post(session, `{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"p"}}`).body, rpcError("5", `"code":-32603,"message":"upstream busy"`))
		calls := f.said("prompts/get")
		if len(calls) != 4 {
			t.Fatalf("%q", calls)
		}
		for n, wait := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second} {
			if got := at[n+1].Sub(at[n]); got != wait {
				t.Errorf("again after %v, want %v", got, wait)
			}
		}
		for i, m := range calls[1:] {
			if gjson.Get(m, "params.requestState").Raw != `"S"` || gjson.Get(m, "params.inputResponses").Exists() || gjson.Get(m, "id").Raw == gjson.Get(calls[i], "id").Raw {
				t.Error(m)
			}
		}
	})
}

// TestProgressOfACallThatIsSentAgain: its client has made one request, whose progress increases, also beyond the first sending.
func TestProgressOfACallThatIsSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rounds := 0
		f := modernServer(false, `"capabilities":{}`, func(id, _, m string) ([]string, error) {
			rounds++
			var says []string
			for n := range 1 + rounds {
				says = append(says, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`,
					gjson.Get(m, "params._meta.progressToken").Raw, n+1))
			}
			if rounds == 1 {
				return append(says, result(id, `"resultType":"input_required","requestState":"S"`)), nil
			}
			return append(says, result(id, `"resultType":"complete","messages":[]`)), nil
		})
		srv := front(t, f)
		var got []int64
		for e := range srv.reads(srv.initialize("2025-11-25"), `{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"p","_meta":{"progressToken":"t"}}}`) {
			if p := gjson.Get(e, "params.progress"); p.Exists() {
				got = append(got, p.Int())
			}
		}
		if !slices.Equal(got, []int64{1, 2, 3}) {
			t.Errorf("progress %d in %d rounds", got, rounds)
		}
	})
}

// TestRefusedCredentialsArePassedOn: refusals because of the credentials are passed on unchanged.
func TestRefusedCredentialsArePassedOn(t *testing.T) {
	for code, want := range map[int]int{401: 401, 403: 403, 429: 429, 503: 200, 404: 200} {
		f := modernServer(false, `"capabilities":{}`, func(string, string, string) ([]string, error) {
			return nil, &upstream.StatusError{Code: code, Header: []mcp.Header{{Name: "Retry-After", Value: "7"}}}
		})
		srv := front(t, f)
		session := srv.initialize("2025-11-25")
		for range 2 { // the session continues
			if r := srv.post(session, `{"jsonrpc":"2.0","id":5,"method":"prompts/list"}`); r.status != want || gjson.Get(r.body, "id").Int() != 5 {
				t.Errorf("%d: %+v", code, r)
			}
		}
	}
}

// TestLogLevelBeforeTheClientNamesOne: the configured level applies, also after a reload, and only
// to servers with log messages.
func TestLogLevelBeforeTheClientNamesOne(t *testing.T) {
	said := func(f *fakeServer) gjson.Result {
		list := f.said("prompts/list")
		return gjson.Get(list[len(list)-1], `params._meta.io\.modelcontextprotocol/logLevel`)
	}
	answers := func(id, _, _ string) ([]string, error) {
		return one(result(id, `"resultType":"complete","prompts":[]`))
	}
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := modernServer(piped, `"capabilities":{"logging":{}}`, answers)
		srv := front(t, f)
		session := srv.initialize("2025-11-25")
		list := func() gjson.Result {
			srv.post(session, `{"jsonrpc":"2.0","id":7,"method":"prompts/list"}`)
			return said(f)
		}
		if l := list(); l.String() != "info" {
			t.Errorf("by default: %s", l.Raw)
		}
		for _, level := range []string{"off", "warning"} {
			cfg := srv.Now().Config
			cfg.Bridge.DefaultLogLevel = level
			if err := srv.Reload(cfg); err != nil {
				t.Fatal(err)
			}
			if l := list(); l.Exists() != (level != "off") || l.Exists() && l.String() != level {
				t.Errorf("%s: %s", level, l.Raw)
			}
		}
		srv.post(session, `{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":"debug"}}`)
		if l := list(); l.String() != "debug" {
			t.Errorf("named: %s", l.Raw)
		}

		f = modernServer(piped, `"capabilities":{}`, answers)
		srv = front(t, f)
		srv.post(srv.initialize("2025-11-25"), `{"jsonrpc":"2.0","id":7,"method":"prompts/list"}`)
		if l := said(f); l.Exists() {
			t.Errorf("a server without logging: %s", l.Raw)
		}
	})
}

// subscribable accepts subscriptions to lists and to resources with "good" in the URI.
func subscribable(piped bool) *fakeServer {
	return modernServer(piped, `"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}}`, func(id, method, m string) ([]string, error) {
		if method != "subscriptions/listen" {
			return one(result(id, `"resultType":"complete"`))
		}
		uri, mark := gjson.Get(m, "params.notifications.resourceSubscriptions.0"), `"_meta":{"io.modelcontextprotocol/subscriptionId":`+id+`}`
		granted := `{}`
		switch {
		case strings.Contains(uri.String(), "good"):
			granted = `{"resourceSubscriptions":[` + uri.Raw + `]}`
		case !uri.Exists():
			granted = gjson.Get(m, "params.notifications").Raw
		}
		events := []string{`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + mark + `,"notifications":` + granted + `}}`}
		if uri.Exists() {
			events = append(events, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":`+uri.Raw+`,`+mark+`}}`)
		} else {
			events = append(events, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+mark+`}}`)
		}
		return append(events, hang), nil
	})
}

func TestSubscriptionsOfAClientWithASession(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := subscribable(piped)
		srv := front(t, f)
		session := srv.initialize("2025-11-25")
		ask := func(id, method, uri string) string {
			return srv.post(session, `{"jsonrpc":"2.0","id":`+id+`,"method":"resources/`+method+`","params":{"uri":"`+uri+`"}}`).body
		}
		sameJSON(t, ask("7", "subscribe", "u:1"), rpcError("7", `"code":-32602,"message":"Subscription not accepted: u:1"`))
		sameJSON(t, ask("8", "subscribe", "u:good"), result("8", ""))
		sameJSON(t, ask("9", "subscribe", "u:good"), result("9", ""))
		sameJSON(t, ask("10", "unsubscribe", "u:never"), result("10", ""))

		ctx, leave := context.WithCancelCause(context.Background())
		req, resp := srv.begin(ctx, "GET", session, "")
		if resp.Stream == nil {
			t.Fatalf("%d %s", resp.Status, resp.Body)
		}
		got := map[string]bool{}
		for range 2 {
			e, err := resp.Stream.Next()
			if err != nil {
				t.Fatal(err)
			}
			got[string(e.Data)] = true
		}
		for m := range got {
			if strings.Contains(m, "_meta") || !strings.Contains(m, "resources/updated") && !strings.Contains(m, "tools/list_changed") {
				t.Errorf("%q", m)
			}
		}
		if len(got) != 2 {
			t.Errorf("%v", got)
		}
		leave(downstream.ErrClientLeft)
		_ = req
		resp.Stream.Close()
		resp.Done()
		sameJSON(t, ask("11", "unsubscribe", "u:good"), result("11", ""))
		if piped {
			eventually(t, "the server is told", func() bool { return len(f.said("notifications/cancelled")) == 3 })
		}
		if n := len(f.said("subscriptions/listen")); n != 3 {
			t.Errorf("%d subscriptions", n)
		}
	})
}

// TestClientThatLeavesDoesNotCancel: a closed stream cancels a call only in modern revisions.
func TestClientThatLeavesDoesNotCancel(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		const rendered = `"resultType":"complete","messages":[]`
		f, gate := modernServer(piped, `"capabilities":{"prompts":{}}`, nil), make(chan struct{})
		if !piped {
			f.on("prompts/get", func(u *peertest.Turn) {
				if u.Until(gate) {
					u.Say(result(u.ID, rendered))
				}
			})
		}
		srv := front(t, f)
		session := srv.initialize("2025-11-25")
		ctx, leave := context.WithCancelCause(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			req, resp := srv.begin(ctx, "POST", session, `{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"p"}}`)
			_ = req
			resp.Done()
		}()
		eventually(t, "the call is there", func() bool { return len(f.said("prompts/get")) == 1 })
		leave(downstream.ErrClientLeft)
		<-done
		s, err := srv.Table.Find(session, sealed.Owner{}, &downstream.Sender{})
		if err != nil || s == nil {
			t.Fatal("no session")
		}
		s.Leave()
		c := s.Conn.(*legacyclient.Conn)
		running := func() int {
			return c.Calls()
		}
		if running() != 1 {
			t.Error("the call has ended with its client's stream")
		}
		if piped {
			f.Unasked(result(gjson.Get(f.said("prompts/get")[0], "id").Raw, rendered))
		} else {
			close(gate)
		}
		eventually(t, "the call ends", func() bool { return running() == 0 })
		if sent := f.said("notifications/cancelled"); len(sent) != 0 {
			t.Errorf("%q", sent)
		}
	})
}

// TestCancelledEndsTheCallForGood: after notifications/cancelled, reading the call's stream returns
// that it was cancelled.
func TestCancelledEndsTheCallForGood(t *testing.T) {
	f := modernServer(false, `"capabilities":{"prompts":{}}`, func(string, string, string) ([]string, error) { return one(hang) })
	srv := front(t, f)
	s, err := srv.Table.Find(srv.initialize("2025-11-25"), sealed.Owner{}, &downstream.Sender{})
	if err != nil {
		t.Fatal(err)
	}
	conn := s.Conn
	st, err := conn.Send(t.Context(), &upstream.Outgoing{Request: true, Body: []byte(`{"jsonrpc":"2.0","id":"x","method":"prompts/get","params":{"name":"p"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := conn.Send(t.Context(), &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`)}); err != nil {
		t.Fatal(err)
	}
	if e, err := upstream.First(st); !errors.Is(err, requests.ErrCancelled) {
		t.Errorf("%s, %v", e.Data, err)
	}
}

func TestCancelledReachesAModernServer(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := modernServer(piped, `"capabilities":{"prompts":{}}`, func(string, string, string) ([]string, error) { return one(hang) })
		srv := front(t, f)
		session := srv.initialize("2025-11-25")
		events := srv.reads(session, `{"jsonrpc":"2.0","id":"x","method":"prompts/get","params":{"name":"p"}}`)
		eventually(t, "the call is there", func() bool { return len(f.said("prompts/get")) == 1 })
		srv.post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`)
		if answer := <-events; answer != "" {
			t.Errorf("%s", answer)
		}
		if piped {
			eventually(t, "the server is told", func() bool { return len(f.said("notifications/cancelled")) == 1 })
			sameJSON(t, f.said("notifications/cancelled")[0], `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		}
	})
}

func TestModernServerThatIsLostInACall(t *testing.T) {
	f := modernServer(true, `"capabilities":{"prompts":{}}`, nil)
	srv := front(t, f)
	session := srv.initialize("2025-11-25")
	events := srv.reads(session, `{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"p"}}`)
	eventually(t, "the call is there", func() bool { return len(f.said("prompts/get")) == 1 })
	f.lose(errors.New("gone"))
	if answer := <-events; gjson.Get(answer, "error.code").Int() != -32603 || gjson.Get(answer, "id").Int() != 5 {
		t.Errorf("%s", answer)
	}
	eventually(t, "the session is over", func() bool { return srv.Table.Len() == 0 })
}
