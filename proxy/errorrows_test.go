package proxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// errorRow is an error of one era and its translation to the other: the server's HTTP status and
// error members, and those that the client receives.
type errorRow struct {
	what    string
	request string // "" for tools/list
	status  int
	said    string // the server's error, or text that is not JSON
	want    int    // the status that the client receives
	heard   string // the error that the client receives; for dragoman's own errors, the code and message
	headers string // headers that the client receives; "" for none
}

// TestErrorsOfServersWithSessions: errors of handshake servers as modern clients receive them.
func TestErrorsOfServersWithSessions(t *testing.T) {
	same := func(what string, code int) errorRow {
		e := fmt.Sprintf(`{"code":%d,"message":"m","data":{"k":[1.0]}}`, code)
		return errorRow{what: what, status: 200, said: e, want: 200, heard: e}
	}
	rows := []errorRow{
		{what: "no such method", status: 200, said: `{"code":-32601,"message":"Method not found","data":1}`, want: 404, heard: `{"code":-32601,"message":"Method not found","data":1}`},
		same("params", -32602),
		{what: "no such resource", request: "resources/read", status: 200, said: `{"code":-32002,"message":"gone","data":{"k":1}}`, want: 200, heard: `{"code":-32602,"message":"gone","data":{"k":1,"uri":"u:1"}}`},
		{what: "no such resource, named", request: "resources/read", status: 200, said: `{"code":-32002,"message":"gone","data":{"uri":"u:2"}}`, want: 200, heard: `{"code":-32602,"message":"gone","data":{"uri":"u:2"}}`},
		{what: "no such resource, elsewhere", status: 200, said: `{"code":-32002,"message":"gone"}`, want: 200, heard: `{"code":-32602,"message":"gone"}`},
		{what: "URLs", request: "tools/call", status: 200, said: `{"code":-32042,"message":"m","data":{"elicitations":[]}}`, want: 400,
			heard: `{"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":{"elicitation":{"url":{}}}}}`},
		same("a parser's", -32700), same("an invalid request", -32600), same("an internal error", -32603), same("a refusal", -1), same("a code of its own", 42),
		same("the server's own first", -32000), same("the server's own second", -32001), same("the server's own fourth", -32003), same("the server's own last", -32019),
		{what: "who are you", status: 401, said: "", want: 401, heard: `{"code":-32603,"message":"upstream answered 401 Unauthorized"}`, headers: "WWW-Authenticate"},
		{what: "not you", status: 403, said: "", want: 403, heard: `{"code":-32603,"message":"upstream answered 403 Forbidden"}`, headers: "WWW-Authenticate"},
		{what: "too often", status: 429, said: "", want: 429, heard: `{"code":-32603,"message":"upstream answered 429 Too Many Requests"}`, headers: "Retry-After"},
		{what: "not now", status: 503, said: "", want: 503, heard: `{"code":-32603,"message":"upstream answered 503 Service Unavailable"}`, headers: "Retry-After"},
		{what: "broken", status: 500, said: "", want: 500, heard: `{"code":-32603,"message":"upstream answered 500 Internal Server Error"}`},
	}
	for _, r := range rows {
		r.play(t, func(c *staged) (*talker, string) {
			s := c.legacy(`{"tools":{},"resources":{}}`, r.answer)
			client, _ := c.stage(s)
			return client, modernRequestOf("5", r.method(), r.params()+meta(`{}`))
		})
	}
}

// TestErrorsOfServersWithoutSessions: errors of modern servers as handshake clients receive them.
// For these, 404 means that the session is lost, and no other error may have that status.
func TestErrorsOfServersWithoutSessions(t *testing.T) {
	same := func(what string, status, code int) errorRow {
		e := fmt.Sprintf(`{"code":%d,"message":"m","data":{"k":[1.0]}}`, code)
		return errorRow{what: what, status: status, said: e, want: 200, heard: e}
	}
	ours := func(what string, status, code int) errorRow {
		r := same(what, status, code)
		r.heard = strings.Replace(r.heard, fmt.Sprint(code), "-32603", 1)
		return r
	}
	rows := []errorRow{
		same("no such method", 404, -32601), same("no such method, mildly", 200, -32601), same("params", 400, -32602), same("params, mildly", 200, -32602),
		{what: "no such resource", request: "resources/read", status: 200, said: `{"code":-32602,"message":"gone","data":{"uri":"u:1"}}`, want: 200, heard: `{"code":-32002,"message":"gone","data":{"uri":"u:1"}}`},
		{what: "no such resource, by status", request: "resources/read", status: 400, said: `{"code":-32602,"message":"gone","data":{"uri":"u:1"}}`, want: 200, heard: `{"code":-32002,"message":"gone","data":{"uri":"u:1"}}`},
		{what: "params of a resource", request: "resources/read", status: 200, said: `{"code":-32602,"message":"no","data":{"uri":1}}`, want: 200, heard: `{"code":-32602,"message":"no","data":{"uri":1}}`},
		ours("a header", 400, -32020), ours("a capability", 400, -32021), ours("a revision", 400, -32022),
		same("a parser's", 400, -32700), same("an invalid request", 400, -32600), same("an internal error", 200, -32603), same("a code of its own", 200, 42),
		same("the server's own", 200, -32000), same("the server's own last", 400, -32019),
		{what: "nothing there", status: 404, said: "", want: 200, heard: `{"code":-32603,"message":"upstream endpoint not found"}`},
		{what: "who are you", status: 401, said: "", want: 401, heard: `{"code":-32603,"message":"upstream answered 401 Unauthorized"}`, headers: "WWW-Authenticate"},
		{what: "who are you, in words", status: 401, said: `{"code":-32001,"message":"no token"}`, want: 401, heard: `{"code":-32001,"message":"no token"}`, headers: "WWW-Authenticate"},
		{what: "not you", status: 403, said: "", want: 403, heard: `{"code":-32603,"message":"upstream answered 403 Forbidden"}`, headers: "WWW-Authenticate"},
		{what: "too often", status: 429, said: "", want: 429, heard: `{"code":-32603,"message":"upstream answered 429 Too Many Requests"}`, headers: "Retry-After"},
		{what: "broken", status: 500, said: "", want: 200, heard: `{"code":-32603,"message":"upstream answered 500 Internal Server Error"}`},
	}
	for _, r := range rows {
		r.play(t, func(c *staged) (*talker, string) {
			s := c.modern(`"capabilities":{"tools":{},"resources":{}}`, r.answer)
			client, _ := c.stage(s)
			client.initialize("2025-11-25", `{}`)
			return client, `{"jsonrpc":"2.0","id":5,"method":"` + r.method() + `","params":{` + strings.TrimSuffix(r.params(), ",") + `}}`
		})
	}
}

func (r errorRow) method() string {
	if r.request == "" {
		return "prompts/list"
	}
	return r.request
}

func (r errorRow) params() string {
	switch r.request {
	case "tools/call":
		return `"name":"t",`
	case "resources/read":
		return `"uri":"u:1",`
	}
	return ""
}

// answer makes the server's response.
func (r errorRow) answer(u *turn) {
	if u.method != r.method() {
		u.answer(200, result(u.id, ""))
		return
	}
	if r.said != "" {
		if u.web != nil {
			u.web.Header().Set("WWW-Authenticate", "Bearer")
		}
		u.answer(r.status, `{"jsonrpc":"2.0","id":`+u.id+`,"error":`+r.said+`}`)
		return
	}
	u.begun = true
	u.web.Header().Set("WWW-Authenticate", "Bearer")
	u.web.Header().Set("Retry-After", "7")
	u.web.WriteHeader(r.status)
}

// play sends the request and checks the error over both transports on both sides, where they have
// what the error is about.
func (r errorRow) play(t *testing.T, stage func(*staged) (*talker, string)) {
	for _, client := range []bool{false, true} {
		for _, server := range []bool{false, true} {
			if server && r.said == "" || server && r.status == 401 || testing.Short() && (client || server) {
				continue
			}
			t.Run(fmt.Sprintf("%s %s to %s", r.what, transportName(client), transportName(server)), func(t *testing.T) {
				c := &staged{T: t, client: client, server: server, bound: map[string]string{}}
				from, request := stage(c)
				for range 2 { // twice, since the session continues
					told := from.say(request)
					answer := told.next()
					sameJSON(t, gjson.Get(answer, "error").Raw, r.heard)
					if gjson.Get(answer, "id").Raw != "5" {
						t.Error(answer)
					}
					told.hasStatus(r.want)
					if r.headers != "" && !client && told.header.Get(r.headers) == "" {
						t.Errorf("%s is gone: %v", r.headers, told.header)
					}
				}
			})
		}
	}
}
