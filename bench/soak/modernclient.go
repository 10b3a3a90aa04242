package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

// The error codes that the questions of a call may end in.
const (
	stateRefused = -32602 // the requestState is invalid, or no longer valid
	replaced     = -32600 // a newer retry gets the answer
	broken       = -32603 // the connection to the server was lost
)

// modernClient is a client of the revision without sessions. It may use several proxy processes in front of
// its server.
type modernClient struct {
	*counts
	http *http.Client
	urls func() []string
	user string
	rand *rand.Rand
	id   int
}

// modernClient creates a client. done closes its connections.
func (c *counts) modernClient(urls func() []string, seed uint64) (g *modernClient, done func()) {
	transport := &http.Transport{DisableCompression: true}
	return &modernClient{
		counts: c, http: &http.Client{Transport: transport}, urls: urls,
		user: fmt.Sprintf("user-%d", seed), rand: rand.New(rand.NewPCG(seed, 2)),
	}, transport.CloseIdleConnections
}

// stayOn calls act until ctx ends.
func (g *modernClient) stayOn(ctx context.Context) {
	for ctx.Err() == nil {
		g.act(ctx)
	}
}

// answer is the response that a client without sessions gets.
type answer struct {
	status int
	body   gjson.Result
	err    error
}

func (a answer) code() int64   { return a.body.Get("error.code").Int() }
func (a answer) text() string  { return a.body.Get("result.content.0.text").Str }
func (a answer) asks() bool    { return a.body.Get("result.resultType").Str == "input_required" }
func (a answer) state() string { return a.body.Get("result.requestState").Str }
func (a answer) question() string {
	key := ""
	a.body.Get("result.inputRequests").ForEach(func(k, _ gjson.Result) bool { key = k.Str; return false })
	return key
}

func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return fmt.Sprint(a.status, " ", a.body.Raw)
}

// act makes one call or does something bad.
func (g *modernClient) act(ctx context.Context) {
	leave := time.Duration(1+g.rand.IntN(20)) * time.Millisecond
	switch n := g.rand.IntN(300); {
	case n < 5:
		g.leave(ctx, leave, g.call(hang, ""))
	case n < 10:
		g.leave(ctx, leave, g.call(echo, ""))
	case n < 13:
		g.leave(ctx, 50*leave, g.message("subscriptions/listen", `"notifications":{"toolsListChanged":true}`))
	case n < 15:
		g.expectCode(ctx, "wrong header", g.call(echo, ""), -32020, func(r *http.Request) { r.Header.Set("Mcp-Name", "other") })
	case n < 17:
		m := g.call(lie, "")
		g.bad.Add(1)
		g.send(ctx, g.anywhere(), m)
	case n < 19:
		m := g.call(cut, "")
		g.bad.Add(1)
		g.send(ctx, g.anywhere(), m)
	case n < 100:
		g.converse(ctx)
	default:
		g.behave(ctx, g.call(echo, ""))
	}
}

// said is one message of a modernClient.
type said struct {
	body   []byte
	method string
	name   string
	text   string
	user   string
}

func (g *modernClient) message(method, params string) said {
	g.id++
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":%q,`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"soak","version":"1"}}}}`,
		g.id, method, params, translate.Modern())
	return said{body: body, method: method, user: g.user}
}

// call returns a call with a unique text.
func (g *modernClient) call(m manner, more string) said {
	return g.callWith(m, fmt.Sprintf("%s %d", g.user, g.id+1), more)
}

func (g *modernClient) callWith(m manner, text, more string) said {
	s := g.message("tools/call", fmt.Sprintf(`"name":%q,"arguments":{"text":%q}%s`, m, text, more))
	s.name, s.text = string(m), text
	return s
}

// retry returns the same call with an answer to its question.
func (g *modernClient) retry(call said, state, key, city string) said {
	return g.retryWith(call, state, map[string]any{key: map[string]any{"action": "accept", "content": map[string]string{"city": city}}})
}

func (g *modernClient) retryWith(call said, state string, responses map[string]any) said {
	text, _ := json.Marshal(state) // neither call of Marshal can fail
	all, _ := json.Marshal(responses)
	return g.callWith(manner(call.name), call.text, fmt.Sprintf(`,"inputResponses":%s,"requestState":%s`, all, text))
}

func (g *modernClient) anywhere() string {
	urls := g.urls()
	return urls[g.rand.IntN(len(urls))]
}

func (g *modernClient) send(ctx context.Context, url string, s said, change ...func(*http.Request)) answer {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(s.body))
	if err != nil {
		return answer{err: err}
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + s.user,
		"MCP-Protocol-Version": translate.Modern(), "Mcp-Method": s.method, "Mcp-Name": s.name,
	} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	for _, f := range change {
		f(r)
	}
	resp, err := g.http.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return answer{resp.StatusCode, gjson.Parse(answerIn(string(body))), err}
}

// leave sends a message and abandons it after limit.
func (g *modernClient) leave(ctx context.Context, limit time.Duration, s said) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	g.bad.Add(1)
	g.send(ctx, g.anywhere(), s)
}

func (g *modernClient) behave(ctx context.Context, s said) {
	g.expect(ctx, "plain call", g.send(ctx, g.anywhere(), s), s.text)
}

// expect counts a as good if it has this text.
func (g *modernClient) expect(ctx context.Context, what string, a answer, text string) {
	switch {
	case a.text() == text:
		g.good.Add(1)
		g.note(what)
	case ctx.Err() != nil: // the run ends
		g.bad.Add(1)
	case a.text() != "" && a.body.Get("result.isError").Type != gjson.True:
		g.wrong.Add(1)
		g.show(what, text+" expected: "+a.String())
	default:
		g.failed.Add(1)
		g.show(what, a.String())
	}
}

// refused counts a as good if it is an error with one of these codes.
func (g *modernClient) refused(ctx context.Context, what string, a answer, codes ...int64) {
	for _, code := range codes {
		if a.code() == code {
			g.good.Add(1)
			g.note(fmt.Sprintf("%s: %d", what, code))
			return
		}
	}
	if ctx.Err() != nil { // the run ends
		g.bad.Add(1)
		return
	}
	g.failed.Add(1)
	g.show(what, a.String())
}

func (g *modernClient) expectCode(ctx context.Context, what string, s said, code int64, change func(*http.Request)) {
	g.refused(ctx, what, g.send(ctx, g.anywhere(), s, change), code)
}

// converse makes a call that asks something, and answers the question in one of several ways.
func (g *modernClient) converse(ctx context.Context) {
	tool := ask
	if g.rand.IntN(10) == 0 {
		tool = askDie
	}
	at := g.anywhere()
	s := g.call(tool, "")
	a := g.send(ctx, at, s)
	if !a.asks() {
		if tool == askDie {
			g.refused(ctx, "server gone before it was asked", a, broken)
		} else {
			g.expect(ctx, "question", a, "\x00 a question")
		}
		return
	}
	key, state := a.question(), a.state()
	done := s.text + " in Rome"
	if tool == askDie {
		time.Sleep(100 * time.Millisecond)
		g.refused(ctx, "server gone while parked", g.send(ctx, at, g.retry(s, state, key, "Rome")), broken, stateRefused)
		return
	}
	switch n := g.rand.IntN(100); {
	case n < 10:
		g.bad.Add(1)
		g.note("never came back")
	case n < 20:
		g.twice(ctx, at, s, key, state)
	case n < 30:
		g.expect(ctx, "answered", g.send(ctx, at, g.retry(s, state, key, "Rome")), done)
		g.refused(ctx, "answered again, otherwise", g.send(ctx, at, g.retry(s, state, key, "Oslo")), stateRefused)
	case n < 35:
		forged := []byte(state)
		forged[g.rand.IntN(len(forged))] ^= 3
		g.refused(ctx, "tampered", g.send(ctx, at, g.retry(s, string(forged), key, "Rome")), stateRefused)
	case n < 40:
		other := g.retry(s, state, key, "Rome")
		other.user = "somebody-else"
		g.refused(ctx, "another principal", g.send(ctx, at, other), stateRefused)
	case n < 45:
		other := s
		other.text += " changed"
		g.refused(ctx, "another call", g.send(ctx, at, g.retry(other, state, key, "Rome")), stateRefused)
	case n < 47:
		select {
		case <-time.After(parkTime + time.Second):
		case <-ctx.Done():
		}
		g.refused(ctx, "after the deadline", g.send(ctx, at, g.retry(s, state, key, "Rome")), stateRefused)
	case n < 55:
		b := g.send(ctx, at, g.callWith(ask, s.text, fmt.Sprintf(`,"requestState":%q`, state)))
		if !b.asks() {
			g.expect(ctx, "no answer yet", b, "\x00 the question again")
			return
		}
		g.expect(ctx, "answered in the second round", g.send(ctx, at, g.retry(s, b.state(), b.question(), "Rome")), done)
	case n < 75:
		urls := g.urls()
		other := urls[0]
		if other == at {
			other = urls[len(urls)-1]
		}
		g.expect(ctx, "answered at another replica", g.send(ctx, other, g.retry(s, state, key, "Rome")), done)
	default:
		g.expect(ctx, "answered", g.send(ctx, at, g.retry(s, state, key, "Rome")), done)
	}
}

// twice sends the same answer two times at once. One of the two requests must get the result of the call.
func (g *modernClient) twice(ctx context.Context, at string, s said, key, state string) {
	both := [2]said{g.retry(s, state, key, "Rome"), g.retry(s, state, key, "Rome")}
	var got [2]answer
	var wg sync.WaitGroup
	for i := range both {
		wg.Go(func() { got[i] = g.send(ctx, at, both[i]) })
	}
	wg.Wait()
	if got[0].code() != 0 {
		got[0], got[1] = got[1], got[0]
	}
	g.expect(ctx, "answered twice", got[0], s.text+" in Rome")
	if got[1].code() == 0 { // both came before the call ended
		g.expect(ctx, "answered twice, both told", got[1], s.text+" in Rome")
		return
	}
	g.refused(ctx, "the other of two", got[1], replaced, stateRefused)
}
