package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// TestInspectorReadsAdapters runs the command line of the published Inspector against dragoman with an adapter, as users
// do to see what a server offers.
func TestInspectorReadsAdapters(t *testing.T) {
	testset.Need(t, testset.Peers)
	base := jsonServer(t)
	m, err := installAPI()
	if err != nil {
		t.Fatal(err)
	}
	up := endpoint{stderr: new(output)}
	err = build(t).serve(t.Context(), streamable, up, []string{"--adapters", adapterFor(t, base)}, func(to endpoint) error {
		inspect := func(exit int, args ...string) []byte {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cli := exec.CommandContext(ctx, "node", append([]string{filepath.Join(string(m), "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"), "--cli", to.url, "--transport", "http"}, args...)...)
			var stderr bytes.Buffer
			cli.Stderr = &stderr
			cli.Env = append(os.Environ(), "HOME="+t.TempDir()) // where it stores its list of servers
			out, err := cli.Output()
			if cli.ProcessState == nil || cli.ProcessState.ExitCode() != exit {
				t.Fatalf("%v: %v\n%s\n%s", args, err, out, &stderr)
			}
			return out
		}
		var list struct{ Tools []struct{ Name string } }
		if err := json.Unmarshal(inspect(0, "--method", "tools/list", "--strict"), &list); err != nil {
			return err
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		if !slices.Equal(names, crudeTools) {
			t.Errorf("tools %v", names)
		}
		for _, c := range []struct {
			tool, operation, params, want string
			failed                        bool // by the Inspector's exit code
		}{
			{"mcp_aql_read", "get_post", `{"id":"1"}`, `{"success":true,"data":{"id":1,"title":"one","author":"ada"}}`, false},
			{"mcp_aql_read", "get_icon", `{}`, `{"success":false,"error":{"code":"SERIALIZATION_PARSE_ERROR",…}}`, true},
		} {
			var r struct {
				Content []struct{ Text string }
				IsError bool
			}
			exit := 0
			if c.failed {
				exit = 5
			}
			out := inspect(exit, "--method", "tools/call", "--tool-name", c.tool, "--tool-arg", "operation="+c.operation, "--tool-arg", "params="+c.params)
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			if len(r.Content) != 1 || !matches(withoutBlanks(t, r.Content[0].Text), c.want) || r.IsError != c.failed {
				t.Errorf("%s: %s", c.operation, out)
			}
		}
		return nil
	})
	if err != nil || len(errorLines(up.stderr.String())) > 0 {
		t.Errorf("%v\n%s", err, up.stderr)
	}
}

// TestDiscreteToolsBesideEverything: beside the published server-everything, whose instructions are long, what every client shows says how to use the
// tools of adapters, and a tool for one operation says that it failed as MCP has it.
func TestDiscreteToolsBesideEverything(t *testing.T) {
	testset.Need(t, testset.Peers)
	base := jsonServer(t)
	m := nodePeers(t)
	file := filepath.Join(t.TempDir(), "discrete.yaml")
	text := "adapters: {mode: discrete, sources: ['" + filepath.ToSlash(adapterFor(t, base)) + "'], instructions_text: Write titles in French.}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	url, stop, err := m.serveEverything("2026.8.31", streamable)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	up := endpoint{stderr: new(output)}
	err = build(t).serve(t.Context(), streamable, up, []string{"--config", file, url}, func(to endpoint) error {
		client := mcp.NewClient(&mcp.Implementation{Name: "discrete", Version: "1"}, nil)
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: to.url}, nil)
		if err != nil {
			return err
		}
		defer session.Close()
		words := session.InitializeResult().Instructions
		for _, word := range []string{"Schema first", "connection_id", "typed", "page with first and after", "narrow with fields"} {
			if !strings.Contains(words[:min(len(words), 512)], word) {
				t.Errorf("no %q at the beginning of %q", word, words)
			}
		}
		if len(words) < 2000 || !strings.Contains(words, "Write titles in French.") {
			t.Errorf("the server's instructions or the operator's are not in %q", words)
		}
		for id, failed := range map[string]bool{"1": false, "99": true} {
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_post", Arguments: map[string]any{"id": id}})
			if err != nil {
				return err
			}
			said := textOf(t, r.Content[0])
			if r.IsError != failed || strings.Contains(said, "NOT_FOUND_RESOURCE") != failed {
				t.Errorf("post %s: isError %v: %s", id, r.IsError, said)
			}
		}
		return nil
	})
	if err != nil || len(errorLines(up.stderr.String())) > 0 {
		t.Errorf("%v\n%s", err, up.stderr)
	}
}
