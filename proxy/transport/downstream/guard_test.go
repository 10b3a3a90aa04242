package downstream

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestTokensGuardTheListener(t *testing.T) {
	// The answer lists the headers that the handler could see.
	show := func(q *Request, r *Response) {
		r.Body = []byte(`"` + q.Header("Authorization") + "|" + q.Header("x-dragoman-token") + `"`)
	}
	ps := newPipes()
	s := start(t, fakeHandler{post: show, get: show, del: show}, HTTPConfig{
		Tokens: []string{"first", "second token"},
		Pipes:  ps.with(nil),
		Routes: map[string]fasthttp.RequestHandler{"/metrics": func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(`"|"`) }},
	})
	for _, c := range []struct {
		name, headers string
		status        int
		challenge     string
		seen          string
	}{
		{"none", "", 401, "Bearer", ""},
		{"bearer", "Authorization: Bearer first\r\n", 200, "", `"|"`},
		{"another token", "Authorization: Bearer second token\r\n", 200, "", `"|"`},
		{"scheme in another case", "Authorization: bEARER first\r\n", 200, "", `"|"`},
		{"own header", "X-Dragoman-Token: first\r\n", 200, "", `"|"`},
		{"own header beside the server's", "X-Dragoman-Token: first\r\nAuthorization: Bearer upstream\r\n", 200, "", `"Bearer upstream|"`},
		{"wrong", "Authorization: Bearer firs\r\n", 401, `Bearer error="invalid_token"`, ""},
		{"longer", "Authorization: Bearer firstfirst\r\n", 401, `Bearer error="invalid_token"`, ""},
		{"both at once", "Authorization: Bearer first,second token\r\n", 401, `Bearer error="invalid_token"`, ""},
		{"empty", "Authorization: Bearer \r\n", 401, `Bearer error="invalid_token"`, ""},
		{"empty own header", "X-Dragoman-Token:\r\n", 401, `Bearer error="invalid_token"`, ""},
		{"wrong own header beside a good one", "X-Dragoman-Token: x\r\nAuthorization: Bearer first\r\n", 401, `Bearer error="invalid_token"`, ""},
		{"other scheme", "Authorization: Basic first\r\n", 401, `Bearer error="invalid_token"`, ""},
		{"no scheme", "Authorization: first\r\n", 200, "", `"|"`},
		{"no scheme before a space", "Authorization:  second token \r\n", 200, "", `"|"`},
		{"no scheme and wrong", "Authorization: firs\r\n", 401, `Bearer error="invalid_token"`, ""},
		{"no scheme beside it", "X-Dragoman-Token: first\r\nAuthorization: first\r\n", 400, "", ""},
		{"another token beside it", "X-Dragoman-Token: first\r\nAuthorization: Bearer second token\r\n", 400, "", ""},
		{"two headers", "Authorization: Bearer first\r\nAuthorization: Bearer x\r\n", 400, "", ""},
		{"two own headers", "X-Dragoman-Token: first\r\nX-Dragoman-Token: x\r\n", 400, "", ""},
	} {
		for _, request := range []string{
			postHead + c.headers + "Content-Length: 2\r\n\r\n{}", getHead + c.headers + "\r\n",
			"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n" + c.headers + "\r\n",
			"GET /metrics HTTP/1.1\r\nHost: localhost\r\n" + c.headers + "\r\n",
		} {
			t.Run(c.name+"/"+request[:8], func(t *testing.T) {
				res, body := ask(t, s.addr, request)
				if res.StatusCode != c.status || res.Header.Get("WWW-Authenticate") != c.challenge {
					t.Fatalf("got %d %v %q", res.StatusCode, res.Header, body)
				}
				if c.status != 200 && strings.Contains(request, "/metrics") {
					isSentence(t, res, body)
				} else if c.status != 200 {
					if !json.Valid([]byte(body)) || strings.Contains(body, "first") {
						t.Errorf("got %q", body)
					}
				} else if body != c.seen && !strings.Contains(request, "/metrics") {
					t.Errorf("the handler saw %s, want %s", body, c.seen)
				}
			})
		}
	}
	for _, request := range []string{sseHead + "\r\n", postTo("/messages?session=x", "", "{}"), "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		if res, _ := ask(t, s.addr, request); res.StatusCode != 401 {
			t.Errorf("%.15q without a token: %d", request, res.StatusCode)
		}
	}
	c := openSSE(t, s, "X-Dragoman-Token: first\r\n")
	if res, _ := ask(t, s.addr, postTo(c.uri, "", "{}")); res.StatusCode != 401 {
		t.Errorf("message without a token: %d", res.StatusCode)
	}
}

// TestAnEmptyTokenIsRefused: an empty token may come from a variable that is not set.
func TestAnEmptyTokenIsRefused(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Tokens: []string{""}})
	for _, headers := range []string{"", "Authorization: Bearer\r\n", "Authorization: Bearer \r\n", "X-Dragoman-Token: \r\n"} {
		if res, _ := ask(t, s.addr, postHead+headers+"Content-Length: 2\r\n\r\n{}"); res.StatusCode != 401 {
			t.Errorf("%q: %d", headers, res.StatusCode)
		}
	}
}

// TestLogNamesTheRefusedValue: the log says which host or origin was refused, and no more than the beginning of a long one.
func TestLogNamesTheRefusedValue(t *testing.T) {
	logged := make(chan string, 1)
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Refused: func(_ int, why string) { logged <- why }})
	const origin, long = "Origin: https://page.example\r\n", "0123456789"
	for _, c := range []struct{ request, named string }{
		{strings.Replace(postHead, "localhost", "mcp.example", 1), `it is "mcp.example"`},
		{strings.Replace(postHead, "localhost", strings.Repeat(long, 30), 1), `it is "` + strings.Repeat(long, 10) + `"`},
		{postHead + origin, `it is "https://page.example"`},
		{"OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:5173\r\nAccess-Control-Request-Method: POST\r\n", `it is "http://localhost:5173"`},
	} {
		if res, body := ask(t, s.addr, c.request+"Content-Length: 0\r\n\r\n"); res.StatusCode != 403 || strings.Contains(body, "example") {
			t.Errorf("%d %s", res.StatusCode, body)
		}
		if why := <-logged; !strings.HasSuffix(why, ": "+c.named) {
			t.Errorf("logged %q, want %s", why, c.named)
		}
	}
}

// TestTokenIsCheckedBeforeTheBodyIsRead sends a request whose body never comes.
func TestTokenIsCheckedBeforeTheBodyIsRead(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Tokens: []string{"x"}})
	for _, length := range []string{"Content-Length: 1000000", "Transfer-Encoding: chunked"} {
		if res, _ := ask(t, s.addr, postHead+length+"\r\n\r\n"+strings.Repeat(" ", prefetched)); res.StatusCode != 401 {
			t.Errorf("%s: status %d", length, res.StatusCode)
		}
	}
}

func TestServeOverTLS(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}})
	nc := tls.Client(dial(t, s.addr), &tls.Config{InsecureSkipVerify: true})
	_, _ = io.WriteString(nc, post("{}"))
	if res, body := answer(t, bufio.NewReader(nc), "POST"); res.StatusCode != 200 || body != "{}" {
		t.Errorf("got %d %q", res.StatusCode, body)
	}
}

func TestPagesDoNotReadWhatProgramsRead(t *testing.T) {
	s := startHTTP(t, func(cfg HTTPConfig) *HTTP {
		return NewAdmin(map[string]fasthttp.RequestHandler{
			"/metrics": GuardFromPages(func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("numbers") }, HostCheck([]string{"known.example"})),
		}, cfg)
	}, HTTPConfig{})
	for headers, status := range map[string]int{
		"Host: rebound.example:8809\r\nAccept-Language: en\r\n":                                           403,
		"Host: rebound.example:8809\r\nAccept-Language:\r\n":                                              403, // a script can empty it
		"Host: rebound.example\r\nOrigin: http://rebound.example\r\n":                                     403,
		"Host: rebound.example\r\nSec-Fetch-Mode: no-cors\r\n":                                            403,
		"Host: 127.0.0.1\r\nSec-Fetch-Site: cross-site\r\n":                                               403,
		"Host: 127.0.0.1\r\nSec-Fetch-Site: same-site\r\n":                                                403,
		"Host: localhost:8809\r\nAccept-Language: en\r\nSec-Fetch-Site: none\r\n":                         200,
		"Host: 127.0.0.1:8809\r\nAccept-Language: en\r\nSec-Fetch-Site: same-origin\r\n":                  200,
		"Host: known.example\r\nAccept-Language: en\r\n":                                                  200,
		"Host: dragoman.monitoring.svc:8809\r\nUser-Agent: Prometheus/3.5.0\r\nAccept-Encoding: gzip\r\n": 200,
		"Host: 10.1.2.3:8809\r\nUser-Agent: curl/8.14.1\r\nAccept: */*\r\n":                               200,
	} {
		if res, body := ask(t, s.addr, "GET /metrics HTTP/1.1\r\n"+headers+"\r\n"); res.StatusCode != status || (status == 200) != (body == "numbers") {
			t.Errorf("%q: %d %s", headers, res.StatusCode, body)
		}
	}
}

func TestAdminServesItsRoutesAndNothingElse(t *testing.T) {
	s := startHTTP(t, func(cfg HTTPConfig) *HTTP {
		return NewAdmin(map[string]fasthttp.RequestHandler{
			"/livez": func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("alive") },
			"/panic": func(*fasthttp.RequestCtx) { panic("no") },
		}, cfg)
	}, HTTPConfig{Tokens: []string{"x"}})
	for _, c := range []struct {
		request string
		status  int
	}{
		{"GET /livez HTTP/1.1\r\nHost: 10.1.2.3:8809\r\n\r\n", 200},
		{"GET /livez HTTP/1.1\r\nHost: any.example\r\nOrigin: https://evil.example\r\n\r\n", 200},
		{"GET /livez HTTP/1.0\r\n\r\n", 200},
		{"GET /panic HTTP/1.1\r\nHost: x\r\n\r\n", 500},
		{post("{}"), 404},
		{sseHead + "\r\n", 404},
		{"GET /.well-known/oauth-protected-resource HTTP/1.1\r\nHost: x\r\n\r\n", 404},
	} {
		if res, body := ask(t, s.addr, c.request); res.StatusCode != c.status || res.StatusCode == 404 && strings.Contains(body, "/mcp") {
			t.Errorf("%.40q: %d %s", c.request, res.StatusCode, body)
		}
	}
}
