package tests

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

const twoTags = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Which?","requestedSchema":{"type":"object","properties":{"tags":{"type":"array","title":"Tags","minItems":2,"items":{"type":"string","enum":["x","y","z"]}}},"required":["tags"]}}}`

// counting is a server over HTTP that asks the user for at least two choices during a call.
func counting() *fakeServer {
	f := newFake(initializing("2025-11-25", nil))
	f.on("tools/call", func(u *peertest.Turn) {
		if u.Asks(twoTags) != "" {
			u.Say(result(u.ID, `"content":[]`))
		}
	})
	return f
}

// chooser is a client of 2025-06-18 that was asked during its call.
type chooser struct {
	testServer
	session, question string
	read              func() reply // the rest of the call's response
}

func (srv testServer) asked(ctx context.Context) chooser {
	srv.t.Helper()
	session := srv.initializeWith("2025-06-18", canBeAsked)
	req, resp := srv.begin(ctx, "POST", session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}`)
	if resp.Stream == nil {
		srv.t.Fatalf("no stream: %s", resp.Body)
	}
	e, err := resp.Stream.Next()
	if err != nil {
		srv.t.Fatal(err)
	}
	return chooser{srv, session, gjson.GetBytes(e.Data, "id").Raw, func() reply { return srv.read(req, resp) }}
}

// choosesOne answers with too few choices.
func (c chooser) choosesOne() {
	c.t.Helper()
	if r := c.post(c.session, `{"jsonrpc":"2.0","id":`+c.question+`,"result":{"action":"accept","content":{"tags.0":true}}}`); r.status != 202 {
		c.t.Errorf("the answer: %+v", r)
	}
}

// choicesHeard returns the answers that the server got to its question.
func choicesHeard(f *fakeServer) string {
	var all []string
	for _, m := range f.sent() {
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
	f := counting()
	f.SessionID = "named"
	o := f.origin()
	o.Resume = func(string, string) *upstream.Begun { return &upstream.Begun{Conn: f.conn()} }
	srv := frontOf(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := srv.asked(ctx)
	s, err := srv.Table.Find(c.session, sealed.Owner{}, &downstream.Sender{})
	if err != nil || s == nil {
		t.Fatal(err)
	}
	if s.Local {
		t.Error("the session is of this process only")
	}
	s.Asked.Drain()
	s.Leave()
	c.choosesOne()
	if r := c.read(); len(r.events) != 1 {
		t.Errorf("at last: %q", r.events)
	}
	if got := choicesHeard(f); got != `{"action":"decline"}` {
		t.Errorf("the server heard %s", got)
	}
}

// TestTooFewChoicesAfterTheCallAreDeclined: the call may have ended before its question could be
// asked again.
func TestTooFewChoicesAfterTheCallAreDeclined(t *testing.T) {
	f := counting()
	ctx, leave := context.WithCancelCause(context.Background())
	c := front(t, f).asked(ctx)
	leave(downstream.ErrClientLeft)
	c.read()
	c.choosesOne()
	if got := choicesHeard(f); got != `{"action":"decline"}` {
		t.Errorf("the server heard %s", got)
	}
}

// TestQuestionAskedAgainOfAClientThatLeaves: the question waits as long as the client may resume the stream. Then the
// server is told "decline", so that it does not wait for ever.
func TestQuestionAskedAgainOfAClientThatLeaves(t *testing.T) {
	const right = `{"action":"accept","content":{"tags":["x","z"]}}`
	for name, c := range map[string]struct {
		piped bool
		keeps bool // events for a client that resumes
		then  string
		want  string
	}{
		"before, and resumes":            {true, true, "resumes", right},
		"before, and does not come back": {true, true, "expires", `{"action":"decline"}`},
		"before, for good":               {true, false, "", `{"action":"decline"}`},
		"after":                          {false, true, "leaves", `{"action":"decline"}`},
		"after, at a pipe":               {true, true, "leaves", `{"action":"decline"}`},
		"after, at a pipe, for good":     {true, false, "leaves", `{"action":"decline"}`},
	} {
		t.Run(name, func(t *testing.T) {
			f := counting()
			if c.piped {
				f = silentPipe()
				f.Script = initializing("2025-11-25", nil)
				f.on("tools/call", func(*peertest.Turn) { f.Unasked(twoTags) })
			}
			srv := frontOf(t, f.origin(), func(cfg *config.Config) {
				if !c.keeps {
					cfg.Limits.Replay = 0
				}
			})
			session := srv.initializeWith("2025-06-18", canBeAsked)
			stream := srv.open("POST", session, callOne)
			first := stream.next()
			asked := chooser{testServer: srv, session: session, question: gjson.GetBytes(first.Data, "id").Raw}
			again := ""
			if c.then == "leaves" {
				asked.choosesOne()
				again = gjson.GetBytes(stream.next().Data, "id").Raw
			}
			stream.leaves()
			if c.then != "leaves" {
				asked.choosesOne()
			}
			switch {
			case c.then == "resumes":
				stream = srv.open("GET", session, "", "Last-Event-ID", string(first.ID))
				again = gjson.GetBytes(stream.next().Data, "id").Raw
				srv.post(session, `{"jsonrpc":"2.0","id":`+again+`,"result":{"action":"accept","content":{"tags.0":true,"tags.2":true}}}`)
				stream.leaves()
			case c.piped && c.keeps:
				if got := choicesHeard(f); got != "" {
					t.Errorf("the server heard %s while the client may come back", got)
				}
				srv.lanes(session).Trails.Sweep(time.Now().Add(24 * time.Hour))
			}
			eventually(t, "the server has an answer", func() bool { return choicesHeard(f) != "" })
			if again != "" { // too late
				srv.post(session, `{"jsonrpc":"2.0","id":`+again+`,"result":{"action":"accept","content":{"tags.1":true,"tags.2":true}}}`)
			}
			if got := choicesHeard(f); got != c.want {
				t.Errorf("the server heard %s", got)
			}
		})
	}
}
