package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/peertest/testset"
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
