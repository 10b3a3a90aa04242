//lint:file-ignore SA1019 roots and logging are deprecated in the newest revision and all that the older ones have.

package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// modernOnly is the revision of modern servers.
const modernOnly = "2026-07-28"

// modernSDKServer is the official Go SDK's server without sessions. The SDK answers initialize,
// whatever revisions are configured.
func modernSDKServer(revision string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, &sdk.ServerOptions{
		SupportedProtocolVersions: []string{revision},
		Instructions:              "read this",
		Capabilities:              &sdk.ServerCapabilities{Logging: &sdk.LoggingCapabilities{}},
	})
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method == "initialize" {
				return nil, &jsonrpc.Error{Code: mcp.CodeUnsupportedVersion, Message: "Unsupported protocol version", Data: json.RawMessage(`{"supported":["2026-07-28"]}`)}
			}
			return next(ctx, method, r)
		}
	})
	type none struct{}
	say := func(format string, args ...any) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}, nil, nil
	}
	add := func(name string, do func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, any, error)) {
		sdk.AddTool(s, &sdk.Tool{Name: name}, func(ctx context.Context, r *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
			return do(ctx, r)
		})
	}
	add("hello", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) { return say("hello") })
	add("ask", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		roots, ok := r.Params.InputResponses["where"].(*sdk.ListRootsResult)
		if !ok {
			return &sdk.CallToolResult{RequestState: "s", InputRequests: sdk.InputRequestMap{"where": &sdk.ListRootsParams{}}}, nil, nil
		}
		return say("%s %s", roots.Roots[0].URI, r.Params.RequestState)
	})
	add("elicit", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		said, ok := r.Params.InputResponses["who"].(*sdk.ElicitResult)
		if !ok {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{
				"who": &sdk.ElicitParams{Message: "?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)},
			}}, nil, nil
		}
		return say("%s %v", said.Action, said.Content["name"])
	})
	add("progress", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		for i := range 3 {
			err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3})
			if err != nil {
				return nil, nil, err
			}
		}
		return say("done")
	})
	return s
}

// TestSDKServerWithoutAHandshake serves clients of every handshake revision.
func TestSDKServerWithoutAHandshake(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, vc := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		for _, over := range []string{"http", "sse", "stdio"} {
			for _, server := range []string{"http", "stdio"} {
				t.Run(fmt.Sprintf("%s %s to %s", over, vc, server), func(t *testing.T) { talkModern(t, vc, over, server) })
			}
		}
	}
}

// beforeModernSDK returns the configuration of a proxy in front of the SDK's modern server, on
// stdio or on HTTP until the test ends.
func beforeModernSDK(t *testing.T, server string) config.Config {
	cfg := config.Default()
	cfg.Shutdown.Drain = patience
	if server == "stdio" {
		cfg.Upstream.Command = []string{os.Args[0]}
		cfg.Upstream.Env = map[string]string{serverRevision: modernOnly}
		return cfg
	}
	one := modernSDKServer(modernOnly)
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return one }, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	cfg.Upstream.URL = web.URL
	return cfg
}

func talkModern(t *testing.T, vc, over, server string) {
	leavesNothing(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cfg := beforeModernSDK(t, server)
	connected(ctx, t, cfg, vc, over, func(client *sdk.ClientSession, h *heard) {
		if is := client.InitializeResult(); is.ProtocolVersion != vc || is.ServerInfo.Name != "sdk" || is.Instructions != "read this" {
			t.Errorf("%+v", is)
		}
		want := func(tool, text string) {
			t.Helper()
			p := &sdk.CallToolParams{Name: tool}
			p.SetProgressToken("token")
			r, err := client.CallTool(ctx, p)
			if err != nil {
				t.Fatalf("%s: %v", tool, err)
			}
			if got := r.Content[0].(*sdk.TextContent).Text; got != text || r.IsError {
				t.Errorf("%s: %q, error %t", tool, got, r.IsError)
			}
		}
		want("hello", "hello")
		list, err := client.ListTools(ctx, nil)
		if err != nil || len(list.Tools) != 4 {
			t.Fatalf("%v %v", list, err)
		}
		want("ask", "file:///root s")
		if vc >= "2025-06-18" { // the server asks only these clients
			want("elicit", "accept ann")
		}
		want("progress", "done")
		eventually(t, "three steps of progress", func() bool { return h.count("progress") == 3 })
		if err := client.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: "info"}); err != nil {
			t.Error(err)
		}
		if err := client.Ping(ctx, nil); err != nil {
			t.Error(err)
		}
	})
}
