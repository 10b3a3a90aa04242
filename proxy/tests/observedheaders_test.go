package tests

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
)

// TestHeadersOfRequestsAreObserved: those of the protocol and its transport, whichever are passed on, without credentials.
func TestHeadersOfRequestsAreObserved(t *testing.T) {
	sent := []string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Authorization", "Bearer hea/der+token=1", "X-Other", "x"}
	call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{}}}`
	check := func(t *testing.T, d []observe.Detail, more map[string]string) {
		t.Helper()
		want := map[string]string{"Content-Type": sent[1], "Accept": sent[3]}
		for name, value := range more {
			want[name] = value
		}
		if len(d) != 1 {
			t.Fatalf("%d calls", len(d))
		}
		got := map[string]string{}
		for name, value := range d[0].Messages[0].Headers {
			got[http.CanonicalHeaderKey(name)] = value
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s has %v, want %v", d[0].Row.Method, got, want)
		}
	}
	t.Run("a session", func(t *testing.T) {
		srv := front(t, newFake(initializing("2025-06-18", obliging)))
		ring, end := observedBy(srv)
		first := srv.post("", initialize("2025-06-18", `{}`), sent...)
		session := first.header["Mcp-Session-Id"]
		srv.post(session, call, append(sent, "MCP-Protocol-Version", "2025-06-18")...)
		end()
		check(t, rowsOf(ring, "initialize"), nil)
		check(t, rowsOf(ring, "tools/call"), map[string]string{"Mcp-Protocol-Version": "2025-06-18", "Mcp-Session-Id": srv.Now().Redactor.Handle(session)})
	})
	for name, srv := range map[string]testServer{
		"a modern client": front(t, legacyServer(`{"tools":{}}`, nil)), "a modern client and server": peersOf(t, 1, newSessionless(t, nil))[0].testServer,
	} {
		t.Run(name, func(t *testing.T) {
			ring, end := observedBy(srv)
			for _, method := range []string{"tools/list", "server/discover"} {
				srv.modernly(modernRequestOf("7", method, meta(`{}`)), sent...)
			}
			end()
			for _, method := range []string{"tools/list", "server/discover"} {
				check(t, rowsOf(ring, method), map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method})
			}
		})
	}
}

// TestWhatIsSaidDuringACallHasItsName, and each call of the session is counted once, initialize too.
func TestWhatIsSaidDuringACallHasItsName(t *testing.T) {
	srv := front(t, newFake(initializing("2025-06-18", func(m string) ([]string, error) {
		return one(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
			`{"jsonrpc":"2.0","id":`+gjson.Get(m, "id").Raw+`,"result":{"content":[]}}`)
	})))
	ring, end := observedBy(srv)
	session := srv.initialize("2025-06-18")
	srv.post(session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{},"_meta":{"progressToken":1}}}`)
	end()
	d := rowsOf(ring, "tools/call")
	if len(d) != 1 {
		t.Fatalf("%d calls", len(d))
	}
	named, last := 0, 0.0
	for _, m := range d[0].Messages {
		if m.Kind == "notification" && m.Method == "notifications/progress" {
			named++
		}
		if m.MS < last {
			t.Errorf("%v after %v", m.MS, last)
		}
		last = m.MS
	}
	if named != 2 || last == 0 {
		t.Errorf("%d have a name, the last is at %v: %q", named, last, steps(d[0]))
	}
	rows := 0
	ring.Each(0, func(observe.Row, []*observe.Message) bool { rows++; return true })
	if now := ring.Totals().Sessions; len(now) != 1 || now[0].Calls != rows {
		t.Errorf("%d rows, sessions %+v", rows, now)
	}
}
