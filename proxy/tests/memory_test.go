package tests

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestNewRequestsWaitForLargeAnswers: a response counts as memory in use until the client has it,
// and beyond the limit no new request begins.
func TestNewRequestsWaitForLargeAnswers(t *testing.T) {
	const size = 16 << 20 // more than a connection's buffers hold
	upstream := largeAnswers(t, size)
	upstream.At()
	cfg := config.Default()
	cfg.Upstream.URL = upstream.URL
	cfg.Limits.InHand = size / 2
	srv := newOf(t, cfg, zap.NewNop())
	base, stop := startServing(t, srv)
	defer stop()

	post := func(session, message string) (net.Conn, *bufio.Reader) {
		nc, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(nc, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", session, len(message), message)
		return nc, bufio.NewReaderSize(nc, 1<<20)
	}
	read := func(resp *http.Response) string {
		var body strings.Builder
		body.Grow(max(0, int(resp.ContentLength)))
		if _, err := io.Copy(&body, resp.Body); err != nil {
			t.Fatal(err)
		}
		return body.String()
	}
	head := func(from *bufio.Reader) *http.Response {
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	_, in := post("", initialize("2025-06-18", "{}"))
	resp := head(in)
	read(resp)
	session := resp.Header.Get("Mcp-Session-Id")

	_, slow := post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"large"}}`)
	large := head(slow) // all work on the response is done; a busy machine may take longer for it than a request waits
	if n := srv.Host.Memory().Budget.Taken(); n < size {
		t.Errorf("%d bytes are in hand while the client has not read the response", n)
	}
	_, other := post(session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	eventually(t, "another request to wait", func() bool { return srv.Host.Memory().Budget.Waiting() == 1 })
	if body := read(large); len(body) < size {
		t.Errorf("%d bytes came back", len(body))
	}
	if resp := head(other); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, read(resp))
	}
	eventually(t, "nothing to be in hand", func() bool { return srv.Host.Memory().Budget.Taken() == 0 })
}
