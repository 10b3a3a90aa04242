//go:build linux || darwin

package command

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// over returns a client that connects to a unix socket, whatever the URL is.
func over(t *testing.T, path string) *http.Client {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

// TestServeAtSocket: the command listens at a unix socket with the mode of listen_mode, removes it at the end, and says how it is reached.
func TestServeAtSocket(t *testing.T) {
	t.Setenv("DRAGOMAN_ADMIN_LISTEN", "")
	t.Setenv("DRAGOMAN_LISTEN_MODE", "0660")
	path := filepath.Join(peertest.ShortDir(t), "s")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan string, 1)
	go func() {
		out, _, err := run(ctx, "", "--listen", "unix:"+path)
		if err != nil {
			out = err.Error()
		}
		ended <- out
	}()
	client := over(t, path)
	var res *http.Response
	for deadline := time.Now().Add(patience); res == nil; time.Sleep(time.Millisecond) {
		req, _ := http.NewRequest("POST", "http://any.example/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		var err error
		if res, err = client.Do(req); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || res.StatusCode != 200 || !strings.Contains(string(body), `"protocolVersion":"2025-06-18"`) {
		t.Errorf("%d %s %v", res.StatusCode, body, err)
	}
	if at, err := os.Lstat(path); err != nil || at.Mode() != fs.ModeSocket|0o660 {
		t.Errorf("%v %v", at, err)
	}
	if _, _, err := run(t.Context(), "", "--listen", "unix:"+path); err == nil || err.Error() != "a process listens at "+path+" already: --listen (listen) chooses another address" {
		t.Error(err)
	}
	if res, err := client.Get("http://any.example/livez"); err != nil || res.StatusCode != 200 {
		t.Errorf("%+v %v", res, err)
	}
	stop()
	out := <-ended
	for _, want := range []string{
		"    unix:" + path + ":/mcp\n", `{"command": "dragoman", "args": ["stdio", "unix:` + path + `:/mcp"]}`, `"$@" --unix-socket ` + path + " http://localhost/mcp; echo",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestAnArgumentCanBeTheServersSocket(t *testing.T) {
	const url = "unix:/run/server.sock:/mcp"
	if got := settingsOf(t, url); got.Upstream.URL != url || got.Upstream.Command != nil {
		t.Errorf("%+v", got.Upstream)
	}
}
