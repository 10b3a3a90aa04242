package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// TestClientsOutliveARestartOfTheServer kills a published server between two calls of published clients, and starts it
// again on the same port. None of the clients would begin another session by itself.
func TestClientsOutliveARestartOfTheServer(t *testing.T) {
	testset.Need(t, testset.Peers)
	m := nodePeers(t)
	proxy := build(t)
	const version = "2026.8.31"
	for _, up := range []transport{streamable, withSSE} {
		t.Run(string(up), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			port := freePort(t)
			at, stop, err := m.serveEverythingAt(port, version, up)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { stop() }()
			to := endpoint{over: up, url: at, stderr: &output{}}
			err = proxy.serve(ctx, streamable, to, nil, func(served endpoint) error {
				old := served
				old.over, old.url = withSSE, strings.TrimSuffix(served.url, "/mcp")+"/sse"
				shim := endpoint{over: stdio, command: proxy.args("stdio", to), stderr: to.stderr}
				callers := map[string]func() (caller, error){
					"1.0.4 on HTTP+SSE":       func() (caller, error) { return m.caller(ctx, "1.0.4", old) },
					"1.12.3":                  func() (caller, error) { return m.caller(ctx, "1.12.3", served) },
					"1.32.2":                  func() (caller, error) { return m.caller(ctx, "1.32.2", served) },
					"1.0.4 through the shim":  func() (caller, error) { return m.caller(ctx, "1.0.4", shim) },
					"1.32.2 through the shim": func() (caller, error) { return m.caller(ctx, "1.32.2", shim) },
					"Go SDK":                  func() (caller, error) { return newGoCaller(ctx, newestHandshake, served) },
					"Go SDK, older":           func() (caller, error) { return newGoCaller(ctx, "2025-03-26", served) },
					"Go SDK through the shim": func() (caller, error) { return newGoCaller(ctx, newestHandshake, shim) },
				}
				var mu sync.Mutex
				var begin sync.WaitGroup
				clients := map[string]caller{}
				for name, open := range callers {
					begin.Go(func() {
						c, err := open()
						if err != nil {
							t.Errorf("%s: %v", name, err)
							return
						}
						mu.Lock()
						defer mu.Unlock()
						clients[name] = c
					})
				}
				begin.Wait()
				for round := range 3 {
					for name, c := range clients {
						message := fmt.Sprintf("round %d of %s", round, name)
						if got, failed := c.call(t, "echo", fmt.Sprintf(`{"message":%q}`, message)); failed || !strings.Contains(got, message) {
							t.Errorf("%s: %q", message, got)
						}
					}
					if round == 2 {
						break
					}
					stop()
					if _, stop, err = m.serveEverythingAt(port, version, up); err != nil {
						stop = func() {}
						return err
					}
				}
				for name, c := range clients {
					if err := c.close(); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Log(tail(to.stderr.String()))
			}
		})
	}
}

// TestKilledProxyLeavesNoProcess checks that no process is left after the proxy was killed, not even child processes of the
// server.
func TestKilledProxyLeavesNoProcess(t *testing.T) {
	testset.Need(t, testset.Peers)
	if runtime.GOOS != "linux" {
		t.Skip("leftovers are looked for in /proc")
	}
	proxy := build(t)
	mark := markOf(t.Name())
	shell := `sh -c 'trap "" TERM HUP; while :; do sleep 1; done' ` + mark + ` & cat; :`
	shim := exec.Command(string(proxy), "stdio", "--", "sh", "-c", shell)
	stdin, err := shim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := shim.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(stdin, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	wait := func(what string, is func(pids []string) bool) {
		t.Helper()
		for end := time.Now().Add(patience); !is(leftovers(mark)); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("never: %s", what)
			}
		}
	}
	wait("it runs", func(pids []string) bool { return len(pids) > 0 })
	wait("it is watched over", func([]string) bool {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", shim.Process.Pid))
		n := 0
		for _, file := range files {
			pids, _ := os.ReadFile(file)
			n += len(strings.Fields(string(pids)))
		}
		return n > 1
	})
	if err := shim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = shim.Wait()
	wait("nothing is left", func(pids []string) bool { return len(pids) == 0 })
}
