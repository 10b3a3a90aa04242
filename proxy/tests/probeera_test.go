package tests

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestProbeOfEitherEra probes published servers over each transport.
func TestProbeOfEitherEra(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	over := func(transport string, s *mcp.Server, stateless bool) func(t *testing.T, cfg *config.Config) {
		return func(t *testing.T, cfg *config.Config) {
			one := func(*http.Request) *mcp.Server { return s }
			var h http.Handler = mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{Stateless: stateless})
			if transport == "sse" {
				h = mcp.NewSSEHandler(one, nil)
			}
			web := httptest.NewServer(h)
			t.Cleanup(web.Close)
			t.Cleanup(web.CloseClientConnections)
			cfg.Upstream.URL = web.URL
		}
	}
	child := func(revision string) func(t *testing.T, cfg *config.Config) {
		return func(_ *testing.T, cfg *config.Config) {
			cfg.Upstream.Command, cfg.Upstream.Env = []string{os.Args[0]}, map[string]string{serverRevision: revision}
		}
	}
	every := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Logging: &mcp.LoggingCapabilities{}}})
	type none struct{}
	mcp.AddTool(every, &mcp.Tool{Name: "hello", Title: "T"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
	for _, c := range []struct {
		name                               string
		serve                              func(t *testing.T, cfg *config.Config)
		era, revision, handshake, over     string
		modern, newest, oldest, lostModern string // the ways of clients, and what modern clients lack
	}{
		{"modern, http", over("http", modernSDKServer(modernOnly), true), "modern", modernOnly, "", "http", "same", "bridged", "bridged", ""},
		{"modern, stdio", child(modernOnly), "modern", modernOnly, "", "stdio", "same", "bridged", "bridged", ""},
		{"both, http", over("http", every, true), "both", modernOnly, "2025-11-25", "http", "same", "same", "translated", "a request of its own"},
		{"session mode, http", over("http", every, false), "legacy", "2025-11-25", "2025-11-25", "http", "bridged", "same", "translated", "the stream of an answer breaks"},
		{"2025-06-18, http", over("http", sdkServer("2025-06-18"), false), "legacy", "2025-06-18", "2025-06-18", "http", "bridged", "translated", "translated", "the stream of an answer breaks"},
		{"2025-03-26, stdio", child("2025-03-26"), "legacy", "2025-03-26", "2025-03-26", "stdio", "bridged", "translated", "translated", "log messages while"},
		{"2024-11-05, sse", over("sse", sdkServer("2024-11-05"), false), "legacy", "2024-11-05", "2024-11-05", "sse", "bridged", "translated", "same", "outside of a call"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config.Default()
			c.serve(t, &cfg)
			r, err := proxy.Probe(t.Context(), cfg, probe.AllCapabilities(), zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			if r.Era != c.era || r.Revision != c.revision || r.Handshake != c.handshake || r.Transport != c.over || !strings.HasPrefix(r.Server, "sdk") {
				t.Errorf("%+v", r)
			}
			if len(r.Clients) != 5 || r.Lists[0].Count == 0 || !r.Works() {
				t.Fatalf("%+v", r)
			}
			modern, newest, oldest := r.Clients[0], r.Clients[1], r.Clients[4]
			if modern.Way != c.modern || newest.Way != c.newest || oldest.Way != c.oldest {
				t.Errorf("ways %s, %s and %s", modern.Way, newest.Way, oldest.Way)
			}
			lost := slices.Concat(modern.Lost, modern.PossiblyLost)
			if (len(lost) > 0) != (c.lostModern != "") || c.lostModern != "" && !slices.ContainsFunc(lost, func(l string) bool { return strings.Contains(l, c.lostModern) }) {
				t.Errorf("clients of %s lose %q", modern.Revision, lost)
			}
			if !slices.Contains(oldest.Features, "tools") || !slices.Contains(oldest.Features, "logging") {
				t.Errorf("clients of %s are offered %q", oldest.Revision, oldest.Features)
			}
		})
	}
}

// TestProbeReportsToolsThatCannotBeCalled: the report names tools that clients without headers
// cannot call.
func TestProbeReportsToolsThatCannotBeCalled(t *testing.T) {
	cfg := config.Default()
	cfg.Upstream.URL = lister(t, map[string]string{
		"server/discover": `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":0,"cacheScope":"private"}`,
		"tools/list":      `"result":{"resultType":"complete","tools":[{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"array","x-mcp-header":"A"}}}},{"name":"good","inputSchema":{"type":"object"}}]}`,
	})
	r, err := proxy.Probe(t.Context(), cfg, probe.AllCapabilities(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Clients[0]; !c.Works || c.Way != "same" {
		t.Errorf("%+v", c)
	}
	for _, c := range r.Clients[1:] {
		if c.Works || len(c.Missing) != 1 || !strings.HasPrefix(c.Missing[0], "tools: bad: ") || !slices.Contains(c.Features, "tools") {
			t.Errorf("%+v", c)
		}
	}
}
