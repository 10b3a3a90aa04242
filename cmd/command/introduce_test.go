package command

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/commands/demo"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe/instances"
)

// TestTheDemoIsListed in words that read as a sentence.
func TestTheDemoIsListed(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	args := os.Args
	defer func() { os.Args = args }()
	os.Args = args[:1]
	withdraw := announced(config.Default(), "http://127.0.0.1:1/inspect/#token=a", zap.NewNop())
	defer withdraw()
	dir, err := instances.Dir()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := listPages(&out, dir); err != nil || !strings.HasPrefix(out.String(), "dragoman with its built-in server (process ") {
		t.Errorf("%v, %s", err, out.String())
	}
}

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
