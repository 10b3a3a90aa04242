package proxy

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/peertest"
)

// TestParamsWithARepeatedMember: a request is refused in every era if its params repeat a member
// that decides how it is routed, gated or capped. It does not reach the server. Other repeated
// members pass.
func TestParamsWithARepeatedMember(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	const badMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, version := range []string{"2024-11-05", "2025-11-25", "2026-07-28"} {
		for _, toPipe := range []bool{false, true} {
			for _, fromPipe := range []bool{false, true} {
				name := map[bool]string{false: "http", true: "stdio"}
				t.Run(version+"/"+name[fromPipe]+" to "+name[toPipe], func(t *testing.T) {
					t.Parallel()
					s := script(t, toPipe, func(u *peertest.Turn) {
						switch u.Method {
						case "initialize":
							u.Answer(200, initialized(u.ID))
						case "tools/call":
							u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"content":[]}}`)
						case "tools/list":
							u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}`)
						default:
							if u.ID != "" {
								u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"error":{"code":-32601,"message":"Method not found"}}`)
							}
						}
					})
					c := through(t, s.At()).client(t, fromPipe)
					more := ""
					if version == "2026-07-28" {
						more = "," + meta
					} else {
						c.Initialize(version, "{}")
					}
					call := func(id, params string) string {
						return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{` + params + `}}`
					}
					for _, params := range []string{
						`"name":"t","name":"t"` + more,
						`"name":"t","n\u0061me":"u"` + more,
						`"name":"t","arguments":{},"arguments":{"a":1}` + more,
						`"name":"t",` + meta + `,` + meta,
					} {
						r := c.Say(call("5", params), "Mcp-Name", "t")
						if got := r.Next(); gjson.Get(got, "error.code").Int() != -32600 || gjson.Get(got, "id").Raw != "5" || !strings.Contains(got, "occurs twice") {
							t.Errorf("%s: %s", params, got)
						}
						r.HasStatus(400)
					}
					if more != "" {
						if got := c.Say(call("5", `"name":"t",`+badMeta), "Mcp-Name", "t").Next(); gjson.Get(got, "error.code").Int() != -32602 {
							t.Errorf("a member of _meta twice: %s", got)
						}
					}
					if n := s.Count("tools/call"); n != 0 {
						t.Errorf("%d calls have reached the server", n)
					}
					if got := c.Say(call("6", `"name":"t","other":1,"other":2,"arguments":{"name":1,"name":2}`+more)).Next(); gjson.Get(got, "id").Raw != "6" || !gjson.Get(got, "result").Exists() {
						t.Errorf("another member twice: %s", got)
					}
				})
			}
		}
	}
}
