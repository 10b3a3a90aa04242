package tests

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// slowToSay is a server that answers a call of source, or tools/list if source is "", when the test
// allows it. It answers everything else at once. It lists the tool get_records.
func slowToSay(source string, let <-chan struct{}) *fakeServer {
	const list = `{"tools":[{"name":"get_records","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}]}`
	return newFake(initializing("2025-06-18", func(m string) ([]string, error) {
		id := gjson.Get(m, "id").Raw
		method, name := gjson.Get(m, "method").String(), gjson.Get(m, "params.name").String()
		if method == "tools/list" && source == "" || method == "tools/call" && name == source {
			<-let
		}
		switch {
		case id == "":
			return nil, nil
		case method == "tools/list":
			return one(string(mcp.AppendResult(nil, []byte(id), list)))
		case method == "ping":
			return one(string(mcp.AppendResult(nil, []byte(id), "{}")))
		case name == "get_schema":
			return one(string(mcp.AppendResult(nil, []byte(id), asText(`{"streams":[{"name":"a","caps":{"expand":["x"]}}]}`))))
		}
		return one(string(mcp.AppendResult(nil, []byte(id), asText("records"))))
	}))
}

// TestWaitingCallsDoNotDelayOthers: a call on a pipe that waits for a gate's source, or for the list
// of tools, does not delay the messages after it. If it is cancelled, it does not reach the server.
func TestWaitingCallsDoNotDelayOthers(t *testing.T) {
	call := getRecords(`{"stream":"a","expand":["x"]}`)
	id := gjson.Get(call, "id").Raw
	for name, c := range map[string]struct {
		source string
		change func(t *testing.T) func(*config.Config)
	}{
		"gate": {"get_schema", func(*testing.T) func(*config.Config) {
			return func(c *config.Config) { c.Gates = []config.Gate{goodGate} }
		}},
		"list": {"", func(t *testing.T) func(*config.Config) { return shaped(t, "default_max_tokens: 600") }},
	} {
		for _, cancels := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " cancelled"}[cancels], func(t *testing.T) {
				let := make(chan struct{})
				f := slowToSay(c.source, let)
				client, srv := pipeClient(t, f, c.change(t))
				client.initialize("2025-06-18", "{}")
				client.say(call, `{"jsonrpc":"2.0","id":"behind","method":"ping"}`)
				client.hears(`{"jsonrpc":"2.0","id":"behind","result":{}}`)
				if cancels {
					client.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`,
						`{"jsonrpc":"2.0","id":"further","method":"ping"}`)
					client.hears(`{"jsonrpc":"2.0","id":"further","result":{}}`)
				}
				close(let)
				if !cancels {
					if got := client.hear(); text(got) != "records" || gjson.Get(got, "id").Raw != id {
						t.Errorf("got %s", got)
					}
				}
				if err := client.end(); err != nil {
					t.Error(err)
				}
				sent := 0
				for _, m := range f.sent() {
					if strings.Contains(m, "get_records") {
						sent++
					}
				}
				how := map[bool]string{true: "cancelled", false: "ok"}[cancels]
				if n := counted(t, srv.Metrics, "dragoman_requests_total", "method=tools/call", "outcome="+how); n != 1 {
					t.Errorf("%d counted as %s", n, how)
				}
				if want := map[bool]int{true: 0, false: 1}[cancels]; sent != want {
					t.Errorf("sent %d times", sent)
				}
			})
		}
	}
}
