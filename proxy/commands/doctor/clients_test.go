package doctor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// TestEntriesForClients checks that what is to be pasted is valid, and what it holds.
func TestEntriesForClients(t *testing.T) {
	f := newFake(t)
	addr := serve(t, f)
	path := fileWith(t, "c.yaml", "upstream: {headers: {X-A: canary-canary}}\n", 0o600)
	ca := newAuthority(t).file
	inFile := fileWith(t, "d.yaml", "upstream: {url: http://"+addr+"/mcp}\n", 0o600)
	for name, c := range map[string]struct {
		sources config.Sources
		want    string
	}{
		"url": {config.Sources{Flags: func(c *config.Config, _ *setting.Layers) { c.Upstream.URL = "http://" + addr + "/mcp" }}, `["stdio", "http://` + addr + `/mcp"]`},
		"header and file": {config.Sources{File: path, Flags: func(c *config.Config, l *setting.Layers) {
			c.Upstream.URL = "http://" + addr + "/mcp"
			c.Upstream.Headers["X-Key"] = "canary-canary"
			l.Flag("upstream.headers.X-Key", "--header")
		}}, `["stdio", "--config", "` + path + `", "--header", "X-Key: ${X_KEY}", "http://` + addr + `/mcp"]`},
		"authority": {config.Sources{Flags: func(c *config.Config, l *setting.Layers) {
			c.Upstream.URL, c.Upstream.CAFile = "http://"+addr+"/mcp", ca
			l.Flag("upstream.ca_file", "--ca")
		}}, `["stdio", "--ca", "` + ca + `", "http://` + addr + `/mcp"]`},
		"in the file": {config.Sources{File: inFile}, `["stdio", "--config", "` + inFile + `"]`},
	} {
		o := Options{Program: "dragoman", Sources: c.sources}
		r, _ := examined(t, o, "http", "protocol", "clients")
		entries := 0
		for _, l := range r.Lines {
			if l.Check != "clients" {
				continue
			}
			if strings.Contains(l.Do, `"command"`) {
				entries++
				if !gjson.Valid(l.Do) || !strings.Contains(l.Do, `{"some-server": {`) || !strings.Contains(l.Do, `"command": "dragoman", "args": `+c.want) {
					t.Errorf("%s: %s\nwant %s", name, l.Do, c.want)
				}
			}
			if strings.Contains(l.Do, "canary") || l.Mark != Info {
				t.Errorf("%+v", l)
			}
		}
		if text, _ := json.Marshal(r); entries != 3 || !strings.Contains(string(text), `"[mcp_servers.some-server]\ncommand = \"dragoman\"\nargs = [`) {
			t.Errorf("%d entries: %s", entries, text)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	dir := t.TempDir()
	server := filepath.Join(dir, "server")
	if err := os.WriteFile(server, []byte("#!/bin/sh\n"+answers), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	r := Run(t.Context(), with(func(c *config.Config) { c.Upstream.Command = []string{"./server", "--api-key", "canary-canary"} }))
	text := fmt.Sprint(r.Lines)
	if !strings.Contains(text, `"args": ["stdio", "--", "`+server+`", "--api-key", "[set, 13 characters, `) || strings.Contains(text, "canary") {
		t.Error(text)
	}
}
