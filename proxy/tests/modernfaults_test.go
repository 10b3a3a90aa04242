package tests

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/modernclient"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// perSession is an origin with a new server for each session, which it passes to the test.
func perSession(make func() *fakeServer) (origin.Origin, func() []*fakeServer) {
	var mu sync.Mutex
	var all []*fakeServer
	o := origin.Origin{Connect: func(ctx context.Context, m *upstream.Outgoing) (*upstream.Begun, error) {
		f := make()
		mu.Lock()
		all = append(all, f)
		mu.Unlock()
		return f.origin().Connect(ctx, m)
	}}
	return o, func() []*fakeServer {
		mu.Lock()
		defer mu.Unlock()
		return append([]*fakeServer(nil), all...)
	}
}

func listServer() *fakeServer {
	f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) {
		return one(`{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[]}}`)
	})
	f.NoGet = true
	return f
}

var modernTools = modernRequestOf("1", "tools/list", meta(`{}`))

// TestUpstreamDiesWhileAQuestionIsParked: the client's retry gets an error, and the next call
// another session.
func TestUpstreamDiesWhileAQuestionIsParked(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		breaks := make(chan struct{}, 1)
		o, all := perSession(func() *fakeServer {
			f := legacyServer(`{"tools":{}}`, nil)
			f.piped, f.NoGet = piped, true
			f.on("tools/call", func(u *peertest.Turn) {
				if u.Say(nameQuestion); !piped && u.Until(breaks) {
					u.Say("no message")
					u.Fail(io.ErrUnexpectedEOF)
				}
			})
			return f
		})
		srv := frontOf(t, o)
		r := srv.modernly(modernCall("7", ""))
		if gjson.Get(r.body, "result.resultType").String() != "input_required" {
			t.Fatalf("%+v", r)
		}
		if f := all()[0]; piped {
			f.lose(upstream.ErrLost)
		} else {
			breaks <- struct{}{}
		}
		eventually(t, "the end is known", func() bool { return srv.Modern.Counts().Answered == 1 })
		r = srv.modernly(retryOf("8", ada, r))
		if r.status != 502 || gjson.Get(r.body, "id").Raw != "8" || gjson.Get(r.body, "error.code").Int() != -32603 {
			t.Errorf("%+v", r)
		}
		if n := srv.Modern.Counts().Parked; n != 0 {
			t.Errorf("%d parked", n)
		}
		if r := srv.modernly(modernCall("9", "")); gjson.Get(r.body, "result.resultType").String() != "input_required" {
			t.Errorf("the next call: %+v", r)
		}
		if n := len(all()); piped && n != 2 {
			t.Errorf("%d sessions", n)
		}
	})
}

// TestAnswerThatComesWhileParked: the server's response is kept for the retry, whose answers are
// then ignored.
func TestAnswerThatComesWhileParked(t *testing.T) {
	f, gate := asksName(nameQuestion)
	srv := front(t, f)
	r := srv.modernly(modernCall("7", ""))
	gate <- struct{}{}
	eventually(t, "the answer is there", func() bool { return srv.Modern.Counts().Answered == 1 })
	sent := len(f.sent())
	sameJSON(t, srv.modernly(retryOf("8", ada, r)).body, `{"jsonrpc":"2.0","id":8,"result":{"content":[{"type":"text","text":"done"}],"resultType":"complete",`+identity+`}}`)
	if n := len(f.sent()); n != sent {
		t.Errorf("the server got %q", f.sent()[sent:])
	}
}

func TestRetryAtAnotherReplicaIsRefused(t *testing.T) {
	all := severalOf(t, newSessionServer(t, "2025-11-25", nameQuestion), 2)
	r := all[0].modernly(modernCall("7", ""))
	other := all[1].modernly(retryOf("8", ada, r))
	sameJSON(t, other.body, `{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"Invalid or expired requestState"}}`)
	if r := all[0].modernly(retryOf("9", ada, r)); !strings.Contains(gjson.Get(r.body, "result.content.0.text").String(), "Ada") {
		t.Errorf("where it belongs: %+v", r)
	}
}

// TestReloadBeginsNewSessions: open calls continue on their sessions.
func TestReloadBeginsNewSessions(t *testing.T) {
	o, all := perSession(func() *fakeServer {
		f, gate := asksName(nameQuestion)
		open(f, gate)
		return f
	})
	srv := frontOf(t, o)
	r := srv.modernly(modernCall("7", ""))
	cfg := srv.Now().Config
	if err := srv.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	srv.modernly(modernRequestOf("1", "server/discover", meta(`{"elicitation":{}}`)))
	if n := len(all()); n != 2 {
		t.Errorf("%d sessions", n)
	}
	if r := srv.modernly(retryOf("8", ada, r)); !strings.Contains(r.body, "done") {
		t.Errorf("%+v", r)
	}
	eventually(t, "the old session has ended", all()[0].ended)
}

func TestPrincipalByHeader(t *testing.T) {
	o, all := perSession(listServer)
	srv := frontOf(t, o, func(c *config.Config) { c.Bridge.Principal = "header:X-User" })
	for n, header := range [][]string{{"X-User", "a"}, {"X-User", "b"}, {"X-User", "a", "Authorization", "Bearer new"}, {}} {
		if r := srv.modernly(modernTools, header...); r.status != 200 {
			t.Errorf("%d: %+v", n, r)
		}
	}
	if n := len(all()); n != 3 {
		t.Errorf("%d sessions for two principals and a client without one", n)
	}
}

// TestSessionThatTheServerForgot: the session is replaced, once.
func TestSessionThatTheServerForgot(t *testing.T) {
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
		var forgotten atomic.Bool
		o, all := perSession(func() *fakeServer {
			f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) {
				return one(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[]}}`)
			})
			f.NoGet, f.SessionID = true, "named"
			first := !forgotten.Load()
			f.First = failing(func(m string) error {
				if first && forgotten.Load() && strings.Contains(m, "tools/call") {
					return &upstream.StatusError{Code: 404}
				}
				return nil
			})
			return f
		})
		srv := frontOf(t, o)
		call := modernRequestOf("7", "tools/call", `"name":"t",`+meta(capabilities))
		srv.modernly(call)
		forgotten.Store(true)
		if r := srv.modernly(call); gjson.Get(r.body, "result.resultType").String() != "complete" {
			t.Errorf("%+v", r)
		}
		if n := len(all()); n != 2 {
			t.Errorf("%d sessions", n)
		}
	}
}

func TestTooManyCallsWait(t *testing.T) {
	o, all := perSession(asksEach)
	srv := frontOf(t, o, func(c *config.Config) { c.Bridge.MaxParked = 1 })
	srv.modernly(modernCall("7", ""))
	r := srv.modernly(modernCall("8", ""))
	sameJSON(t, r.body, `{"jsonrpc":"2.0","id":8,"error":{"code":-32603,"message":"too many calls wait for their clients' answers; try again later"}}`)
	if r.status != 503 {
		t.Errorf("status %d", r.status)
	}
	eventually(t, "the second call is given up", func() bool {
		sent := all()[0].sent()
		return strings.Contains(sent[len(sent)-1], "notifications/cancelled")
	})
}

func TestTheSessionUnusedForLongestMakesRoom(t *testing.T) {
	o, all := perSession(listServer)
	srv := frontOf(t, o, func(c *config.Config) { c.Bridge.MaxSessions = 1 })
	for _, who := range []string{"a", "b"} {
		if r := srv.modernly(modernTools, "Authorization", who); r.status != 200 {
			t.Errorf("%+v", r)
		}
	}
	eventually(t, "the first has ended", all()[0].ended)
}

func TestNoRoomForASession(t *testing.T) {
	o, _ := perSession(func() *fakeServer { f, _ := asksName(nameQuestion); return f })
	srv := frontOf(t, o, func(c *config.Config) { c.Bridge.MaxSessions = 1 })
	srv.Modern.Waits.Room = time.Millisecond
	srv.modernly(modernCall("7", ""))
	if r := srv.modernly(modernTools, "Authorization", "b"); r.status != 503 || r.header["Retry-After"] == "" || gjson.Get(r.body, "error.message").String() != "too many sessions; try again later" {
		t.Errorf("%+v", r)
	}
}

// TestCallsWaitForRoom until another client's call has ended.
func TestCallsWaitForRoom(t *testing.T) {
	o, all := perSession(asksEach)
	srv := frontOf(t, o, func(c *config.Config) { c.Bridge.MaxSessions = 1 })
	srv.Modern.Waits.Room = patience
	r := srv.modernly(modernCall("7", ""))
	waited := make(chan reply, 1)
	go func() { waited <- srv.modernly(modernCall("9", ""), "Authorization", "b") }()
	eventually(t, "the call waits", func() bool { return srv.Modern.Counts().Waiting })
	srv.modernly(retryOf("8", ada, r))
	if r := <-waited; gjson.Get(r.body, "result.resultType").String() != "input_required" {
		t.Errorf("%+v", r)
	}
	if n := len(all()); n != 2 {
		t.Errorf("%d sessions", n)
	}
}

// TestQuestionsThatBelongToNoCall are refused, and all calls get their answers.
func TestQuestionsThatBelongToNoCall(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := legacyServer(`{"tools":{}}`, func(id, method, _ string) ([]string, error) {
			if method == "" {
				return nil, nil
			}
			return one(`{"jsonrpc":"2.0","id":"s1","method":"roots/list"}`, `{"jsonrpc":"2.0","id":`+id+`,"result":{"tools":[]}}`)
		})
		f.piped = piped
		srv := front(t, f)
		srv.Modern.Waits.Unattributed = time.Millisecond
		r := srv.modernly(modernRequestOf("1", "tools/list", meta(`{"roots":{}}`)))
		if gjson.Get(r.body, "result.resultType").String() != "complete" {
			t.Errorf("%+v", r)
		}
		eventually(t, "the question is refused", func() bool {
			sent := f.sent()
			return gjson.Get(sent[len(sent)-1], "error.message").String() == "no client request to attach to"
		})
	})
}

// TestQuestionBeforeTheCallThatAnswersIt: the question goes to the next call in which the server
// may ask.
func TestQuestionBeforeTheCallThatAnswersIt(t *testing.T) {
	f, gate := asksName(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}`)
	f.on("tools/list", func(u *peertest.Turn) { u.Say(nameQuestion, result(u.ID, `"tools":[]`)) })
	srv := front(t, f)
	srv.modernly(modernRequestOf("1", "tools/list", meta(`{"elicitation":{}}`)))
	gate <- struct{}{} // the call does not wait
	r := srv.modernly(modernCall("7", ""))
	r = srv.modernly(retryOf("8", ada, r))
	if !strings.Contains(r.body, "done") {
		t.Errorf("%+v", r)
	}
	sent := f.sent()
	sameJSON(t, sent[len(sent)-1], `{"jsonrpc":"2.0","id":"s1","result":{"action":"accept","content":{"n":"Ada"}}}`)
}

// TestTheUsersTimeIsNotTheServersSilence: only the server's own silence counts.
func TestTheUsersTimeIsNotTheServersSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, _ := asksName(nameQuestion) // and then sends nothing
		const limit = 100 * time.Millisecond
		srv := front(t, f, func(c *config.Config) { c.Upstream.SilenceTimeout = limit })
		r := srv.modernly(modernCall("7", ""))
		<-time.After(3 * limit) // the user thinks; a call that had ended would have its response
		if c := srv.Modern.Counts(); c.Parked != 1 || c.Answered != 0 {
			t.Error("the call has ended")
		}
		r = srv.modernly(retryOf("8", ada, r))
		if r.status != 504 || gjson.Get(r.body, "id").Raw != "8" {
			t.Errorf("%+v", r)
		}
		eventually(t, "the server is told", func() bool {
			sent := f.sent()
			return strings.Contains(sent[len(sent)-1], "notifications/cancelled")
		})
	})
}

// TestURLsAreAskedForUntilAllAreOpened, and then the call is repeated once.
func TestURLsAreAskedForUntilAllAreOpened(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var calls atomic.Int32
		f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) {
			if calls.Add(1) > 1 {
				return one(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[]}}`)
			}
			return one(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32042,"message":"m","data":{"elicitations":[
			{"mode":"url","elicitationId":"e1","url":"https://a.example/1","message":"One"},
			{"mode":"url","elicitationId":"e2","url":"https://a.example/2","message":"Two"}]}}}`)
		})
		f.NoGet = true
		srv := front(t, f)
		retry := func(id, inputs, state string) reply {
			return srv.modernly(modernRequestOf(id, "tools/call", `"name":"t",`+`"inputResponses":`+inputs+`,"requestState":`+state+`,`+meta(`{"elicitation":{"url":{}}}`)))
		}
		r := srv.modernly(modernRequestOf("7", "tools/call", `"name":"t",`+meta(`{"elicitation":{"url":{}}}`)))
		r = retry("8", `{"elicitation-2":{"action":"accept"}}`, gjson.Get(r.body, "result.requestState").Raw)
		sameJSON(t, gjson.Get(r.body, "result.inputRequests").Raw, `{"elicitation-1":{"method":"elicitation/create","params":{"mode":"url","url":"https://a.example/1","message":"One"}}}`)
		state := gjson.Get(r.body, "result.requestState").Raw
		var wg sync.WaitGroup
		var complete, refused atomic.Int32
		for n := range 4 {
			wg.Go(func() {
				switch r := retry(fmt.Sprint(10+n), `{"elicitation-1":{"action":"accept"}}`, state); {
				case gjson.Get(r.body, "result.resultType").String() == "complete":
					complete.Add(1)
				case gjson.Get(r.body, "error.code").Int() == -32602:
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		if complete.Load() != 1 || refused.Load() != 3 || calls.Load() != 2 {
			t.Errorf("%d complete, %d refused, %d calls", complete.Load(), refused.Load(), calls.Load())
		}
	})
}

// TestWaitingClientsGetAnErrorAtShutdown: when dragoman stops, waiting clients get an error, also in later
// rounds.
func TestWaitingClientsGetAnErrorAtShutdown(t *testing.T) {
	f, _ := asksName(nameQuestion)
	srv := front(t, f)
	r := srv.modernly(modernCall("7", ""))
	told := make(chan reply, 1)
	go func() { told <- srv.modernly(retryOf("8", ada, r)) }()
	eventually(t, "the answer is delivered", func() bool { return len(f.sent()) == 4 })
	srv.Close()
	if r := <-told; r.status != 503 || gjson.Get(r.body, "id").Raw != "8" {
		t.Errorf("%+v", r)
	}
}

// TestTwoNamesOfOneCall: a call whose header and body name different tools is refused, since
// proxies read the header.
func TestTwoNamesOfOneCall(t *testing.T) {
	srv := front(t, listServer())
	for _, c := range []struct {
		method, params string
		code           int64
	}{
		{"tools/call", `"name":"danger","uri":"safe",`, -32020},
		{"tools/call", `"name":"danger","name":"safe",`, -32600},
		{"tools/call", `"name":"safe","name":"danger",`, -32600},
		{"resources/read", `"uri":"danger","name":"safe",`, -32020},
	} {
		r := srv.modernly(modernRequestOf("1", c.method, c.params+meta(`{}`)), "Mcp-Name", "safe")
		if r.status != 400 || gjson.Get(r.body, "error.code").Int() != c.code {
			t.Errorf("%s {%s}: %+v", c.method, c.params, r)
		}
	}
	if r := srv.modernly(modernRequestOf("1", "tools/call", `"name":"safe","uri":"other",`+meta(`{}`)), "Mcp-Name", "safe"); r.status != 200 {
		t.Errorf("%+v", r)
	}
}

// TestCallsDoNotWaitForAStandingStreamThatDoesNotOpen: calls do not wait for it for long.
func TestCallsDoNotWaitForAStandingStreamThatDoesNotOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, gate := asksName(nameQuestion)
		open(f, gate)
		srv := frontOf(t, origin.Opened(false, func(context.Context) (upstream.Conn, error) { return deafServer{f.conn()}, nil }))
		if r := srv.modernly(modernCall("7", "")); gjson.Get(r.body, "result.resultType").String() != "input_required" {
			t.Errorf("%+v", r)
		}
	})
}

// deafServer does not answer a GET before it is given up.
type deafServer struct{ upstream.Conn }

func (deafServer) Listen(ctx context.Context, _ upstream.ListenOptions) (upstream.Stream, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSubscriptionEndsWithoutAnErrorAtShutdown: a subscription ends without an error when the server or dragoman
// stops.
func TestSubscriptionEndsWithoutAnErrorAtShutdown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, how := range []string{"server", "us"} {
			f := legacyServer(`{"tools":{"listChanged":true}}`, nil)
			f.piped = true
			srv := front(t, f)
			body := modernRequestOf("3", "subscriptions/listen", `"notifications":{"toolsListChanged":true},`+meta(`{}`))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			req, resp := srv.begin(ctx, "POST", "", body, modernHeader(body)...)
			if _, err := resp.Stream.Next(); err != nil {
				t.Fatal(err)
			}
			if how == "us" {
				srv.Host.Drain()
			} else {
				f.lose(upstream.ErrLost)
			}
			r := srv.read(req, resp)
			sameList(t, how, r.events, []string{`{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":3}}}`})
			cancel()
		}
	})
}

// TestOwnToolsForModernClients: dragoman's own tools are listed, can be called, and can ask the
// user.
func TestOwnToolsForModernClients(t *testing.T) {
	own := asker("ours")
	srv := beside(t, listing("2025-06-18", nil, nil), own)
	r := srv.modernly(modernRequestOf("1", "tools/list", `"cursor":"2",`+meta(canBeAsked)))
	if names(r.body) != "ours" {
		t.Errorf("%+v", r)
	}
	call := func(id, more string) string {
		return modernRequestOf(id, "tools/call", `"name":"ours","arguments":{},`+more+meta(canBeAsked))
	}
	r = srv.modernly(call("7", ""))
	if gjson.Get(r.body, "result.inputRequests.elicitation-1.method").String() != "elicitation/create" {
		t.Fatalf("%+v", r)
	}
	r = srv.modernly(call("8", `"inputResponses":{"elicitation-1":{"action":"accept","content":{}}},"requestState":`+gjson.Get(r.body, "result.requestState").Raw+`,`))
	if gjson.Get(r.body, "id").Raw != "8" || gjson.Get(r.body, "result.resultType").String() != "complete" || text(r.body) != "true <nil>" {
		t.Errorf("%+v", r)
	}
}

// TestModernResultsAreCutToTheirBudget, and only the same principal can read the rest.
func TestModernResultsAreCutToTheirBudget(t *testing.T) {
	f := answering("2025-11-25", false, func(string) string { return texts(issues(500)) }, noTools)
	srv := front(t, f, shaped(t, "default_max_tokens: 500"), func(c *config.Config) { c.Bridge.Principal = "header:X-User" })
	mine := []string{"X-User", "a"}
	call := modernRequestOf("7", "tools/call", `"name":"t",`+meta(`{}`))
	r := srv.modernly(call, mine...)
	if n := count(t, gjson.Get(r.body, "result")); n > 500 || n < 200 {
		t.Errorf("%d tokens", n)
	}
	less := srv.modernly(call, append([]string{"X-Max-Tokens", "200"}, mine...)...)
	if n := count(t, gjson.Get(less.body, "result")); n > 200 {
		t.Errorf("%d tokens", n)
	}
	cursor := gjson.Get(r.body, "result._meta.dragoman/transform.cursor").String()
	more := modernRequestOf("8", "tools/call", fmt.Sprintf(`"name":"fetch_more","arguments":{"cursor":%q},`, cursor)+meta(`{}`))
	if r := srv.modernly(more, "X-User", "b"); !gjson.Get(r.body, "result.isError").Bool() {
		t.Errorf("another principal: %.300s", r.body)
	}
	if r := srv.modernly(more, mine...); gjson.Get(r.body, "result.isError").Bool() || gjson.Get(r.body, "result.resultType").String() != "complete" {
		t.Errorf("its own: %.300s", r.body)
	}
}

// TestOneUpstreamRequestForEachCall, once there is a session and its standing stream.
func TestOneUpstreamRequestForEachCall(t *testing.T) {
	s := newSessionServer(t, "2025-11-25", "")
	s.Every = true
	requests := func() (posts, others int) {
		for _, m := range s.Heard() {
			if strings.HasPrefix(m.Text, "{") {
				posts++
			} else {
				others++
			}
		}
		return posts, others
	}
	srv := severalOf(t, s, 1)[0]
	for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
		list := modernRequestOf("7", "test/session", meta(capabilities))
		_, before := requests()
		srv.modernly(list)
		eventually(t, "the standing stream", func() bool { _, others := requests(); return others == before+1 })
		posts, others := requests()
		for range 20 {
			if r := srv.modernly(list); r.status != 200 {
				t.Fatalf("%+v", r)
			}
		}
		if p, o := requests(); p != posts+20 || o != others {
			t.Errorf("%d POSTs and %d others for 20 calls", p-posts, o-others)
		}
	}
}

// TestParkedQuestionsAreBoundedInBytes, of all calls together. What ends gives its room to others.
func TestParkedQuestionsAreBoundedInBytes(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, nil)
	f.Script = func(script func(*peertest.Turn)) func(*peertest.Turn) {
		return func(u *peertest.Turn) {
			if u.Method != "tools/call" {
				script(u)
				return
			}
			u.Asks(`{"jsonrpc":"2.0","id":"q` + u.ID + `","method":"elicitation/create","params":{"message":"` + strings.Repeat("m", 200<<10) + `","requestedSchema":{"type":"object","properties":{}}}}`)
			u.Say(result(u.ID, `"content":[]`))
		}
	}(f.Script)
	srv := front(t, f, func(c *config.Config) { c.Limits.InHand = 4 << 20 })
	var asked []reply
	for n := range 4 { // of 200 KiB each in 1 MiB
		r := srv.modernly(modernCall(fmt.Sprint(n), ""))
		if r.status != 200 || gjson.Get(r.body, "result.resultType").String() != "input_required" {
			t.Fatalf("%d %.300s", r.status, r.body)
		}
		asked = append(asked, r)
	}
	var full reply
	for n := range 2 { // the first may still fit
		full = srv.modernly(modernCall(fmt.Sprint(4+n), ""))
	}
	if full.status != 503 || !strings.Contains(full.body, "limits.in_hand") {
		t.Errorf("%d %.300s", full.status, full.body)
	}
	inputs := gjson.Get(asked[0].body, "result.inputRequests").Map()
	for name := range inputs {
		r := srv.modernly(retryOf("9", `{"`+name+`":{"action":"decline"}}`, asked[0]))
		if r.status != 200 || gjson.Get(r.body, "result.resultType").String() != "complete" {
			t.Errorf("%d %.300s", r.status, r.body)
		}
	}
	if r := srv.modernly(modernCall("10", "")); r.status != 200 {
		t.Errorf("%d %.300s", r.status, r.body)
	}
	srv.Modern.Close()
	eventually(t, "nothing is kept", func() bool { return srv.Host.Memory().Kept() == 0 })
}

// TestManyParkedCalls: each answer goes to its call, and nothing remains.
func TestManyParkedCalls(t *testing.T) {
	const n = 200
	o, all := perSession(asksEach)
	srv := frontOf(t, o)
	asked := make([]reply, n)
	each := func(do func(k int)) {
		var wg sync.WaitGroup
		for k := range n {
			wg.Go(func() { do(k) })
		}
		wg.Wait()
	}
	who := func(k int) []string { return []string{"Authorization", fmt.Sprintf("Bearer %d", k%7)} }
	each(func(k int) { asked[k] = srv.modernly(modernCall(fmt.Sprint(k), ""), who(k)...) })
	if p := srv.Modern.Counts().Parked; p != n {
		t.Fatalf("%d parked", p)
	}
	each(func(k int) {
		id := fmt.Sprint(n + k)
		switch k % 4 {
		case 0: // the client never returns
		case 1: // the client leaves during the call
			ctx, leave := context.WithCancel(t.Context())
			leave()
			body := retryOf(id, ada, asked[k])
			srv.exchange(ctx, "POST", "", body, modernHeader(body, who(k)...)...)
		default:
			if r := srv.modernly(retryOf(id, ada, asked[k]), who(k)...); gjson.Get(r.body, "id").Raw != id || !strings.Contains(r.body, "done") {
				t.Errorf("%+v", r)
			}
		}
	})
	if held := srv.Modern.Counts().Sessions; held != len(all()) {
		t.Errorf("%d held of %d sessions", held, len(all()))
	}
	srv.Modern.Close()
	eventually(t, "nothing is left", func() bool { c := srv.Modern.Counts(); return c == modernclient.Counts{} })
}
