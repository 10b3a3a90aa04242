package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestSilentProcessIsGivenUpOnce: a process that answers nothing has upstream.handshake_timeout, as its warning says, whichever client
// asks it, and no second process is started to be asked once more.
func TestSilentProcessIsGivenUpOnce(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	for name, request := range map[string]string{
		"handshake": `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		"modern":    `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started := filepath.Join(t.TempDir(), "started")
			cfg := config.Default()
			cfg.Upstream.Command = []string{shell, "-c", `echo x >> "$1"; exec sleep 100`, "sh", started}
			cfg.Upstream.HandshakeTimeout = time.Second
			core, logs := observer.New(zap.WarnLevel)
			c := (testServer{Server: newOf(t, cfg, zap.New(core)), t: t}).pipe()
			c.say(request)
			if said := gjson.Get(c.hear(), "error.message").String(); !strings.HasPrefix(said, "upstream timed out (command: ") {
				t.Errorf("%q", said)
			}
			if text, err := os.ReadFile(started); err != nil || strings.Count(string(text), "x") != 1 {
				t.Errorf("started %q, %v", text, err)
			}
			if failed := logs.FilterMessage("request failed").All(); len(failed) != 1 {
				t.Errorf("%v", failed)
			}
		})
	}
}
