package tests

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestSDKPeersShareAProcessThatCrashes: clients of two transports and revisions share a process,
// which one of them crashes. Both continue.
func TestSDKPeersShareAProcessThatCrashes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	leavesNothing(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cfg := config.Default()
	cfg.Upstream.Command, cfg.Upstream.ShareChild = []string{os.Args[0]}, true
	cfg.Upstream.Env = map[string]string{serverRevision: "2025-11-25"}
	quickly(&cfg)
	srv := newOf(t, cfg, zap.NewNop())
	base, stop := startServing(t, srv)
	defer stop()
	web := &http.Client{Transport: new(http.Transport)}
	defer web.CloseIdleConnections()
	var clients []*mcp.ClientSession
	var ears []*heard
	for vc, transport := range map[string]mcp.Transport{
		"2025-06-18": &mcp.StreamableClientTransport{Endpoint: base + "/mcp", HTTPClient: web},
		"2024-11-05": &mcp.SSEClientTransport{Endpoint: base + "/sse", HTTPClient: web},
	} {
		h := &heard{seen: map[string]int{}, told: make(chan struct{}, 1)}
		c, err := sdkClient(h).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: vc})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients, ears = append(clients, c), append(ears, h)
	}
	call := func(i int, tool string) (string, bool, error) {
		p := &mcp.CallToolParams{Name: tool}
		p.SetProgressToken("the same")
		r, err := clients[i].CallTool(ctx, p)
		if err != nil {
			return "", false, err
		}
		return r.Content[0].(*mcp.TextContent).Text, r.IsError, nil
	}
	for i := range clients {
		if got, _, err := call(i, "progress"); got != "done" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		eventually(t, "three steps of progress", func() bool { return ears[i].count("progress") == 3 })
		if _, isError, err := call(i, "sample"); err != nil || !isError {
			t.Errorf("a shared server asked a client: %v", err)
		}
	}
	if ears[0].count("progress") != 3 {
		t.Error("progress of another's call was heard")
	}
	for round := range 2 {
		if _, _, err := call(round, "crash"); err == nil || !strings.Contains(err.Error(), "being restarted") && !strings.Contains(err.Error(), "Bad Gateway") {
			t.Errorf("crash: %v", err)
		}
		for i := range clients {
			if got, _, err := call(i, "hello"); got != "hello" || err != nil {
				t.Errorf("client %d after crash %d: %q, %v", i, round, got, err)
			}
		}
	}
	if got, _, err := call(0, "grow"); got != "done" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for i := range clients {
		eventually(t, "tools/list_changed", func() bool { return ears[i].count("list_changed") > 0 })
	}
}
