//go:build linux || darwin

package tests

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestSessionOverSockets: a session through dragoman at a unix socket, in front of a server at another one.
func TestSessionOverSockets(t *testing.T) {
	for over, target := range map[peertest.Over]string{peertest.HTTP: "/mcp", peertest.SSE: "/sse"} {
		t.Run(string(over), func(t *testing.T) {
			server := peertest.NewServer(t, over, func(u *peertest.Turn) {
				switch u.Method {
				case "initialize":
					u.Say(`{"jsonrpc":"2.0","id":` + u.ID + `,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`)
				case "tools/call":
					u.Say(`{"jsonrpc":"2.0","id":` + u.ID + `,"result":{"content":[{"type":"text","text":"host ` + u.Header.Get("X-Seen-Host") + `"}]}}`)
				}
			})
			server.NoGet = true
			theirs, ours := filepath.Join(peertest.ShortDir(t), "server.sock"), filepath.Join(peertest.ShortDir(t), "server.sock")
			ln, err := net.Listen("unix", theirs)
			if err != nil {
				t.Fatal(err)
			}
			web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && r.URL.Path == "/sse" {
					http.Error(w, "a stream", http.StatusMethodNotAllowed)
					return
				}
				r.Header.Set("X-Seen-Host", r.Host+r.URL.Path)
				server.ServeHTTP(w, r)
			})}
			go web.Serve(ln)
			t.Cleanup(func() { web.Close() })

			cfg := config.Default()
			cfg.Listen, cfg.Upstream.URL, cfg.Upstream.Headers = "unix:"+ours, "unix:"+theirs+":"+target, map[string]string{"X-Key": "k"}
			if err := cfg.Validate(); err != nil {
				t.Fatal(err)
			}
			core, logs := observer.New(zap.InfoLevel)
			srv := newOf(t, cfg, zap.New(core))
			at, err := unixsocket.Listen(ours, cfg.SocketMode())
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- srv.Serve(ctx, at) }() // with a credential for the server, as on loopback
			t.Cleanup(func() {
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
			client := peertest.NewClient(t, peertest.Endpoint{URL: "http://any.example/mcp"})
			client.HTTP.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", ours)
			}}
			t.Cleanup(client.HTTP.CloseIdleConnections)
			if answer := client.Initialize("2025-06-18", "{}"); !strings.Contains(answer, `"protocolVersion":"2025-06-18"`) {
				t.Errorf("%s", answer)
			}
			got := client.Say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{}}}`).Next()
			want := "host localhost/mcp"
			if over == peertest.SSE {
				want = "host localhost/messages"
			}
			if !strings.Contains(got, `"text":"`+want) {
				t.Errorf("%s, want %s", got, want)
			}
			serving := logs.FilterMessage("serving").All()
			if len(serving) != 1 || serving[0].ContextMap()["url"] != "unix:"+ours+":/mcp" || serving[0].ContextMap()["server"] != "unix:"+theirs+":"+target {
				t.Errorf("%+v", serving)
			}
			if srv.Now().Relay != nil {
				t.Error("there is a relay of logins")
			}
			if err := srv.Ready(); err != nil {
				t.Error(err)
			}
			if name := srv.Now().Config.Upstream.ServerName(); name != "server" {
				t.Errorf("rules know it as %q", name)
			}
		})
	}
}
