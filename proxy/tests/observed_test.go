package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/memo"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// observedBy returns a ring that sees what srv does until end is called.
func observedBy(srv testServer) (ring *observe.Ring, end func()) {
	ring = observe.NewRing(srv.Now().Redactor)
	return ring, srv.Observer.Attach("test", ring)
}

// rowsOf returns all calls with a method, in full.
func rowsOf(ring *observe.Ring, method string) (list []observe.Detail) {
	var numbers []uint64
	ring.Each(0, func(row observe.Row, _ []*observe.Message) bool {
		if row.Method == method {
			numbers = append(numbers, row.N)
		}
		return true
	})
	for _, n := range numbers {
		d, _ := ring.Detail(n)
		list = append(list, d)
	}
	return list
}

// steps describes the messages of a call: the edge, where each goes, what it is, and the revision.
func steps(d observe.Detail) (list []string) {
	arrows := map[string]string{"client client-to-server": "client >", "server client-to-server": "> server", "server server-to-client": "server >", "client server-to-client": "> client"}
	for _, m := range d.Messages {
		list = append(list, arrows[m.Edge+" "+m.Direction]+" "+m.Kind+" "+m.Revision)
	}
	return list
}

func unexplained(d observe.Detail) (n int) {
	for _, m := range d.Messages {
		n += m.Unexplained
	}
	return n
}

// TestACallIsObservedOnEachWay: a call has its request and response at both edges, with the revision of each, and every
// difference between them has a reason.
func TestACallIsObservedOnEachWay(t *testing.T) {
	old := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{}}}`
	answer := func(id, method, _ string) ([]string, error) {
		if method == "tools/list" {
			return one(result(id, `"tools":[{"name":"add","inputSchema":{"type":"object"}}]`))
		}
		return one(result(id, `"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1}`))
	}
	complete := func(id, method, m string) ([]string, error) {
		events, err := answer(id, method, m)
		events[0] = strings.Replace(events[0], `"result":{`, `"result":{"resultType":"complete",`, 1)
		return events, err
	}
	for _, c := range []struct {
		name, client, server string
		piped                bool
	}{
		{"over HTTP", "2024-11-05", "2025-11-25", false},
		{"server on a pipe", "2025-06-18", "2025-11-25", true},
		{"modern client", "2026-07-28", "2025-11-25", false},
		{"modern server", "2025-06-18", "2026-07-28", false},
		{"modern server on a pipe", "2025-06-18", "2026-07-28", true},
		{"both modern", "2026-07-28", "2026-07-28", false},
	} {
		for _, stdio := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stdio %t", c.name, stdio), func(t *testing.T) {
				f := legacyServer(`{"tools":{}}`, answer)
				if c.server == "2026-07-28" {
					f = modernServer(c.piped, `"capabilities":{"tools":{}}`, complete)
				}
				f.piped = c.piped
				f.asked = c.client == c.server
				srv := front(t, f)
				ring, end := observedBy(srv)
				modern := c.client == "2026-07-28"
				transport := "http"
				switch {
				case stdio:
					transport = "stdio"
					client := srv.pipe()
					if modern {
						client.say(modernRequestOf("1", "tools/call", `"name":"add","arguments":{},`+meta(`{}`)))
					} else {
						client.say(initialize(c.client, `{}`))
						client.hear()
						client.say(old)
					}
					client.hear()
					client.end()
				case modern:
					if r := srv.modernly(modernRequestOf("1", "tools/call", `"name":"add","arguments":{},`+meta(`{}`))); r.status != 200 {
						t.Errorf("%+v", r)
					}
				default:
					srv.post(srv.initialize(c.client), old)
				}
				end()
				calls := rowsOf(ring, "tools/call")
				if len(calls) != 1 {
					t.Fatalf("%d calls; the server got %q", len(calls), f.sent())
				}
				d := calls[0]
				want := []string{"client > request " + c.client, "> server request " + c.server, "server > response " + c.server, "> client response " + c.client}
				if fmt.Sprint(steps(d)) != fmt.Sprint(want) {
					t.Errorf("%q", steps(d))
				}
				if d.Row.Status != "ok" || d.Row.Tool != "add" || d.Row.ClientRevision != c.client || d.Row.ServerRevision != c.server || d.Row.Transport != transport || d.Row.MS == nil {
					t.Errorf("%+v", d.Row)
				}
				if unexplained(d) != 0 {
					t.Errorf("%+v", d.Messages)
				}
				if modern {
					return
				}
				greetings := rowsOf(ring, "initialize")
				if len(greetings) != 1 || greetings[0].Row.Status != "ok" || greetings[0].Row.Session == "" || greetings[0].Row.Session != d.Row.Session || greetings[0].Row.Client == "" || d.Row.Client != greetings[0].Row.Client {
					t.Errorf("%+v", greetings)
				}
				if n := unexplained(greetings[0]); n != 0 {
					t.Errorf("%d differences of initialize have no reason: %+v", n, greetings[0].Messages)
				}
			})
		}
	}
}

// TestAQuestionBelongsToItsCall: the server's question and the client's answer are messages of the call.
func TestAQuestionBelongsToItsCall(t *testing.T) {
	f, gate := asksName(nameQuestion)
	srv := front(t, f)
	ring, end := observedBy(srv)
	session := srv.initializeWith("2025-06-18", `{"elicitation":{}}`)
	r := srv.open("POST", session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{}}}`)
	question := string(r.next().Data)
	eventually(t, "the client is asked", func() bool {
		calls := rowsOf(ring, "tools/call")
		return len(calls) == 1 && calls[0].Row.Status == "asking"
	})
	if q := srv.Live().Parked; len(q) != 1 || q[0].Method != "elicitation/create" || q[0].Call != rowsOf(ring, "tools/call")[0].Row.N || q[0].Since.IsZero() || q[0].Session == "" {
		t.Errorf("%+v", q)
	}
	srv.post(session, `{"jsonrpc":"2.0","id":`+gjson.Get(question, "id").Raw+`,"result":{"action":"decline"}}`)
	gate <- struct{}{}
	r.next()
	r.leaves()
	eventually(t, "the call has ended", func() bool { return srv.Streams.Load() == 0 })
	end()
	calls := rowsOf(ring, "tools/call")
	if len(calls) != 1 {
		t.Fatalf("%d calls", len(calls))
	}
	var kinds []string
	for _, s := range steps(calls[0]) {
		kinds = append(kinds, s[:strings.LastIndex(s, " ")])
	}
	want := []string{"client > request", "> server request", "server > request", "> client request", "client > response", "> server response", "server > response", "> client response"}
	if fmt.Sprint(kinds) != fmt.Sprint(want) || calls[0].Row.Status != "ok" {
		t.Errorf("%s %q", calls[0].Row.Status, kinds)
	}
	if others := rowsOf(ring, "elicitation/create"); len(others) != 0 {
		t.Errorf("%+v", others)
	}
	if q := srv.Live().Parked; len(q) != 0 {
		t.Errorf("%+v", q)
	}
}

// TestFailuresAreObserved: an error of the server, a server that does not answer, and a message before there is a session.
func TestFailuresAreObserved(t *testing.T) {
	srv := front(t, legacyServer(`{"tools":{}}`, func(id, method, m string) ([]string, error) {
		if gjson.Get(m, "params.name").String() == "mute" {
			return []string{}, nil
		}
		return one(rpcError(id, `"code":-32602,"message":"no such tool"`))
	}))
	ring, end := observedBy(srv)
	srv.post("", `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`)
	session := srv.initialize("2025-06-18")
	for n, tool := range []string{"none", "mute"} {
		srv.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, n, tool))
	}
	srv.post(session, `{"jsonrpc":"2.0","id":1,"method":5}`)
	end()
	calls := append(rowsOf(ring, "tools/call"), rowsOf(ring, "prompts/list")...)
	if len(calls) != 3 {
		t.Fatalf("%+v", calls)
	}
	for i, want := range []struct{ status, cause, text string }{{"error", "", "no such tool"}, {"failed", "stream_closed", "closed"}, {"refused", "", "initialize"}} {
		row := calls[i].Row
		if row.Status != want.status || row.Cause != want.cause || !strings.Contains(row.Error, want.text) || row.Code == 0 {
			t.Errorf("%+v, want %+v", row, want)
		}
		if n := len(calls[i].Messages); n < 2 || calls[i].Messages[n-1].Edge != "client" {
			t.Errorf("%+v", calls[i].Messages)
		}
	}
	if broken := rowsOf(ring, "5"); len(broken) != 1 || broken[0].Row.Status != "refused" || len(broken[0].Messages) != 2 {
		t.Errorf("%+v", broken)
	}
}

// TestAQuestionToAModernClientBelongsToItsCall: the question is a result, and the client's further request answers it.
func TestAQuestionToAModernClientBelongsToItsCall(t *testing.T) {
	f, gate := asksName(nameQuestion)
	srv := front(t, f)
	ring, end := observedBy(srv)
	asked := srv.modernly(modernCall("1", ""))
	eventually(t, "the client is asked", func() bool { d := rowsOf(ring, "tools/call"); return len(d) == 1 && d[0].Row.Status == "asking" })
	if q := srv.Live().Parked; len(q) != 1 || q[0].Method != "elicitation/create" || q[0].Call != rowsOf(ring, "tools/call")[0].Row.N || !q[0].Ends.After(q[0].Since) {
		t.Errorf("%+v", q)
	}
	open(f, gate)
	if r := srv.modernly(retryOf("2", ada, asked)); r.status != 200 {
		t.Fatalf("%+v", r)
	}
	end()
	calls := rowsOf(ring, "tools/call")
	if len(calls) != 1 || calls[0].Row.Status != "ok" {
		t.Fatalf("%+v", calls)
	}
	var kinds []string
	for _, s := range steps(calls[0]) {
		kinds = append(kinds, s[:strings.LastIndex(s, " ")])
	}
	want := []string{"client > request", "> server request", "server > request", "> client response", "client > request", "> server response", "server > response", "> client response"}
	if fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Errorf("%q", kinds)
	}
}

// TestEachListSaysWhyItDiffers: also a list whose translation is remembered.
func TestEachListSaysWhyItDiffers(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2025-06-18"} {
		srv := front(t, drafting(version, false, false))
		ring, end := observedBy(srv)
		s := srv.initialize("2025-11-25")
		for n := range 4 {
			srv.post(s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, n+2))
		}
		end()
		for n, d := range rowsOf(ring, "tools/list") {
			if unexplained(d) > 0 || len(d.Notes) != 1 || d.Notes[0].By != "C36" || !slices.Contains(d.Row.Rules, "C36") || slices.Contains(d.Row.By, "C36") {
				t.Errorf("%s: list %d: %d differences without a reason, notes %+v", version, n, unexplained(d), d.Notes)
			}
		}
		if now := ring.Totals().Sessions; len(now) != 1 || !slices.Contains(now[0].Rules, "C36") {
			t.Errorf("%s: the session does not say that schemas are changed: %+v", version, now)
		}
		if srv.Lists.Find(memo.Key{By: srv.Table.Held(s).Down, Method: wire.ToolsList, Facts: srv.Table.Held(s).Facts}) == nil {
			t.Error("no list is remembered")
		}
	}
}

// TestARowHasTheTokensOfItsResult, also if the result had to be counted and then stays as it is.
func TestARowHasTheTokensOfItsResult(t *testing.T) {
	for text, cut := range map[string]bool{strings.Repeat("word ", 1000): true, strings.Repeat("word ", 270): false} {
		srv := front(t, answering("2025-11-25", false, func(string) string { return `{"content":[{"type":"text","text":` + quote(text) + `}]}` }, `{"tools":[]}`), shaped(t, "default_max_tokens: 300"))
		ring, end := observedBy(srv)
		srv.post(srv.initialize("2025-11-25"), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`)
		end()
		d := rowsOf(ring, "tools/call")[0]
		if n := d.Row.Tokens; n == nil || n.Before == 0 || n.After > 300 || cut != (n.After < n.Before) {
			t.Errorf("%t: %+v", cut, n)
		}
		if by := strings.Join(d.Row.By, " "); (by == observe.Transform) != cut || !cut && by != "" || unexplained(d) > 0 {
			t.Errorf("%t: by %q, %d unexplained", cut, by, unexplained(d))
		}
	}
}
