package tests

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/adapters"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/transform"
)

func TestReloadOfAdaptersIsAnnouncedOnEveryTransport(t *testing.T) {
	for _, over := range []string{"http", "sse", "stdio"} {
		for _, behind := range []string{"nothing", "stream", "no stream", "pipe"} {
			t.Run(over+" in front of "+behind, func(t *testing.T) {
				base, _, _ := items(t)
				dir := adapterDir(t, map[string]string{"items-adapter.md": adapterFile("items-api", base, adapterOps)})
				cfg := config.Default()
				cfg.Adapters.Sources = []string{dir}
				var o *origin.Origin
				if behind != "nothing" {
					f := listing("2025-06-18", nil, nil)
					f.piped, f.NoGet = behind == "pipe", behind == "no stream"
					theirs := f.origin()
					o = &theirs
				}
				reloadIsTold(t, cfg, o, over, dir, base)
			})
		}
	}
}

func reloadIsTold(t *testing.T, cfg config.Config, o *origin.Origin, over, dir, base string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var srv *proxy.Server
	var transport mcp.Transport
	switch over {
	case "stdio":
		srv = reaching(t, cfg, o)
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- srv.ServePipe(ctx, in, out)
			out.Close()
		}()
		defer func() {
			toServer.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		transport = &mcp.IOTransport{Reader: fromServer, Writer: toServer}
	case "http", "sse":
		var url string
		srv, url = serveAdapters(t, cfg, o)
		web := &http.Client{Transport: &http.Transport{}}
		defer web.CloseIdleConnections()
		transport = &mcp.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: web}
		if over == "sse" {
			transport = &mcp.SSEClientTransport{Endpoint: url + "/sse", HTTPClient: web}
		}
	}
	h := &heard{seen: map[string]int{}, told: make(chan struct{}, 1)}
	client, err := sdkClient(h).Connect(ctx, transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()

	file := filepath.Join(dir, "items-adapter.md")
	put(t, file, "---\nnonsense")
	srv.ReloadAdapters("test")
	res, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "mcp_aql_read", Arguments: map[string]any{"operation": "get_item", "params": map[string]any{"id": "1"}}})
	if err != nil || res.IsError {
		t.Fatalf("with a file that is wrong: %v %+v", err, res)
	}
	if h.count("list_changed") != 0 {
		t.Error("told of what did not change")
	}
	put(t, file, adapterFile("items-api", base, strings.ReplaceAll(adapterOps, "get_item", "fetch_item")))
	srv.ReloadAdapters("test")
	eventually(t, "told", func() bool { return h.count("list_changed") == 1 })
	found := false
	for tool, err := range client.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		found = found || strings.Contains(tool.Description, "fetch_item")
	}
	if !found {
		t.Error("the list does not have the new operation")
	}
	res, err = client.CallTool(ctx, &mcp.CallToolParams{Name: "mcp_aql_read", Arguments: map[string]any{"operation": "fetch_item", "params": map[string]any{"id": "1"}}})
	if err != nil || res.IsError {
		t.Errorf("the new operation: %v %+v", err, res)
	}
}

func TestAdapterFileThatIsWrong(t *testing.T) {
	dir := adapterDir(t, map[string]string{"bad-adapter.md": "---\nnope", "good-adapter.md": adapterFile("good-api", "http://localhost:1", adapterOps)})
	cfg := config.Default()
	cfg.Adapters.Sources = []string{dir}
	if _, err := proxy.New(cfg, zap.NewNop()); err == nil || !strings.HasPrefix(err.Error(), "adapters: "+dir) || !strings.Contains(err.Error(), "bad-adapter.md") {
		t.Errorf("error %v", err)
	}
	cfg.Adapters.SkipInvalid = true
	srv, err := proxy.New(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	srv.Close()
	cfg.Adapters.Sources = []string{filepath.Join(dir, "nowhere")}
	cfg.Adapters.SkipInvalid = false
	if _, err := proxy.New(cfg, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a directory that is not there: %v", err)
	}
}

func TestTheEnvironmentWinsOverTheAdaptersSection(t *testing.T) {
	cfg := config.Default().Adapters
	cfg.Prefix = "file_"
	env := map[string]string{"MCP_AQL_ENDPOINT_MODE": "single", "MCP_AQL_TOOL_PREFIX": "env_"}
	getenv := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if o, err := adapters.Options(&cfg, getenv); err != nil || o.Mode != present.Single || o.ToolPrefix != "env_" {
		t.Errorf("%v %q %v", o.Mode, o.ToolPrefix, err)
	}
	env["MCP_AQL_ENDPOINT_MODE"] = "both"
	if _, err := adapters.Options(&cfg, getenv); err == nil || !strings.HasPrefix(err.Error(), "MCP_AQL_ENDPOINT_MODE: ") {
		t.Error(err)
	}
}

// TestOwnToolsFollowTheConfiguration: a reload can remove adapters and add them again.
func TestOwnToolsFollowTheConfiguration(t *testing.T) {
	shaped := func(c *config.Config) {
		how := transform.DefaultConfig()
		how.MoreTool.Enabled = "on"
		c.Transform = &how
	}
	srv := front(t, listing("2025-06-18", nil, []string{"a"}), shaped)
	session := srv.initialize("2025-06-18")
	for _, on := range []bool{true, false, true} {
		cfg := srv.Now().Config
		cfg.Transform = nil
		want := "a"
		if on {
			shaped(&cfg)
			want = "a fetch_more"
		}
		if err := srv.Reload(cfg); err != nil {
			t.Fatal(err)
		}
		if got := names(srv.answer(session, listSecond)); got != want {
			t.Errorf("with it %v: %s", on, got)
		}
	}
	s, err := srv.Table.Find(session, sealed.Owner{}, &downstream.Sender{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Leave()
	if !srv.ToolsChanged(s) {
		t.Error("the client is not told")
	}
}
