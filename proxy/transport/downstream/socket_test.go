//go:build linux || darwin

package downstream

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// startAtSocket starts a server at a unix socket.
func startAtSocket(t *testing.T, h Handler, cfg HTTPConfig) (path string) {
	t.Helper()
	path = filepath.Join(peertest.ShortDir(t), "s")
	start(t, h, cfg, func(tcp net.Listener) net.Listener {
		tcp.Close()
		ln, err := unixsocket.Listen(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return ln
	})
	return path
}

// askAtSocket sends requests on one connection and returns the status of each response, and the last body.
func askAtSocket(t *testing.T, path string, requests ...string) (codes []int, body string) {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, r := range requests {
		if _, err := io.WriteString(conn, r); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		codes, body = append(codes, res.StatusCode), string(text)
	}
	return codes, body
}

// TestHostAtSocket: at a unix socket every Host is taken, or none in HTTP/1.0, and Origin is checked as elsewhere.
func TestHostAtSocket(t *testing.T) {
	path := startAtSocket(t, fakeHandler{post: echo, get: echo, del: echo}, HTTPConfig{AllowedHosts: []string{"mcp.example"}, Pages: []string{"https://page.example"}})
	with := func(version string, headers ...string) string {
		return "POST /mcp " + version + "\r\n" + strings.Join(headers, "\r\n") + "\r\nContent-Length: 2\r\n\r\n{}"
	}
	const ctype, accept = "Content-Type: application/json", "Accept: application/json, text/event-stream"
	for _, c := range []struct {
		request string
		status  int
	}{
		{with("HTTP/1.1", "Host: localhost", ctype, accept), 200},
		{with("HTTP/1.1", "Host: evil.example", ctype, accept), 200},
		{with("HTTP/1.1", "Host: unix", ctype, accept), 200},
		{with("HTTP/1.1", "Host: %2Frun%2Fx.sock", ctype, accept), 200},
		{with("HTTP/1.0", ctype, accept), 200},
		{with("HTTP/1.1", ctype, accept), 400},
		{with("HTTP/1.1", ctype, accept, "X-Host: a"), 400},
		{with("HTTP/1.1", "Host: a", ctype, accept, "Origin: http://localhost:6274"), 200},
		{with("HTTP/1.1", "Host: a", ctype, accept, "Origin: https://mcp.example"), 200},
		{with("HTTP/1.1", "Host: a", ctype, accept, "Origin: https://page.example"), 200},
		{with("HTTP/1.1", "Host: evil.example", ctype, accept, "Origin: https://evil.example"), 403},
		{with("HTTP/1.0", ctype, accept, "Origin: null"), 403},
	} {
		if codes, body := askAtSocket(t, path, c.request); codes[0] != c.status {
			t.Errorf("%d %s, want %d, for %q", codes[0], body, c.status, c.request)
		}
	}
	one := with("HTTP/1.1", "Host: a", ctype, accept)
	if codes, _ := askAtSocket(t, path, one, with("HTTP/1.1", "Host: b", ctype, accept), one, with("HTTP/1.1", "Host: a", "Origin: https://a", ctype, accept)); fmt.Sprint(codes) != "[200 200 200 403]" {
		t.Errorf("on one connection: %v", codes)
	}
}

// TestPeerAtSocket: a client's address is its user.
func TestPeerAtSocket(t *testing.T) {
	path := startAtSocket(t, fakeHandler{post: func(q *Request, r *Response) { r.Body = []byte(q.Peer) }}, HTTPConfig{})
	if _, body := askAtSocket(t, path, post("{}")); body != fmt.Sprint("uid ", os.Geteuid()) {
		t.Errorf("%q", body)
	}
}

// TestClientLeavesSocket: a call ends when its client at a unix socket leaves.
func TestClientLeavesSocket(t *testing.T) {
	began, left := make(chan struct{}), make(chan error, 1)
	path := startAtSocket(t, fakeHandler{post: func(q *Request, _ *Response) {
		close(began)
		<-q.Ctx.Done()
		left <- q.Ctx.Err()
	}}, HTTPConfig{})
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, post("{}")); err != nil {
		t.Fatal(err)
	}
	recv(t, began, "the call")
	conn.Close()
	recv(t, left, "the end of the call")
}
