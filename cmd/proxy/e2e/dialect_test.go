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
	"sync"
	"testing"
)

var installDialect = sync.OnceValues(func() (modules, error) { return installModules("dialect") })

// TestDraft07ToolsCanBeCalled checks that clients of the 2.x line can call tools with schemas of draft-07, which servers
// on 1.x write. The betas of that line refuse such calls unless the proxy rewrites the schema to 2020-12.
func TestDraft07ToolsCanBeCalled(t *testing.T) {
	nodePeers(t) // skips the test with the reason if they cannot run
	m, err := installDialect()
	if err != nil {
		t.Fatal(err)
	}
	bin := string(build(t))
	server := []string{"node", filepath.Join(string(m), "@modelcontextprotocol", "server-filesystem", "dist", "index.js"), t.TempDir()}
	for name, c := range map[string]struct {
		command []string
		env     string
		refused bool
	}{
		"without dragoman": {server, "", true},
		"with dragoman":    {append([]string{bin, "stdio", "--"}, server...), "", false},
		"switched off":     {append([]string{bin, "stdio", "--"}, server...), "DRAGOMAN_CONTRACT_SCHEMA_DIALECT=off", true},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "node", append([]string{filepath.Join("dialect", "call.mjs"), string(m)}, c.command...)...)
		var log bytes.Buffer
		cmd.Env, cmd.Stderr = append(os.Environ(), c.env), &log
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, log.String())
		}
		var said struct {
			Schemas []string
			Error   string
			Result  struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal(out, &said); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		old := slices.ContainsFunc(said.Schemas, func(s string) bool { return strings.Contains(s, "draft-07") })
		if old != c.refused || len(said.Schemas) < 5 {
			t.Errorf("%s: the schemas say %q", name, said.Schemas)
		}
		if refused := strings.Contains(said.Error, "draft-07"); refused != c.refused || refused == (len(said.Result.Content) > 0) {
			t.Errorf("%s: the call came to %+v", name, said)
		}
	}
}
