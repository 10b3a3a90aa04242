package tests

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestSilentProcessIsGivenUpOnce: a process that answers nothing has upstream.handshake_timeout, as its warning says, whichever client
// asks it, and no second process is started to be asked once more.
func TestSilentProcessIsGivenUpOnce(t *testing.T) {
	for name, request := range map[string]string{
		"handshake": `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		"modern":    `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
	} {
		inBubble(t, name, func(t *testing.T) {
			var started atomic.Int32
			cfg := config.Default()
			behind(t, peertest.Endpoint{Wire: peertest.Accept(t, func(conn net.Conn) {
				started.Add(1)
				_, _ = io.Copy(io.Discard, conn)
			})}, &cfg)
			cfg.Upstream.HandshakeTimeout = time.Second
			core, logs := observer.New(zap.WarnLevel)
			c := (testServer{Server: newOf(t, cfg, zap.New(core)), t: t}).pipe()
			c.say(request)
			if said := gjson.Get(c.hear(), "error.message").String(); !strings.HasPrefix(said, "upstream timed out (command: ") {
				t.Errorf("%q", said)
			}
			if n := started.Load(); n != 1 {
				t.Errorf("%d processes have started", n)
			}
			if failed := logs.FilterMessage("request failed").All(); len(failed) != 1 {
				t.Errorf("%v", failed)
			}
		})
	}
}
