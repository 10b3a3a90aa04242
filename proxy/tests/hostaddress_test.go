package tests

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestClientsOfOtherMachinesNameAnAddress that this machine may not know, behind NAT or in a container. A page of another address stays out.
func TestClientsOfOtherMachinesNameAnAddress(t *testing.T) {
	for name, c := range map[string]struct {
		at           net.IP
		host, origin string
		want         int
	}{
		"an address":                        {net.IPv4zero, "10.1.2.3", "", 200},
		"an address of IPv6":                {net.IPv6zero, "[2001:db8::1]:80", "", 200},
		"a page of another address":         {net.IPv4zero, "10.1.2.3", "http://203.0.113.5", 403},
		"a page of the same address":        {net.IPv4zero, "10.1.2.3:80", "http://10.1.2.3:80", 200},
		"a name":                            {net.IPv4zero, "evil.example", "", 403},
		"an address to a loopback listener": {net.IPv4(127, 0, 0, 1), "10.1.2.3", "", 403},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, err := proxy.NewDemo(config.Default(), zap.NewNop(), nil)
			if err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- srv.Serve(ctx, addressed{ln, &net.TCPAddr{IP: c.at, Port: 1}}) }()
			req, err := http.NewRequest("POST", "http://"+ln.Addr().String()+"/mcp", strings.NewReader(initialize("2025-06-18", `{}`)))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = c.host
			req.Header.Set("Content-Type", "application/json")
			if c.origin != "" {
				req.Header.Set("Origin", c.origin)
			}
			client := &http.Client{Transport: new(http.Transport)}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			said, _ := io.ReadAll(res.Body)
			res.Body.Close()
			client.CloseIdleConnections()
			if res.StatusCode != c.want {
				t.Errorf("%d %s, want %d", res.StatusCode, said, c.want)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
