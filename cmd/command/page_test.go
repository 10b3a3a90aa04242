package command

import (
	"net"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestTakenAdminListen: the warning says whether dragoman itself has the address, and what to do.
func TestTakenAdminListen(t *testing.T) {
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		return ln
	}
	clients, foreign := listen(), listen()
	for name, c := range map[string]struct {
		at   net.Listener
		want string
	}{
		"its own":   {clients, "dragoman itself listens at " + clients.Addr().String() + " for clients (listen)"},
		"another's": {foreign, "address already in use"},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			cfg := config.Default()
			cfg.Admin.Listen = c.at.Addr().String()
			ln, err := admin(nil, cfg, clients.Addr(), zap.New(core))
			if ln != nil || err != nil {
				t.Fatal(ln, err)
			}
			if logs.Len() != 1 {
				t.Fatalf("%d lines", logs.Len())
			}
			said := logs.All()[0].ContextMap()
			text, _ := said["error"].(string)
			advice, _ := said["advice"].(string)
			everywhere := &net.TCPAddr{IP: net.IPv4zero, Port: clients.Addr().(*net.TCPAddr).Port}
			if _, err := admin(nil, cfg, everywhere, zap.NewNop()); err == nil || !strings.HasPrefix(err.Error(), "admin.listen: ") || !strings.Contains(err.Error(), "; ") {
				t.Errorf("where other machines reach it: %v", err)
			}
			if !strings.HasSuffix(text, c.want) || !strings.Contains(advice, "admin.listen") {
				t.Errorf("%v", said)
			}
		})
	}
}

// TestNamesInTheListOfPages: each line of dragoman inspect says what runs.
func TestNamesInTheListOfPages(t *testing.T) {
	for args, want := range map[string]string{"dragoman": "dragoman", "dragoman serve x": "serve", "dragoman --listen x": "dragoman"} {
		if got := commandName(strings.Fields(args)); got != want {
			t.Errorf("%s: %q", args, got)
		}
	}
	cfg := config.Default()
	if got := adaptersOf(cfg); got != "" {
		t.Error(got)
	}
	cfg.Adapters.Sources = []string{"a", "b"}
	if got := adaptersOf(cfg); got != "adapters of a, b" {
		t.Error(got)
	}
}
