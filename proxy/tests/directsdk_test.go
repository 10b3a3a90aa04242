//lint:file-ignore SA1019 roots and logging are deprecated in the newest revision, and still there.

package tests

import (
	"context"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestSDKWithoutAHandshakeOnBothSides: modern clients and servers of the official Go SDK over all
// four pairs of transports.
func TestSDKWithoutAHandshakeOnBothSides(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, over := range []string{"http", "stdio"} {
		for _, server := range []string{"http", "stdio"} {
			t.Run(fmt.Sprintf("%s to %s", over, server), func(t *testing.T) {
				leavesNothing(t)
				talkDirectly(t, over, server)
			})
		}
	}
}

func talkDirectly(t *testing.T, over, server string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cfg := beforeModernSDK(t, server)
	connected(ctx, t, cfg, modernOnly, over, func(client *mcp.ClientSession, h *heard) {
		if is := client.InitializeResult(); is.ProtocolVersion != modernOnly || is.ServerInfo.Name != "sdk" || is.Instructions != "read this" {
			t.Errorf("%+v", is)
		}
		list, err := client.ListTools(ctx, nil)
		if err != nil || len(list.Tools) != 4 {
			t.Fatalf("%v %v", list, err)
		}
		for tool, text := range map[string]string{"hello": "hello", "ask": "file:///root s", "elicit": "accept ann", "progress": "done"} {
			p := &mcp.CallToolParams{Name: tool}
			p.SetProgressToken("token")
			r, err := client.CallTool(ctx, p)
			if err != nil {
				t.Fatalf("%s: %v", tool, err)
			}
			if got := r.Content[0].(*mcp.TextContent).Text; got != text || r.IsError {
				t.Errorf("%s: %q, error %t", tool, got, r.IsError)
			}
		}
		eventually(t, "three steps of progress", func() bool { return h.count("progress") == 3 })
		if _, err := client.GetPrompt(ctx, &mcp.GetPromptParams{Name: "none"}); err == nil {
			t.Error("a prompt that there is none of")
		}
		if r, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "hello"}); err != nil || r.IsError {
			t.Errorf("behind an error: %v %v", r, err)
		}
	})
}
