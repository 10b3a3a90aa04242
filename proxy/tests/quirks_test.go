package tests

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// quirkPeers has a peer with each quirk, and a check of the proxy's behaviour. Each returns the
// proxy that has handled the quirk, or nil if the proxy does not count it.
var quirkPeers = map[report.Quirk]func(t *testing.T) *proxy.Server{
	report.LegacyList: func(t *testing.T) *proxy.Server {
		srv := beforeSDK(t, sdkServer("2025-06-18"), false)
		goodModernList(t, srv)
		return srv.Server
	},
	report.ExitsEarly:  func(t *testing.T) *proxy.Server { return beforeEarlyQuestions(t, "exits when asked early").Server },
	report.SilentEarly: func(t *testing.T) *proxy.Server { return beforeEarlyQuestions(t, "is silent when asked early").Server },
	report.IdleHandshake: func(t *testing.T) *proxy.Server {
		s := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: []string{modernOnly}})
		helloTool(s)
		srv := beforeSDK(t, s, true)
		for _, vc := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
			session := srv.initialize(vc)
			if r := srv.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.status != 202 {
				t.Errorf("%s: %+v", vc, r)
			}
			r := srv.post(session, `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"hello","arguments":{}}}`)
			if gjson.Get(r.body, "result.content.0.text").String() != "hello" {
				t.Errorf("%s: %+v", vc, r)
			}
		}
		return srv.Server
	},
	report.NoStanding: func(t *testing.T) *proxy.Server {
		f := legacyServer(`{"tools":{"listChanged":true}}`, nil)
		f.NoGet = true
		srv := front(t, f)
		if r := srv.exchange(t.Context(), "GET", srv.initialize("2025-06-18"), ""); r.status != 405 {
			t.Errorf("%+v", r)
		}
		r := srv.modernly(modernRequestOf("7", "subscriptions/listen", meta(`{}`, `"a":1`)+`,"notifications":{"toolsListChanged":true}`))
		if len(r.events) != 2 || gjson.Get(r.events[0], "params.notifications").Raw != "{}" || gjson.Get(r.events[1], "result.resultType").String() != "complete" {
			t.Errorf("%+v", r)
		}
		return srv.Server
	},
	report.OtherRevision: func(t *testing.T) *proxy.Server {
		srv := front(t, newFake(initializing("2024-11-05", nil)))
		for _, vc := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
			if r := srv.post("", initialize(vc, `{}`)); gjson.Get(r.body, "result.protocolVersion").String() != vc {
				t.Errorf("%s: %+v", vc, r)
			}
		}
		return srv.Server
	},
	report.RawName: func(t *testing.T) *proxy.Server {
		srv := front(t, legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) { return one(result(id, `"content":[]`)) }))
		call := modernRequestOf("7", "tools/call", meta(`{}`)+`,"name":"größe","arguments":{}`)
		for value, status := range map[string]int{"größe": 200, "gr\xf6\xdfe": 200, mcpheader.Encode("größe"): 200, "grösse": 400, "gr\xf6\xdfer": 400, "=?base64?!?=": 400} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			r := srv.exchange(ctx, "POST", "", call, "MCP-Protocol-Version", modernOnly, "Mcp-Method", "tools/call", "Mcp-Name", value)
			cancel()
			if r.status != status {
				t.Errorf("%q: %+v", value, r)
			}
		}
		return srv.Server
	},
	report.RawNameWanted: func(t *testing.T) *proxy.Server {
		s := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, nil)
		s.AddPrompt(&sdk.Prompt{Name: "größe"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Description: "found"}, nil
		})
		srv := beforeSDK(t, s, true, func(cfg *config.Config) { cfg.Upstream.Version = modernOnly })
		session := srv.initialize("2025-06-18")
		for range 2 {
			r := srv.post(session, `{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"größe"}}`)
			if gjson.Get(r.body, "result.description").String() != "found" {
				t.Errorf("%+v", r)
			}
		}
		return srv.Server
	},
	mcp.TextID: func(t *testing.T) *proxy.Server {
		return introducedOddly(t, `{"jsonrpc":"2.0","id":"%s","result":{%s}}`)
	},
	mcp.NullMember: func(t *testing.T) *proxy.Server {
		return introducedOddly(t, `{"jsonrpc":"2.0","id":%s,"error":null,"result":{%s}}`)
	},
	mcp.ByteOrderMark: func(t *testing.T) *proxy.Server {
		return introducedOddly(t, "\xef\xbb\xbf"+`{"jsonrpc":"2.0","id":%s,"result":{%s}}`)
	},
	mcp.LostAs200: func(t *testing.T) *proxy.Server {
		f := newForgetful(t, peertest.HTTP, 200, towerLost)
		srv := severalOf(t, f, 1)[0]
		session := settled(t, srv)
		f.Crash()
		sameJSON(t, srv.post(session, echoCall).body, echoAnswer)
		return srv.Server
	},
	report.BareQuestion: func(t *testing.T) *proxy.Server {
		f := legacyServer(`{"tools":{}}`, func(id, _, m string) ([]string, error) {
			if !strings.Contains(m, "tools/call") {
				return nil, nil
			}
			return one(`{"jsonrpc":"2.0","id":"s1","method":"roots/list"}`, hang)
		})
		srv := front(t, f)
		r := srv.modernly(modernRequestOf("7", "tools/call", meta(`{"roots":{}}`)+`,"name":"t","arguments":{}`))
		var questions sdk.InputRequestMap // as the SDK decodes them
		if err := questions.UnmarshalJSON([]byte(gjson.Get(r.body, "result.inputRequests").Raw)); err != nil || len(questions) != 1 {
			t.Errorf("%v in %+v", err, r)
		}
		return nil
	},
}

// TestQuirks checks all known quirks.
func TestQuirks(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	seen := map[report.Quirk]bool{}
	for _, q := range report.Quirks {
		t.Run(string(q.Quirk), func(t *testing.T) {
			if seen[q.Quirk] || q.Peer == "" || q.Versions == "" || q.Does == "" || q.Response == "" {
				t.Fatalf("it stands there twice, or not in full: %+v", q)
			}
			seen[q.Quirk] = true
			peer := quirkPeers[q.Quirk]
			if peer == nil {
				t.Fatal("there is no peer with it")
			}
			if srv := peer(t); srv != nil && counted(t, srv.Metrics, "dragoman_quirks_total", "quirk="+string(q.Quirk)) == 0 {
				t.Error("it was not met")
			}
		})
	}
	for q := range quirkPeers {
		if !seen[q] {
			t.Errorf("a peer with %s, which is not among the quirks", q)
		}
	}
}

// introducedOddly returns a proxy before a server that answers all requests, initialize too, in this form. Its clients get the
// answers as they should be.
func introducedOddly(t *testing.T, form string) *proxy.Server {
	var srv testServer
	for _, piped := range []bool{false, true} {
		f := newFake(func(u *peertest.Turn) {
			members := `"tools":[]`
			if u.Method == "initialize" {
				members = `"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}`
			}
			if u.ID != "" {
				u.Say(fmt.Sprintf(form, u.ID, members))
			}
		})
		f.piped = piped
		srv = front(t, f)
		c := srv.pipe()
		for id, method := range []string{"initialize", "tools/list"} {
			c.say(strings.Replace(strings.Replace(introduction, `"id":0`, fmt.Sprintf(`"id":%d`, id), 1), "initialize", method, 1))
			m := gjson.Parse(c.hear())
			if m.Get("id").Raw != fmt.Sprint(id) || !m.Get("result").IsObject() || m.Get("error").Exists() {
				t.Errorf("the client on stdio got %s", m.Raw)
			}
		}
		s := srv.initialize("2025-06-18")
		if r := srv.post(s, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); gjson.Get(lastOf(r), "id").Raw != "3" || gjson.Get(lastOf(r), "error").Exists() {
			t.Errorf("the client over HTTP got %+v", r)
		}
		if r := srv.modernly(modernRequestOf("4", "tools/list", meta(`{}`))); gjson.Get(lastOf(r), "id").Raw != "4" || !gjson.Get(lastOf(r), "result.tools").Exists() {
			t.Errorf("the client of 2026-07-28 got %+v", r)
		}
	}
	return srv.Server
}

func helloTool(s *sdk.Server) {
	type none struct{}
	sdk.AddTool(s, &sdk.Tool{Name: "hello"}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "hello"}}}, nil, nil
	})
}

// beforeSDK returns a proxy in front of a published server over HTTP.
func beforeSDK(t *testing.T, s *sdk.Server, stateless bool, change ...func(*config.Config)) testServer {
	t.Helper()
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	cfg := config.Default()
	cfg.Upstream.URL = web.URL
	for _, c := range change {
		c(&cfg)
	}
	o, err := origin.Of(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	srv, err := proxy.NewWith(cfg, zap.NewNop(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	return testServer{srv, t, nil}
}

// beforeEarlyQuestions returns a proxy in front of a process that accepts no request before
// initialize.
func beforeEarlyQuestions(t *testing.T, how string) testServer {
	t.Helper()
	cfg := config.Default()
	cfg.Upstream.Command, cfg.Upstream.Env = []string{os.Args[0]}, map[string]string{badChild: how}
	cfg.Upstream.HandshakeTimeout, cfg.Upstream.ConnectTimeout = patience, patience
	srv, err := proxy.New(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	if how == "is silent when asked early" {
		srv.Eras.Silence = 200 * time.Millisecond
	}
	for range 2 {
		goodModernList(t, testServer{srv, t, nil})
	}
	return testServer{srv, t, nil}
}

func goodModernList(t *testing.T, srv testServer) {
	t.Helper()
	r := srv.modernly(modernRequestOf("7", "tools/list", meta(`{}`)))
	if !gjson.Get(r.body, "result.tools").IsArray() {
		t.Errorf("%+v", r)
	}
}
