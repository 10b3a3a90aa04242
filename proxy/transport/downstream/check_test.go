package downstream

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

func TestRefusals(t *testing.T) {
	s := start(t, fakeHandler{post: echo, get: echo, del: echo}, HTTPConfig{
		MaxBody: 1000, MaxHeader: 4096,
		AllowedHosts: []string{"MCP.example", "port.example:8443", "vscode-webview://abc"},
		Routes:       map[string]fasthttp.RequestHandler{"/livez": func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("alive") }},
	})
	port := s.addr[strings.LastIndexByte(s.addr, ':'):]
	with := func(headers ...string) string {
		return "POST /mcp HTTP/1.1\r\n" + strings.Join(headers, "\r\n") + "\r\nContent-Length: 2\r\n\r\n{}"
	}
	const host, ctype, accept = "Host: localhost", "Content-Type: application/json", "Accept: application/json, text/event-stream"
	get := func(headers ...string) string {
		return "GET /mcp HTTP/1.1\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n"
	}
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"all well", with(host, ctype, accept), 200},

		{"host with port", with("Host: localhost"+port, ctype, accept), 200},
		{"host by address", with("Host: "+s.addr, ctype, accept), 200},
		{"other loopback address", with("Host: 127.8.9.1:1", ctype, accept), 200},
		{"IPv6 loopback", with("Host: [::1]:1", ctype, accept), 200},
		{"IPv6 loopback without port", with("Host: [::1]", ctype, accept), 200},
		{"allowed host", with("Host: mcp.EXAMPLE:99", ctype, accept), 200},
		{"allowed host and port", with("Host: port.example:8443", ctype, accept), 200},
		{"allowed host, other port", with("Host: port.example:8444", ctype, accept), 403},
		{"rebound name", with("Host: evil.example", ctype, accept), 403},
		{"name that begins well", with("Host: localhost.evil.example", ctype, accept), 403},
		{"name that ends well", with("Host: evil-localhost", ctype, accept), 403},
		{"user in host", with("Host: localhost:80@evil.example", ctype, accept), 403},
		{"other address", with("Host: 10.1.2.3", ctype, accept), 403},
		{"no host", with(ctype, accept), 400},
		{"empty host", with("Host: ", ctype, accept), 400},
		{"half an IPv6 address", with("Host: [::1", ctype, accept), 400},

		{"origin", with(host, ctype, accept, "Origin: http://localhost:6274"), 200},
		{"origin by address", with(host, ctype, accept, "Origin: http://127.0.0.1"), 200},
		{"allowed origin", with(host, ctype, accept, "Origin: https://mcp.example"), 200},
		{"allowed foreign scheme", with(host, ctype, accept, "Origin: vscode-webview://abc"), 200},
		{"foreign scheme", with(host, ctype, accept, "Origin: vscode-webview://abcd"), 403},
		{"foreign origin", with(host, ctype, accept, "Origin: https://evil.example"), 403},
		{"null origin", with(host, ctype, accept, "Origin: null"), 403},
		{"empty origin", with(host, ctype, accept, "Origin: "), 403},
		{"foreign origin on GET", get(host, "Accept: text/event-stream", "Origin: https://evil.example"), 403},
		{"rebound name on a route", "GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403},

		{"route", "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 200},
		{"route with a body in chunks", "POST /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", 413},
		{"other path", "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
		{"PUT", "PUT /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405},
		{"OPTIONS", "OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", 405},
		{"HEAD", "HEAD /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", 405},

		{"content type with charset", with(host, "content-type: Application/JSON ; charset=utf-8", accept), 200},
		{"no content type", with(host, accept), 415},
		{"text", with(host, "Content-Type: text/plain", accept), 415},
		{"content type that begins well", with(host, "Content-Type: application/json5", accept), 415},
		{"multipart", with(host, "Content-Type: multipart/form-data; boundary=x", accept), 415},
		{"identity", with(host, ctype, accept, "Content-Encoding: identity"), 200},
		{"compressed", with(host, ctype, accept, "Content-Encoding: gzip"), 415},

		{"no accept", with(host, ctype), 200},
		{"accept anything", with(host, ctype, "Accept: */*"), 200},
		{"accept by halves", with(host, ctype, "Accept: text/*;q=0.5,application/*"), 200},
		{"accept on two lines", with(host, ctype, "Accept: application/json", "Accept: text/event-stream"), 200},
		{"accept only JSON", with(host, ctype, "Accept: application/json"), 406},
		{"accept only events", with(host, ctype, "Accept: text/event-stream"), 406},
		{"accept all but events", with(host, ctype, "Accept: */*, text/event-stream;q=0"), 406},
		{"accept all but JSON", with(host, ctype, "Accept: application/json; q=0.000, */*"), 406},
		{"GET of events", get(host, "Accept: text/event-stream"), 200},
		{"GET without accept", get(host), 200},
		{"GET of JSON", get(host, "Accept: application/json"), 406},
		{"DELETE", "DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n", 200},

		{"body as large as allowed", post(strings.Repeat("x", 1000)), 200},
		{"body too large", post(strings.Repeat("x", 1001)), 413},
		{"chunked body too large", postHead + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + strings.Repeat("x", 1001) + "\r\n0\r\n\r\n", 413},
		{"headers too large", with(host, ctype, accept, "X: "+strings.Repeat("x", 5000)), 431},
		{"garbage", "\x16\x03\x01\x00\x05hello\r\n\r\n", 400},
		{"broken chunk", postHead + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}", 400},
		{"a length beside chunks", postHead + "Content-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400},
		{"a coding that is none", postHead + "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}", 400},
		{"a coding that is none, without a length", postHead + "Transfer-Encoding: Identity\r\n\r\n{}", 400},
		{"a space in a name", with(host, ctype, accept, "Content Length: 3"), 400},
		{"a space in a name behind a folded value", with(host, ctype, accept, "X: a\r\n b: c", "Y Z: 3"), 400},
		{"a folded value", with(host, ctype, accept, "X: a\r\n b c: d"), 200},
		{"negative length", postHead + "Content-Length: -2\r\n\r\n{}", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, body := ask(t, s.addr, c.request)
			if res.StatusCode != c.status {
				t.Fatalf("status %d %q, want %d", res.StatusCode, body, c.status)
			}
			if c.status == 405 && res.Header.Get("Allow") != "POST, GET, DELETE" {
				t.Errorf("Allow: %q", res.Header.Get("Allow"))
			}
			if c.status == 200 || strings.HasPrefix(c.request, "HEAD") {
				return
			}
			if strings.Contains(body, "evil") || strings.Contains(body, "xxx") {
				t.Errorf("body quotes a header: %q", body)
			}
			if line, _, _ := strings.Cut(c.request, "\r\n"); strings.Contains(line, "/livez") || strings.Contains(line, "/nothing") {
				isSentence(t, res, body)
				return
			}
			var msg struct {
				ID    json.RawMessage
				Error struct {
					Code    int
					Message string
				}
			}
			if err := json.Unmarshal([]byte(body), &msg); err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			if string(msg.ID) != "null" || msg.Error.Code != codeInvalidRequest || msg.Error.Message == "" {
				t.Errorf("body %q", body)
			}
		})
	}
}

func TestAllowedHostsStarAllowsEveryHost(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{AllowedHosts: []string{"*"}})
	res, _ := ask(t, s.addr, strings.Replace(post("{}"), "Host: localhost", "Host: any.example\r\nOrigin: null", 1))
	if res.StatusCode != 200 {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestRefusedBodyIsExplainedWhileItStillComes(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{MaxBody: 1 << 20})
	req, _ := http.NewRequest("POST", "http://"+s.addr+"/mcp", bytes.NewReader(make([]byte, 3<<20)))
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 413 {
		t.Errorf("status %d", res.StatusCode)
	}
}

func TestSlowRequestTimesOut(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{ReadTimeout: 20 * time.Millisecond})
	askSlowly(t, s, postHead+"Content-Length: 2\r\n\r\n{")
}

// isSentence checks that a refusal at a path that is not for messages is plain text.
func isSentence(t *testing.T, res *http.Response, body string) {
	t.Helper()
	if res.Header.Get("Content-Type") != "text/plain; charset=utf-8" || json.Valid([]byte(body)) || !strings.HasSuffix(body, "\n") {
		t.Errorf("%q of %s", body, res.Header.Get("Content-Type"))
	}
}
