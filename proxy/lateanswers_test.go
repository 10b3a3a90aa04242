package proxy

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/peertest"
)

// tardy is a server on a pipe that answers the first call when the second one comes, followed by
// progress, and names in each answer the call it belongs to.
func tardy(t *testing.T) *peertest.Server {
	first := make(chan string, 1)
	return script(t, true, func(u *peertest.Turn) {
		switch u.Method {
		case "initialize":
			u.Answer(200, initialized(u.ID))
		case "tools/call":
			who := gjson.Get(u.Text, "params.arguments.who").String()
			answer := `{"jsonrpc":"2.0","id":` + u.ID + `,"result":{"content":[{"type":"text","text":"` + who + `"}]}}`
			if who == "first" {
				first <- answer
				return
			}
			late := <-first
			u.Line(late)
			u.Line(progressOf(gjson.Get(late, "id").Raw))
			u.Answer(200, answer)
		}
	})
}

func progressOf(token string) string {
	return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":1,"message":"late"}}`
}

func callThree(who string) string {
	return `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"t","arguments":{"who":"` + who + `"},"_meta":{"progressToken":3}}}`
}

func brief(c *config.Config) {
	c.Limits.Time = map[string]config.TimeLimit{"tools/call": {FirstByte: 1500 * time.Millisecond, Silence: 1500 * time.Millisecond}}
}

// isOwn checks that the answer to the second call is its own.
func isOwn(t *testing.T, got string) {
	t.Helper()
	if gjson.Get(got, "id").Raw != "3" || gjson.Get(got, "result.content.0.text").String() != "second" {
		t.Errorf("the second call gets %s", got)
	}
}

// TestLateAnswerIsForNoOtherCall: the answer to call 3 comes after the client has given it up and
// sent another call 3. The second call gets its own answer, and no message about the first.
func TestLateAnswerIsForNoOtherCall(t *testing.T) {
	for _, share := range []bool{false, true} {
		child := func(c *config.Config) { c.Upstream.ShareChild = share }
		name := map[bool]string{false: "own process", true: "shared process"}[share]
		t.Run("HTTP client, "+name+", timed out", func(t *testing.T) {
			t.Parallel()
			s := tardy(t)
			c := through(t, s.At(), child, brief).client(t, false)
			c.Initialize("2025-06-18", "{}")
			r := c.Say(callThree("first"))
			if got := r.Next(); gjson.Get(got, "error.code").Int() != -32603 || gjson.Get(got, "id").Raw != "3" {
				t.Errorf("the first call gets %s", got)
			}
			isOwn(t, c.Say(callThree("second")).Next())
		})
		t.Run("HTTP client, "+name+", cancelled", func(t *testing.T) {
			t.Parallel()
			s := tardy(t)
			c := through(t, s.At(), child).client(t, false)
			c.Initialize("2025-06-18", "{}")
			c.Say(callThree("first"))
			call := s.Gets(1, "tools/call")
			c.Say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
			if got := s.Gets(1, "notifications/cancelled").Text; gjson.Get(got, "params.requestId").Raw != gjson.Get(call.Text, "id").Raw {
				t.Errorf("%s was cancelled by %s", call.Text, got)
			}
			isOwn(t, c.Say(callThree("second")).Next())
		})
		t.Run("HTTP client, "+name+", left", func(t *testing.T) {
			t.Parallel()
			s := tardy(t)
			c := through(t, s.At(), child).client(t, false)
			c.Initialize("2025-06-18", "{}")
			r := c.Say(callThree("first"))
			s.Gets(1, "tools/call")
			r.Leave()
			isOwn(t, c.Say(callThree("second")).Next())
		})
		t.Run("stdio client, "+name+", timed out", func(t *testing.T) {
			t.Parallel()
			s := tardy(t)
			c := through(t, s.At(), child, brief).client(t, true)
			c.Initialize("2025-06-18", "{}")
			if got := c.Say(callThree("first")).Next(); gjson.Get(got, "error.code").Int() != -32603 || gjson.Get(got, "id").Raw != "3" {
				t.Errorf("the first call gets %s", got)
			}
			isOwn(t, c.Say(callThree("second")).Next())
		})
		t.Run("stdio client, "+name+", cancelled", func(t *testing.T) {
			t.Parallel()
			s := tardy(t)
			c := through(t, s.At(), child).client(t, true)
			c.Initialize("2025-06-18", "{}")
			c.Say(callThree("first"))
			c.Say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3.0}}`)
			call := s.Gets(1, "tools/call")
			if got := s.Gets(1, "notifications/cancelled").Text; gjson.Get(got, "params.requestId").Raw != gjson.Get(call.Text, "id").Raw {
				t.Errorf("%s was cancelled by %s", call.Text, got)
			}
			isOwn(t, c.Say(callThree("second")).Next())
		})
		t.Run("SSE client, "+name+", timed out", func(t *testing.T) {
			t.Parallel()
			s := tardy(t)
			c := overSSE(t, through(t, s.At(), child, brief))
			c.Post(initialize("2024-11-05", "{}"))
			c.Next()
			c.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			c.Post(callThree("first"))
			if got := c.Next(); gjson.Get(got, "error.code").Int() != -32603 {
				t.Errorf("the first call gets %s", got)
			}
			c.Post(callThree("second"))
			isOwn(t, c.Next())
		})
	}
}

// TestOneIDOnSeveralPOSTs: over Streamable HTTP two calls with one id are told apart by their
// POSTs, and the server on its pipe gets two ids.
func TestOneIDOnSeveralPOSTs(t *testing.T) {
	s := tardy(t)
	c := through(t, s.At()).client(t, false)
	c.Initialize("2025-06-18", "{}")
	a := c.Say(callThree("first"))
	s.Gets(1, "tools/call")
	isOwn(t, c.Say(callThree("second")).Next())
	if got := a.Next(); gjson.Get(got, "id").Raw != "3" || gjson.Get(got, "result.content.0.text").String() != "first" {
		t.Errorf("the first call gets %s", got)
	}
}

func overSSE(t *testing.T, p proxied) *peertest.SSEClient {
	t.Helper()
	return peertest.NewSSEClient(t, strings.TrimSuffix(p.web.URL, "/mcp"))
}

// TestCancellationIsForTheCallBeforeIt: the server reads the cancellation slowly, and the client
// has already begun another call with the same id.
func TestCancellationIsForTheCallBeforeIt(t *testing.T) {
	taken, calls := make(chan struct{}), atomic.Int32{}
	f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
		switch method := gjson.Get(m, "method").String(); {
		case method == "notifications/cancelled":
			<-taken
		case method == "tools/call" && calls.Add(1) == 1:
			return []string{hang}, nil
		case method == "tools/call":
			return []string{wait, answer(`1`)}, nil
		}
		return nil, nil
	}))
	f.gate = make(chan struct{}, 1)
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	first := srv.call(f, s, callOne)
	cancellation := srv.call(f, s, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	second := srv.call(f, s, callOne)
	close(taken)
	if r := <-cancellation.reply; r.status != 202 {
		t.Errorf("the cancellation gets %+v", r)
	}
	if r := <-first.reply; r.status != 202 || r.body != "" {
		t.Errorf("the first call gets %+v", r)
	}
	f.gate <- struct{}{}
	if r := <-second.reply; r.body != answer(`1`) {
		t.Errorf("the second call gets %+v", r)
	}
}
