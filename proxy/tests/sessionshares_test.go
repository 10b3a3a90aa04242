package tests

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestSessionsOfOneClientLeaveRoom: a client alone may have all sessions, in use all of them; then others may still begin some.
func TestSessionsOfOneClientLeaveRoom(t *testing.T) {
	const most = 8
	server := &quietServer{named: "theirs", streams: make(chan *quietStream, 2*most)}
	at := httptest.NewServer(server)
	t.Cleanup(at.Close)
	c := serving(t, func(cfg *config.Config) {
		cfg.Upstream.URL, cfg.Upstream.Version = at.URL, "2025-06-18"
		cfg.Session.Max, cfg.Bridge.Principal = most, "header:X-User"
	})
	t.Cleanup(at.CloseClientConnections)
	begin := func(user string) string {
		h := c.ask(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, "X-User", user)
		id := h.header.Get("Mcp-Session-Id")
		if id == "" {
			return gjson.Get(strings.Join(h.messages, ""), "error.message").String()
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/mcp", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Accept": {"text/event-stream"}, "Mcp-Session-Id": {id}, "X-User": {user}}
		res, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		<-server.streams
		return ""
	}
	for range most {
		if why := begin("greedy"); why != "" {
			t.Fatal(why)
		}
	}
	if begin("greedy") == "" {
		t.Error("the client with all sessions began one more")
	}
	if why := begin("modest"); why != "" {
		t.Errorf("another client: %s", why)
	}
}
