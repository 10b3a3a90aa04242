package tests

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// rival is a server with a tool that has the name of an adapter's tool.
func rival(t *testing.T, names ...string) (url string, s *mcp.Server) {
	t.Helper()
	s = mcp.NewServer(&mcp.Implementation{Name: "rival", Version: "1"}, nil)
	for _, name := range names {
		addRival(s, name)
	}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(web.Close)
	return web.URL, s
}

func addRival(s *mcp.Server, name string) {
	mcp.AddTool(s, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "the server's"}}}, nil, nil
	})
}

// against returns a proxy with adapters in front of the server at url.
func against(t *testing.T, url, onClash string) testServer {
	t.Helper()
	_, change := withAdapters(t)
	cfg := config.Default()
	change(&cfg)
	cfg.Upstream.URL, cfg.Adapters.OnClash = url, onClash
	srv, err := proxy.New(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return testServer{srv, t, nil}
}

func (srv testServer) begun(version string) string {
	srv.t.Helper()
	session := srv.initialize(version)
	srv.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return session
}

// answer returns the response to a request, as a body or on a stream.
func (srv testServer) answer(session, message string) string {
	r := srv.post(session, message)
	if n := len(r.events); n > 0 {
		return r.events[n-1]
	}
	return r.body
}

func TestNameCollisionShadowHidesTheServersTool(t *testing.T) {
	url, _ := rival(t, "mcp_aql_read", "other")
	srv := against(t, url, config.ClashShadow)
	session := srv.begun("2025-06-18")
	if got := names(srv.answer(session, listTools)); got != "other mcp_aql_create mcp_aql_read mcp_aql_update mcp_aql_delete mcp_aql_execute" {
		t.Errorf("lists %s", got)
	}
	if got := text(srv.answer(session, callOurs(2, "mcp_aql_read", readItem))); !strings.Contains(got, "GET /items/7") {
		t.Errorf("got %s", got)
	}
}

func TestNameCollisionFailRefusesTheSession(t *testing.T) {
	url, _ := rival(t, "mcp_aql_read", "other")
	srv := against(t, url, config.ClashFail)
	for range 2 {
		r := srv.post("", initialize("2025-11-25", `{}`))
		if r.status != 502 || !strings.Contains(gjson.Get(r.body, "error.message").String(), "mcp_aql_read") {
			t.Errorf("got %+v", r)
		}
	}
	url, s := rival(t, "other")
	srv = against(t, url, config.ClashFail)
	session := srv.begun("2025-11-25")
	addRival(s, "mcp_aql_read")
	if got := srv.answer(session, listTools); !strings.Contains(gjson.Get(got, "error.message").String(), "mcp_aql_read") {
		t.Errorf("a tool that came later: %s", got)
	}
}

// TestNameCollisionIsFoundInTheNewSession: the names of the server's tools are read in the new session:
// no other process is started, and the server gets notifications/initialized once.
func TestNameCollisionIsFoundInTheNewSession(t *testing.T) {
	for _, modern := range []bool{false, true} {
		bothTransports(t, func(t *testing.T, piped bool) {
			f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
				if gjson.Get(m, "method").String() != "tools/list" {
					return nil, nil
				}
				return one(`{"jsonrpc":"2.0","id":` + gjson.Get(m, "id").Raw + `,"result":{"tools":[{"name":"mcp_aql_read","inputSchema":{"type":"object"}}]}}`)
			}))
			f.piped = piped
			_, change := withAdapters(t)
			srv := front(t, f, change, func(c *config.Config) { c.Adapters.OnClash = config.ClashFail })
			refusal := ""
			if modern {
				refusal = srv.modernly(modernRequestOf("1", "tools/list", meta("{}"))).body
			} else {
				refusal = srv.post("", initialize("2025-06-18", `{}`)).body
			}
			if !strings.Contains(gjson.Get(refusal, "error.message").String(), "mcp_aql_read") {
				t.Errorf("answered %s", refusal)
			}
			for method, want := range map[string]int{"initialize": 1, "notifications/initialized": 1} {
				if n := timesAsked(f, method); n != want {
					t.Errorf("%s %d times", method, n)
				}
			}
		})
	}
}
