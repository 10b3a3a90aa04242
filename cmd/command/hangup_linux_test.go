package command

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// onItsTerminal makes a process the leader of a session on a new terminal, which is its stderr, and its stdin unless that is set.
// closeTerminal does what closing the window does.
func onItsTerminal(t *testing.T) (prepare func(*exec.Cmd), log *syncBuffer, closeTerminal func()) {
	t.Helper()
	needsHangup(t)
	master, tty := openPTY(t, 500)
	log = new(syncBuffer)
	read := make(chan struct{})
	go func() {
		_, _ = io.Copy(log, master)
		close(read)
	}()
	closeTerminal = func() {
		master.Close()
		<-read
	}
	return func(cmd *exec.Cmd) {
		cmd.Stderr = tty
		if cmd.Stdin == nil {
			cmd.Stdin = tty
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2}
		t.Cleanup(func() { tty.Close() })
	}, log, closeTerminal
}

func startOnTerminal(t *testing.T, args ...string) (p *process, closeTerminal func()) {
	t.Helper()
	prepare, log, closeTerminal := onItsTerminal(t)
	p = startProcess(t, func(cmd *exec.Cmd) {
		prepare(cmd)
		cmd.Env = append(cmd.Env, "DRAGOMAN_LISTEN=127.0.0.1:0", "DRAGOMAN_LOG_FORMAT=json")
	}, args...)
	p.log = log
	return p, closeTerminal
}

// TestClosingTheTerminalEnds checks that a process ends in order when its terminal is closed, and at SIGHUP where that can mean
// nothing else.
func TestClosingTheTerminalEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		closes bool // the terminal; otherwise it only gets SIGHUP
	}{
		"serve":                {[]string{"serve", "http://127.0.0.1:1/mcp"}, true},
		"serve, SIGHUP":        {[]string{"serve", "http://127.0.0.1:1/mcp"}, false},
		"serve, a file":        {[]string{"serve", "--config", configured(t)}, true},
		"stdio":                {[]string{"stdio", "http://127.0.0.1:1/mcp"}, true},
		"stdio, SIGHUP":        {[]string{"stdio", "http://127.0.0.1:1/mcp"}, false},
		"stdio, a file":        {[]string{"stdio", "--config", configured(t)}, true},
		"stdio, a file SIGHUP": {[]string{"stdio", "--config", configured(t)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, closeTerminal := startOnTerminal(t, c.args...)
			p.runs(t)
			if c.closes {
				closeTerminal()
			} else {
				p.signal(t, syscall.SIGHUP)
			}
			p.endsInOrder(t)
		})
	}
}

// TestHangupOnAnOpenTerminalReloads checks that "serve" with a file reads it again while its terminal is open.
func TestHangupOnAnOpenTerminalReloads(t *testing.T) {
	t.Parallel()
	p, closeTerminal := startOnTerminal(t, "serve", "--config", configured(t))
	p.runs(t)
	p.signal(t, syscall.SIGHUP)
	p.says(t, "new configuration")
	closeTerminal()
	p.endsInOrder(t)
}

// TestARepeatedHangupCutsNoCall checks that a call in flight is answered though the terminal, and the shell after it, have sent SIGHUP.
func TestARepeatedHangupCutsNoCall(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		text, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.Contains(string(text), `"initialize"`):
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`)
		case strings.Contains(string(text), `"tools/call"`):
			close(arrived)
			<-release
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer server.Close()
	p, _ := startOnTerminal(t, "serve", server.URL)
	at := p.runs(t)
	post := func(session, body string) *http.Response {
		req, _ := http.NewRequest("POST", at, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return &http.Response{Body: http.NoBody}
		}
		return resp
	}
	began := post("", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	began.Body.Close()
	answered := make(chan string)
	go func() {
		resp := post(began.Header.Get("Mcp-Session-Id"), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		answered <- string(text)
	}()
	<-arrived
	p.signal(t, syscall.SIGHUP)
	p.says(t, "stopping on SIGHUP")
	p.signal(t, syscall.SIGHUP)
	close(release)
	if got := <-answered; !strings.Contains(got, `"content":[]`) {
		t.Errorf("the call in flight: %q", got)
	}
	p.endsInOrder(t)
}

// TestAnIgnoredHangupStaysIgnored checks that a process that nohup has started ignores SIGHUP, as its children do.
func TestAnIgnoredHangupStaysIgnored(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"serve", "http://127.0.0.1:1/mcp"}, {"serve", "--config", configured(t)}, {"stdio", "http://127.0.0.1:1/mcp"}} {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			t.Parallel()
			p := startProcess(t, func(cmd *exec.Cmd) {
				cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, os.Args[0]}, cmd.Args[1:]...)
				cmd.Env = append(cmd.Env, "DRAGOMAN_LISTEN=127.0.0.1:0")
			}, args...)
			p.runs(t)
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
			if err != nil {
				t.Fatal(err)
			}
			_, mask, _ := strings.Cut(string(status), "SigIgn:")
			mask, _, _ = strings.Cut(mask, "\n")
			ignored, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			if err != nil || ignored&(1<<(syscall.SIGHUP-1)) == 0 {
				t.Errorf("SIGHUP is not ignored: %q %v", mask, err)
			}
			p.signal(t, syscall.SIGHUP)
			p.signal(t, syscall.SIGTERM)
			p.endsInOrder(t)
		})
	}
}

// TestAShimEndsWithItsClient checks that a process on stdio whose client was killed ends though another process holds its stdin.
func TestAShimEndsWithItsClient(t *testing.T) {
	t.Parallel()
	p := startProcess(t, nil, "stdio", "--", "sh", "-c", chatty)
	p.runs(t)
	p.closeOut() // p.in stays open
	p.endsInOrder(t)
	if len(p.lines("the client has closed dragoman's stdout: stopping")) != 1 {
		t.Errorf("the log does not say why:\n%s", p.log)
	}
}
