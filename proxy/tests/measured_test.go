package tests

import (
	"errors"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// measured returns how many observations the histograms of a family have that have all these labels.
func measured(t *testing.T, srv testServer, family string, labels ...string) (n uint64) {
	t.Helper()
	families, err := srv.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != family {
			continue
		}
		for _, m := range f.Metric {
			has := ""
			for _, l := range m.Label {
				has += l.GetName() + "=" + l.GetValue() + "\n"
			}
			all := true
			for _, l := range labels {
				all = all && strings.Contains("\n"+has, "\n"+l+"\n")
			}
			if all {
				n += m.Histogram.GetSampleCount()
			}
		}
	}
	return n
}

const (
	toServer = "mcp_client_operation_duration_seconds"
	toClient = "mcp_server_operation_duration_seconds"
)

// TestOperationsAreMeasured checks the labels of calls: over HTTP, and to a server on a pipe. A tool has a label of its own
// if a list names it.
func TestOperationsAreMeasured(t *testing.T) {
	said := func(id, method, params string) ([]string, error) {
		switch {
		case method == "tools/list":
			return one(result(id, `"tools":[{"name":"hello","inputSchema":{"type":"object"}}]`))
		case strings.Contains(params, `"lost"`):
			return nil, errors.New("away")
		case strings.Contains(params, `"wrong"`):
			return one(rpcError(id, `"code":-32602,"message":"Unknown tool"`))
		}
		return one(result(id, `"content":[],"isError":`+map[bool]string{true: "true", false: "false"}[strings.Contains(params, "bad")]))
	}
	calls := func(tool, arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{` + arguments + `}}}`
	}
	for _, client := range []string{"2025-06-18", "2025-11-25"} { // translated, and unchanged
		f := legacyServer(`{"tools":{}}`, said)
		f.NoGet = true
		srv := front(t, f, func(c *config.Config) { c.Upstream.URL = "http://mcp.example:81/mcp" })
		session := srv.initialize(client)
		srv.post(session, calls("hello", ``)) // no list has named it
		srv.post(session, listOne)
		srv.post(session, calls("hello", ``))
		srv.post(session, calls("hello", `"bad":1`))
		srv.post(session, calls("hello", `"lost":1`))
		srv.post(session, calls("wrong", ``))
		for _, c := range []struct{ tool, kind, code string }{
			{"_unknown", "", ""}, {"hello", "", ""}, {"hello", "tool_error", ""}, {"_unknown", "-32602", "-32602"},
		} {
			labels := []string{"mcp_method_name=tools/call", "gen_ai_tool_name=" + c.tool, "error_type=" + c.kind, "rpc_response_status_code=" + c.code, "network_transport=tcp"}
			eventually(t, "the call of "+c.tool+" "+c.kind, func() bool {
				return measured(t, srv, toClient, append(labels, "mcp_protocol_version="+client)...) == 1 &&
					measured(t, srv, toServer, append(labels, "mcp_protocol_version=2025-11-25", "server_address=mcp.example")...) == 1
			})
		}
		eventually(t, "the call that failed", func() bool {
			return measured(t, srv, toClient, "gen_ai_tool_name=hello", "rpc_response_status_code=-32603") == 1
		})
		if n := measured(t, srv, toClient, "mcp_method_name=tools/list", "gen_ai_tool_name="); n != 1 {
			t.Errorf("%d lists", n)
		}
		if n := measured(t, srv, toClient, "rpc_response_status_code=-32603", "error_type="); n != 0 {
			t.Errorf("%d failures without a cause", n)
		}
	}
}

// TestOperationsOfModernClientsAreMeasured checks that a call whose client is asked is one operation, which waits for the
// server meanwhile.
func TestOperationsOfModernClientsAreMeasured(t *testing.T) {
	f, gate := asksName(nameQuestion)
	srv := front(t, f)
	r := srv.modernly(modernCall("7", ""))
	open(f, gate)
	srv.modernly(retryOf("8", ada, r))
	eventually(t, "the call", func() bool {
		return measured(t, srv, toClient, "mcp_method_name=tools/call", "mcp_protocol_version=2026-07-28", "error_type=") == 1
	})
	if n := measured(t, srv, toServer, "mcp_method_name=tools/call", "mcp_protocol_version=2025-11-25", "error_type="); n != 1 {
		t.Errorf("%d operations of the server", n)
	}
}

func TestSessionsAreMeasured(t *testing.T) {
	srv := front(t, legacyServer(`{"tools":{}}`, nil))
	session := srv.initialize("2025-06-18")
	if n := measured(t, srv, "mcp_server_session_duration_seconds"); n != 0 {
		t.Errorf("%d sessions before one has ended", n)
	}
	srv.exchange(t.Context(), "DELETE", session, "")
	eventually(t, "the session", func() bool {
		return measured(t, srv, "mcp_server_session_duration_seconds", "mcp_protocol_version=2025-06-18", "error_type=", "network_transport=tcp") == 1
	})
	if n := measured(t, srv, "mcp_client_session_duration_seconds", "mcp_protocol_version=2025-11-25", "error_type="); n != 1 {
		t.Errorf("%d sessions with the server", n)
	}
}
