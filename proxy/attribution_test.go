package proxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// TestLogMessagesWithoutARequest: log messages that name no request go to the only request
// that wants log messages.
func TestLogMessagesWithoutARequest(t *testing.T) {
	both(t, func(t *testing.T, piped bool) {
		for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} {
			f := legacyServer(`{"tools":{},"logging":{}}`, nil)
			f.piped, f.gate = piped, make(chan struct{}, 1)
			answer := f.answer
			f.answer = func(m string) ([]string, error) {
				id, method := gjson.Get(m, "id").Raw, gjson.Get(m, "method").String()
				if id == "" || method == "initialize" {
					return answer(m)
				}
				if method != "tools/call" {
					return one(result(id, ""))
				}
				said := []string{
					`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":"x"}}`,
					`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"y"}}`,
					fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, gjson.Get(m, "params._meta.progressToken").Raw),
				}
				if piped {
					return append(said, result(id, `"content":[]`)), nil
				}
				for _, m := range said {
					f.standing <- m
				}
				// A server may send all this before its response begins.
				eventually(t, "the standing stream was read", func() bool { return len(f.standing) == 0 })
				return one(wait, result(id, `"content":[]`))
			}
			srv := front(t, f)
			body := modernRequestOf("7", "tools/call", `"name":"t",`+meta(capabilities, `"progressToken":"tk"`, `"io.modelcontextprotocol/logLevel":"warning"`))
			_, resp := srv.begin(t.Context(), "POST", "", body, modernHeader(body)...)
			if resp.Stream == nil {
				t.Fatalf("%d %s", resp.Status, resp.Body)
			}
			next := func() string {
				e, err := resp.Stream.Next()
				if err != nil {
					t.Fatal(err)
				}
				return string(e.Data)
			}
			sameJSON(t, next(), `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"y"}}`)
			sameJSON(t, next(), `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tk","progress":1}}`)
			f.gate <- struct{}{}
			sameJSON(t, next(), `{"jsonrpc":"2.0","id":7,"result":{"content":[],"resultType":"complete",`+identity+`}}`)
			resp.Done()
		}
	})
}

// TestProgressOnTheStandingStream: progress on the standing stream reaches its call, also if the
// client can answer no questions and wants no log messages. Published servers send it there.
func TestProgressOnTheStandingStream(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, nil)
	answer := f.answer
	f.answer = func(m string) ([]string, error) {
		if gjson.Get(m, "method").String() != "tools/call" {
			return answer(m)
		}
		f.standing <- fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, gjson.Get(m, "params._meta.progressToken").Raw)
		eventually(t, "the standing stream was read", func() bool { return len(f.standing) == 0 })
		return one(wait, result(gjson.Get(m, "id").Raw, `"content":[]`))
	}
	f.gate = make(chan struct{}, 1)
	srv := front(t, f)
	body := modernRequestOf("7", "tools/call", `"name":"t",`+meta(`{}`, `"progressToken":"tk"`))
	_, resp := srv.begin(t.Context(), "POST", "", body, modernHeader(body)...)
	if resp.Stream == nil {
		t.Fatalf("%d %s", resp.Status, resp.Body)
	}
	for _, want := range []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tk","progress":1}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"content":[],"resultType":"complete",` + identity + `}}`,
	} {
		e, err := resp.Stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		sameJSON(t, string(e.Data), want)
		select {
		case f.gate <- struct{}{}:
		default:
		}
	}
	resp.Done()
}

// TestLogMessagesOfTwoPossibleRequests: if two requests want log messages, those that name no request are
// dropped. Progress goes to the call with the token.
func TestLogMessagesOfTwoPossibleRequests(t *testing.T) {
	both(t, func(t *testing.T, piped bool) {
		f := legacyServer(`{"tools":{},"prompts":{},"logging":{}}`, nil)
		f.piped, f.gate = piped, make(chan struct{}, 2)
		answer := f.answer
		f.answer = func(m string) ([]string, error) {
			switch id, method := gjson.Get(m, "id").Raw, gjson.Get(m, "method").String(); {
			case method == "logging/setLevel":
				return one(result(id, ""))
			case id == "" || method == "initialize":
				return answer(m)
			case piped:
				return nil, nil
			default:
				return one(wait, result(id, ""))
			}
		}
		srv := front(t, f)
		replies := map[string]<-chan string{}
		for n, method := range []string{"tools/list", "prompts/list"} {
			id := fmt.Sprint(7 + n)
			body := modernRequestOf(id, method, meta(`{}`, `"progressToken":"t`+id+`"`, `"io.modelcontextprotocol/logLevel":"info"`))
			replies[id] = srv.reads("", body, modernHeader(body)...)
			eventually(t, "the server has "+method, func() bool { return len(f.said(method)) == 1 })
		}
		f.standing <- `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"whose"}}`
		sent := gjson.Get(f.said("prompts/list")[0], "params._meta.progressToken").Raw
		f.standing <- `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + sent + `,"progress":1}}`
		sameJSON(t, <-replies["8"], `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t8","progress":1}}`)
		for _, method := range []string{"tools/list", "prompts/list"} {
			if piped {
				f.standing <- result(gjson.Get(f.said(method)[0], "id").Raw, "")
			} else {
				f.gate <- struct{}{}
			}
		}
		for id, r := range replies {
			if m := <-r; gjson.Get(m, "id").Raw != id {
				t.Errorf("request %s got %s", id, m)
			}
		}
	})
}

// TestServerThatAsksTooMuchAtOnce: questions beyond the limit are refused; the client gets the
// others.
func TestServerThatAsksTooMuchAtOnce(t *testing.T) {
	const many = 5 * bridge.MaxQuestions
	f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) {
		var questions []string
		for n := range many {
			questions = append(questions, fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","method":"roots/list"}`, n))
		}
		return one(append(questions, hang)...)
	})
	f.noGet = true
	srv := front(t, f)
	r := srv.modernly(modernRequestOf("7", "tools/call", `"name":"t",`+meta(`{"roots":{}}`)))
	if n := len(gjson.Get(r.body, "result.inputRequests").Map()); n != bridge.MaxQuestions {
		t.Errorf("%d questions: %.200s", n, r.body)
	}
	eventually(t, "the others are refused", func() bool { return len(f.sent()) == 3+many-bridge.MaxQuestions })
	sameJSON(t, f.sent()[3], rpcError(`"q64"`, `"code":-32603,"message":"the server asks too many questions at once"`))
}

// TestListenThatEndsByItselfOnAPipe: the subscription is also cancelled, as the specification
// requires on a pipe, where no stream can be closed.
func TestListenThatEndsByItselfOnAPipe(t *testing.T) {
	f := legacyServer(`{"tools":{"listChanged":true}}`, nil)
	f.piped = true
	c := front(t, f).pipe()
	c.say(modernRequestOf(`"L"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`+meta(`{}`)))
	c.hears(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"notifications":{"toolsListChanged":true}}}`)
	f.lose(upstream.ErrLost)
	c.hears(`{"jsonrpc":"2.0","id":"L","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"L"}}`)
}

// TestLogLevelIsAwaited: calls wait until the server has answered logging/setLevel, also if another
// call has sent it.
func TestLogLevelIsAwaited(t *testing.T) {
	f := legacyServer(`{"tools":{},"logging":{}}`, func(id, method, _ string) ([]string, error) {
		if method == "logging/setLevel" {
			return one(wait, result(id, ""))
		}
		return one(result(id, `"tools":[]`))
	})
	f.noGet, f.gate = true, make(chan struct{}, 1)
	srv := front(t, f)
	var replies []<-chan string
	for n := range 3 {
		body := modernRequestOf(fmt.Sprint(n), "tools/list", meta(`{}`, `"io.modelcontextprotocol/logLevel":"info"`))
		replies = append(replies, srv.reads("", body, modernHeader(body)...))
	}
	eventually(t, "the server is asked", func() bool { return len(f.said("logging/setLevel")) == 1 })
	if r := srv.modernly(modernRequestOf("9", "tools/list", meta(`{}`))); !strings.Contains(r.body, `"tools"`) {
		t.Errorf("a request that wants no log messages waits: %+v", r)
	}
	if n := len(f.said("tools/list")); n != 1 {
		t.Errorf("%d requests before the server knows the level", n-1)
	}
	f.gate <- struct{}{}
	for _, r := range replies {
		if m := <-r; !strings.Contains(m, `"tools"`) {
			t.Error(m)
		}
	}
	if n := len(f.said("logging/setLevel")); n != 1 {
		t.Errorf("the level was set %d times", n)
	}
}
