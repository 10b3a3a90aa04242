package proxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// eraRow is a request and its response, and what the other side receives of them: the params of the
// request, and the result of the response. "" is not checked.
type eraRow struct {
	rule    string
	method  string
	params  string // without the _meta that every modern request has
	asked   string // the params that the server receives
	result  string
	answer  string // the result that the client receives
	version string // the revision of a handshake client; "" for the newest
}

const (
	tracing = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=b","baggage":"c=d"`
	vendor  = `"example.com/x":{"io.modelcontextprotocol/protocolVersion":"mine"},"io.modelcontextprotocol/other":1,"io.modelcontextprotocol/related-task":{"taskId":"t"}`
	hints   = `"ttlMs":0,"cacheScope":"private"`
)

// TestRowsFromNoSessionToOne: the effect of rules C29 to C35 on messages between a modern client
// and a handshake server.
func TestRowsFromNoSessionToOne(t *testing.T) {
	rows := []eraRow{
		{rule: "C29 C32", method: "tools/call", params: `"name":"t"`, result: `{"content":[]}`, answer: `{"content":[],"resultType":"complete",` + identity + `}`},
		{rule: "C29 of unknown methods", method: "x/y", params: `"a":[]`, asked: `{"a":[]}`, result: `{"b":1}`, answer: `{"b":1,"resultType":"complete",` + identity + `}`},
		{rule: "C29 is kept", method: "x/y", params: `"a":[]`, result: `{"resultType":"complete"}`, answer: `{"resultType":"complete",` + identity + `}`},
		{rule: "C29 without hints", method: "completion/complete", params: `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}`, result: `{"completion":{"values":[]}}`,
			answer: `{"completion":{"values":[]},"resultType":"complete",` + identity + `}`},
		{rule: "C30", method: "tools/list", params: `"cursor":""`, asked: `{"cursor":""}`, result: `{"tools":[]}`, answer: `{"tools":[],"resultType":"complete",` + hints + `,` + identity + `}`},
		{rule: "C30", method: "prompts/list", params: `"cursor":"c"`, result: `{"prompts":[]}`, answer: `{"prompts":[],"resultType":"complete",` + hints + `,` + identity + `}`},
		{rule: "C30", method: "resources/list", params: `"cursor":"c"`, result: `{"resources":[]}`, answer: `{"resources":[],"resultType":"complete",` + hints + `,` + identity + `}`},
		{rule: "C30", method: "resources/templates/list", params: `"cursor":"c"`, result: `{"resourceTemplates":[]}`, answer: `{"resourceTemplates":[],"resultType":"complete",` + hints + `,` + identity + `}`},
		{rule: "C30", method: "resources/read", params: `"uri":"u:1"`, result: `{"contents":[]}`, answer: `{"contents":[],"resultType":"complete",` + hints + `,` + identity + `}`},
		{rule: "C31 by list, not by prefix", method: "tools/call", params: `"name":"t","_meta":{` + tracing + `,` + vendor + `,"io.modelcontextprotocol/logLevel":"error"}`,
			asked: `{"name":"t","_meta":{` + tracing + `,` + vendor + `}}`, result: `{"content":[]}`},
		{rule: "C31 leaves no empty _meta", method: "tools/call", params: `"name":"t"`, asked: `{"name":"t"}`, result: `{"content":[]}`},
		{rule: "C32 keeps what is there", method: "tools/call", params: `"name":"t"`, result: `{"content":[],"_meta":{` + vendor + `,"io.modelcontextprotocol/serverInfo":{"name":"own","version":"3"}}}`,
			answer: `{"content":[],"resultType":"complete","_meta":{` + vendor + `,"io.modelcontextprotocol/serverInfo":{"name":"own","version":"3"}}}`},
		{rule: "C33 what is ours stays here", method: "tools/call", params: `"name":"t","inputResponses":{"a":{"action":"accept"}}`, asked: `{"name":"t"}`, result: `{"content":[]}`},
		{rule: "C07", method: "tools/call", params: `"name":"t","arguments":{"task":1}`, asked: `{"name":"t","arguments":{"task":1}}`, result: `{"content":[]}`},
	}
	for _, r := range rows {
		r.play(t, func(c *staged) (*scripted, *talker, string) {
			s := c.legacy(`{"tools":{},"prompts":{},"resources":{},"completions":{}}`, r.reply)
			client, _ := c.stage(s)
			params, own := r.params, ""
			if before, more, ok := strings.Cut(params, `,"_meta":{`); ok {
				params, own = before, strings.TrimSuffix(more, "}")
			}
			more := []string{own}
			if own == "" {
				more = nil
			}
			return s, client, modernRequestOf("5", r.method, params+`,`+meta(`{}`, more...))
		})
	}
}

// TestRowsFromASessionToNone: the same between a handshake client and a modern server.
func TestRowsFromASessionToNone(t *testing.T) {
	stamped := func(more string) string {
		return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}` + more + `}`
	}
	rows := []eraRow{
		{rule: "C29", method: "prompts/get", params: `"name":"p"`, asked: `{"name":"p",` + stamped("") + `}`, result: `{"resultType":"complete","messages":[]}`, answer: `{"messages":[]}`},
		{rule: "C29 of unknown methods", method: "x/y", params: `"a":[]`, asked: `{"a":[],` + stamped("") + `}`, result: `{"resultType":"complete","b":1}`, answer: `{"b":1}`},
		{rule: "C29 of a server that forgets it", method: "x/y", params: `"a":[]`, result: `{"b":1}`, answer: `{"b":1}`},
		{rule: "C30", method: "tools/list", params: `"cursor":""`, asked: `{"cursor":"",` + stamped("") + `}`, result: `{"resultType":"complete","ttlMs":5,"cacheScope":"public","tools":[]}`, answer: `{"tools":[]}`},
		{rule: "C30", method: "prompts/list", result: `{"resultType":"complete","ttlMs":5,"cacheScope":"public","prompts":[]}`, answer: `{"prompts":[]}`, asked: `{` + stamped("") + `}`},
		{rule: "C30", method: "resources/list", result: `{"resultType":"complete","ttlMs":5,"cacheScope":"public","resources":[]}`, answer: `{"resources":[]}`},
		{rule: "C30", method: "resources/templates/list", result: `{"resultType":"complete","ttlMs":5,"cacheScope":"public","resourceTemplates":[]}`, answer: `{"resourceTemplates":[]}`},
		{rule: "C30", method: "resources/read", params: `"uri":"u:1"`, result: `{"resultType":"complete","ttlMs":5,"cacheScope":"public","contents":[]}`, answer: `{"contents":[]}`},
		{rule: "C30 is data elsewhere", method: "prompts/get", params: `"name":"p"`, result: `{"resultType":"complete","messages":[],"ttlMs":5}`, answer: `{"messages":[],"ttlMs":5}`},
		{rule: "C31 beside the client's own", method: "prompts/get", params: `"name":"p","_meta":{` + tracing + `,` + vendor + `}`, asked: `{"name":"p",` + stamped(`,`+tracing+`,`+vendor) + `}`, result: `{"resultType":"complete","messages":[]}`},
		{rule: "C31 is not the client's to say", method: "prompts/get", params: `"name":"p","_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/clientInfo":{"name":"x"}}`,
			asked: `{"name":"p",` + stamped("") + `}`, result: `{"resultType":"complete","messages":[]}`},
		{rule: "C32 by list, not by prefix", method: "prompts/get", params: `"name":"p"`, result: `{"resultType":"complete","messages":[],"_meta":{` + vendor + `,"io.modelcontextprotocol/serverInfo":{"name":"own","version":"3"}}}`,
			answer: `{"messages":[],"_meta":{` + vendor + `}}`},
		{rule: "C32 leaves no empty _meta", method: "prompts/get", params: `"name":"p"`, result: `{"resultType":"complete","messages":[],` + identity + `}`, answer: `{"messages":[]}`},
		{rule: "C07", method: "prompts/get", params: `"name":"p","task":{"ttl":1}`, result: `{"resultType":"complete","messages":[]}`, answer: `{"messages":[]}`},
		{rule: "C05 as well", method: "resources/list", version: "2025-06-18", result: `{"resultType":"complete",` + hints + `,"resources":[{"uri":"u:1","name":"n","icons":[{"src":"data:,"}]}]}`, answer: `{"resources":[{"uri":"u:1","name":"n"}]}`},
	}
	for _, r := range rows {
		r.play(t, func(c *staged) (*scripted, *talker, string) {
			s := c.sessionless(func(u *turn) {
				switch {
				case u.method == "initialize":
					u.answer(404, rpcError(u.id, `"code":-32601,"message":"Method not found"`))
				case u.method == "server/discover":
					u.answer(200, result(u.id, `"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{}},`+hints))
				default:
					r.reply(u)
				}
			})
			client, _ := c.stage(s)
			version := r.version
			if version == "" {
				version = "2025-11-25"
			}
			client.initialize(version, `{}`)
			params := ""
			if r.params != "" {
				params = `,"params":{` + r.params + `}`
			}
			return s, client, `{"jsonrpc":"2.0","id":5,"method":"` + r.method + `"` + params + `}`
		})
	}
}

func (r eraRow) reply(u *turn) {
	if u.method == r.method && u.id != "" {
		u.answer(200, `{"jsonrpc":"2.0","id":`+u.id+`,"result":`+r.result+`}`)
	}
}

func (r eraRow) play(t *testing.T, stage func(*staged) (*scripted, *talker, string)) {
	for _, way := range [][2]bool{{false, false}, {true, true}} {
		t.Run(fmt.Sprintf("%s %s over %s", r.rule, r.method, transportName(way[0])), func(t *testing.T) {
			s, client, request := stage(&staged{T: t, client: way[0], server: way[1], bound: map[string]string{}})
			told := client.say(request)
			answer := told.next()
			told.hasStatus(200)
			if r.answer != "" {
				sameJSON(t, gjson.Get(answer, "result").Raw, r.answer)
			}
			if r.asked != "" {
				sameJSON(t, gjson.Get(s.gets(1, r.method).text, "params").Raw, r.asked)
			}
		})
	}
}
