package tests

import (
	"fmt"
	"net/http"
	"testing"

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
