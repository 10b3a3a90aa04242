package tests

import (
	"context"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// TestOwnToolsWithAModernServer: dragoman's own tools are in a modern server's list
// and in the response to server/discover, can be called, and can ask the user.
func TestOwnToolsWithAModernServer(t *testing.T) {
	for _, over := range []string{"http", "stdio"} {
		t.Run("from "+over, func(t *testing.T) {
			bothInBubbles(t, func(t *testing.T, piped bool) { useOwnTools(t, over, piped) })
		})
	}
}

func useOwnTools(t *testing.T, over string, piped bool) {
	f := plainFake(piped, func(id, method, m string) ([]string, error) {
		if method == "tools/list" {
			return one(result(id, `"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"theirs","inputSchema":{"type":"object"}},{"name":"ours","inputSchema":{"type":"object"}}]`))
		}
		return one(result(id, `"resultType":"complete","content":[{"type":"text","text":"theirs"}]`))
	})
	own := echoing("ours")
	own.words = "mind ours"
	own.do = func(ctx context.Context, c *owntools.Call) string {
		if c.Ask == nil {
			return "nobody to ask"
		}
		if yes, err := c.Ask(ctx, "Sure?"); err != nil || !yes {
			return "no"
		}
		return "yes"
	}
	srv := beside(t, f, own)
	say := func(body string) string { return srv.modernly(body).body }
	if over == "stdio" {
		c := srv.pipe()
		say = func(body string) string {
			c.say(body)
			return c.hear()
		}
	}
	d := say(modernRequestOf("1", "server/discover", meta(`{}`)))
	if !gjson.Get(d, "result.capabilities.tools").Exists() || gjson.Get(d, "result.capabilities.tools.listChanged").Exists() || gjson.Get(d, "result.instructions").String() != "mind ours" {
		t.Error(d)
	}
	if got := names(say(modernRequestOf("2", "tools/list", meta(`{}`)))); got != "theirs ours" {
		t.Errorf("tools: %s", got)
	}
	call := func(id, name, can, more string) string {
		return say(modernRequestOf(id, "tools/call", `"name":"`+name+`","arguments":{},`+more+meta(can)))
	}
	if got := call("3", "theirs", `{}`, ""); gjson.Get(got, "result.content.0.text").String() != "theirs" {
		t.Error(got)
	}
	if got := call("4", "ours", `{}`, ""); gjson.Get(got, "result.content.0.text").String() != "nobody to ask" || gjson.Get(got, "result.resultType").String() != "complete" {
		t.Error(got)
	}
	asked := call("5", "ours", `{"elicitation":{}}`, "")
	if gjson.Get(asked, "result.resultType").String() != "input_required" {
		t.Fatal(asked)
	}
	key := ""
	gjson.Get(asked, "result.inputRequests").ForEach(func(k, _ gjson.Result) bool { key = k.String(); return false })
	got := call("6", "ours", `{"elicitation":{}}`, `"inputResponses":{"`+key+`":{"action":"accept","content":{}}},"requestState":`+gjson.Get(asked, "result.requestState").Raw+`,`)
	if gjson.Get(got, "result.content.0.text").String() != "yes" {
		t.Error(got)
	}
	for _, m := range f.said("tools/call") {
		if strings.Contains(m, "ours") {
			t.Errorf("the server got %s", m)
		}
	}
	if n := len(f.said("initialize")); n != 0 {
		t.Errorf("initialize was sent %d times", n)
	}
}

// TestOwnToolsWhereTheServerHasNone: a modern server without tools is not asked for its list.
func TestOwnToolsWhereTheServerHasNone(t *testing.T) {
	f := modernServer(false, `"capabilities":{"prompts":{}}`, func(id, method, _ string) ([]string, error) {
		if method == "tools/list" || method == "tools/call" {
			return nil, &upstream.StatusError{Code: 404, Body: []byte(rpcError(id, `"code":-32601,"message":"no tools"`))}
		}
		return one(result(id, `"resultType":"complete","prompts":[]`))
	})
	f.asked = true
	srv := beside(t, f, echoing("ours"))
	list := srv.modernly(modernRequestOf("2", "tools/list", meta(`{}`)))
	if names(list.body) != "ours" || gjson.Get(list.body, "result.resultType").String() != "complete" {
		t.Errorf("%+v", list)
	}
	if r := srv.modernly(modernRequestOf("3", "tools/call", `"name":"other","arguments":{},`+meta(`{}`))); gjson.Get(r.body, "error.code").Int() != -32602 {
		t.Errorf("%+v", r)
	}
	if r := srv.modernly(modernRequestOf("4", "prompts/list", meta(`{}`))); r.status != 200 {
		t.Errorf("%+v", r)
	}
}
