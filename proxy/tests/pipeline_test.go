package tests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

const (
	callOne  = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`
	sampling = `{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":5}}`
)

func TestAnswerAloneIsTheBody(t *testing.T) {
	f := newFake(initializing("2025-06-18", obliging))
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	r := srv.post(s, `{ "jsonrpc":"2.0", "id":1.0, "method":"ping" }`)
	if r.status != 200 || r.body != `{"jsonrpc":"2.0","id":1.0,"result":{}}` {
		t.Errorf("%+v", r)
	}
	if got := f.sent()[1]; got != `{ "jsonrpc":"2.0", "id":1.0, "method":"ping" }` {
		t.Errorf("equal revisions: sent %q", got)
	}
	if srv.outcomes(metrics.Succeeded, "ping") != 1 {
		t.Error("not counted")
	}
}

func TestWhatComesFirstMakesAStream(t *testing.T) {
	f := newFake(initializing("2025-06-18", func(string) ([]string, error) {
		return one("id:a ", "id:b "+logLine, sampling, "id:c "+`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1}}}`, logLine)
	}))
	srv := front(t, f)
	s := srv.initialize("2025-03-26")
	r := srv.post(s, callOne)
	sameList(t, "events", r.events, []string{logLine, sampling,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"},{"type":"text","text":"{\"a\":1}"}]}}`})
	if got := strings.Join(r.ids, ","); got != "b,,c" {
		t.Errorf("ids %s", got)
	}
}

func TestEventsWithoutAMessagePassBetweenEquals(t *testing.T) {
	f := newFake(initializing("2025-11-25", func(string) ([]string, error) { return one("id:a ", "id:b "+pingAnswer) }))
	srv := front(t, f)
	r := srv.post(srv.initialize("2025-11-25"), pingOne)
	if len(r.events) != 2 || r.events[0] != "" || r.ids[0] != "a" || r.ids[1] != "b" {
		t.Errorf("%+v", r)
	}
}

func TestIDStaysOnTheLastPieceOfASplitEvent(t *testing.T) {
	f := newFake(initializing("2025-03-26", func(string) ([]string, error) {
		return one("id:7 [" + logLine + `,{"jsonrpc":"2.0","id":1,"result":{"content":[]}}]`)
	}))
	srv := front(t, f)
	r := srv.post(srv.initialize("2025-06-18"), callOne)
	if got := strings.Join(r.ids, ","); got != ",7" {
		t.Errorf("ids %q", got)
	}
}

func TestClientsAnswerKeepsItsMethod(t *testing.T) {
	f := newFake(nil)
	f.Script = initializing("2024-11-05", func(m string) ([]string, error) {
		if gjson.Get(m, "method").Exists() {
			return one(sampling, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		}
		return nil, nil
	})
	srv := front(t, f)
	s := srv.initializeWith("2025-11-25", `{"sampling":{}}`)
	srv.post(s, callOne)
	// Content becomes an array only if the method is known: a server of 2024-11-05 gets one block.
	r := srv.post(s, `{"jsonrpc":"2.0","id":"s\u0031","result":{"role":"assistant","model":"m","content":[{"type":"text","text":"hi"}]}}`)
	if r.status != 202 || r.body != "" {
		t.Errorf("%+v", r)
	}
	sent := f.sent()
	sameJSON(t, sent[len(sent)-1], `{"jsonrpc":"2.0","id":"s1","result":{"role":"assistant","model":"m","content":{"type":"text","text":"hi"}}}`)
}

func TestFormAnswerIsTranslatedForTheServer(t *testing.T) {
	ask := `{"jsonrpc":"2.0","id":"e1","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"c":{"type":"array","items":{"type":"string","enum":["x","y"]}}}}}}`
	f := newFake(nil)
	f.Script = initializing("2025-11-25", func(m string) ([]string, error) {
		if gjson.Get(m, "method").Exists() {
			return one(ask, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		}
		return nil, nil
	})
	srv := front(t, f)
	s := srv.initializeWith("2025-06-18", `{"elicitation":{}}`)
	r := srv.post(s, callOne)
	if !gjson.Get(r.events[0], `params.requestedSchema.properties.c\.0`).Exists() {
		t.Fatalf("%q", r.events)
	}
	answer := `{"jsonrpc":"2.0","id":"e1","result":{"action":"accept","content":{"c.0":false,"c.1":true}}}`
	srv.post(s, answer)
	sent := f.sent()
	sameJSON(t, sent[len(sent)-1], `{"jsonrpc":"2.0","id":"e1","result":{"action":"accept","content":{"c":["y"]}}}`)

	// The same answer once more belongs to no open question.
	srv.post(s, answer)
	if more := f.sent(); len(more) != len(sent) {
		t.Errorf("the server got %s", more[len(sent):])
	}
}

// TestUntranslatableMessageIsAnErrorForItsRequester: if a request or response cannot be translated, the
// peer that sent the request gets an error.
func TestUntranslatableMessageIsAnErrorForItsRequester(t *testing.T) {
	unsayable := `"result":[]`
	ask := `{"jsonrpc":"2.0","id":"s1","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`
	f := newFake(nil)
	f.Script = initializing("2025-11-25", func(m string) ([]string, error) {
		if gjson.Get(m, "method").Exists() {
			return one(ask, `{"jsonrpc":"2.0","id":1,`+unsayable+`}`)
		}
		return nil, nil
	})
	srv := front(t, f)
	s := srv.initializeWith("2025-06-18", `{"elicitation":{}}`)
	r := srv.post(s, listOne)
	if len(r.events) != 2 || gjson.Get(r.events[1], "error.code").Int() != -32603 ||
		!strings.HasPrefix(gjson.Get(r.events[1], "error.message").String(), "translation 2025-11-25->2025-06-18 failed for tools/list") {
		t.Errorf("%q", r.events)
	}
	if r := srv.post(s, `{"jsonrpc":"2.0","id":"s1",`+unsayable+`}`); r.status != 202 {
		t.Errorf("%+v", r)
	}
	sent := f.sent()
	if last := sent[len(sent)-1]; gjson.Get(last, "error.code").Int() != -32603 || gjson.Get(last, "id").Raw != `"s1"` {
		t.Errorf("the server got %s", last)
	}
}

func TestUnknownAnswerIsLoggedOnce(t *testing.T) {
	f := newFake(initializing("2024-11-05", nil))
	srv := front(t, f)
	s := srv.initialize("2025-11-25")
	for range 3 {
		srv.post(s, `{"jsonrpc":"2.0","id":"gone","result":{"role":"assistant","model":"m","content":[{"type":"text","text":"hi"}]}}`)
	}
	if sent := f.sent(); strings.Contains(strings.Join(sent, ""), "gone") {
		t.Errorf("the server got %s", sent)
	}
	if n := srv.logs.FilterMessage("response with unknown request id").Len(); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

func TestWhatTheClientCannotAnswerIsAnsweredForIt(t *testing.T) {
	f := newFake(nil)
	f.Script = initializing("2025-06-18", func(m string) ([]string, error) {
		if gjson.Get(m, "method").Exists() {
			return one(`{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`,
				`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		}
		return nil, nil
	})
	srv := front(t, f)
	s := srv.initialize("2025-03-26")
	r := srv.post(s, callOne, "Authorization", "Bearer t")
	sameJSON(t, r.body, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	sent := f.sent()
	sameJSON(t, sent[len(sent)-1], `{"jsonrpc":"2.0","id":"e","error":{"code":-32601,"message":"Method not found: elicitation/create"}}`)
	if h := f.Last().Header; len(h) != 1 || h.Get("Authorization") != "Bearer t" {
		t.Errorf("answered without the client's headers: %v", h)
	}
}

func TestHeadersThatGoOn(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		f := newFake(initializing("2025-06-18", obliging))
		srv := front(t, f, func(c *config.Config) {
			if fixed {
				c.Upstream.Headers = map[string]string{"authorization": "Bearer ours"}
			}
		})
		s := srv.initialize("2025-06-18")
		srv.post(s, pingOne, "Authorization", "Bearer theirs", "traceparent", "00-1-2-3", "tracestate", "a=b", "baggage", "c=d", "Cookie", "no")
		got := fmt.Sprint(f.Heard()[1].Header)
		want := "map[Authorization:[Bearer theirs] Baggage:[c=d] Traceparent:[00-1-2-3] Tracestate:[a=b]]"
		if fixed {
			want = "map[Baggage:[c=d] Traceparent:[00-1-2-3] Tracestate:[a=b]]"
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestStreamThatEndsWithoutTheAnswer(t *testing.T) {
	for _, events := range [][]string{nil, {logLine}, {`not JSON`}, {`{"jsonrpc":"2.0","id":2,"result":{}}`}} {
		want := `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"upstream closed the stream without answering"}}`
		if len(events) > 0 && events[0] == `not JSON` {
			want = `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"upstream sent something that is not JSON-RPC"}}`
		}
		f := newFake(initializing("2025-06-18", func(string) ([]string, error) { return events, nil }))
		srv := front(t, f)
		r := srv.post(srv.initialize("2025-06-18"), callOne)
		if len(r.events) > 0 {
			sameJSON(t, r.events[len(r.events)-1], want)
			continue
		}
		if r.status != 200 {
			t.Errorf("status %d", r.status)
		}
		sameJSON(t, r.body, want)
	}
}

func TestStreamClosedEarlyIsResumed(t *testing.T) {
	f := newFake(initializing("2025-11-25", func(string) ([]string, error) { return one("id:p1 ", "id:p2 "+logLine) }))
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	f.Unasked("id:p3 " + `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	r := srv.post(s, callOne)
	sameList(t, "events", r.events, []string{logLine, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`})
	if at := f.listens(); len(at) != 1 || at[0].LastEventID != "p2" {
		t.Errorf("resumed at %+v", at)
	}
}

func TestCancelledCallEndsWithoutAnAnswer(t *testing.T) {
	for _, piped := range []bool{false, true} {
		f := newFake(nil)
		f.piped = piped
		f.Script = initializing("2025-06-18", func(m string) ([]string, error) {
			if gjson.Get(m, "id").Exists() {
				return one(hang)
			}
			return nil, nil
		})
		srv := front(t, f)
		s := srv.initialize("2025-06-18")
		got := make(chan reply)
		go func() { got <- srv.post(s, callOne) }()
		eventually(t, "call sent", func() bool { return len(f.sent()) == 2 })
		srv.post(s, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"x"}}`)
		if r := <-got; r.status != 202 || r.body != "" || len(r.events) > 0 {
			t.Errorf("%+v", r)
		}
		if len(f.sent()) != 3 || srv.outcomes(metrics.Cancelled, "tools/call") != 1 {
			t.Errorf("sent %q", f.sent())
		}
	}
}

func TestClientLeavingIsNoCancel(t *testing.T) {
	f := newFake(initializing("2025-06-18", func(string) ([]string, error) { return one(hang) }))
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	ctx, leave := context.WithCancel(context.Background())
	done := make(chan reply)
	go func() { done <- srv.exchange(ctx, "POST", s, callOne) }()
	eventually(t, "call sent", func() bool { return len(f.sent()) == 2 })
	leave()
	<-done
	if n := len(f.sent()); n != 2 {
		t.Errorf("told the server: %q", f.sent())
	}
	if srv.outcomes(metrics.Left, "tools/call") != 1 {
		t.Error("not counted as left")
	}
}

// TestFailedCallIsCountedAsFailed: the transport ends the context of every exchange before it calls
// done.
func TestFailedCallIsCountedAsFailed(t *testing.T) {
	f := newFake(initializing("2025-06-18", func(string) ([]string, error) { return nil, errors.New("gone") }))
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	ctx, cancel := context.WithCancelCause(context.Background())
	_, resp := srv.begin(ctx, "POST", s, callOne)
	cancel(downstream.ErrOver)
	resp.Done()
	if srv.outcomes(metrics.Failed, "tools/call") != 1 {
		t.Error("not counted as failed")
	}
}

func TestRequestsWithOneIDAreDistinguishedByTheirPosts(t *testing.T) {
	answered := make(chan struct{})
	f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
		<-answered
		return obliging(m)
	}))
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	a, b := make(chan reply), make(chan reply)
	go func() { a <- srv.post(s, pingOne) }()
	go func() { b <- srv.post(s, listOne) }()
	eventually(t, "both sent", func() bool { return len(f.sent()) == 3 })
	close(answered)
	sameJSON(t, (<-a).body, pingAnswer)
	sameJSON(t, (<-b).body, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
}

func TestTooManyOpenRequests(t *testing.T) {
	f := newFake(initializing("2025-06-18", func(string) ([]string, error) { return one(hang) }))
	srv := front(t, f, func(c *config.Config) { c.Limits.OpenRequests = 1 })
	s := srv.initialize("2025-06-18")
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan reply)
	go func() { done <- srv.exchange(ctx, "POST", s, callOne) }()
	eventually(t, "call sent", func() bool { return len(f.sent()) == 2 })
	r := srv.post(s, listTwo)
	sameJSON(t, r.body, `{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"too many open requests"}}`)
	stop()
	<-done
}

func TestServersRequestsAreBounded(t *testing.T) {
	f := newFake(nil)
	f.Script = initializing("2025-06-18", func(m string) ([]string, error) {
		if gjson.Get(m, "method").Exists() {
			return one(sampling, strings.Replace(sampling, "s1", "s2", 1), `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		}
		return nil, nil
	})
	srv := front(t, f, func(c *config.Config) { c.Limits.OpenRequests = 1 })
	s := srv.initializeWith("2025-06-18", `{"sampling":{}}`)
	r := srv.post(s, callOne)
	if len(r.events) != 2 {
		t.Errorf("%q", r.events)
	}
	sent := f.sent()
	sameJSON(t, sent[len(sent)-1], `{"jsonrpc":"2.0","id":"s2","error":{"code":-32603,"message":"too many open requests"}}`)
}

func TestMalformedMessagesAreAnsweredAndTheNextOneServed(t *testing.T) {
	f := newFake(initializing("2025-06-18", obliging))
	srv := front(t, f)
	s := srv.initialize("2025-03-26")
	for _, c := range []struct {
		in   string
		code int64
		id   string
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"`, -32700, "null"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"} x`, -32700, "null"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700, "null"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","\u0069d":2}`, -32600, "null"},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600, "null"},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, -32600, "null"},
		{`{"jsonrpc":"2.0","id":true,"method":"ping"}`, -32600, "null"},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, "null"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, -32600, "1"},
		{`{ }`, -32600, "null"},
		{`null`, -32600, "null"},
		{`1`, -32600, "null"},
		{`""`, -32600, "null"},
		{``, -32700, "null"},
		{strings.Repeat("[", 100_000), -32700, "null"},
		{strings.Repeat(`{"a":`, 100_000), -32700, "null"},
	} {
		r := srv.post(s, c.in)
		if r.status != 400 || gjson.Get(r.body, "error.code").Int() != c.code || gjson.Get(r.body, "id").Raw != c.id {
			t.Errorf("%.60q: %+v", c.in, r)
		}
		sameJSON(t, srv.post(s, pingOne).body, pingAnswer)
	}
}

func TestSessionsThatAreNot(t *testing.T) {
	f := newFake(initializing("2025-06-18", obliging))
	srv := front(t, f, func(c *config.Config) { c.Session.Max = 1 })
	s := srv.initialize("2025-06-18")
	for _, c := range []struct {
		what, method, session, version string
		status                         int
	}{
		{"unknown", "POST", "nope", "", 404},
		{"unknown", "GET", "nope", "", 404},
		{"unknown", "DELETE", "nope", "", 404},
		{"none", "GET", "", "", 400},
		{"none", "DELETE", "", "", 400},
		{"unknown version", "POST", s, "2020-01-01", 400},
		{"another known version", "POST", s, "2024-11-05", 200},
	} {
		ctx := context.Background()
		r := srv.exchange(ctx, c.method, c.session, pingOne, "MCP-Protocol-Version", c.version)
		if r.status != c.status || c.status != 200 && !gjson.Valid(r.body) {
			t.Errorf("%s %s: %+v", c.method, c.what, r)
		}
	}
	if r := srv.post("", initialize("2025-06-18", `{}`)); r.status != 503 {
		t.Errorf("one session too many: %+v", r)
	}
	if r := srv.exchange(context.Background(), "DELETE", s, ""); r.status != 200 {
		t.Errorf("DELETE: %+v", r)
	}
	if f.ends() != 1 {
		t.Error("DELETE did not go on")
	}
	if r := srv.post(s, pingOne); r.status != 404 || gjson.Get(r.body, "id").Raw != "1" {
		t.Errorf("after DELETE: %+v", r)
	}
	if got := srv.initialize("2025-06-18"); got == "" {
		t.Error("no room after DELETE")
	}
}

func TestStandingStreamPassesWithItsIDs(t *testing.T) {
	f := newFake(initializing("2025-11-25", obliging))
	srv := front(t, f)
	s := srv.initialize("2025-03-26")
	f.Unasked("id:1 " + logLine)
	f.Unasked("id:2 " + `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"x"}}`)
	f.Unasked("id:3 " + sampling)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	req, resp := srv.begin(ctx, "GET", s, "", "Last-Event-ID", "0")
	for _, want := range []string{"1", "3"} { // an older client does not know 2
		if e, err := resp.Stream.Next(); err != nil || string(e.ID) != want {
			t.Fatalf("event %q, %v; want %s", e.ID, err, want)
		}
	}
	if at := f.listens(); at[0].LastEventID != "0" {
		t.Errorf("%+v", at)
	}
	stop()
	srv.read(req, resp)
}

func TestNoStandingStream(t *testing.T) {
	f := newFake(initializing("2025-06-18", obliging))
	f.NoGet = true
	srv := front(t, f)
	r := srv.exchange(context.Background(), "GET", srv.initialize("2025-06-18"), "")
	if r.status != 405 || r.header["Allow"] == "" {
		t.Errorf("%+v", r)
	}
}

func TestUpstreamStatusPassesOn(t *testing.T) {
	for _, c := range []struct {
		status  upstream.StatusError
		named   bool
		want    int
		message string
		gone    bool
	}{
		{upstream.StatusError{Code: 401, Header: []mcp.Header{{Name: "WWW-Authenticate", Value: "Bearer"}}}, true, 401, "upstream answered 401 Unauthorized", false},
		{upstream.StatusError{Code: 429, Header: []mcp.Header{{Name: "Retry-After", Value: "3"}}}, true, 429, "upstream answered 429 Too Many Requests", false},
		{upstream.StatusError{Code: 503}, true, 200, "upstream answered 503 Service Unavailable", false},
		{upstream.StatusError{Code: 302}, true, 200, "upstream answered 302 Found", false},
		{upstream.StatusError{Code: 400, Body: []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"bad <x>","data":[1]}}`)}, true, 400, "bad <x>", false},
		{upstream.StatusError{Code: 404}, true, 404, "upstream answered 404 Not Found", true},
		{upstream.StatusError{Code: 404}, false, 200, "upstream endpoint not found", false},
	} {
		f := newFake(nil)
		if c.named {
			f.SessionID = "theirs"
		}
		fails := true
		f.Script = initializing("2025-06-18", func(m string) ([]string, error) {
			if fails {
				return nil, &c.status
			}
			return obliging(m)
		})
		srv := front(t, f)
		s := srv.initialize("2025-06-18")
		r := srv.post(s, pingOne)
		if r.status != c.want || withoutAdvice(gjson.Get(r.body, "error.message").String()) != c.message || gjson.Get(r.body, "id").Raw != "1" {
			t.Errorf("%+v: %+v", c.status, r)
		}
		for _, h := range c.status.Header {
			if r.header[h.Name] != h.Value {
				t.Errorf("%s is missing", h.Name)
			}
		}
		fails = false
		if again := srv.post(s, pingOne); (again.status == 404) != c.gone {
			t.Errorf("afterwards: %+v", again)
		}
	}
}

func TestTimeoutIsReported(t *testing.T) {
	f := newFake(initializing("2025-06-18", func(string) ([]string, error) {
		return nil, &upstream.Error{Op: "read", Addr: "x", Err: context.DeadlineExceeded}
	}))
	srv := front(t, f)
	r := srv.post(srv.initialize("2025-06-18"), pingOne)
	if r.status != 200 {
		t.Errorf("%+v", r)
	}
	sameJSON(t, r.body, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"upstream timed out"}}`)
}

func TestPanicStaysWithItsRequest(t *testing.T) {
	f := newFake(initializing("2025-06-18", obliging))
	f.First = func(u *peertest.Turn) {
		if u.Method == "tools/call" {
			panic(boom)
		}
	}
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	r := srv.post(s, callOne)
	if r.status != 200 || gjson.Get(r.body, "id").Raw != "1" || gjson.Get(r.body, "error.code").Int() != -32603 || strings.Contains(r.body, "boom") {
		t.Errorf("%+v", r)
	}
	if srv.logs.FilterMessage("panic").Len() != 1 {
		t.Error("not logged")
	}
	sameJSON(t, srv.post(s, pingOne).body, pingAnswer)
}

func TestIdleSessionsEnd(t *testing.T) {
	f := newFake(initializing("2025-06-18", obliging))
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	found, _ := srv.Table.Find(s, sealed.Owner{}, &downstream.Sender{})
	far := found.Used.Load() + 1
	if got := srv.Table.DropIdle(timeOf(far)); len(got) != 0 {
		t.Error("dropped while in use")
	}
	found.Leave()
	if got := srv.Table.DropIdle(timeOf(found.Used.Load() + 1)); len(got) != 1 {
		t.Error("not dropped")
	}
	if r := srv.post(s, pingOne); r.status != 404 {
		t.Errorf("%+v", r)
	}
}

// TestIdleSessionsAreSweptInTime: more often than once a minute if session.idle is shorter.
func TestIdleSessionsAreSweptInTime(t *testing.T) {
	cfg := config.Default()
	cfg.Session.IdleTimeout = 50 * time.Millisecond
	srv, err := proxy.NewWith(cfg, zap.NewNop(), newFake(initializing("2025-06-18", obliging)).origin())
	if err != nil {
		t.Fatal(err)
	}
	base, _ := startServing(t, srv)
	if status, _, body := visit(t, http.DefaultClient, "POST", base+"/mcp", initialize("2025-06-18", `{}`)); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	eventually(t, "swept", func() bool { return srv.Table.Len() == 0 })
}

func timeOf(ns int64) time.Time { return time.Unix(0, ns) }
