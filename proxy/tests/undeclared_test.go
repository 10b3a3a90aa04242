package tests

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// s9 is what the server receives as the answer to its question "s9".
func s9(u *peertest.Turn) string { return u.GetsResponse(`"s9"`).Text }

// TestFailureOfACallThatAskedWhatWasNotDeclared: the error names the capability that the client
// lacks, wherever the question came. A call that continues without the answer keeps its own result.
func TestFailureOfACallThatAskedWhatWasNotDeclared(t *testing.T) {
	for _, r := range []struct{ name, can, question, required string }{
		{"sampling", `{}`, `"sampling/createMessage","params":{"maxTokens":1,"messages":[]}`, `{"sampling":{}}`},
		{"sampling beside elicitation", `{"elicitation":{}}`, `"sampling/createMessage","params":{"maxTokens":1,"messages":[]}`, `{"sampling":{}}`},
		{"sampling with tools", `{"sampling":{}}`, `"sampling/createMessage","params":{"maxTokens":1,"messages":[],"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`, `{"sampling":{"tools":{}}}`},
		{"roots", `{"elicitation":{}}`, `"roots/list"`, `{"roots":{}}`},
		{"a form", `{"sampling":{}}`, `"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}`, `{"elicitation":{"form":{}}}`},
		{"a URL", `{"elicitation":{"form":{}}}`, `"elicitation/create","params":{"mode":"url","message":"?","url":"https://x","elicitationId":"e"}`, `{"elicitation":{"url":{}}}`},
		{"a ping", `{}`, `"ping"`, ``},
	} {
		for _, standing := range []bool{false, true} {
			t.Run(r.name, func(t *testing.T) {
				corners(t, func(c *staged) {
					if standing && r.can == `{}` && !c.server {
						return // no standing stream is opened for such a client
					}
					s := c.legacy(`{"tools":{}}`, func(u *peertest.Turn) {
						ask := `{"jsonrpc":"2.0","id":"s9","method":` + r.question + `}`
						if standing {
							u.Unasked(ask)
						} else {
							u.Say(ask)
						}
						s9(u)
						if gjson.Get(u.Text, "params.name").String() == "fails" {
							u.Say(rpcError(u.ID, `"code":-32603,"message":"no answer"`))
						} else {
							u.Say(result(u.ID, `"content":[],"isError":true`))
						}
					})
					client, _ := c.stage(s)
					told := client.Say(callNamed(1, "fails", r.can, ""))
					status, want := 400, rpcError("1", `"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":`+r.required+`}`)
					if r.required == "" {
						status, want = 200, rpcError("1", `"code":-32603,"message":"no answer"`)
					}
					sameJSON(c.T, told.Next(), want)
					told.HasStatus(status)
					if m := client.Say(callNamed(2, "copes", r.can, "")).Next(); !gjson.Get(m, "result.isError").Bool() {
						c.Error(m)
					}
				})
			})
		}
	}
}
