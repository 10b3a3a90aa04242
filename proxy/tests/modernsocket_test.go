package tests

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// reportingServer is an HTTP server with sessions that reports progress if a request asks for it.
func reportingServer(t *testing.T) *peertest.Server {
	s := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		switch u.Method {
		case "initialize":
			u.Answer(200, result(u.ID, `"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}`))
		case "tools/list":
			u.Answer(200, result(u.ID, `"tools":[]`))
		case "tools/call":
			u.Begun = true
			u.Web.Header().Set("Content-Type", "text/event-stream")
			token := gjson.Get(u.Text, "params._meta.progressToken").Raw
			io.WriteString(u.Web, "id: 1\ndata:\n\nid: 2\ndata: "+
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token+`,"progress":1}}`+
				"\n\nid: 3\ndata: "+result(u.ID, `"content":[]`)+"\n\n")
		}
	})
	s.SessionID, s.NoGet = "theirs", true
	s.At()
	return s
}

// TestHTTPForModernClients, in front of a server with sessions. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http.
func TestHTTPForModernClients(t *testing.T) {
	server := reportingServer(t)
	c := serving(t, func(cfg *config.Config) {
		cfg.Upstream.URL, cfg.Upstream.Version = server.URL, "2025-11-25"
		cfg.Limits.ClientMessage = 64 << 10
	})
	list := modernRequestOf("1", "tools/list", meta(`{}`))
	call := modernRequestOf("2", "tools/call", `"name":"t",`+meta(`{}`, `"progressToken":"p"`))
	long := modernRequestOf("3", "tools/list", `"cursor":"`+strings.Repeat("x", 64<<10)+`",`+meta(`{}`))
	for _, q := range []struct {
		what, method, body string
		header             []string // in addition to those of each request; one without a value is removed
		status             int
		kind               string
	}{
		{"a list", "POST", list, nil, 200, "application/json"},
		{"a list, with what means nothing", "POST", list, []string{"Mcp-Session-Id", "mine", "Last-Event-ID", "7"}, 200, "application/json"},
		{"a call that tells how far it is", "POST", call, nil, 200, "text/event-stream"},
		{"a notification", "POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`, nil, 202, ""},
		{"a stream", "GET", "", []string{"Accept", "text/event-stream"}, 405, "application/json"},
		{"a stream to take up again", "GET", "", []string{"Accept", "text/event-stream", "Mcp-Session-Id", "mine", "Last-Event-ID", "7"}, 405, "application/json"},
		{"the end of a session", "DELETE", "", []string{"Mcp-Session-Id", "mine"}, 405, "application/json"},
		{"a foreign page", "POST", list, []string{"Origin", "https://evil.example"}, 403, "application/json"},
		{"another type", "POST", list, []string{"Content-Type", "text/plain"}, 415, "application/json"},
		{"no stream wanted", "POST", list, []string{"Accept", "application/json"}, 406, "application/json"},
		{"too much", "POST", long, nil, 413, "application/json"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), q.method, c.base+"/mcp", strings.NewReader(q.body))
		if err != nil {
			t.Fatal(err)
		}
		for h := append(modernHeader(q.body, "Content-Type", "application/json", "Accept", "application/json, text/event-stream"), q.header...); len(h) > 0; h = h[2:] {
			req.Header.Set(h[0], h[1])
		}
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		body := string(text)
		resp.Body.Close()
		if resp.StatusCode != q.status || resp.Header.Get("Content-Type") != q.kind {
			t.Errorf("%s: %d %q %s", q.what, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
		if said := resp.Header.Values("Mcp-Session-Id"); said != nil {
			t.Errorf("%s: session %q", q.what, said)
		}
		if allow := resp.Header.Get("Allow"); (q.status == 405) != (allow == "POST") {
			t.Errorf("%s: Allow: %q", q.what, allow)
		}
		if q.kind == "text/event-stream" {
			if resp.Header.Get("X-Accel-Buffering") != "no" || strings.Contains(body, "id:") || strings.Count(body, "data:") != 2 {
				t.Errorf("%s: %q %s", q.what, resp.Header, body)
			}
		}
	}
}
