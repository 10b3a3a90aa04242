package tests

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// answerIDs are request ids in forms that a client may write. The response must have the same
// bytes.
var answerIDs = []string{`7`, `-3`, `9007199254740993`, `123456789012345678901234567890`, `"x"`, `""`, `"a\u00e9\"\\\/\n"`, `"7"`}

// TestAnswersCarryTheIDOfTheirRequest: for each era of client and server, over HTTP and stdio on
// both sides, for a transformed result, an adapter's tool, and a tool of the proxy.
func TestAnswersCarryTheIDOfTheirRequest(t *testing.T) {
	_, serveAdapters := withAdapters(t)
	transforming := shaped(t, "{default_max_tokens: 300, rules: [{match: {tool: fields}, include_fields: [a]}]}")
	for corner := range 16 {
		clientModern, serverModern := corner&1 != 0, corner&2 != 0
		c := &staged{client: corner&4 != 0, server: corner&8 != 0}
		name := fmt.Sprintf("modern=%v %s to modern=%v %s", clientModern, transportName(c.client), serverModern, transportName(c.server))
		t.Run(name, func(t *testing.T) {
			c.T = t
			client, _ := c.stage(c.verbose(serverModern), transforming, serveAdapters)
			ask := func(id, method, params string) string {
				t.Helper()
				if clientModern {
					return client.Say(modernRequestOf(id, method, params+`,`+meta(`{}`))).Next()
				}
				return client.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params)).Next()
			}
			if !clientModern {
				client.Initialize("2025-11-25", `{}`)
			}
			for n, id := range answerIDs {
				if n%effort != 0 && n%effort != effort/2 { // two of them with the race detector, which does not read bytes
					continue
				}
				var cursor string
				for _, r := range []struct{ what, method, params, has string }{
					{"a capped result", "tools/call", `"name":"t","arguments":{}`, `result._meta.dragoman/transform.cursor`},
					{"a filtered result", "tools/call", `"name":"fields","arguments":{}`, `result.content.0.text`},
					{"a result as it came", "tools/call", `"name":"short","arguments":{}`, `result.content`},
					{"a resource", "resources/read", `"uri":"file:///x"`, `result.contents`},
					{"a prompt", "prompts/get", `"name":"p"`, `result.messages`},
					{"a list of tools", "tools/list", `"cursor":""`, `result.tools`},
					{"an adapter", "tools/call", `"name":"mcp_aql_read","arguments":` + readItem, `result.content.0.text`},
					{"an operation that an adapter does not have", "tools/call", `"name":"mcp_aql_read","arguments":{"operation":"none"}`, `result.content.0.text`},
					{"fetch_more", "tools/call", "", `result.content.0.text`},
					{"an error", "tools/call", `"name":"broken","arguments":{}`, `error.message`},
				} {
					if r.what == "fetch_more" {
						r.params = fmt.Sprintf(`"name":"fetch_more","arguments":{"cursor":%q,"from":0}`, cursor)
					}
					answer := ask(id, r.method, r.params)
					if got := gjson.Get(answer, "id").Raw; got != id {
						t.Errorf("%s: id %s, want %s", r.what, got, id)
					}
					if !gjson.Get(answer, r.has).Exists() || r.what == "fetch_more" && gjson.Get(answer, "result.isError").Bool() {
						t.Errorf("%s: %.300s", r.what, answer)
					}
					if r.what == "a capped result" {
						cursor = gjson.Get(answer, r.has).String()
					}
				}
			}
		})
	}
}

// verbose is a server of either era whose tool t returns more than the budget allows.
func (c *staged) verbose(modern bool) *peertest.Server {
	more := ""
	if modern {
		more = `"resultType":"complete",`
	}
	answers := map[string]string{
		"t":      `"content":[{"type":"text","text":` + quote(issues(200)) + `}]`,
		"fields": `"content":[{"type":"text","text":"{\"a\":1,\"b\":2}"}]`,
		"short":  `"content":[{"type":"text","text":"hi"}]`,
	}
	reply := func(u *peertest.Turn) {
		body := ""
		switch name := gjson.Get(u.Text, "params.name").String(); {
		case u.Method == "tools/list":
			body = `"tools":[{"name":"t","inputSchema":{"type":"object"}}]`
		case u.Method == "resources/read":
			body = `"contents":[{"uri":"file:///x","text":` + quote(issues(200)) + `}]`
		case u.Method == "prompts/get":
			body = `"messages":[{"role":"user","content":{"type":"text","text":` + quote(issues(200)) + `}}]`
		case u.Method == "tools/call" && name == "broken":
			u.Answer(200, rpcError(u.ID, `"code":-32603,"message":"broken"`))
			return
		case u.Method == "tools/call":
			body = answers[name]
		default:
			return
		}
		u.Answer(200, result(u.ID, more+body))
	}
	if !modern {
		return c.legacy(`{"tools":{},"prompts":{},"resources":{}}`, reply)
	}
	return c.sessionless(func(u *peertest.Turn) {
		switch u.Method {
		case "initialize":
			u.Answer(404, rpcError(u.ID, `"code":-32601,"message":"Method not found: initialize"`))
		case "server/discover":
			u.Answer(200, result(u.ID, `"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{"tools":{},"prompts":{},"resources":{}},`+identity))
		default:
			reply(u)
		}
	})
}

// TestLateNameCollisionAnswersTheRequest: if a list of tools is refused because of a name
// collision, the error has the modern client's request id.
func TestLateNameCollisionAnswersTheRequest(t *testing.T) {
	_, serveAdapters := withAdapters(t)
	c := &staged{T: t}
	var lists atomic.Int64
	s := c.legacy(`{"tools":{}}`, func(u *peertest.Turn) {
		name := "t"
		if lists.Add(1) > 1 {
			name = "mcp_aql_read"
		}
		u.Answer(200, result(u.ID, `"tools":[{"name":"`+name+`","inputSchema":{"type":"object"}}]`))
	})
	client, _ := c.stage(s, serveAdapters, func(cfg *config.Config) { cfg.Adapters.OnClash = config.ClashFail })
	for range 3 {
		answer := client.Say(modernRequestOf(`"\u0061"`, "tools/list", meta(`{}`))).Next()
		if got := gjson.Get(answer, "id").Raw; got != `"\u0061"` {
			t.Errorf("id %s of %s", got, answer)
		}
	}
	if answer := client.Say(modernRequestOf("1", "tools/list", meta(`{}`))).Next(); !gjson.Get(answer, "error").Exists() {
		t.Error(answer)
	}
}
