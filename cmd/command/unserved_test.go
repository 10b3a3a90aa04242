package command

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// TestStdioThatCannotStartAnswersItsClient, which shows its user the answer to initialize and not what the process writes to stderr.
func TestStdioThatCannotStartAnswersItsClient(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x-adapter.md"), []byte("---\nname: x\ntype: adapter\n---\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	npx := "npx"
	if runtime.GOOS == "windows" {
		npx += ".exe"
	}
	if err := os.WriteFile(filepath.Join(dir, npx), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	clients := filepath.Join(dir, "mcp.json")
	write(t, clients, `{"mcpServers": {"a": {"url": "http://a/"}, "b": {"command": "npx"}}}`)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a password in the URL": {[]string{"stdio", "http://u:c4n4ry@127.0.0.1:1/mcp"}, "dragoman cannot start: command line: upstream.url: holds a password; use upstream.headers (--header)"},
		"a variable not set":    {[]string{"stdio", "http://127.0.0.1:1/mcp", "--header", "Authorization: Bearer ${UNSET_CANARY_X}"}, `dragoman cannot start: --header Authorization: environment variable UNSET_CANARY_X is not set: set it in "env" of the client's entry`},
		"an unknown flag":       {[]string{"stdio", "--frobnicate", "http://127.0.0.1:1/mcp"}, "dragoman cannot start: unknown flag --frobnicate; if it is one of the server's command: dragoman stdio -- COMMAND"},
		"no server":             {[]string{"stdio"}, "dragoman cannot start: "},
		"no such file":          {[]string{"stdio", "--config", filepath.Join(dir, "none.yaml")}, "dragoman cannot start: "},
		"a URL alone":           {[]string{"http://u:c4n4ry@127.0.0.1:1/mcp?key=c4n4ry"}, "dragoman cannot start: write stdio before the URL: dragoman stdio http://127.0.0.1:1/mcp?[redacted]"},
		"a command alone":       {[]string{"npx", "-y", "x", "--api-key", "c4n4ry-c4n4ry"}, "dragoman cannot start: write stdio -- before the server's command: dragoman stdio -- npx -y x --api-key [redacted]"},
		"a command in quotes":   {[]string{"npx -y x"}, "dragoman cannot start: write stdio -- before the server's command: dragoman stdio -- npx -y x"},
		"a script":              {[]string{"./server.py"}, "dragoman cannot start: write stdio -- before the server's command: dragoman stdio -- python ./server.py"},
		"a flag before the URL": {[]string{"--log-level", "debug", "http://127.0.0.1:1/mcp"}, "dragoman cannot start: write stdio before the URL: dragoman stdio http://127.0.0.1:1/mcp"},
		"a client's file":       {[]string{"stdio", "--config", clients}, "dragoman cannot start: " + clients + ": has 2 servers; choose one: --server NAME, which is one of a b"},
		"a broken adapter":      {[]string{"stdio", "--adapters", dir}, "dragoman cannot start: adapters: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startPiped(t, true, func(c *exec.Cmd) { c.Env = append(c.Env, "PATH="+dir) }, c.args...)
			io.WriteString(p.in, `{"jsonrpc":"2.0","method":"notifications/x"}`+"\n"+`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{}}`+"\n")
			if !p.out.Scan() {
				t.Fatalf("no answer: %s", p.log)
			}
			got := gjson.Parse(p.out.Text())
			if said := got.Get("error.message").String(); got.Get("id").Raw != `"a"` || !strings.HasPrefix(said, c.want) || strings.Contains(said, "c4n4ry") || len(said) > 350 {
				t.Errorf("%s", got.Raw)
			}
			p.in.Close()
			<-p.ended
			if p.ProcessState.ExitCode() != exitUsage {
				t.Errorf("exit code %d", p.ProcessState.ExitCode())
			}
		})
	}
}

// TestAClientThatAsksNothingIsNotWaitedFor.
func TestAClientThatAsksNothingIsNotWaitedFor(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	var said strings.Builder
	answerUnserved(in, &said, time.Millisecond, io.EOF)
	if said.Len() > 0 {
		t.Error(said.String())
	}
}
