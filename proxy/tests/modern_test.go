package tests

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// meta is the _meta of a modern client.
func meta(capabilities string, more ...string) string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities +
		`,"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}` + strings.Join(append([]string{""}, more...), ",") + `}`
}

// identity is the serverInfo in results.
const identity = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}`

func modernRequestOf(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params)
}

// modernly posts a request as a modern client does, with the headers that it needs.
func (srv testServer) modernly(body string, header ...string) reply {
	srv.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return srv.exchange(ctx, "POST", "", body, modernHeader(body, header...)...)
}

func modernHeader(body string, header ...string) []string {
	name := gjson.Get(body, "params.name").String()
	if name == "" {
		name = gjson.Get(body, "params.uri").String()
	}
	return append([]string{
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", gjson.Get(body, "method").String(), "Mcp-Name", mcpheader.Encode(name),
	}, header...)
}

// legacyServer answers initialize with these capabilities; rest answers everything else.
func legacyServer(capabilities string, rest func(id, method, m string) ([]string, error)) *fakeServer {
	return newFake(func(u *peertest.Turn) {
		switch {
		case u.Method == "initialize":
			u.Say(result(u.ID, `"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"serverInfo":{"name":"s","version":"2"},"instructions":"hi"`))
		case rest != nil && u.ID != "":
			replies(func(m string) ([]string, error) { return rest(u.ID, u.Method, m) })(u)
		}
	})
}

func TestDiscoverIsAnsweredFromTheHandshake(t *testing.T) {
	f := legacyServer(`{"tools":{"listChanged":true},"tasks":{"list":{}}}`, nil)
	srv := front(t, f)
	body := modernRequestOf("1", "server/discover", meta(`{"elicitation":{}}`))
	for range 2 {
		r := srv.modernly(body)
		if r.status != 200 {
			t.Errorf("status %d", r.status)
		}
		sameJSON(t, r.body, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{"tools":{"listChanged":true}},"instructions":"hi","ttlMs":0,"cacheScope":"private",`+identity+`}}`)
	}
	sameList(t, "sent", f.sent(), []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	})
}

// TestModernListOverASession: for each request of the client the server gets one, with an id that
// dragoman made.
func TestModernListOverASession(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) {
		return one(`{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]}}`)
	})
	srv := front(t, f)
	const trace = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`
	for range 3 {
		r := srv.modernly(modernRequestOf(`"x"`, "tools/list", `"cursor":"",`+meta(`{"elicitation":{}}`, `"progressToken":"tk"`, trace)))
		sameJSON(t, r.body, `{"jsonrpc":"2.0","id":"x","result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"private",`+identity+`}}`)
	}
	sent := f.sent()
	if len(sent) != 5 {
		t.Fatalf("%q", sent)
	}
	for n, m := range sent[2:] {
		sameJSON(t, m, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{"cursor":"","_meta":{"progressToken":"p%d",%s}}}`, n+2, n+2, trace))
	}
}

// asksName is a server that asks for a name, and answers the call when the gate opens.
func asksName(question string) (*fakeServer, chan struct{}) {
	gate := make(chan struct{}, 8)
	f := legacyServer(`{"tools":{}}`, nil)
	f.on("tools/call", func(u *peertest.Turn) {
		u.Say(question)
		if u.Until(gate) {
			u.Say(result(u.ID, `"content":[{"type":"text","text":"done"}]`))
		}
	})
	f.NoGet = true
	return f, gate
}

// open opens the gate of f each time that its question is answered.
func open(f *fakeServer, gate chan<- struct{}) {
	f.on("", func(*peertest.Turn) { gate <- struct{}{} })
}

const nameQuestion = `{"jsonrpc":"2.0","id":"s1","method":"elicitation/create","params":{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}},"_meta":{"progressToken":4}}}`

func modernCall(id, more string) string {
	return modernRequestOf(id, "tools/call", `"name":"t","arguments":{},`+more+meta(`{"elicitation":{}}`))
}

// retryOf returns the retry of a call, with answers to the questions in state.
func retryOf(id, answers string, r reply) string {
	return modernCall(id, `"inputResponses":`+answers+`,"requestState":`+gjson.Get(r.body, "result.requestState").Raw+`,`)
}

const ada = `{"elicitation-1":{"action":"accept","content":{"n":"Ada"}},"junk":{"action":"cancel"}}`

func TestQuestionBecomesInputRequiredAndTheRetryAnswersIt(t *testing.T) {
	f, gate := asksName(nameQuestion)
	srv := front(t, f)
	r := srv.modernly(modernCall("7", ""))
	state := gjson.Get(r.body, "result.requestState").Raw
	sameJSON(t, r.body, `{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","inputRequests":{"elicitation-1":{"method":"elicitation/create","params":{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}}}}},"requestState":`+state+`,`+identity+`}}`)
	if n := srv.Modern.Counts().Parked; n != 1 {
		t.Errorf("%d parked", n)
	}
	for _, c := range []struct {
		what, body string
		header     []string
	}{
		{"tampered", strings.Replace(retryOf("9", ada, r), `requestState":"`, `requestState":"A`, 1), nil},
		{"another principal", retryOf("9", ada, r), []string{"Authorization", "Bearer other"}},
		{"other arguments", strings.Replace(retryOf("9", ada, r), `"arguments":{}`, `"arguments":{"a":1}`, 1), nil},
	} {
		sameJSON(t, srv.modernly(c.body, c.header...).body, `{"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"Invalid or expired requestState"}}`)
	}
	if r := srv.modernly(retryOf("9", `[]`, r)); gjson.Get(r.body, "error.code").Int() != -32602 {
		t.Errorf("%+v", r)
	}
	open(f, gate)
	sameJSON(t, srv.modernly(retryOf("8", ada, r)).body, `{"jsonrpc":"2.0","id":8,"result":{"content":[{"type":"text","text":"done"}],"resultType":"complete",`+identity+`}}`)
	sent := f.sent()
	sameJSON(t, sent[len(sent)-1], `{"jsonrpc":"2.0","id":"s1","result":{"action":"accept","content":{"n":"Ada"}}}`)
	if n := srv.Modern.Counts().Parked; n != 0 {
		t.Errorf("%d parked", n)
	}
	if r := srv.modernly(retryOf("10", ada, r)); gjson.Get(r.body, "error.message").String() != "Invalid or expired requestState" {
		t.Errorf("after the end: %+v", r)
	}
}

// TestAnotherLoginAnswersNoQuestion: after another login to the server, a modern client gets another session, and cannot go
// on with a call that was made with the first one.
func TestAnotherLoginAnswersNoQuestion(t *testing.T) {
	f, gate := asksName(nameQuestion)
	srv := front(t, f)
	srv.SignIns.Note("the first")
	r := srv.modernly(modernCall("7", ""))
	srv.SignIns.Note("the first") // new tokens
	if n := srv.Modern.Counts().Sessions; n != 1 || !gjson.Get(r.body, "result.requestState").Exists() {
		t.Fatal(n, "sessions", r.body)
	}
	begun := func() (n int) {
		for _, m := range f.sent() {
			if gjson.Get(m, "method").Str == "initialize" {
				n++
			}
		}
		return n
	}
	before := begun()
	srv.SignIns.Note("the second")
	sameJSON(t, srv.modernly(retryOf("9", ada, r)).body, `{"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"Invalid or expired requestState","data":`+`{"reason":"the call was made with another login to the server than the present one; make it again"}`+`}}`)
	open(f, gate)
	gate <- struct{}{} // for the first call
	again := srv.modernly(modernCall("8", ""))
	if n := begun(); n != before+1 {
		t.Errorf("%d handshakes, %d before the other login", n, before)
	}
	sameJSON(t, srv.modernly(retryOf("10", ada, again)).body, `{"jsonrpc":"2.0","id":10,"result":{"content":[{"type":"text","text":"done"}],"resultType":"complete",`+identity+`}}`)
}

// TestRetryThatComesTwice: the repetition gets the response instead of the first; with other
// answers it is refused.
func TestRetryThatComesTwice(t *testing.T) {
	f, gate := asksName(nameQuestion)
	srv := front(t, f)
	r := srv.modernly(modernCall("7", ""))
	replies := make(chan reply, 2)
	go func() { replies <- srv.modernly(retryOf("8", ada, r)) }()
	eventually(t, "the answer is delivered", func() bool { return len(f.sent()) == 4 })
	if got := srv.modernly(retryOf("11", `{"elicitation-1":{"action":"decline"}}`, r)); gjson.Get(got.body, "error.code").Int() != -32602 {
		t.Errorf("other answers: %+v", got)
	}
	go func() { replies <- srv.modernly(retryOf("9", ada, r)) }()
	sameJSON(t, (<-replies).body, `{"jsonrpc":"2.0","id":8,"error":{"code":-32600,"message":"superseded by a newer retry"}}`)
	gate <- struct{}{}
	if got := <-replies; gjson.Get(got.body, "id").Raw != "9" || !strings.Contains(got.body, "done") {
		t.Errorf("%+v", got)
	}
	if n := len(f.sent()); n != 4 {
		t.Errorf("the server got %d messages: %q", n, f.sent())
	}
}

func TestRetryWithOneAnswerMissing(t *testing.T) {
	const roots = `{"jsonrpc":"2.0","id":"s2","method":"roots/list"}`
	f, gate := legacyServer(`{"tools":{}}`, nil), make(chan struct{})
	f.on("tools/call", func(u *peertest.Turn) {
		u.Say(nameQuestion, roots)
		if u.Until(gate) {
			u.Say(result(u.ID, `"content":[]`))
		}
	})
	f.NoGet = true
	srv := front(t, f)
	both := func(id, more string) string {
		return modernRequestOf(id, "tools/call", `"name":"t","arguments":{},`+more+meta(`{"elicitation":{},"roots":{}}`))
	}
	r := srv.modernly(both("7", ""))
	if n := len(gjson.Get(r.body, "result.inputRequests").Map()); n != 2 {
		t.Fatalf("%+v", r)
	}
	r = srv.modernly(both("10", `"inputResponses":{"elicitation-1":{"action":"decline"}},"requestState":`+gjson.Get(r.body, "result.requestState").Raw+`,`))
	sameJSON(t, gjson.Get(r.body, "result.inputRequests").Raw, `{"roots-2":{"method":"roots/list","params":{}}}`)
	sent := f.sent()
	sameJSON(t, sent[len(sent)-1], `{"jsonrpc":"2.0","id":"s1","result":{"action":"decline"}}`)
	close(gate)
	r = srv.modernly(both("11", `"inputResponses":{"roots-2":{"roots":[]}},"requestState":`+gjson.Get(r.body, "result.requestState").Raw+`,`))
	sameJSON(t, r.body, `{"jsonrpc":"2.0","id":11,"result":{"content":[],"resultType":"complete",`+identity+`}}`)
}

// TestQuestionOnTheStandingStream: a question goes to the only call in which the server may ask.
func TestQuestionOnTheStandingStream(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f, gate := legacyServer(`{"tools":{}}`, nil), make(chan struct{})
		if f.piped = piped; piped {
			call := ""
			f.on("", func(*peertest.Turn) { f.Unasked(result(call, `"content":[]`)) })
			f.on("tools/call", func(u *peertest.Turn) {
				call = u.ID
				u.Say(nameQuestion)
			})
		} else {
			f.First = func(u *peertest.Turn) {
				if u.Method == "tools/call" {
					f.Unasked(nameQuestion) // before the call is known
				}
			}
			f.on("tools/call", func(u *peertest.Turn) {
				if u.Until(gate) {
					u.Say(result(u.ID, `"content":[]`))
				}
			})
		}
		srv := front(t, f)
		r := srv.modernly(modernCall("7", ""))
		if gjson.Get(r.body, "result.resultType").String() != "input_required" {
			t.Fatalf("%+v", r)
		}
		close(gate)
		r = srv.modernly(retryOf("8", ada, r))
		sameJSON(t, r.body, `{"jsonrpc":"2.0","id":8,"result":{"content":[],"resultType":"complete",`+identity+`}}`)
	})
}

// asksEach is a server that asks for a name in each call, and answers the call when its own
// question was answered.
func asksEach() *fakeServer {
	f := legacyServer(`{"tools":{}}`, nil)
	f.on("tools/call", func(u *peertest.Turn) {
		if u.Asks(strings.Replace(nameQuestion, `"s1"`, `"q`+u.ID+`"`, 1)) != "" {
			u.Say(result(u.ID, `"content":[{"type":"text","text":"done"}]`))
		}
	})
	f.NoGet = true
	return f
}

// TestTwoCallersAtOnceAskDifferentUsers: calls of one principal share a session, and calls of two
// principals never do. Each question is asked in the call that it came with.
func TestTwoCallersAtOnceAskDifferentUsers(t *testing.T) {
	const n = 8
	var mu sync.Mutex
	opened := 0
	o := origin.Origin{Connect: func(ctx context.Context, m *upstream.Outgoing) (*upstream.Begun, error) {
		mu.Lock()
		opened++
		mu.Unlock()
		return asksEach().origin().Connect(ctx, m)
	}}
	srv := frontOf(t, o)
	var wg sync.WaitGroup
	for k := range n {
		wg.Go(func() {
			who := []string{"Authorization", fmt.Sprintf("Bearer %d", k/2)}
			id := fmt.Sprint(100 + k)
			r := srv.modernly(modernCall(id, ""), who...)
			if gjson.Get(r.body, "id").Raw != id {
				t.Errorf("%+v", r)
				return
			}
			r = srv.modernly(retryOf(id, ada, r), who...)
			if gjson.Get(r.body, "id").Raw != id || !strings.Contains(r.body, "done") {
				t.Errorf("%+v", r)
			}
		})
	}
	wg.Wait()
	if opened != n/2 {
		t.Errorf("%d sessions for %d calls of %d principals", opened, n, n/2)
	}
}

func TestClientThatNeverComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _ := asksName(nameQuestion)
		srv := front(t, f, func(c *config.Config) { c.Bridge.ParkTimeout = 50 * time.Millisecond })
		r := srv.modernly(modernCall("7", ""))
		eventually(t, "the call is given up", func() bool { return srv.Modern.Counts().Parked == 0 && len(f.sent()) >= 5 })
		sent := f.sent()
		sameJSON(t, sent[3], `{"jsonrpc":"2.0","id":"s1","result":{"action":"cancel"}}`)
		sameJSON(t, sent[4], `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"the client did not answer in time"}}`)
		sameJSON(t, srv.modernly(retryOf("8", ada, r)).body, `{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"Invalid or expired requestState"}}`)
	})
}

func TestModernClientThatLeavesCancels(t *testing.T) {
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
		f := legacyServer(`{"tools":{}}`, func(string, string, string) ([]string, error) { return one(hang) })
		f.NoGet = true
		srv := front(t, f)
		ctx, leave := context.WithCancelCause(context.Background())
		body := modernRequestOf("7", "tools/call", `"name":"t",`+meta(capabilities))
		done := make(chan struct{})
		go func() {
			defer close(done)
			srv.exchange(ctx, "POST", "", body, modernHeader(body)...)
		}()
		eventually(t, "the call is there", func() bool { return len(f.sent()) == 3 })
		leave(downstream.ErrClientLeft)
		<-done
		eventually(t, "the call is cancelled", func() bool { return len(f.sent()) == 4 })
		sameJSON(t, f.sent()[3], `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"client disconnected"}}`)
	}
}

func TestURLsThatACallNeeds(t *testing.T) {
	calls := 0
	f := legacyServer(`{"tools":{}}`, func(id, method, m string) ([]string, error) {
		if calls++; calls%2 == 0 {
			return one(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[]}}`)
		}
		return one(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://a.example/c","message":"Sign in"}]}}}`)
	})
	f.NoGet = true
	srv := front(t, f, func(c *config.Config) { c.Bridge.OpenedTimeout = time.Millisecond }) // it never reports that they were opened
	call := func(id, capabilities, more string) reply {
		return srv.modernly(modernRequestOf(id, "tools/call", `"name":"t",`+more+meta(capabilities)))
	}
	const url = `{"elicitation":{"url":{}}}`
	r := call("7", url, "")
	state := gjson.Get(r.body, "result.requestState").Raw
	sameJSON(t, r.body, `{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","inputRequests":{"elicitation-1":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example/c","message":"Sign in"}}},"requestState":`+state+`,`+identity+`}}`)
	sameJSON(t, call("8", url, `"inputResponses":{"elicitation-1":{"action":"accept"}},"requestState":`+state+`,`).body,
		`{"jsonrpc":"2.0","id":8,"result":{"content":[],"resultType":"complete",`+identity+`}}`)

	r = call("9", url, "")
	state = gjson.Get(r.body, "result.requestState").Raw
	sameJSON(t, call("10", url, `"inputResponses":{"elicitation-1":{"action":"decline"}},"requestState":`+state+`,`).body,
		`{"jsonrpc":"2.0","id":10,"result":{"resultType":"complete","content":[{"type":"text","text":"User did not complete: Sign in"}],"isError":true}}`)

	calls = 0
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
		calls = 0
		r = call("7", capabilities, "")
		sameJSON(t, r.body, `{"jsonrpc":"2.0","id":7,"error":{"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":{"elicitation":{"url":{}}}}}}`)
		if r.status != 400 {
			t.Errorf("status %d", r.status)
		}
	}
}

func TestSubscriptionGetsOnlyWhatItAskedFor(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := legacyServer(`{"tools":{"listChanged":true},"resources":{"subscribe":true}}`, func(id, _, _ string) ([]string, error) {
			return one(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
		})
		f.piped = piped
		srv := front(t, f)
		ctx, leave := context.WithCancelCause(context.Background())
		defer leave(nil)
		body := modernRequestOf(`"L"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["file:///a"]},`+meta(`{}`))
		_, resp := srv.begin(ctx, "POST", "", body, modernHeader(body)...)
		next := func() string {
			e, err := resp.Stream.Next()
			if err != nil {
				t.Fatal(err)
			}
			return string(e.Data)
		}
		sameJSON(t, next(), `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}}}`)
		f.Unasked(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a/b"}}`)
		sameJSON(t, next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a/b","_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}`)
		f.Unasked(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
		f.Unasked(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		sameJSON(t, next(), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}`)
		leave(downstream.ErrClientLeft)
		if _, err := resp.Stream.Next(); err == nil {
			t.Error("goes on")
		}
		resp.Done()
		eventually(t, "unsubscribed", func() bool {
			sent := f.sent()
			return gjson.Get(sent[len(sent)-1], "method").String() == "resources/unsubscribe"
		})
	})
}

// TestBothErasOnOnePipe: a client may send server/discover first and initialize afterwards.
func TestBothErasOnOnePipe(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		o := origin.Origin{Connect: func(ctx context.Context, m *upstream.Outgoing) (*upstream.Begun, error) {
			own := legacyServer(`{"tools":{}}`, func(id, method, m string) ([]string, error) {
				return one(`{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[]}}`)
			})
			own.piped = piped
			return own.origin().Connect(ctx, m)
		}}
		c := frontOf(t, o).pipe()
		c.say(modernRequestOf("1", "server/discover", meta(`{}`)))
		if got := c.hear(); gjson.Get(got, "result.supportedVersions.0").String() != "2026-07-28" {
			t.Error(got)
		}
		c.say(modernRequestOf("2", "tools/list", meta(`{}`)))
		c.hears(`{"jsonrpc":"2.0","id":2,"result":{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private",` + identity + `}}`)
		c.initialize("2025-06-18", `{}`)
		c.say(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
		c.hears(`{"jsonrpc":"2.0","id":3,"result":{"tools":[]}}`)
		c.say(modernRequestOf("4", "tools/list", meta(`{}`)))
		if got := c.hear(); gjson.Get(got, "result.resultType").String() != "complete" {
			t.Error(got)
		}
	})
}

// TestIDsAreFreeOnceAnswered: a client that has the response may use the request's id again.
func TestIDsAreFreeOnceAnswered(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) { return one(result(id, `"tools":[]`)) })
	f.piped = true
	c := front(t, f).pipe()
	for n := range 200 {
		c.say(modernRequestOf("1", []string{"tools/list", "server/discover"}[n%2], meta(`{}`)))
		if got := c.hear(); !gjson.Get(got, "result").Exists() {
			t.Fatal(got)
		}
	}
}

// TestModernRevisionHasNoStandingStream: a GET is refused.
func TestModernRevisionHasNoStandingStream(t *testing.T) {
	srv := front(t, legacyServer(`{"tools":{}}`, nil))
	if r := srv.exchange(context.Background(), "GET", "", "", "MCP-Protocol-Version", "2026-07-28"); r.status != 405 || r.header["Allow"] != "POST" {
		t.Errorf("%+v", r)
	}
}
