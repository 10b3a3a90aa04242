package tests

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate"
)

// TestEventStreamsKeepTheirConnections: connections to a server that answers with event streams are
// reused, also if a stream ends a moment after its last message, and for modern clients.
func TestEventStreamsKeepTheirConnections(t *testing.T) {
	var opened atomic.Int64
	web := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		switch {
		case u.ID == "":
		case u.Method == "server/discover":
			u.Refuse(http.StatusBadRequest)
		case u.Method == "initialize":
			u.Say(result(u.ID, helloOf("2025-06-18", `{"tools":{}}`)))
		default:
			u.Say(result(u.ID, `"content":[]`)) // the end of the body is sent in a packet of its own
		}
	})
	web.SessionID, web.NoGet = "theirs", true
	web.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	web.At()
	c := serving(t, func(cfg *config.Config) { cfg.Upstream.URL = web.URL })
	c.initialize()
	const calls = 200
	for name, call := range map[string]func() heardAll{
		"session": func() heardAll { return c.ask("POST", callOne) },
		"no session": func() heardAll {
			session := c.session
			c.session = ""
			defer func() { c.session = session }()
			return c.ask("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{}}}}`, translate.Modern()),
				"MCP-Protocol-Version", translate.Modern(), "Mcp-Method", "tools/call", "Mcp-Name", "a")
		},
	} {
		call()
		before := opened.Load()
		for range calls {
			if h := call(); h.status != http.StatusOK || len(h.messages) != 1 || !gjson.Get(h.messages[0], "result").Exists() {
				t.Fatalf("%s: %d %q", name, h.status, h.messages)
			}
		}
		if n := opened.Load() - before; n > 3 {
			t.Errorf("%s: %d connections for %d calls", name, n, calls)
		}
	}
}
