package downstream

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// showsHeaders answers with the headers that it sees.
type showsHeaders struct{ fakeBeside }

func (showsHeaders) Serve(q *Request, r *Response) {
	r.Header = append(r.Header, mcp.Header{Name: "Seen", Value: q.Header("Authorization") + "|" + q.Header("x-api-key")})
	if q.Headers != nil {
		q.Headers("X-", func(name, value string) { r.Header[0].Value += "|" + name })
	}
}

// TestATokenInTheHeaderOfTheConfiguration checks that a client may send its token in another header, once, and that neither a handler
// of messages nor one beside them sees it.
func TestATokenInTheHeaderOfTheConfiguration(t *testing.T) {
	see := showsHeaders{}.Serve
	s := start(t, fakeHandler{post: see, get: see, del: see}, HTTPConfig{
		Tokens: []string{"first", "second token"}, TokenHeader: "x-api-key",
		Beside: showsHeaders{},
	})
	for _, c := range []struct {
		name, headers string
		status        int
		seen, says    string
	}{
		{"none", "", 401, "", "x-api-key"},
		{"it", "X-API-Key: first\r\n", 200, "|", ""},
		{"it in another case", "x-api-KEY:  second token\r\n", 200, "|", ""},
		{"beside the server's", "X-API-Key: first\r\nAuthorization: Bearer upstream\r\n", 200, "Bearer upstream|", ""},
		{"bearer", "Authorization: Bearer first\r\n", 200, "|", ""},
		{"own header", "X-Dragoman-Token: first\r\n", 200, "|", ""},
		{"wrong", "X-API-Key: firs\r\n", 401, "", "not valid"},
		{"empty", "X-API-Key:\r\n", 401, "", "not valid"},
		{"with a scheme", "X-API-Key: Bearer first\r\n", 401, "", "not valid"},
		{"wrong beside a good one", "X-API-Key: x\r\nAuthorization: Bearer first\r\n", 401, "", "not valid"},
		{"two", "X-API-Key: first\r\nx-api-key: first\r\n", 400, "", "more than once"},
		{"both headers", "X-API-Key: first\r\nX-Dragoman-Token: first\r\n", 400, "", "once"},
		{"both headers, one wrong", "X-API-Key: x\r\nX-Dragoman-Token: first\r\n", 400, "", "once"},
		{"in Authorization too", "X-API-Key: first\r\nAuthorization: Bearer second token\r\n", 400, "", "once"},
		{"bare in Authorization too", "X-API-Key: first\r\nAuthorization: first\r\n", 400, "", "once"},
		{"behind a comma in Authorization too", "X-API-Key: first\r\nAuthorization: Bearer upstream, first\r\n", 400, "", "once"},
	} {
		for _, request := range []string{
			postHead + c.headers + "Content-Length: 2\r\n\r\n{}", getHead + c.headers + "\r\n",
			"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\n" + c.headers + "\r\n",
		} {
			t.Run(c.name+"/"+request[:4], func(t *testing.T) {
				res, body := ask(t, s.addr, request)
				if res.StatusCode != c.status || res.Header.Get("Seen") != c.seen || !strings.Contains(body, c.says) || strings.Contains(body, "first") {
					t.Errorf("%d, seen %q, %s", res.StatusCode, res.Header.Get("Seen"), body)
				}
			})
		}
	}
	for _, headers := range []string{"X-API-Key: first\r\n", "Authorization: first\r\n", "X-API-Key: another\r\n"} {
		if res, _ := ask(t, s.addr, "GET /x HTTP/1.1\r\nHost: localhost\r\n"+headers+"\r\n"); res.StatusCode != 200 || res.Header.Get("Seen") != "|" {
			t.Errorf("beside the endpoint, %q: %d, seen %q", headers, res.StatusCode, res.Header.Get("Seen"))
		}
	}
}

// TestTheHeaderOfATokenIsRenewed checks that a reload changes the header, also on open connections, and that pages may send it.
func TestTheHeaderOfATokenIsRenewed(t *testing.T) {
	s := start(t, fakeHandler{post: echo}, HTTPConfig{Tokens: []string{"t"}, TokenHeader: "X-API-Key"})
	status := func(header string) int {
		res, _ := ask(t, s.addr, postHead+header+": t\r\nContent-Length: 2\r\n\r\n{}")
		return res.StatusCode
	}
	allowed := func() string {
		res, _ := ask(t, s.addr, "OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: https://page.example\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-api-key, x-other\r\n\r\n")
		return res.Header.Get("Access-Control-Allow-Headers")
	}
	if status("X-API-Key") != 200 || status("X-Other") != 401 {
		t.Error("not the header of the configuration")
	}
	s.Renew(Renewable{Tokens: []string{"t"}, TokenHeader: "X-Other", Pages: []string{"*"}})
	if status("X-API-Key") != 401 || status("X-Other") != 200 || allowed() != "x-other" {
		t.Errorf("not the new header; pages may send %q", allowed())
	}
	s.Renew(Renewable{Tokens: []string{"t"}, Pages: []string{"*"}})
	if status("X-Other") != 401 || allowed() != "" {
		t.Errorf("the header is still in use; pages may send %q", allowed())
	}
}
