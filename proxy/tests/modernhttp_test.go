package tests

import (
	"context"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// TestSessionsMeanNothingWithoutAHandshake: the session id of a modern client is ignored, and is
// not in the response.
func TestSessionsMeanNothingWithoutAHandshake(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, func(id, method, m string) ([]string, error) {
		return one(`{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[]}}`)
	})
	f.NoGet = true
	srv := front(t, f)
	known := srv.initialize("2025-11-25")
	list := modernRequestOf("1", "tools/list", meta(`{}`))
	for _, session := range []string{"", "unknown", known} {
		r := srv.post(session, list, modernHeader(list)...)
		if r.status != 200 || gjson.Get(r.body, "result.resultType").String() != "complete" || r.header["Mcp-Session-Id"] != "" {
			t.Errorf("session %q: %+v", session, r)
		}
		r = srv.post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "MCP-Protocol-Version", "2026-07-28")
		if r.status != 202 || r.body != "" {
			t.Errorf("a notification with session %q: %+v", session, r)
		}
	}
	for _, version := range []string{"2026-07-28", "v999"} {
		r := srv.post("unknown", modernRequestOf("2", "tools/list", ""), "MCP-Protocol-Version", version, "Mcp-Method", "tools/list")
		if r.status != 400 || gjson.Get(r.body, "error.code").Int() != -32602 {
			t.Errorf("%s without _meta: %+v", version, r)
		}
	}
	r := srv.post("unknown", `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`, "MCP-Protocol-Version", "2025-11-25")
	if r.status != 404 {
		t.Errorf("a client of a handshake whose session is gone: %+v", r)
	}
}

// TestClientThatNamesItsNewestRevisionKeepsItsSession: the header is wrong then, but the session
// knows the agreed revision.
func TestClientThatNamesItsNewestRevisionKeepsItsSession(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, func(id, method, m string) ([]string, error) {
		return one(`{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[]}}`)
	})
	f.NoGet = true
	srv := front(t, f)
	r := srv.post(srv.initialize("2025-11-25"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "MCP-Protocol-Version", "2026-07-28")
	if r.status != 200 {
		t.Fatalf("%+v", r)
	}
	sameJSON(t, r.body, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
}

func TestClientsWithoutASessionOnlyPost(t *testing.T) {
	srv := front(t, legacyServer(`{}`, nil))
	for _, method := range []string{"GET", "DELETE"} {
		for _, version := range []string{"2026-07-28", "2027-01-01"} {
			for _, session := range []string{"", "unknown"} {
				r := srv.exchange(context.Background(), method, session, "", "MCP-Protocol-Version", version, "Last-Event-ID", "7")
				if r.status != 405 || r.header["Allow"] != "POST" {
					t.Errorf("%s of %s, session %q: %+v", method, version, session, r)
				}
			}
		}
	}
}

// TestStatusSaysWhatIsWrongWithARequest: an error with a code of the newest revision gets the HTTP
// status of that code.
func TestStatusSaysWhatIsWrongWithARequest(t *testing.T) {
	for _, c := range []struct {
		code, status int
	}{{-32601, 404}, {-32020, 400}, {-32021, 400}, {-32022, 400}, {-32602, 200}, {-32000, 200}} {
		for _, capabilities := range []string{`{}`, `{"elicitation":{}}`} { // read by the relay, and by a parked call
			srv := front(t, legacyServer(`{"tools":{}}`, func(id, method, m string) ([]string, error) {
				return one(string(mcp.AppendError(nil, []byte(id), c.code, "no", []byte(`{"requiredCapabilities":{"sampling":{}}}`))))
			}))
			r := srv.modernly(modernRequestOf("1", "tools/call", `"name":"t",`+meta(capabilities)))
			if r.status != c.status || gjson.Get(r.body, "error.code").Int() != int64(c.code) {
				t.Errorf("%d, %s: %+v", c.code, capabilities, r)
			}
		}
	}
}

// TestInitializeOfAClientWithoutAHandshake is an unknown method, also if handshake clients use the
// same endpoint. The server, which has its session already, does not receive it.
func TestInitializeOfAClientWithoutAHandshake(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, nil)
	f.NoGet = true
	srv := front(t, f)
	for _, method := range []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"} {
		r := srv.modernly(modernRequestOf("1", method, meta(`{"sampling":{}}`)))
		if r.status != 404 {
			t.Errorf("%+v", r)
		}
		sameJSON(t, r.body, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found: `+method+`"}}`)
	}
	for _, m := range f.sent() {
		if method := gjson.Get(m, "method").String(); method != "initialize" && method != "notifications/initialized" {
			t.Errorf("the server got %s", m)
		}
	}
}

// TestErrorForAnUnknownRevisionListsTheServersRevisions: the error names the same revisions as
// server/discover.
func TestErrorForAnUnknownRevisionListsTheServersRevisions(t *testing.T) {
	m := strings.Replace(meta(`{}`), "2026-07-28", "v999", 1)
	all := `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`
	for _, c := range []struct {
		what   string
		server *fakeServer
		want   string
	}{
		{"a server with a handshake", legacyServer(`{}`, nil), all},
		{"a server without", plainFake(false, nil), `["2026-07-28"]`},
		{"a server without, on a pipe", plainFake(true, nil), `["2026-07-28"]`},
	} {
		srv := front(t, c.server)
		list := gjson.Get(srv.modernly(modernRequestOf("1", "server/discover", meta(`{}`))).body, "result.supportedVersions").Raw
		r := srv.modernly(modernRequestOf("2", "tools/list", m), "MCP-Protocol-Version", "v999")
		if r.status != 400 || gjson.Get(r.body, "error.code").Int() != -32022 {
			t.Errorf("%s: %+v", c.what, r)
		}
		sameJSON(t, list, c.want)
		sameJSON(t, gjson.Get(r.body, "error.data").Raw, `{"supported":`+c.want+`,"requested":"v999"}`)
	}
}
