package downstream

import (
	"bufio"
	"io"
	"testing"
)

// TestTrailersAreNoHeaders: what comes behind the body was checked by no rule for headers.
func TestTrailersAreNoHeaders(t *testing.T) {
	for _, announced := range []string{"", "Trailer: X-User, X-Api-Key, Mcp-Session-Id, Mcp-Name, MCP-Protocol-Version\r\n"} {
		for _, head := range []string{"", "X-User: a\r\nX-Api-Key: a\r\nMcp-Session-Id: a\r\nMcp-Name: a\r\nMCP-Protocol-Version: a\r\n"} {
			t.Run(announced+head, func(t *testing.T) {
				got, want := "", ""
				s := start(t, fakeHandler{post: func(q *Request, r *Response) {
					got = q.Session + q.Version + q.Twice
					for _, name := range []string{"X-User", "X-Api-Key", "Mcp-Name"} {
						got += q.Header(name)
					}
					q.Headers("Mcp-", func(_, value string) { got += value })
					r.Body = []byte("{}")
				}}, HTTPConfig{Principal: func() string { return "X-User" }, Once: []string{"X-Api-Key"}})
				nc := dial(t, s.addr)
				_, _ = io.WriteString(nc, postHead+head+announced+"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-User: b\r\nX-Api-Key: b\r\nMcp-Session-Id: b\r\nMcp-Name: b\r\nMCP-Protocol-Version: b\r\n\r\n")
				res, body := answer(t, bufio.NewReader(nc), "POST")
				if head != "" {
					want = "aaaaaaaa"
				}
				if res.StatusCode != 200 || got != want {
					t.Errorf("%d %s: the handler sees %q, want %q", res.StatusCode, body, got, want)
				}
			})
		}
	}
}
