package downstream

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// TestHeadersThatMayOccurOnce: readers differ in which of two headers of one name they take, so a request with two of those that
// dragoman acts on is refused, in any order and on both ways that a connection is served. Headers that are lists stay legal.
func TestHeadersThatMayOccurOnce(t *testing.T) {
	twice := func(name, a, b string) string {
		return name + ": " + a + "\r\n" + strings.ToUpper(name) + ": " + b + "\r\n"
	}
	for _, c := range []struct {
		name, lines string
		refused     string // the header that is named; "" if the request is served
	}{
		{"none", "", ""},
		{"Authorization", twice("Authorization", "Bearer a", "Basic b"), "Authorization"},
		{"Authorization, one of them empty", twice("Authorization", "", "Bearer b"), "Authorization"},
		{"session", twice("Mcp-Session-Id", "a", "b"), "Mcp-Session-Id"},
		{"session, twice the same", twice("Mcp-Session-Id", "a", "a"), "Mcp-Session-Id"},
		{"session, with another header between", "Mcp-Session-Id: a\r\nX-Other: x\r\nMcp-Session-Id: b\r\n", "Mcp-Session-Id"},
		{"revision", twice("MCP-Protocol-Version", "2026-07-28", "2025-06-18"), "MCP-Protocol-Version"},
		{"revision, the other way round", twice("MCP-Protocol-Version", "2025-06-18", "2026-07-28"), "MCP-Protocol-Version"},
		{"method", twice("Mcp-Method", "tools/list", "tools/call"), "Mcp-Method"},
		{"name", twice("Mcp-Name", "a", "b"), "Mcp-Name"},
		{"argument", twice("Mcp-Param-Region", "a", "b"), "Mcp-Param-Region"},
		{"last event", twice("Last-Event-ID", "1", "2"), "Last-Event-ID"},
		{"origin", twice("Origin", "http://localhost", "http://localhost"), "Origin"},
		{"origin, the second one foreign", twice("Origin", "http://localhost", "https://evil.example"), "Origin"},
		{"content type", "Content-Type: text/plain\r\n", "Content-Type"}, // there is one already
		{"content encoding", twice("Content-Encoding", "identity", "gzip"), "Content-Encoding"},
		{"token", twice(tokenHeader, "a", "b"), tokenHeader},
		{"the principal", twice("X-User", "a", "b"), "X-User"},
		{"a credential for an API", twice("X-Api-Key", "a", "b"), "X-Api-Key"},
		{"many, and one of them twice", strings.Repeat("Mcp-Param-A", 1) + ": a\r\n" + manyHeaders(60) + "mcp-param-a: b\r\n", "Mcp-Param-A"},

		{"Accept", "Accept: text/html\r\n", ""},
		{"another one", twice("X-Other", "a", "b"), ""},
		{"baggage", twice("Baggage", "a=1", "b=2"), ""},
		{"cookies", twice("Cookie", "a=1", "b=2"), ""},
		{"a folded value is no header", "X-Other: a\r\n Mcp-Name: b\r\nMcp-Name: c\r\n", ""},
		{"names that begin alike", "Mcp-Name: a\r\nMcp-Name-2: b\r\nX-Mcp-Name: c\r\n", ""},
	} {
		for _, way := range []string{"fast", "slow"} {
			t.Run(c.name+", "+way, func(t *testing.T) {
				refuse := func(q *Request, r *Response) { // as the handler of the product does
					if echo(q, r); q.Twice != "" {
						r.Status, r.Body = 400, []byte(`"the `+q.Twice+` header occurs more than once"`)
					}
				}
				s := start(t, fakeHandler{post: refuse}, HTTPConfig{Principal: func() string { return "X-User" }, Once: []string{"X-Api-Key"}})
				head := postHead + c.lines + "Content-Length: 2\r\n"
				if way == "slow" {
					head += "TE: trailers\r\n" // the fast path leaves such a request to fasthttp
				}
				nc := dial(t, s.addr)
				r := bufio.NewReader(nc)
				_, _ = io.WriteString(nc, head+"\r\n{}")
				res, body := answer(t, r, "POST")
				switch {
				case c.refused == "" && res.StatusCode != 200:
					t.Errorf("%d %s", res.StatusCode, body)
				case c.refused != "" && (res.StatusCode != 400 || !strings.Contains(body, `"the `+c.refused+` header occurs more than once"`)):
					t.Errorf("%d %s, want the %s header refused", res.StatusCode, body, c.refused)
				}
			})
		}
	}
}

// manyHeaders returns n different headers that repeat arguments.
func manyHeaders(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("Mcp-Param-" + strings.Repeat("x", i+2) + ": v\r\n")
	}
	return b.String()
}

// TestListsAreReadWhole: of a header that may occur more than once, handlers get what all of its fields say together.
// https://www.rfc-editor.org/rfc/rfc9110#section-5.3
func TestListsAreReadWhole(t *testing.T) {
	for _, way := range []string{"", "TE: trailers\r\n"} {
		t.Run(way, func(t *testing.T) {
			var got []string
			s := start(t, fakeHandler{post: func(q *Request, r *Response) {
				for _, name := range []string{"tracestate", "baggage", "Cookie", "X-Other", "X-None", "User-Agent"} {
					got = append(got, q.Header(name))
				}
				echo(q, r)
			}}, HTTPConfig{})
			nc := dial(t, s.addr)
			_, _ = io.WriteString(nc, postHead+way+"tracestate: a=1\r\ntracestate: b=2\r\nBaggage: c=3\r\nCookie: d=4\r\nCookie: e=5\r\nX-Other: f\r\nx-other: g\r\nUser-Agent: h\r\nContent-Length: 2\r\n\r\n{}")
			if res, body := answer(t, bufio.NewReader(nc), "POST"); res.StatusCode != 200 {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			if want := "a=1, b=2|c=3|d=4; e=5|f, g||h"; strings.Join(got, "|") != want {
				t.Errorf("%q, want %q", strings.Join(got, "|"), want)
			}
		})
	}
}

// TestATokenIsSentOnce: beside X-Dragoman-Token, Authorization is the server's. A token of the listener there would reach it.
func TestATokenIsSentOnce(t *testing.T) {
	for _, c := range []struct {
		lines  string
		status int
		want   string // what the handler gets as Authorization, or a part of the refusal
	}{
		{"Authorization: Bearer t\r\n", 200, ""},
		{tokenHeader + ": t\r\n", 200, ""},
		{tokenHeader + ": t\r\nAuthorization: Bearer server\r\n", 200, "Bearer server"},
		{"Authorization: Bearer server\r\n" + tokenHeader + ": t\r\n", 200, "Bearer server"},
		{tokenHeader + ": t\r\nAuthorization: Basic dDp0\r\n", 200, "Basic dDp0"},
		{tokenHeader + ": t\r\nAuthorization: Bearer t\r\n", 400, "send it once"},
		{"Authorization: Bearer t\r\n" + tokenHeader + ": t\r\n", 400, "send it once"},
		{tokenHeader + ": t\r\nAuthorization: Bearer other\r\n", 400, "send it once"}, // a token of the listener as well
		{tokenHeader + ": t\r\nAuthorization: bearer   t \r\n", 400, "send it once"},
		{tokenHeader + ": t\r\nAuthorization: Token t\r\n", 400, "send it once"},
		{tokenHeader + ": t\r\nAuthorization: t\r\n", 400, "send it once"},
		{tokenHeader + ": t\r\nAuthorization: Bearer server, Bearer t\r\n", 400, "send it once"},
		{tokenHeader + ": wrong\r\nAuthorization: Bearer t\r\n", 401, "not valid"},
		{"Authorization: Bearer wrong\r\n", 401, "not valid"},
	} {
		for _, way := range []string{"", "TE: trailers\r\n"} {
			t.Run(c.lines+way, func(t *testing.T) {
				s := start(t, fakeHandler{post: func(q *Request, r *Response) { r.Body = []byte(q.Header("Authorization")) }}, HTTPConfig{Tokens: []string{"t", "other"}})
				nc := dial(t, s.addr)
				_, _ = io.WriteString(nc, postHead+c.lines+way+"Content-Length: 2\r\n\r\n{}")
				res, body := answer(t, bufio.NewReader(nc), "POST")
				if res.StatusCode != c.status || c.status == 200 && body != c.want || !strings.Contains(body, c.want) {
					t.Errorf("%q: %d %q, want %d %q", c.lines, res.StatusCode, body, c.status, c.want)
				}
				if asks := res.Header.Get("WWW-Authenticate") != ""; asks != (c.status == 401) {
					t.Errorf("%q: %d with WWW-Authenticate %q", c.lines, c.status, res.Header.Get("WWW-Authenticate"))
				}
			})
		}
	}
}

// TestTheRelayGetsEachHeaderOnce: paths beside the endpoint are checked too, and a token of the listener does not get through there.
func TestTheRelayGetsEachHeaderOnce(t *testing.T) {
	s := start(t, fakeHandler{}, HTTPConfig{Tokens: []string{"t"}, Beside: fakeBeside{}, MaxBody: 1000})
	for _, c := range []struct {
		lines  string
		status int
	}{
		{"", 201},
		{"Authorization: Basic a\r\n", 201},
		{"Authorization: Basic a\r\nAuthorization: Bearer t\r\n", 400},
		{"Authorization: Bearer t\r\nAuthorization: Basic a\r\n", 400},
		{"Mcp-Protocol-Version: a\r\nmcp-protocol-version: b\r\n", 400},
	} {
		res, body := ask(t, s.addr, "POST /x HTTP/1.1\r\nHost: localhost\r\n"+c.lines+"Content-Length: 0\r\n\r\n")
		if res.StatusCode != c.status || strings.Contains(body, "Bearer t") {
			t.Errorf("%q: %d %q", c.lines, res.StatusCode, body)
		}
		if c.status == 400 {
			isSentence(t, res, body)
		}
	}
}
