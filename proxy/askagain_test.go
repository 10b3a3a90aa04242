package proxy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

const (
	countedForm = `{"message":"Which?","requestedSchema":{"type":"object","properties":{"tags":{"type":"array","title":"Tags","minItems":2,"items":{"type":"string","enum":["x","y","z"]}}},"required":["tags"]}}`
	callCounted = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}`
)

// counting is a server that asks the user for at least two choices during a call, and returns the
// answer it got.
func counting(piped bool) *fakeServer {
	question := `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":` + countedForm + `}`
	f := newFake(nil)
	f.piped = piped
	f.gate = make(chan struct{})
	asks := "" // the id of the call, which differs from the client's on a pipe
	f.answer = initializing("2025-11-25", func(m string) ([]string, error) {
		call := gjson.Get(m, "method").String() == "tools/call"
		answer := gjson.Get(m, "id").String() == "q" && !gjson.Get(m, "method").Exists()
		if call {
			asks = gjson.Get(m, "id").Raw
		}
		switch {
		case call && piped:
			return one(question)
		case call:
			return one(question, wait, result(asks, `"content":[]`))
		case answer && piped:
			return one(result(asks, `"content":[]`))
		case answer:
			close(f.gate)
		}
		return nil, nil
	})
	return f
}

// countingModern is counting for a modern server.
func countingModern(piped bool) *fakeServer {
	return asksFirst(piped, `"requestState":"st","inputRequests":{"a":{"method":"elicitation/create","params":`+countedForm+`}}`)
}

// questioned is a client that answers the server's questions one after the other.
type questioned interface {
	question() string
	answer(id, content string)
	last() string
}

type askedOnPipe struct{ *stdio }

func (c askedOnPipe) question() string { return c.hear() }
func (c askedOnPipe) last() string     { return c.hear() }
func (c askedOnPipe) answer(id, content string) {
	c.say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept","content":` + content + `}}`)
}

type askedOverHTTP struct {
	testServer
	session string
	req     *downstream.Request
	resp    *response
}

func (c *askedOverHTTP) question() string {
	c.t.Helper()
	e, err := c.resp.Stream.Next()
	if err != nil {
		c.t.Fatal(err)
	}
	return string(e.Data)
}

func (c *askedOverHTTP) answer(id, content string) {
	c.t.Helper()
	if r := c.post(c.session, `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept","content":`+content+`}}`); r.status != 202 {
		c.t.Errorf("the answer: %+v", r)
	}
}

func (c *askedOverHTTP) last() string {
	c.t.Helper()
	r := c.read(c.req, c.resp)
	if len(r.events) != 1 {
		c.t.Errorf("at last: %q", r.events)
	}
	return strings.Join(r.events, "")
}

// TestTooFewChoicesAreAskedForAgain: a client that cannot enforce the number of choices is asked
// again, once, after an answer with too few.
func TestTooFewChoicesAreAskedForAgain(t *testing.T) {
	servers := map[string]func(bool) *fakeServer{"2025-11-25": counting, "2026-07-28": countingModern}
	second := map[string]string{
		`{"tags.0":true,"tags.2":true}`: `{"action":"accept","content":{"tags":["x","z"]}}`,
		`{"tags.1":true}`:               `{"action":"decline"}`,
	}
	for version, server := range servers {
		for again, want := range second {
			for _, over := range []string{"http", "pipe"} {
				bothOutside(t, func(t *testing.T, piped bool) {
					t.Run(fmt.Sprintf("%s %s %s", version, over, want), func(t *testing.T) {
						f := server(piped)
						srv := frontOfNamed(t, f)
						answerTwice(t, client06(srv, over), again)
						if got := choicesHeard(f); got != want {
							t.Errorf("the server heard %s, not %s", got, want)
						}
					})
				})
			}
		}
	}
}

// frontOfNamed is a proxy whose sessions any replica may serve, if possible.
func frontOfNamed(t *testing.T, f *fakeServer) testServer {
	t.Helper()
	o := f.origin()
	if f.id = "named"; !f.piped {
		o.Resume = func(string, string) *upstream.Begun { return &upstream.Begun{Conn: f} }
	}
	return frontOf(t, o)
}

// client06 is a client of 2025-06-18 that has called a tool.
func client06(srv testServer, over string) questioned {
	t := srv.t
	if over == "pipe" {
		c := srv.pipe()
		c.say(initialize("2025-06-18", canBeAsked))
		c.hear()
		c.say(callCounted)
		return askedOnPipe{c}
	}
	c := &askedOverHTTP{testServer: srv, session: srv.initializeWith("2025-06-18", canBeAsked)}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	c.req, c.resp = srv.begin(ctx, "POST", c.session, callCounted)
	if c.resp.Stream == nil {
		t.Fatalf("no stream: %s", c.resp.Body)
	}
	return c
}

func answerTwice(t *testing.T, c questioned, again string) {
	t.Helper()
	first := c.question()
	if d := gjson.Get(first, `params.requestedSchema.properties.tags\.0.description`).String(); d != "Tags (choose at least 2)" {
		t.Errorf("the question does not say how many: %s", first)
	}
	c.answer(gjson.Get(first, "id").Raw, `{"tags.0":true}`)
	next := c.question()
	if gjson.Get(next, "id").Raw == gjson.Get(first, "id").Raw || !strings.HasSuffix(gjson.Get(next, "params.message").String(), "\n\nWhich?") ||
		gjson.Get(next, "params.requestedSchema").Raw != gjson.Get(first, "params.requestedSchema").Raw {
		t.Errorf("asked again by %s\n after %s", next, first)
	}
	c.answer(gjson.Get(next, "id").Raw, again)
	if end := c.last(); !gjson.Get(end, "result.content").Exists() || gjson.Get(end, "id").Raw != "7" {
		t.Errorf("the call ended with %s", end)
	}
}

// choicesHeard returns the answers that the server got to its question.
func choicesHeard(f *fakeServer) string {
	var all []string
	for _, m := range f.sent() {
		if r := gjson.Get(m, "params.inputResponses.a"); r.Exists() {
			all = append(all, r.Raw)
		}
		if r := gjson.Get(m, "result"); r.Exists() && gjson.Get(m, "id").String() == "q" {
			all = append(all, r.Raw)
		}
	}
	return strings.Join(all, " ")
}

// TestTooFewChoicesElsewhereAreDeclined: if the answer comes to another process than the one that
// asked, it is declined at once, since that process knows the question only by what its id
// contains.
func TestTooFewChoicesElsewhereAreDeclined(t *testing.T) {
	f := counting(false)
	srv := frontOfNamed(t, f)
	c := client06(srv, "http").(*askedOverHTTP)
	first := c.question()
	s, err := srv.Table.Find(c.session, sealed.Owner{}, &downstream.Sender{})
	if err != nil || s == nil {
		t.Fatal(err)
	}
	if s.Local {
		t.Error("the session is of this process only")
	}
	s.Asked.Drain()
	s.Leave()
	c.answer(gjson.Get(first, "id").Raw, `{"tags.0":true}`)
	c.last()
	if got := choicesHeard(f); got != `{"action":"decline"}` {
		t.Errorf("the server heard %s", got)
	}
}

// TestTooFewChoicesAfterTheCallAreDeclined: the call may have ended before its question could be
// asked again.
func TestTooFewChoicesAfterTheCallAreDeclined(t *testing.T) {
	f := counting(false)
	srv := front(t, f)
	ctx, leave := context.WithCancelCause(context.Background())
	c := &askedOverHTTP{testServer: srv, session: srv.initializeWith("2025-06-18", canBeAsked)}
	c.req, c.resp = srv.begin(ctx, "POST", c.session, callCounted)
	first := c.question()
	leave(downstream.ErrClientLeft)
	c.read(c.req, c.resp)
	c.answer(gjson.Get(first, "id").Raw, `{"tags.0":true}`)
	if got := choicesHeard(f); got != `{"action":"decline"}` {
		t.Errorf("the server heard %s", got)
	}
}
