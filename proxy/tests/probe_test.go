package tests

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// lister is a server with the given responses by method; lists have one page for each cursor.
func lister(t *testing.T, answers map[string]string) string {
	t.Helper()
	s := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		page := u.Method + gjson.Get(u.Text, "params.cursor").String()
		answer, ok := answers[page+gjson.Get(u.Text, "params.protocolVersion").String()]
		if !ok {
			answer, ok = answers[page]
		}
		if !ok {
			answer = `"error":{"code":-32601,"message":"Method not found"}`
		}
		if u.ID != "" {
			u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,`+answer+`}`)
		}
	})
	s.NoGet = true
	return s.At().URL + "/mcp"
}

// TestProbeOfARefusalLogsNoLosses checks that the proposals of older revisions are not reported as losses of a client.
func TestProbeOfARefusalLogsNoLosses(t *testing.T) {
	cfg := config.Default()
	cfg.Upstream.URL = lister(t, map[string]string{"initialize": `"error":{"code":-32602,"message":"Unsupported protocol version"}`})
	core, logs := observer.New(zap.DebugLevel)
	if _, err := proxy.Probe(t.Context(), cfg, probe.AllCapabilities(), zap.New(core)); err == nil || !strings.Contains(err.Error(), "refuses initialize: Unsupported protocol version") {
		t.Error(err)
	}
	if n := logs.FilterMessage("lost in translation").Len(); n > 0 {
		t.Errorf("%d losses are logged", n)
	}
}

func TestProbeReportsWhatWouldBeLost(t *testing.T) {
	cfg := config.Default()
	cfg.Upstream.URL = lister(t, map[string]string{
		"initialize":     `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"2"}}`,
		"tools/list":     `"result":{"tools":[{"name":"a","title":"A","inputSchema":{"type":"object"}}],"nextCursor":"2"}`,
		"tools/list2":    `"result":{"tools":[{"name":"b","icons":[{"src":"x"}],"inputSchema":{"type":"object"}},{"name":"slow","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`,
		"resources/list": `"result":{"resources":[{"name":"r","uri":"file:///r"}]}`,
	})
	r, err := proxy.Probe(t.Context(), cfg, probe.AllCapabilities(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if r.Server != "s 2" || r.Revision != "2025-11-25" || r.Transport != "http" {
		t.Errorf("%+v", r)
	}
	if want := []probe.ListReport{{Name: "tools", Count: 3}, {Name: "resources", Count: 1}, {Name: "resourceTemplates", Count: 0}}; !slices.Equal(r.Lists, want) {
		t.Errorf("lists %v, want %v", r.Lists, want)
	}
	if want := []string{"bridged", "same", "translated", "translated", "translated"}; !slices.EqualFunc(r.Clients, want, func(c probe.ClientReport, way string) bool { return c.Way == way }) {
		t.Errorf("ways of %+v", r.Clients)
	}
	if modern := r.Clients[0]; !modern.Works || len(modern.Missing) > 0 {
		t.Errorf("a tool that only runs as a task is there for clients of the other era: %+v", modern)
	}
	newest, oldest := r.Clients[1], r.Clients[len(r.Clients)-1]
	if !newest.Works || len(newest.Changes) > 0 {
		t.Errorf("the server's own revision: %+v", newest)
	}
	if oldest.Works || !slices.Equal(oldest.Missing, []string{"tools: slow"}) || r.Works() {
		t.Errorf("a tool that needs tasks is missing for %+v", oldest)
	}
	for _, want := range []probe.Change{
		{List: "tools", Rule: "C01", What: "title", Level: "warn", Names: []string{"a"}},
		{List: "tools", Rule: "C05", What: "icons", Level: "warn", Names: []string{"b"}},
	} {
		if !slices.ContainsFunc(oldest.Changes, func(c probe.Change) bool {
			return c.List == want.List && c.Rule == want.Rule && c.What == want.What && c.Level == want.Level && slices.Equal(c.Names, want.Names)
		}) {
			t.Errorf("no %+v among %+v", want, oldest.Changes)
		}
	}
}

func TestProbeSaysWhyItCannot(t *testing.T) {
	for url, want := range map[string]string{
		"http://127.0.0.1:1/mcp": "connection refused",
		lister(t, map[string]string{"server/discover": `"error":{"code":-32022,"message":"no","data":{"supported":["2031-01-01"]}}`}): "2031-01-01",
		lister(t, nil): "Method not found",
	} {
		cfg := config.Default()
		cfg.Upstream.URL = url
		if _, err := proxy.Probe(t.Context(), cfg, probe.AllCapabilities(), zap.NewNop()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}
