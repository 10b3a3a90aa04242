package command

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/commands/demo"
)

// TestTheDemoPrintsWhatItSays: each request and its answer, and not what the server says meanwhile.
func TestTheDemoPrintsWhatItSays(t *testing.T) {
	var out bytes.Buffer
	introduce(&out, "http://127.0.0.1:8808/mcp", "")
	if said := out.String(); !strings.Contains(said, "Each request is shown here, as the client sent it and as the server got it, and its answer") || strings.Contains(said, "Each message") {
		t.Errorf("it says %s", said)
	}
	out.Reset()
	call, answer := json.RawMessage(`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`), json.RawMessage(`{"jsonrpc":"2.0","id":3,"result":{}}`)
	(&transcript{out: &out}).print(demo.Exchange{Client: "c", Server: "s", Sent: call, Heard: call, Said: answer, Got: answer})
	for _, side := range []string{"client sent", "server got", "server sent", "client got"} {
		if strings.Count(out.String(), side) != 1 {
			t.Errorf("%q is not shown once in %s", side, out.String())
		}
	}
}
