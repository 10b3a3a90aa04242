package command

import (
	"net"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
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
		do   string
	}{
		"its own":   {clients, "dragoman itself listens at " + clients.Addr().String() + " for clients (listen)", "give admin.listen another port"},
		"another's": {foreign, "another process has " + foreign.Addr().String(), "for a second dragoman on this machine, DRAGOMAN_ADMIN_LISTEN=127.0.0.1:0 (admin.listen) takes a free port"},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			cfg := config.Default()
			cfg.Admin.Listen = c.at.Addr().String()
			ln, err := admin(nil, cfg, clients.Addr(), zap.New(core).Warn)
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
			if _, err := admin(nil, cfg, everywhere, zap.NewNop().Warn); err == nil || !strings.HasPrefix(err.Error(), "admin.listen: ") || !strings.Contains(err.Error(), "; ") {
				t.Errorf("where other machines reach it: %v", err)
			}
			if text != c.want || !strings.HasPrefix(advice, c.do) {
				t.Errorf("%v", said)
			}
		})
	}
}

// TestWarningsStandBehindServing: what is missing is told behind the line with the URL, and the port that the advice leads to is told.
func TestWarningsStandBehindServing(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := startProcess(t, environ("DRAGOMAN_ADMIN_LISTEN="+taken.Addr().String()), "serve", "--listen", "127.0.0.1:0", "http://127.0.0.1:1/mcp")
	p.says(t, "probes and metrics are not served")
	if _, behind, _ := strings.Cut(p.log.String(), `"msg":"serving"`); !strings.Contains(behind, `"msg":"probes and metrics are not served"`) {
		t.Errorf("%s", p.log)
	}
	p = startProcess(t, environ("DRAGOMAN_ADMIN_LISTEN=127.0.0.1:0"), "serve", "--listen", "127.0.0.1:0", "http://127.0.0.1:1/mcp")
	p.runs(t)
	if at := p.says(t, "serving").Get("admin").Str; at == "" || strings.HasSuffix(at, ":0") {
		t.Errorf("%s", p.log)
	}
}

// TestASecondDragomanTakesAnotherAdminPort where no setting names one.
func TestASecondDragomanTakesAnotherAdminPort(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg, err := config.Sources{}.Read()
	if err != nil || !cfg.Admin.Movable {
		t.Fatal(err, cfg.Admin)
	}
	cfg.Admin.Listen = taken.Addr().String() // in the place of the default
	core, logs := observer.New(zap.DebugLevel)
	for _, clients := range []net.Addr{taken.Addr(), &net.TCPAddr{IP: net.IPv4zero, Port: 1}} {
		srv, err := proxy.NewDemo(cfg, zap.New(core), nil)
		if err != nil {
			t.Fatal(err)
		}
		ln, err := admin(srv, cfg, clients, zap.New(core).Warn)
		if err != nil || ln == nil || !oauth.IsLoopback(ln.Addr().String()) || logs.Len() != 0 {
			t.Fatal(ln, err, logs.All())
		}
		ln.Close()
		srv.Close()
	}
	for _, set := range []string{"", config.Default().Admin.Listen, "127.0.0.1:0"} {
		cfg, err := config.Sources{Environ: []string{"DRAGOMAN_ADMIN_LISTEN=" + set}}.Read()
		if err != nil || cfg.Admin.Movable {
			t.Errorf("%q: %v %+v", set, err, cfg.Admin)
		}
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
