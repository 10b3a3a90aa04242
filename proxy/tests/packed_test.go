package tests

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestSDKServersThatCompress: a published server behind something that compresses everything, whatever was asked for, works over
// each transport as it does without.
func TestSDKServersThatCompress(t *testing.T) {
	for _, p := range peertest.Packings {
		for transport, handler := range map[string]func(of func(*http.Request) *mcp.Server) http.Handler{
			"http": func(of func(*http.Request) *mcp.Server) http.Handler { return mcp.NewStreamableHTTPHandler(of, nil) },
			"sse":  func(of func(*http.Request) *mcp.Server) http.Handler { return mcp.NewSSEHandler(of, nil) },
		} {
			for _, over := range []string{"http", "stdio"} {
				t.Run(p.Name+" over "+transport+" for a client over "+over, func(t *testing.T) {
					leavesNothing(t)
					ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
					defer cancel()
					one := sdkServer("2025-06-18")
					web := httptest.NewServer(p.Packed(handler(func(*http.Request) *mcp.Server { return one })))
					defer web.Close()
					defer web.CloseClientConnections()
					cfg := config.Default()
					cfg.Shutdown.Drain = patience
					cfg.Upstream.URL = web.URL
					connected(ctx, t, cfg, "2025-11-25", over, func(client *mcp.ClientSession, h *heard) { converse(ctx, t, client, h, "2025-11-25") })
				})
			}
		}
	}
}

// TestModernSDKServersThatCompress: so do servers without a handshake, for clients of both eras, and those whose answers are JSON.
func TestModernSDKServersThatCompress(t *testing.T) {
	for _, p := range peertest.Packings {
		for _, asJSON := range []bool{false, true} {
			t.Run(p.Name, func(t *testing.T) {
				leavesNothing(t)
				one := modernSDKServer(modernOnly)
				web := httptest.NewServer(p.Packed(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return one }, &mcp.StreamableHTTPOptions{JSONResponse: asJSON, Stateless: true})))
				defer web.Close()
				defer web.CloseClientConnections()
				cfg := config.Default()
				cfg.Upstream.URL = web.URL
				ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
				defer cancel()
				for _, vc := range []string{"2025-11-25", "2026-07-28"} {
					connected(ctx, t, cfg, vc, "http", func(client *mcp.ClientSession, _ *heard) {
						list, err := client.ListTools(ctx, nil)
						if err != nil || len(list.Tools) == 0 {
							t.Fatalf("%s: %v", vc, err)
						}
						r, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "hello"})
						if err != nil || r.IsError {
							t.Errorf("%s: %+v, %v", vc, r, err)
						}
					})
				}
			})
		}
	}
}
