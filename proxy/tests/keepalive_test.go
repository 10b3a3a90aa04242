package tests

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// pingingServer is the official Go SDK's server with keep-alive: it ends the session if its client does not answer a ping. Its tool
// says how many calls there were, and how many pings were answered.
func pingingServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "pings", Version: "1"}, &mcp.ServerOptions{
		SupportedProtocolVersions: []string{"2025-11-25"}, KeepAlive: time.Second,
	})
	var calls, answered atomic.Int64
	s.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, r)
			if method == "ping" && err == nil {
				answered.Add(1)
			}
			return result, err
		}
	})
	type none struct{}
	mcp.AddTool(s, &mcp.Tool{Name: "count"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		text := fmt.Sprint(calls.Add(1), " ", answered.Load())
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	return s
}

// TestServersThatPingStayAlive: a client of 2026-07-28 has no stream on which it could be pinged, and one over HTTP need not open
// one. Behind dragoman the server lives on, with its state.
func TestServersThatPingStayAlive(t *testing.T) {
	for _, client := range []struct{ over, revision string }{{"http", "2025-11-25"}, {"http", modernOnly}, {"stdio", modernOnly}} {
		for _, server := range []string{"stdio", "sse", "http", "http with JSON"} {
			if client.revision != modernOnly && strings.HasPrefix(server, "http") {
				continue // without dragoman, it would not live either
			}
			inBubble(t, fmt.Sprintf("%s %s to %s", client.over, client.revision, server), func(t *testing.T) {
				stayAlive(t, client.over, client.revision, server)
			})
		}
	}
}

func stayAlive(t *testing.T, over, revision, server string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cfg := config.Default()
	cfg.Shutdown.Drain = patience
	one := pingingServer()
	t.Cleanup(func() { time.Sleep(time.Minute) }) // the SDK's pings end when one fails
	if server == "stdio" {
		behind(t, peertest.Endpoint{Wire: peertest.Accept(t, func(conn net.Conn) {
			_ = one.Run(ctx, &mcp.IOTransport{Reader: conn, Writer: conn})
		})}, &cfg)
	} else {
		the := func(*http.Request) *mcp.Server { return one }
		var handler http.Handler = mcp.NewStreamableHTTPHandler(the, &mcp.StreamableHTTPOptions{JSONResponse: server == "http with JSON"})
		if server == "sse" {
			handler = mcp.NewSSEHandler(the, nil)
		}
		cfg.Upstream.URL = peertest.Web(t, handler).URL
	}
	srv := newOf(t, cfg, zap.NewNop())
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var transport mcp.Transport
	if over == "stdio" {
		transport = overPipe(serving, srv, ended)
	} else {
		ln := peertest.Listen(t)
		transport = &mcp.StreamableClientTransport{Endpoint: "http://" + ln.Addr().String() + "/mcp", HTTPClient: peertest.WebClient(t), DisableStandaloneSSE: true}
		go func() { ended <- srv.Serve(serving, ln) }()
	}
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	}()
	client, err := mcp.NewClient(&mcp.Implementation{Name: "plain", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}).
		Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	calls := 0
	eventually(t, "three pings are answered", func() bool {
		time.Sleep(100 * time.Millisecond) // else a call would be in flight most of the time, on whose stream a ping may come
		r, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "count"})
		if err != nil || r.IsError {
			t.Fatalf("call %d: %v, %v", calls+1, r, err)
		}
		n, pings := 0, 0
		if _, err := fmt.Sscan(r.Content[0].(*mcp.TextContent).Text, &n, &pings); err != nil {
			t.Fatal(err)
		}
		if calls++; n != calls {
			t.Fatalf("the server has lost its state: it counts %d calls of %d", n, calls)
		}
		return pings >= 3
	})
}
