package downstream

import (
	"bytes"
	"strings"
	"testing"
)

// TestWhatTheFastPathTakes: plain POSTs, and nothing else.
func TestWhatTheFastPathTakes(t *testing.T) {
	other := strings.Replace(post("{}"), "Accept:", "Mcp-Session-Id: s\r\nConnection: keep-alive\r\nAccept:", 1)
	for _, c := range []struct {
		name, in string
		takes    bool
	}{
		{"one", post("{}"), true},
		{"several", post("{}") + post(`{"a":1}`) + post("[]") + post("{}"), true},
		{"with other headers", post("{}") + other + post("{}"), true},
		{"refused by the handler", post("?"), true},
		{"a panic", post("!") + post("{}"), true},
		{"a large answer", post(strings.Repeat("x", 40)) + post("{}"), true},
		{"nothing", "", false},
		{"another path", strings.Replace(post("{}"), "/mcp", "/sse", 1), false},
		{"a body that is too large", post(strings.Repeat(" ", 101)), false},
		{"half a head", post("{}") + post("{}")[:40], false},
		{"half a body", post("{}") + post("{}")[:len(post("{}"))-1], false},
		{"a GET behind it", post("{}") + getHead + "\r\n", false},
		{"the end of the connection", strings.Replace(post("{}"), "Accept:", "Connection: close\r\nAccept:", 1), false},
	} {
		h := twinServer(new(served), nil)
		peer := &pieces{script{in: bytes.NewReader([]byte(c.in))}, 0}
		if takes := h.serveFast(&conn{Conn: peer, face: h}); takes != c.takes {
			t.Errorf("%s: takes it %v, want %v", c.name, takes, c.takes)
		}
	}
}
