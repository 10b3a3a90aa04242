package downstream

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// TestASlashAtTheEnd: the endpoint is there with and without a slash at the end, whichever of them the configuration has; other paths
// are not.
func TestASlashAtTheEnd(t *testing.T) {
	for configured, asked := range map[string]map[string]int{
		"/mcp":  {"/mcp": 200, "/mcp/": 200, "/mcp/?a=b": 200, "/mcp/x": 404, "/mc/": 404, "/": 404},
		"/mcp/": {"/mcp": 200, "/mcp/": 200, "/mcp?a=b": 200},
		"/":     {"/": 200, "/mcp/": 404},
	} {
		t.Run(configured, func(t *testing.T) {
			s := start(t, fakeHandler{post: echo}, HTTPConfig{Path: configured, Tokens: []string{"t"}})
			for path, want := range asked {
				nc := dial(t, s.addr)
				head := strings.Replace(postHead, "POST /mcp ", "POST "+path+" ", 1)
				_, _ = io.WriteString(nc, head+"Authorization: Bearer t\r\nContent-Length: 2\r\n\r\n{}")
				res, body := answer(t, bufio.NewReader(nc), "POST")
				if res.StatusCode != want {
					t.Errorf("%s where the endpoint is %s: %d %s, want %d", path, configured, res.StatusCode, body, want)
				}
				nc.Close()
				if want != 200 {
					continue
				}
				nc = dial(t, s.addr)
				_, _ = io.WriteString(nc, head+"Content-Length: 2\r\n\r\n{}")
				if res, _ := answer(t, bufio.NewReader(nc), "POST"); res.StatusCode != 401 {
					t.Errorf("%s without a token: %d", path, res.StatusCode)
				}
				nc.Close()
			}
		})
	}
}
