package tests

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// TestRequestsAreCountedByOutcome: a member isError inside a tool's content does not change the
// outcome.
func TestRequestsAreCountedByOutcome(t *testing.T) {
	for _, c := range []struct {
		answer string
		err    error
		want   metrics.Outcome
	}{
		{`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, nil, metrics.Succeeded},
		{`{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":false,"structuredContent":{"isError":true}}}`, nil, metrics.Succeeded},
		{`{"jsonrpc":"2.0","id":1,"result":{"isError" : true, "content":[]}}`, nil, metrics.ToolError},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool"}}`, nil, metrics.Errored},
		{"", errors.New("away"), metrics.Failed},
	} {
		for _, client := range []string{"2024-11-05", "2025-06-18"} { // translated, and unchanged
			f := newFake(initializing("2025-06-18", func(string) ([]string, error) {
				if c.err != nil {
					return nil, c.err
				}
				return one(c.answer)
			}))
			srv := front(t, f)
			srv.post(srv.initialize(client), callOne)
			eventually(t, "the count", func() bool { return srv.outcomes(c.want, "tools/call") == 1 })
			all := 0
			for _, how := range []metrics.Outcome{metrics.Succeeded, metrics.ToolError, metrics.Errored, metrics.Local, metrics.Refused, metrics.Failed, metrics.Cancelled, metrics.Left} {
				all += srv.outcomes(how, "tools/call")
			}
			if all != 1 {
				t.Errorf("%s: counted %d times", c.answer, all)
			}
		}
	}
}

// TestACallCountsOnce: a call of a client counts once, however many requests to the server it
// takes.
func TestACallCountsOnce(t *testing.T) {
	const (
		form  = `{"elicitation":{"form":{}}}`
		url   = `{"elicitation":{"url":{}}}`
		asks  = `"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://a.example/c","message":"Sign in"}]}`
		named = `"requestState":"st","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}}}}}`
	)
	askingURLs := func(t *testing.T, change ...func(*config.Config)) testServer {
		calls := 0
		f := legacyServer(`{"tools":{}}`, func(id, method, _ string) ([]string, error) {
			if calls++; method == "tools/call" && calls == 1 {
				return one(rpcError(id, asks))
			}
			return one(result(id, `"content":[]`))
		})
		f.NoGet = true
		return front(t, f, append(change, func(c *config.Config) { c.Bridge.OpenedTimeout = time.Millisecond })...)
	}
	lost := func(t *testing.T, can string) testServer {
		s, _ := newLosing(t)
		rest := s.Script
		s.Script = func(u *peertest.Turn) {
			if u.Method == "tools/call" && u.Session == s.Opened()[0] {
				u.Refuse(http.StatusNotFound)
				return
			}
			rest(u)
		}
		srv := frontOfWeb(t, s.At().URL)
		if r := srv.modernly(asCall("7", can, "")); r.status != 200 {
			t.Errorf("%+v", r)
		}
		return srv
	}
	again := func(r reply, action string) string {
		return asCall("8", url, `"inputResponses":{"elicitation-1":{"action":"`+action+`"}},"requestState":`+gjson.Get(r.body, "result.requestState").Raw+`,`)
	}
	for _, c := range []struct {
		name   string
		method string // "" for tools/call
		want   metrics.Outcome
		server string // the server's revision in the label
		play   func(t *testing.T) testServer
	}{
		{"a question", "", metrics.Succeeded, "2025-11-25", func(t *testing.T) testServer {
			f, gate := asksName(nameQuestion)
			srv := front(t, f)
			r := srv.modernly(modernCall("7", ""))
			open(f, gate)
			srv.modernly(retryOf("8", ada, r))
			return srv
		}},
		{"a question without an answer", "", metrics.Left, "2025-11-25", func(t *testing.T) testServer {
			f, _ := asksName(nameQuestion)
			srv := front(t, f, func(c *config.Config) { c.Bridge.ParkTimeout = 20 * time.Millisecond })
			srv.modernly(modernCall("7", ""))
			return srv
		}},
		{"a question of a server without sessions", "", metrics.Succeeded, "2026-07-28", func(t *testing.T) testServer {
			f := asksFirst(false, named)
			f.asked = true
			srv := front(t, f)
			srv.modernly(asCall("7", form, ""))
			srv.modernly(asCall("8", form, `"inputResponses":{"a":{"action":"accept","content":{"n":"Ada"}}},"requestState":"st",`))
			return srv
		}},
		{"a question of a server without sessions, to a client with one", "", metrics.Succeeded, "2026-07-28", func(t *testing.T) testServer {
			srv := front(t, asksFirst(false, named))
			session := srv.initializeWith("2025-11-25", form)
			events := srv.reads(session, callOne)
			id := gjson.Get(<-events, "id").Raw
			srv.post(session, `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept","content":{"n":"Ada"}}}`)
			for range events {
			}
			return srv
		}},
		{"URLs that are opened", "", metrics.Succeeded, "2025-11-25", func(t *testing.T) testServer {
			srv := askingURLs(t)
			srv.modernly(again(srv.modernly(asCall("7", url, "")), "accept"))
			return srv
		}},
		{"URLs that are not", "", metrics.Local, "unknown", func(t *testing.T) testServer {
			srv := askingURLs(t)
			srv.modernly(again(srv.modernly(asCall("7", url, "")), "decline"))
			return srv
		}},
		{"URLs of which the client says nothing", "", metrics.Left, "unknown", func(t *testing.T) testServer {
			srv := askingURLs(t, func(c *config.Config) { c.Bridge.ParkTimeout = 20 * time.Millisecond })
			srv.modernly(asCall("7", url, ""))
			return srv
		}},
		{"a session that the server has lost", "", metrics.Succeeded, "2025-06-18", func(t *testing.T) testServer { return lost(t, `{}`) }},
		{"a session that the server has lost, to a client that may be asked", "", metrics.Succeeded, "2025-06-18", func(t *testing.T) testServer { return lost(t, form) }},
		{"a server of the other era", "", metrics.Succeeded, "2026-07-28", func(t *testing.T) testServer {
			r := newReplaceable(t)
			r.by("2025-06-18")
			srv := r.before(t)
			srv.modernly(modernRequestOf("6", "tools/list", meta(`{}`)))
			r.by(modernOnly)
			srv.modernly(modernRequestOf("7", "tools/call", `"name":"hello","arguments":{},`+meta(`{}`)))
			return srv
		}},
		{"a server that is away", "", metrics.Failed, "unknown", func(t *testing.T) testServer {
			srv := frontOf(t, origin.Origin{Connect: func(context.Context, *upstream.Outgoing) (*upstream.Begun, error) { return nil, errors.New("away") }})
			srv.modernly(modernRequestOf("7", "tools/call", `"name":"t",`+meta(`{}`)))
			return srv
		}},
		{"a state that is not ours", "", metrics.Refused, "unknown", func(t *testing.T) testServer {
			srv := front(t, legacyServer(`{"tools":{}}`, nil))
			srv.modernly(modernCall("7", `"requestState":"no",`))
			return srv
		}},
		{"server/discover", "server/discover", metrics.Local, "unknown", func(t *testing.T) testServer {
			srv := front(t, legacyServer(`{"tools":{}}`, nil))
			srv.modernly(modernRequestOf("7", "server/discover", meta(`{}`)))
			return srv
		}},
		{"an id that is open", "", metrics.Refused, "2025-06-18", func(t *testing.T) testServer {
			f := silentPipe()
			srv := front(t, f, func(c *config.Config) { c.Limits.OpenRequests = 1 })
			session := srv.initialize("2025-06-18")
			first := srv.call(f, session, listOne)
			srv.post(session, callTool(`2`, `2`))
			f.Unasked(answer(`1`))
			<-first.reply
			return srv
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := c.play(t)
			method := "method=" + cmp.Or(c.method, "tools/call")
			const family = "dragoman_requests_total"
			eventually(t, "the count", func() bool {
				return counted(t, srv.Metrics, family, method, "outcome="+string(c.want), "server="+c.server) == 1
			})
			if n := counted(t, srv.Metrics, family, method); n != 1 {
				t.Errorf("counted %d times", n)
			}
		})
	}
}

func TestBuildInfo(t *testing.T) {
	srv := front(t, newFake(nil))
	families, err := srv.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "dragoman_build_info" {
			m := f.GetMetric()[0]
			if len(m.GetLabel()) != 3 || m.GetGauge().GetValue() != 1 {
				t.Errorf("%v", m)
			}
			return
		}
	}
	t.Error("no dragoman_build_info")
}
