package command

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/observe/instances"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

const recordedCalls = `{"kind":"header","format":1,"version":"1.2.3","ts":"2026-11-22T03:08:57.430Z"}
{"kind":"open","ts":"2026-11-22T03:08:57.430Z","session":"s","peers":{"client":"c 1","client_rev":"2024-11-05","server":"s 2","server_rev":"2025-11-25"}}
{"seq":1,"ts":"2026-11-22T03:08:57.431Z","edge":"client","direction":"client-to-server","kind":"message","session":"s","call":3,"method":"tools/call","tool":"echo","payload":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"token":"[redacted]"}}}}
{"seq":2,"ts":"2026-11-22T03:08:57.432Z","edge":"client","direction":"server-to-client","kind":"message","session":"s","call":3,"method":"tools/call","tool":"echo","payload":{"jsonrpc":"2.0","id":1,"result":{}}}
{"kind":"end","ts":"2026-11-22T03:08:57.433Z","session":"s","call":3,"status":"ok"}
{"kind":"message","se`

func TestARecordingIsShownUntilTheCommandEnds(t *testing.T) {
	name := filepath.Join(t.TempDir(), "calls.jsonl")
	write(t, name, recordedCalls)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := inspectFile(ctx, w, name, false)
		w.Close()
		ended <- err
	}()
	var address, token string
	out := bufio.NewScanner(r)
	for address == "" && out.Scan() {
		if text := strings.TrimSpace(out.Text()); strings.HasPrefix(text, "http") {
			address, token, _ = strings.Cut(text, "#token=")
		} else if strings.Contains(text, "calls.jsonl") && !strings.HasSuffix(text, "call 3 to call 3") {
			t.Errorf("it says %q", text)
		}
	}
	go io.Copy(io.Discard, r)
	get := func(path, token string) (status int, body io.ReadCloser) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp.StatusCode, resp.Body
	}
	if status, body := get("", ""); status != 200 || !strings.Contains(readAll(t, body), "<html") {
		t.Errorf("the page: %d", status)
	}
	if status, _ := get("calls/3", ""); status != 401 {
		t.Errorf("without the token: %d", status)
	}
	status, body := get("calls/3", token)
	call := readAll(t, body)
	if status != 200 || gjson.Get(call, "row.client").Str != "c 1" || gjson.Get(call, "row.status").Str != "ok" || gjson.Get(call, "messages.#").Int() != 2 {
		t.Errorf("the call: %d %s", status, call)
	}
	_, feed := get("feed", token)
	events := bufio.NewScanner(feed)
	for events.Scan() && !strings.Contains(events.Text(), `"rows"`) {
		if data, ok := strings.CutPrefix(events.Text(), "data: "); ok && (gjson.Get(data, "file").Str != "calls.jsonl" || gjson.Get(data, "version").Str != "1.2.3") {
			t.Errorf("hello is %s", data)
		}
	}
	if !strings.Contains(events.Text(), `"tool":"echo"`) {
		t.Errorf("the rows are %s", events.Text())
	}
	stop() // while a feed is open
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPagesOfRunningDragomansAreListed(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	if err := listPages(&out, dir); err != nil || !strings.Contains(out.String(), "start one with --inspect") {
		t.Errorf("%v, %s", err, out.String())
	}
	withdraw, err := instances.Announce(dir, instances.Instance{PID: 7, URL: "http://127.0.0.1:1/inspect/#token=a", Command: "stdio", Server: "https://mcp.example.com/mcp", Started: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	defer withdraw()
	out.Reset()
	if err := listPages(&out, dir); err != nil || !strings.HasPrefix(out.String(), "stdio https://mcp.example.com/mcp (process 7, since ") || !strings.Contains(out.String(), "\n    http://127.0.0.1:1/inspect/#token=a\n") {
		t.Errorf("%v, %s", err, out.String())
	}
}

func TestWhatCannotBeShownIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "messages.jsonl")
	write(t, name, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	for file, want := range map[string]string{name: "messages.jsonl: not a recording of dragoman", name + "x": "messages.jsonlx"} {
		if _, _, err := run(t.Context(), "", "inspect", file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestThePageOfAShimIsFound: clients hide the stderr of what they start, so its page is listed. It ends with the shim.
func TestThePageOfAShimIsFound(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs XDG_RUNTIME_DIR")
	}
	dir := t.TempDir()
	c := exec.Command(os.Args[0], "stdio", "--inspect", "http://127.0.0.1:1/mcp")
	c.Env = append(os.Environ(), beDragoman+"=1", "XDG_RUNTIME_DIR="+dir)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "the live page is served") {
	}
	list := func() (found []instances.Instance) {
		peertest.Eventually(t, "the process is listed", func() bool {
			found, err = instances.List(filepath.Join(dir, "dragoman"))
			return err != nil || len(found) > 0
		})
		return found
	}
	all := list()
	if err != nil || len(all) != 1 || all[0].PID != c.Process.Pid || all[0].Command != "stdio" || strings.Contains(lines.Text(), "token=") {
		t.Fatalf("%v, %+v; it says %s", err, all, lines.Text())
	}
	at, token, _ := strings.Cut(all[0].URL, "#token=")
	req, err := http.NewRequestWithContext(t.Context(), "GET", at+"state", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("the page answers %d", resp.StatusCode)
	}
	in.Close()
	go io.Copy(io.Discard, said)
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "dragoman")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
