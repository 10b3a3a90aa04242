package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// TestConfirmationsAreAskedAfterAModernClient: a published server of both eras asks the user of each client with a handshake before
// its tool goes on, also after a client of 2026-07-28, which it cannot ask.
func TestConfirmationsAreAskedAfterAModernClient(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m := nodePeers(t)
	proxy := build(t)
	main := filepath.Join("peers", "confirms.mjs")
	config := func(over transport) string {
		b, err := json.Marshal(map[string]any{"modules": string(m), "transport": over})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, up := range []transport{stdio, streamable} {
		for _, down := range []transport{streamable, withSSE} {
			t.Run(fmt.Sprintf("%s to %s", down, up), func(t *testing.T) {
				to := endpoint{over: up, stderr: new(output)}
				if up == stdio {
					to.command = []string{"node", main, config(up), markOf(t.Name())}
				} else {
					url, stop, err := onLoopback("confirms", main, config(up))
					if err != nil {
						t.Fatal(err)
					}
					defer stop()
					to.url = url + "/mcp"
				}
				err := proxy.serve(t.Context(), down, to, nil, func(at endpoint) error {
					asked := 0
					drop := func(revision string, over transport) (string, error) {
						client := mcp.NewClient(&mcp.Implementation{Name: "dragoman-e2e", Version: "1.0.0"}, &mcp.ClientOptions{
							ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
								asked++
								return &mcp.ElicitResult{Action: "decline"}, nil
							},
						})
						var way mcp.Transport = &mcp.SSEClientTransport{Endpoint: at.url}
						if over == streamable {
							way = &mcp.StreamableClientTransport{Endpoint: strings.TrimSuffix(strings.TrimSuffix(at.url, "/sse"), "/mcp") + "/mcp"}
						}
						s, err := client.Connect(t.Context(), way, &mcp.ClientSessionOptions{ProtocolVersion: revision})
						if err != nil {
							return "", fmt.Errorf("client of %s: %w", revision, err)
						}
						defer s.Close()
						r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "drop"})
						if err != nil {
							return "", fmt.Errorf("client of %s: %w", revision, err)
						}
						return textOf(t, r.Content[0]), nil
					}
					said, err := drop(newest, streamable)
					if err != nil {
						return err
					}
					if said != "no user was asked" || asked != 0 { // as without dragoman
						return fmt.Errorf("the client of %s: %s, asked %d times", newest, said, asked)
					}
					for n, revision := range []string{"2025-06-18", "2025-11-25", "2025-06-18"} {
						said, err := drop(revision, down)
						if err != nil {
							return err
						}
						if said != "the user says decline" || asked != n+1 {
							return fmt.Errorf("client %d, of %s: %s, asked %d times", n, revision, said, asked)
						}
					}
					return nil
				})
				if err != nil {
					t.Errorf("%v\n%s", err, tail(to.stderr.String()))
				}
			})
		}
	}
}
