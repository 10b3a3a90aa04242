package command

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// beDragoman is the environment variable that makes the test binary run as the command itself.
const beDragoman = "BE_DRAGOMAN"

func TestMain(m *testing.M) {
	if os.Getenv(beDragoman) != "" {
		Main()
		return
	}
	peertest.WaitTogether()
	os.Exit(m.Run())
}

// TestShimPassesItsEnvironment checks that a server gets the variables of the client's entry when
// dragoman is put before its command, as in "dragoman stdio -- npx server-github".
func TestShimPassesItsEnvironment(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	file := filepath.Join(t.TempDir(), "env")
	for args, want := range map[string]bool{"stdio": true, "stdio --pass-env X": false, "stdio --pass-env *": true, "stdio --pass-env GITHUB_TOKEN": true} {
		cmd := exec.Command(os.Args[0], append(strings.Fields(args), "--", "sh", "-c", `env > "$0.part" && mv "$0.part" "$0"; cat >/dev/null`, file)...)
		cmd.Env = append(os.Environ(), beDragoman+"=1", "GITHUB_TOKEN=of-the-entry", "DRAGOMAN_LOG_LEVEL=error", "DRAGOMAN_AUTH_TOKENS=not-for-the-server", "NOTIFY_SOCKET=/run/none", "WATCHDOG_USEC=1000", "WATCHDOG_PID=1")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		io.WriteString(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`+"\n")
		var env []byte
		peertest.Eventually(t, "the server has started", func() bool {
			env, _ = os.ReadFile(file)
			return len(env) > 0
		})
		cmd.Process.Kill() // the server never answers
		cmd.Wait()
		if got := strings.Contains(string(env), "GITHUB_TOKEN=of-the-entry"); got != want || strings.Contains(string(env), "DRAGOMAN_") || strings.Contains(string(env), "NOTIFY_") || strings.Contains(string(env), "WATCHDOG_") {
			t.Errorf("%s: the server's environment is %q", args, env)
		}
		os.Remove(file)
	}
}

// shimInFrontOf starts the shim in front of a server that is a shell script.
func shimInFrontOf(t *testing.T, script string, stderr *os.File) (in io.WriteCloser, out *bufio.Scanner, cmd *exec.Cmd) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	cmd = exec.Command(os.Args[0], "stdio", "--log-level", "debug", "--", "sh", "-c", script)
	cmd.Env = append(os.Environ(), beDragoman+"=1")
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return in, bufio.NewScanner(stdout), cmd
}

// chatty is a server that writes a lot to its stderr before each answer.
const chatty = `while read -r line; do
	id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	[ -n "$id" ] || continue
	i=0; while [ $i -lt 3000 ]; do echo "line $i of many that no process reads, to fill the pipe and its buffers" >&2; i=$((i+1)); done
	printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}\n' "$id"
done`

// TestShimOutlivesItsStderr checks that calls and the end of the process do not depend on stderr, whether it is
// not read or its reader has gone.
func TestShimOutlivesItsStderr(t *testing.T) {
	for name, gone := range map[string]bool{"not read": false, "reader gone": true} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			in, out, cmd := shimInFrontOf(t, chatty, w)
			w.Close()
			if gone {
				r.Close()
			}
			call := func(id int, method string) {
				fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`+"\n", id, method)
				if !out.Scan() || gjson.Get(out.Text(), "id").Int() != int64(id) || !gjson.Get(out.Text(), "result").Exists() {
					t.Fatalf("%s %d: %q %v", method, id, out.Text(), out.Err())
				}
			}
			call(0, "initialize")
			fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			for id := 1; id < 4; id++ {
				call(id, "tools/list")
			}
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("the shim's end: %v", err)
			}
		})
	}
}
