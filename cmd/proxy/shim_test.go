package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// beDragoman has the test binary be the command itself.
const beDragoman = "BE_DRAGOMAN"

func TestMain(m *testing.M) {
	if os.Getenv(beDragoman) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A client's entry that is wrapped, as in "dragoman stdio -- npx server-github", has its
// variables for the server.
func TestShimPassesItsEnvironment(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	file := filepath.Join(t.TempDir(), "env")
	for args, want := range map[string]bool{"stdio": true, "stdio --pass-env X": true} {
		cmd := exec.Command(os.Args[0], append(strings.Fields(args), "--", "sh", "-c", `env > "$0.part" && mv "$0.part" "$0"; cat >/dev/null`, file)...)
		cmd.Env = append(os.Environ(), beDragoman+"=1", "GITHUB_TOKEN=of-the-entry", "DRAGOMAN_LOG_LEVEL=error", "DRAGOMAN_AUTH_TOKENS=not-for-the-server")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		io.WriteString(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`+"\n")
		var env []byte
		for wait := time.Now().Add(20 * time.Second); len(env) == 0 && time.Now().Before(wait); time.Sleep(10 * time.Millisecond) {
			env, _ = os.ReadFile(file)
		}
		cmd.Process.Kill() // the server never answers
		cmd.Wait()
		if got := strings.Contains(string(env), "GITHUB_TOKEN=of-the-entry"); got != want || strings.Contains(string(env), "DRAGOMAN_") || len(env) == 0 {
			t.Errorf("%s: the server's environment is %q", args, env)
		}
		os.Remove(file)
	}
}
