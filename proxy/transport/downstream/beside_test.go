package downstream

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// fakeBeside serves /x and the paths below it, and answers with the request.
type fakeBeside struct{}

func (fakeBeside) Serves(_ context.Context, base, path string) bool {
	return strings.HasPrefix(base, "http://localhost") && strings.HasPrefix(path, "/x")
}

func (fakeBeside) Serve(req *Request, resp *Response) {
	resp.Header = []mcp.Header{{Name: "Content-Type", Value: "text/html"}, {Name: "Set-Cookie", Value: "a=1; Path=/"}, {Name: "Set-Cookie", Value: "b=2"}}
	resp.Status = 201
	resp.Body = fmt.Appendf(nil, "%s %s %s|%s|%s", req.Method, req.Base, req.Path, req.Header("Authorization"), req.Body)
}

// TestOtherPathsNeedNoToken checks also that the listener's own token is not passed
// on.
func TestOtherPathsNeedNoToken(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Tokens: []string{"x"}, Beside: fakeBeside{}, MaxBody: 1000})
	for _, c := range []struct{ request, want string }{
		{"GET /x%20y?a=%2F HTTP/1.1\r\nHost: localhost:8\r\n\r\n", "GET http://localhost:8 /x%20y?a=%2F||"},
		{"POST /x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic abc\r\nContent-Length: 2\r\n\r\nok", "POST http://localhost /x|Basic abc|ok"},
		{"POST /x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nContent-Length: 0\r\n\r\n", "POST http://localhost /x||"},
	} {
		res, body := ask(t, s.addr, c.request)
		if res.StatusCode != 201 || body != c.want || res.Header.Get("Content-Type") != "text/html" || len(res.Header["Set-Cookie"]) != 2 {
			t.Errorf("%d %q %v", res.StatusCode, body, res.Header)
		}
	}
	for request, status := range map[string]int{
		"GET /y HTTP/1.1\r\nHost: localhost\r\n\r\n":                                                      401,
		"GET /x HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                                   403,
		"GET /x HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n":                      403,
		"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n" + strings.Repeat("x", 1001): 413,
	} {
		res, body := ask(t, s.addr, request)
		if res.StatusCode != status {
			t.Errorf("%.40q: %d %s", request, res.StatusCode, body)
		}
		isSentence(t, res, body)
	}
}

// everyPath serves all paths that it is asked about.
type everyPath struct{ fakeBeside }

func (everyPath) Serves(context.Context, string, string) bool { return true }

// TestOwnPathsComeFirst: a path that an authorization server names does not take the place of one that the
// listener serves itself.
func TestOwnPathsComeFirst(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{
		Beside: everyPath{}, Routes: map[string]fasthttp.RequestHandler{"/metrics": func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("ours") }},
	})
	for path, theirs := range map[string]bool{"/token": true, "/metrics": false, "/mcp": false} {
		res, body := ask(t, s.addr, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if got := strings.HasPrefix(body, "GET http://localhost"); got != theirs {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}

// TestWebPagesMayReadEveryResponse, refusals included: otherwise browsers hide a 401.
func TestWebPagesMayReadEveryResponse(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Tokens: []string{"x"}, Pages: []string{"https://page.example"}, PageReads: []string{"DPoP-Nonce", "Link"}})
	const page = "Origin: https://page.example\r\n"
	for _, c := range []struct {
		request string
		status  int
	}{
		{postHead + page + "X-Dragoman-Token: x\r\nContent-Length: 2\r\n\r\n{}", 200},
		{postHead + page + "Content-Length: 2\r\n\r\n{}", 401},
		{"GET /nothing HTTP/1.1\r\nHost: localhost\r\n" + page + "X-Dragoman-Token: x\r\n\r\n", 404},
	} {
		res, _ := ask(t, s.addr, c.request)
		h := res.Header
		if res.StatusCode != c.status || h.Get("Access-Control-Allow-Origin") != "https://page.example" || h.Get("Vary") != "Origin" ||
			h.Get("Access-Control-Expose-Headers") != "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After, DPoP-Nonce, Link" || h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%d %v", res.StatusCode, h)
		}
	}
	res, _ := ask(t, s.addr, postHead+"Origin: https://other.example\r\nContent-Length: 2\r\n\r\n{}")
	if res.StatusCode != 403 || res.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}

// TestPreflightsNeedNoToken checks a CORS preflight, which browsers send without a
// token.
func TestPreflightsNeedNoToken(t *testing.T) {
	for _, c := range []struct {
		pages           []string
		path, origin    string
		headers, status string
		allowed         string
	}{
		{[]string{"https://page.example"}, "/mcp", "https://page.example", "authorization, Mcp-Param-Region, x-other,mcp-protocol-version, X-API-token", "204 ", "authorization, Mcp-Param-Region, mcp-protocol-version, X-API-token"},
		{[]string{"*"}, "/mcp", "null", "", "204 ", ""},
		{[]string{"*"}, "/mcp", "https://any.example", "x-other, mcp-param-", "204 ", ""},
		{[]string{"https://page.example"}, "/mcp", "https://page.example.evil", "authorization", "403 ", ""},
		{[]string{"https://page.example"}, "/nothing", "https://page.example", "authorization", "401 ", ""},
		{nil, "/mcp", "https://page.example", "authorization", "403 ", ""},
		{nil, "/mcp", "http://localhost:5173", "authorization", "403 ", ""},
	} {
		t.Run(c.path+" for "+c.origin, func(t *testing.T) {
			s := start(t, fakeHandler{}, HTTPConfig{Tokens: []string{"x"}, Pages: c.pages, PageHeaders: []string{"X-Api-Token"}})
			res, body := ask(t, s.addr, "OPTIONS "+c.path+" HTTP/1.1\r\nHost: localhost\r\nOrigin: "+c.origin+"\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: "+c.headers+"\r\n\r\n")
			h := res.Header
			if !strings.HasPrefix(res.Status, c.status) || h.Get("Access-Control-Allow-Headers") != c.allowed {
				t.Errorf("%s for %s: %s %v", c.path, c.origin, res.Status, h)
			}
			if res.StatusCode == 403 && !strings.Contains(body, "cors.origins") {
				t.Errorf("%s: %s", c.origin, body)
			}
			if res.StatusCode == 204 && (body != "" || h.Get("Access-Control-Allow-Methods") != "POST, GET, DELETE" || h.Get("Access-Control-Max-Age") != "600" || h.Get("Access-Control-Allow-Origin") != c.origin) {
				t.Errorf("%q %v", body, h)
			}
		})
	}
}
