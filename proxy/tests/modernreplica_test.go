package tests

import (
	"context"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestAnyReplicaServesSessionsOfServersWithoutOne: a session id contains the client's capabilities,
// and any replica can end the session.
func TestAnyReplicaServesSessionsOfServersWithoutOne(t *testing.T) {
	leavesNothing(t)
	web := newSessionless(t, func(u *peertest.Turn) bool {
		if u.Header.Get("MCP-Protocol-Version") != "2026-07-28" || u.Header.Get("Mcp-Method") != u.Method || u.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s with %v", u.Method, u.Header)
		}
		switch u.Method {
		case "server/discover":
			u.Answer(200, result(u.ID, `"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"prompts":{},"logging":{}}`))
		default:
			says := gjson.Get(u.Text, `params._meta.io\.modelcontextprotocol/clientCapabilities`).Raw + gjson.Get(u.Text, `params._meta.io\.modelcontextprotocol/logLevel`).String()
			u.Answer(200, result(u.ID, `"resultType":"complete","description":`+string(wire.AppendQuoted(nil, says))+`,"messages":[]`))
		}
		return true
	})
	all := severalOf(t, web, 2)
	session := all[0].initializeWith("2025-11-25", `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`)
	const get = `{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"p"}}`
	for _, srv := range all {
		says := gjson.Get(srv.post(session, get).body, "result.description").String()
		can, isInfo := strings.CutSuffix(says, "info")
		if !isInfo {
			t.Errorf("level: %s", says)
		}
		sameJSON(t, can, `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`)
	}
	if r := all[1].exchange(context.Background(), "DELETE", session, ""); r.status >= 300 {
		t.Errorf("%+v", r)
	}
	if r := all[1].post(session, get); r.status != 404 {
		t.Errorf("after its end: %+v", r)
	}
}
