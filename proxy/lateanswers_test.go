package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// tardy is a server on a pipe that answers the first call when the second one comes, followed by
// progress, and names in each answer the call it belongs to.
func tardy(t *testing.T) *scripted {
	first := make(chan string, 1)
	return script(t, true, func(u *turn) {
		switch u.method {
		case "initialize":
			u.answer(200, initialized(u.id))
		case "tools/call":
			who := gjson.Get(u.text, "params.arguments.who").String()
			answer := `{"jsonrpc":"2.0","id":` + u.id + `,"result":{"content":[{"type":"text","text":"` + who + `"}]}}`
			if who == "first" {
				first <- answer
				return
			}
			late := <-first
			u.line(late)
			u.line(progressOf(gjson.Get(late, "id").Raw))
			u.answer(200, answer)
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
			c := through(t, s.at(), child, brief).client(t, false)
			c.initialize("2025-06-18", "{}")
			r := c.say(callThree("first"))
			if got := r.next(); gjson.Get(got, "error.code").Int() != -32603 || gjson.Get(got, "id").Raw != "3" {
				t.Errorf("the first call gets %s", got)
			}
			isOwn(t, c.say(callThree("second")).next())
		})
		t.Run("HTTP client, "+name+", cancelled", func(t *testing.T) {
			t.Parallel()
			s := tardy(t)
			c := through(t, s.at(), child).client(t, false)
			c.initialize("2025-06-18", "{}")
			c.say(callThree("first"))
			call := s.gets(1, "tools/call")
			c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
			if got := s.gets(1, "notifications/cancelled").text; gjson.Get(got, "params.requestId").Raw != gjson.Get(call.text, "id").Raw {
				t.Errorf("%s was cancelled by %s", call.text, got)
			}
			isOwn(t, c.say(callThree("second")).next())
		})
		t.Run("HTTP client, "+name+", left", func(t *testing.T) {
			t.Parallel()
			s := tardy(t)
			c := through(t, s.at(), child).client(t, false)
			c.initialize("2025-06-18", "{}")
			r := c.say(callThree("first"))
			s.gets(1, "tools/call")
			r.leave()
			isOwn(t, c.say(callThree("second")).next())
		})
		t.Run("stdio client, "+name+", timed out", func(t *testing.T) {
			t.Parallel()
			s := tardy(t)
			c := through(t, s.at(), child, brief).client(t, true)
			c.initialize("2025-06-18", "{}")
			if got := c.say(callThree("first")).next(); gjson.Get(got, "error.code").Int() != -32603 || gjson.Get(got, "id").Raw != "3" {
				t.Errorf("the first call gets %s", got)
			}
			isOwn(t, c.say(callThree("second")).next())
		})
		t.Run("stdio client, "+name+", cancelled", func(t *testing.T) {
			t.Parallel()
			s := tardy(t)
			c := through(t, s.at(), child).client(t, true)
			c.initialize("2025-06-18", "{}")
			c.say(callThree("first"))
			c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3.0}}`)
			call := s.gets(1, "tools/call")
			if got := s.gets(1, "notifications/cancelled").text; gjson.Get(got, "params.requestId").Raw != gjson.Get(call.text, "id").Raw {
				t.Errorf("%s was cancelled by %s", call.text, got)
			}
			isOwn(t, c.say(callThree("second")).next())
		})
		t.Run("SSE client, "+name+", timed out", func(t *testing.T) {
			t.Parallel()
			s := tardy(t)
			c := overSSE(t, through(t, s.at(), child, brief))
			c.post(initialize("2024-11-05", "{}"))
			c.next()
			c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			c.post(callThree("first"))
			if got := c.next(); gjson.Get(got, "error.code").Int() != -32603 {
				t.Errorf("the first call gets %s", got)
			}
			c.post(callThree("second"))
			isOwn(t, c.next())
		})
	}
}

// TestOneIDOnSeveralPOSTs: over Streamable HTTP two calls with one id are told apart by their
// POSTs, and the server on its pipe gets two ids.
func TestOneIDOnSeveralPOSTs(t *testing.T) {
	s := tardy(t)
	c := through(t, s.at()).client(t, false)
	c.initialize("2025-06-18", "{}")
	a := c.say(callThree("first"))
	s.gets(1, "tools/call")
	isOwn(t, c.say(callThree("second")).next())
	if got := a.next(); gjson.Get(got, "id").Raw != "3" || gjson.Get(got, "result.content.0.text").String() != "first" {
		t.Errorf("the first call gets %s", got)
	}
}

// sseTalker is a client on HTTP+SSE.
type sseTalker struct {
	t    *testing.T
	web  *http.Client
	base string
	uri  string
	in   *bufio.Reader
}

func overSSE(t *testing.T, p proxied) *sseTalker {
	t.Helper()
	c := &sseTalker{t: t, web: &http.Client{Transport: new(http.Transport)}, base: strings.TrimSuffix(p.web.url, "/mcp")}
	t.Cleanup(c.web.CloseIdleConnections)
	res, err := c.web.Get(c.base + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	c.in = bufio.NewReader(res.Body)
	c.uri = c.next()
	return c
}

// event returns the next event, byte by byte, without comments.
func (c *sseTalker) event() (text string) {
	c.t.Helper()
	for {
		line, err := c.in.ReadString('\n')
		switch {
		case err != nil:
			c.t.Fatal(err)
		case line == "\n" && text != "":
			return text
		case line != "\n" && line[0] != ':':
			text += line
		}
	}
}

// next returns the data of the next event.
func (c *sseTalker) next() string {
	c.t.Helper()
	_, data, _ := strings.Cut(c.event(), "data: ")
	return strings.TrimSuffix(data, "\n")
}

func (c *sseTalker) post(body string) {
	c.t.Helper()
	res, err := c.web.Post(c.base+c.uri, "application/json", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 202 {
		c.t.Fatal(fmt.Sprint(res.StatusCode, err))
	}
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
