package downstream

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// TestRequestTargets: a URL as the target means its path and query, and its host stands in the place of the Host header:
// https://www.rfc-editor.org/rfc/rfc9112#section-3.2. All else that is no path is refused.
func TestRequestTargets(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{
		Beside: everyPath{}, Routes: map[string]fasthttp.RequestHandler{"/metrics": func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("ours") }},
	})
	noTarget := badTarget.with("/mcp").words
	const body = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 2\r\n\r\n{}"
	for _, c := range []struct {
		name, line, host string
		status           int
		want             string // the beginning of the body
	}{
		{"path", "GET /x?a=%2F&b", "localhost:8", 201, "GET http://localhost:8 /x?a=%2F&b|"},
		{"a URL in the query", "GET /x?u=http://other.example/y", "localhost", 201, "GET http://localhost /x?u=http://other.example/y|"},
		{"a fragment", "GET /x#/y?z", "localhost", 201, "GET http://localhost /x|"},
		{"a question mark and nothing", "GET /x?", "localhost", 201, "GET http://localhost /x|"},

		{"URL", "GET http://localhost:8/x?a=%2F&b", "localhost:8", 201, "GET http://localhost:8 /x?a=%2F&b|"},
		{"its host counts", "GET http://localhost:9/x", "localhost:8", 201, "GET http://localhost:9 /x|"},
		{"its host counts, not a foreign one", "GET http://localhost/x", "evil.example", 201, "GET http://localhost /x|"},
		{"the scheme in capitals", "GET HTTP://LOCALHOST/x", "localhost", 201, "GET http://localhost /x|"},
		{"https, behind what ends TLS", "GET https://localhost/x", "localhost", 201, "GET http://localhost /x|"},
		{"an address", "GET http://[::1]:8/x", "[::1]:8", 201, ""},
		{"no path", "GET http://localhost", "localhost", 201, "GET http://localhost /|"},
		{"no path, a query", "GET http://localhost?a=b/c", "localhost", 201, "GET http://localhost /?a=b/c|"},
		{"a URL in its query", "GET http://localhost/x?u=http://other.example/y", "localhost", 201, "GET http://localhost /x?u=http://other.example/y|"},
		{"the endpoint", "POST http://localhost/mcp", "localhost", 200, "{}"},
		{"the endpoint with a query", "POST http://localhost/mcp?a", "localhost", 200, "{}"},
		{"a route", "GET http://localhost/metrics", "localhost", 200, "ours"},

		{"a host that is not allowed", "GET http://evil.example/x", "localhost", 403, "the Host header names"},
		{"no host", "GET http:///x", "localhost", 400, noTarget},
		{"only a port", "GET http://:8/x", "localhost", 403, "the Host header names"},
		{"a user", "GET http://localhost@evil.example/x", "localhost", 400, noTarget},
		{"an empty user", "GET http://@localhost/x", "localhost", 400, noTarget},
		{"a backslash", `GET http://evil.example\@localhost/x`, "localhost", 400, notHTTP.words},
		{"another scheme", "GET ftp://localhost/x", "localhost", 400, noTarget},
		{"the end of another host's name", "GET x.evil.example://localhost/x", "localhost", 400, noTarget},
		{"no scheme", "GET localhost/x", "localhost", 400, notHTTP.words},
		{"only slashes and a host", "GET //evil.example/x?://", "localhost", 400, noTarget},
		{"a whole server", "OPTIONS *", "localhost", 400, noTarget},
		{"a tunnel", "CONNECT evil.example:443", "evil.example:443", 400, noTarget},
		{"a tunnel to us", "CONNECT localhost:443", "localhost:443", 400, noTarget},
		{"no Host header", "GET http://localhost/x", "", 400, notHTTP.words},
	} {
		t.Run(c.name, func(t *testing.T) {
			head := c.line + " HTTP/1.1\r\n"
			if c.host != "" {
				head += "Host: " + c.host + "\r\n"
			}
			res, got := ask(t, s.addr, head+body)
			if said := strings.ReplaceAll(got, `\"`, `"`); res.StatusCode != c.status || !strings.HasPrefix(said, c.want) && !strings.Contains(said, `"message":"`+c.want) {
				t.Errorf("%d %s", res.StatusCode, got)
			}
		})
	}
}
