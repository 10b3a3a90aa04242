package proxy

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
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
					s := script(t, toPipe, func(u *turn) {
						switch u.method {
						case "initialize":
							u.answer(200, initialized(u.id))
						case "tools/call":
							u.answer(200, `{"jsonrpc":"2.0","id":`+u.id+`,"result":{"content":[]}}`)
						case "tools/list":
							u.answer(200, `{"jsonrpc":"2.0","id":`+u.id+`,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}`)
						default:
							if u.id != "" {
								u.answer(200, `{"jsonrpc":"2.0","id":`+u.id+`,"error":{"code":-32601,"message":"Method not found"}}`)
							}
						}
					})
					c := through(t, s.at()).client(t, fromPipe)
					more := ""
					if version == "2026-07-28" {
						more = "," + meta
					} else {
						c.initialize(version, "{}")
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
						r := c.say(call("5", params), "Mcp-Name", "t")
						if got := r.next(); gjson.Get(got, "error.code").Int() != -32600 || gjson.Get(got, "id").Raw != "5" || !strings.Contains(got, "occurs twice") {
							t.Errorf("%s: %s", params, got)
						}
						r.hasStatus(400)
					}
					if more != "" {
						if got := c.say(call("5", `"name":"t",`+badMeta), "Mcp-Name", "t").next(); gjson.Get(got, "error.code").Int() != -32602 {
							t.Errorf("a member of _meta twice: %s", got)
						}
					}
					if n := s.count("tools/call"); n != 0 {
						t.Errorf("%d calls have reached the server", n)
					}
					if got := c.say(call("6", `"name":"t","other":1,"other":2,"arguments":{"name":1,"name":2}`+more)).next(); gjson.Get(got, "id").Raw != "6" || !gjson.Get(got, "result").Exists() {
						t.Errorf("another member twice: %s", got)
					}
				})
			}
		}
	}
}
