package command

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestServerOfAClientsConfiguration: stdio is in front of the server that --server names, and reads the client's file again.
func TestServerOfAClientsConfiguration(t *testing.T) {
	t.Parallel()
	server := newKeeper(t)
	dir := t.TempDir()
	file, ca := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "ca.pem")
	write(t, ca, text(server.Certificate()))
	configure := func(secret string) {
		t.Helper()
		replace(t, file, fmt.Sprintf("{\n  // two servers\n  \"mcpServers\": {\n    \"a\": {\"command\": \"/none\"},\n"+
			"    \"b\": {\"type\": \"http\", \"url\": %q, \"headers\": {\"Authorization\": \"Bearer %s\"}, \"autoApprove\": []},\n  },\n}", server.URL, secret))
	}
	configure("c4n4ry-1")
	p := startProcess(t, environ("DRAGOMAN_UPSTREAM_CA_FILE="+ca), "stdio", "--config", file, "--server", "b")
	sends := func(secret string) bool {
		t.Helper()
		if got := p.asks(t, "tools/list"); !got.Get("result").Exists() {
			t.Fatal(got.Raw)
		}
		return server.authorization.Load() == "Bearer "+secret
	}
	if got := p.asks(t, "initialize"); !got.Get("result").Exists() || !sends("c4n4ry-1") {
		t.Fatalf("%s, with %s", got.Raw, server.authorization.Load())
	}
	if said := p.says(t, "not used: autoApprove").Get("setting").Str; said != file+": mcpServers.b" {
		t.Errorf("at %s", said)
	}
	configure("c4n4ry-2")
	peertest.Eventually(t, "the new secret is sent", func() bool { return sends("c4n4ry-2") })
	replace(t, file, `{"mcpServers": {"a": {"command": "/none"}}}`)
	p.says(t, "configuration is invalid: the last valid one stays in use")
	if !sends("c4n4ry-2") {
		t.Errorf("sends %s", server.authorization.Load())
	}
	p.in.Close()
	p.endsInOrder(t)
	if log := p.log.String(); strings.Contains(log, "c4n4ry") || !strings.Contains(log, "has no server b; --server names one of a") {
		t.Error(log)
	}
}
