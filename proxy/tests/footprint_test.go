package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

const repeated = "When several connections are granted, pass connection_id as the schema tool lists it, else the call is refused."

// wordy is a server with two pages of tools with equal descriptions. What clients get of them is in testdata/scripts/footprints-*.txt.
func wordy() *fakeServer {
	tool := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"title":"T %s","description":"Reads the %s. %s","inputSchema":{"type":"object","properties":{"id":{"type":"string","title":"Id","description":"The %s. %s"}}}}`, name, name, name, repeated, name, repeated)
	}
	return newFake(replies(func(m string) ([]string, error) {
		id := []byte(gjson.Get(m, "id").Raw)
		switch gjson.Get(m, "method").String() + gjson.Get(m, "params.cursor").String() {
		case "initialize":
			return one(string(mcp.AppendResult(nil, id, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"Read first."}`)))
		case "tools/list":
			return one(string(mcp.AppendResult(nil, id, `{"tools":[`+tool("one")+`,`+tool("two")+`],"nextCursor":"2"}`)))
		case "tools/list2":
			return one(string(mcp.AppendResult(nil, id, `{"tools":[`+tool("three")+`]}`)))
		}
		return nil, nil
	}))
}

func TestRepeatedProseIsOnlyReported(t *testing.T) {
	srv := front(t, wordy(), func(c *config.Config) { c.Footprint.Hoist = "report" })
	hello := srv.post("", initialize("2025-11-25", "{}"))
	if got := gjson.Get(hello.body, "result.instructions").String(); got != "Read first." {
		t.Errorf("instructions %q", got)
	}
	if got := srv.post(hello.header["Mcp-Session-Id"], listTools).body; !strings.Contains(got, repeated) {
		t.Errorf("%s", got)
	}
	if srv.logs.FilterMessage("tool descriptions repeat text").Len() != 1 {
		t.Error("nothing in the log")
	}
}

// TestInstructionsCountAsTheListDoes, for handshake clients and modern ones.
func TestInstructionsCountAsTheListDoes(t *testing.T) {
	ask := map[string]func(srv testServer){
		"with a handshake": func(srv testServer) { srv.post(srv.initialize("2025-11-25"), listTools) },
		"without":          func(srv testServer) { srv.modernly(modernRequestOf("1", "tools/list", meta(`{}`))) },
	}
	for name, ask := range ask {
		t.Run(name, func(t *testing.T) {
			words := strings.Repeat("Words that each conversation pays for. ", 50)
			srv := front(t, newFake(replies(func(m string) ([]string, error) {
				id := []byte(gjson.Get(m, "id").Raw)
				switch gjson.Get(m, "method").String() {
				case "initialize":
					return one(string(mcp.AppendResult(nil, id, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"`+words+`"}`)))
				case "tools/list":
					return one(string(mcp.AppendResult(nil, id, `{"tools":[{"name":"one","inputSchema":{"type":"object"}}]}`)))
				}
				return nil, nil
			})), func(c *config.Config) { c.Footprint.MaxBytes = 1000 })
			ask(srv)
			logs := srv.logs.FilterMessageSnippet("tool list and instructions")
			if logs.Len() != 1 || logs.All()[0].ContextMap()["instructions"] != int64(len(words)) {
				t.Errorf("%v", logs.All())
			}
		})
	}
}

func TestLargeListsAreWarnedOfOnce(t *testing.T) {
	srv := front(t, wordy(), func(c *config.Config) { c.Footprint.MaxBytes = 1000 })
	size := 0
	for range 2 {
		session := srv.initialize("2025-11-25")
		first, second := srv.post(session, listTools).body, srv.post(session, listSecond).body
		var all bytes.Buffer
		if err := json.Compact(&all, fmt.Appendf(nil, "[%s,%s]", strings.Trim(gjson.Get(first, "result.tools").Raw, "[]"), strings.Trim(gjson.Get(second, "result.tools").Raw, "[]"))); err != nil {
			t.Fatal(err)
		}
		size = all.Len()
	}
	logs := srv.logs.FilterMessageSnippet("tool list and instructions are large")
	if logs.Len() != 1 || logs.All()[0].ContextMap()["bytes"] != int64(size+len("Read first.")) {
		t.Errorf("%d bytes, %v", size, logs.All())
	}
}
