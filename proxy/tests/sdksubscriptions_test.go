package tests

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestSubscriptionsAtTheSDK: handshake clients subscribe to resources of the SDK's modern server over HTTP. Each is told of each change,
// nearly always once, over a handful of connections.
func TestSubscriptionsAtTheSDK(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const all, sessions = 60, 3
		one := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, &sdk.ServerOptions{
			SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
			UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
		})
		for n := range all {
			one.AddResource(&sdk.Resource{Name: fmt.Sprint(n), URI: fmt.Sprintf("a:%03d", n)}, nil)
		}
		var conns atomic.Int64
		handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return one }, &sdk.StreamableHTTPOptions{Stateless: true})
		web := &httptest.Server{Listener: peertest.Listen(t), Config: &http.Server{Handler: handler, ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				conns.Add(1)
			case http.StateClosed:
				conns.Add(-1)
			}
		}}}
		web.Start()
		t.Cleanup(web.Close)
		t.Cleanup(web.CloseClientConnections)
		proxy := serving(t, func(cfg *config.Config) { cfg.Upstream.URL, cfg.Upstream.Version = web.URL, "2026-07-28" })
		var clients []*follower
		for range sessions {
			c := newFollower(t, proxy.base)
			clients = append(clients, c)
			for n := range all {
				if answer := c.ask("subscribe", fmt.Sprintf("a:%03d", n)); !gjson.Get(answer, "result").Exists() {
					t.Fatal(answer)
				}
			}
		}
		if n := conns.Load(); n > 12*sessions {
			t.Errorf("%d connections are open", n)
		}
		for n := range all {
			uri := fmt.Sprintf("a:%03d", n)
			if err := one.ResourceUpdated(t.Context(), &sdk.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
				t.Fatal(err)
			}
			for _, c := range clients {
				eventually(t, "the update of "+uri, func() bool {
					c.mu.Lock()
					defer c.mu.Unlock()
					return c.told[uri] > 0
				})
			}
		}
		again := 0 // an update has no id: what comes late on a request that another has replaced is told again
		for _, c := range clients {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, n := range c.told {
				again += n - 1
			}
		}
		if again > all*sessions/20 {
			t.Errorf("%d of %d updates were told again", again, all*sessions)
		}
	})
}
