package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// failingServer is a server whose tools fail in ways that the protocol does not allow. It also
// refuses the standing stream.
func failingServer(t *testing.T) endpoint {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ ProtocolVersion, Name string }
		}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodDelete:
		case r.Method == http.MethodGet, m.Params.Name == "broken":
			w.WriteHeader(http.StatusInternalServerError)
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "theirs")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, m.ID, m.Params.ProtocolVersion)
		case m.Method == "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"good","inputSchema":{"type":"object"}}]}}`, m.ID)
		case m.Params.Name == "unanswered":
			w.Header().Set("Content-Type", "text/event-stream")
		case m.Params.Name == "good":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"good"}]}}`, m.ID)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
		}
	}))
	t.Cleanup(s.Close)
	return endpoint{over: streamable, url: s.URL, stderr: &output{}}
}

// TestPublishedClientsSurviveServerFailures checks that a failure of the server during a call is an error of
// that call only, and that the client can go on.
func TestPublishedClientsSurviveServerFailures(t *testing.T) {
	testset.Need(t, testset.Peers)
	proxy := build(t)
	clients := map[string]func(url string) []string{}
	old := filepath.Join(t.TempDir(), "gosdk")
	compile := exec.Command("go", "build", "-o", old, ".")
	compile.Dir = filepath.Join("testdata", "gosdk-1.1.0")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Logf("without the Go SDK 1.1.0, which cannot be built here: %v\n%s", err, out)
	} else {
		clients["Go SDK 1.1.0"] = func(url string) []string { return []string{old, url} }
	}
	if m, err := installPeers(); err != nil {
		t.Logf("without TypeScript clients: %v", err)
	} else {
		for _, sdk := range []string{"1.12.3", "1.22.0", "1.32.2"} {
			clients["TypeScript SDK "+sdk] = func(url string) []string {
				return []string{"node", filepath.Join("peers", "caller.mjs"), fmt.Sprintf(`{"sdk":%q,"transport":"http","url":%q}`, filepath.Join(string(m), "sdk-"+sdk), url)}
			}
		}
	}
	for name, command := range clients {
		t.Run(name, func(t *testing.T) {
			to := failingServer(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err := proxy.serve(ctx, streamable, to, nil, func(far endpoint) error {
				calls := []struct{ tool, said string }{
					{"good", `"text":"good"`}, {"unanswered", "upstream closed the stream without answering"}, {"good", `"text":"good"`},
					{"broken", "upstream answered 500"}, {"good", `"text":"good"`},
				}
				args := command(far.url)
				client := exec.CommandContext(ctx, args[0], args[1:]...)
				client.Stderr = to.stderr
				in := "" // the client's answers come in the order of its calls
				for _, c := range calls {
					in += fmt.Sprintf(`{"name":%q,"arguments":{}}`+"\n", c.tool)
				}
				client.Stdin = strings.NewReader(in)
				out, err := client.Output()
				lines := bufio.NewScanner(strings.NewReader(string(out)))
				lines.Scan() // the names of the tools
				for _, c := range calls {
					if lines.Scan(); !strings.Contains(lines.Text(), c.said) {
						t.Errorf("%s: %q, want %q", c.tool, lines.Text(), c.said)
					}
				}
				return err
			})
			if err != nil {
				t.Errorf("%v\n%s", err, to.stderr)
			}
		})
	}
}
