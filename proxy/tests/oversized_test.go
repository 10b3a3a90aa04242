package tests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestOversizedMessageFailsOneCall: an oversized response fails only its call, wherever in it the
// id is, and an oversized message without an id fails none. If the beginning of the message does
// not show which it is, all open calls fail with a reason.
func TestOversizedMessageFailsOneCall(t *testing.T) {
	const limit = 1 << 20 / effort
	huge := strings.Repeat("x", 3*limit)
	for _, c := range []struct {
		name    string
		message func(id string) string
		first   bool // the call that the message answers fails
		second  bool // the other call fails too
	}{
		{"id first", func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":"` + huge + `"}}` }, true, false},
		{"id last", func(id string) string { return `{"result":{"content":"` + huge + `"},"jsonrpc":"2.0","id":` + id + `}` }, true, false},
		{"notification", func(string) string {
			return `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + huge + `"}}`
		}, false, false},
		{"array", func(id string) string {
			return `[{"jsonrpc":"2.0","id":` + id + `,"result":{"content":"` + huge + `"}}]`
		}, true, true},
	} {
		for _, pipe := range []bool{false, true} {
			name := c.name + map[bool]string{false: ", HTTP client", true: ", stdio client"}[pipe]
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				calls := make(chan *peertest.Turn, 2)
				s := script(t, true, func(u *peertest.Turn) {
					switch u.Method {
					case "initialize":
						u.Answer(200, initialized(u.ID))
					case "tools/call":
						calls <- u
					}
				})
				client := through(t, s.At(), func(c *config.Config) { c.Limits.UpstreamMessage = limit }).client(t, pipe)
				client.Initialize("2025-06-18", "{}")
				call := func(id string) *peertest.Reply {
					return client.Say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"t"}}`)
				}
				first := call("11")
				one := <-calls
				second := call("22")
				two := <-calls
				s.Line(c.message(one.ID))
				failed := func(got, id string) {
					t.Helper()
					if gjson.Get(got, "id").Raw != id || gjson.Get(got, "error.code").Int() != -32603 || !strings.Contains(got, fmt.Sprintf("larger than the limit of %d bytes", limit)) {
						t.Errorf("call %s gets %.300s", id, got)
					}
				}
				good := func(got, id string) {
					t.Helper()
					if gjson.Get(got, "id").Raw != id || !gjson.Get(got, "result").Exists() {
						t.Errorf("call %s gets %.300s", id, got)
					}
				}
				if c.second { // in any order
					got := map[string]string{}
					for _, r := range []*peertest.Reply{first, second} {
						text := r.Next()
						got[gjson.Get(text, "id").Raw] = text
					}
					failed(got["11"], "11")
					failed(got["22"], "22")
					return
				}
				if c.first {
					failed(first.Next(), "11")
				} else {
					one.Answer(200, `{"jsonrpc":"2.0","id":`+one.ID+`,"result":{}}`)
					good(first.Next(), "11")
				}
				two.Answer(200, `{"jsonrpc":"2.0","id":`+two.ID+`,"result":{}}`)
				good(second.Next(), "22")
			})
		}
	}
}
