package tests

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

func TestLossesOfRealMessagesAreCounted(t *testing.T) {
	f := newFake(initializing("2025-11-25", func(string) ([]string, error) {
		return one(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","title":"T","inputSchema":{"type":"object"}}]}}`)
	}))
	srv := front(t, f)
	r := srv.post(srv.initialize("2024-11-05"), listOne)
	sameJSON(t, r.body, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}`)
	if n := counted(t, srv.Metrics, "dragoman_losses_total", "from=2025-11-25", "to=2024-11-05", "rule=C01", "level=warn"); n != 1 {
		t.Errorf("counted %v", n)
	}
	at := srv.logs.FilterMessage("lost in translation").FilterLevelExact(zap.WarnLevel).All()
	if len(at) != 1 || !strings.Contains(fmt.Sprint(at[0].ContextMap()["losses"]), "path:result.tools[0].title rule:C01") {
		t.Errorf("%+v", at)
	}
}

// TestTheDemoLosesNothing: what dragoman adds for clients of newer revisions is changed, and the log at level info does not speak of it.
func TestTheDemoLosesNothing(t *testing.T) {
	leavesNothing(t)
	core, logs := observer.New(zap.InfoLevel)
	srv, err := proxy.NewDemo(config.Default(), zap.New(core), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	ts := testServer{srv, t, logs}
	asked := []string{`"tools/list"`, `"resources/list"`, `"prompts/list"`, `"resources/read","params":{"uri":"demo://greeting"}`, `"tools/call","params":{"name":"echo","arguments":{"text":"a"}}`}
	for _, revision := range []string{"2025-06-18", "2025-11-25"} {
		s := ts.initialize(revision)
		for _, method := range asked {
			ts.post(s, `{"jsonrpc":"2.0","id":1,"method":`+method+`}`)
		}
	}
	for _, of := range [][2]string{{"tools/list", ""}, {"resources/read", `"uri":"demo://greeting",`}, {"tools/call", `"name":"echo","arguments":{"text":"a"},`}} {
		if r := ts.modernly(modernRequestOf("1", of[0], of[1]+meta("{}"))); !strings.Contains(r.body, `"resultType":"complete"`) {
			t.Errorf("%s: %+v", of[0], r)
		}
	}
	if n := counted(t, srv.Metrics, "dragoman_losses_total"); n != 0 {
		t.Errorf("%d losses", n)
	}
	if n := counted(t, srv.Metrics, "dragoman_changes_total"); n < 10 {
		t.Errorf("%d changes", n)
	}
	if lines := logs.Filter(func(e observer.LoggedEntry) bool { return strings.Contains(e.Message, "translation") }).All(); len(lines) > 0 {
		t.Errorf("%+v", lines)
	}
}

// TestAKnownLossIsNoWarning, and any other one is told once for each client.
func TestAKnownLossIsNoWarning(t *testing.T) {
	f := newFake(initializing("2025-11-25", func(string) ([]string, error) {
		return one(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","title":"T","icons":[{"src":"data:x"}],"inputSchema":{"type":"object"}}]}}`)
	}))
	srv := front(t, f, func(c *config.Config) { c.Log.KnownLosses = []string{"C05"} })
	for _, name := range []string{"one", "one", "two"} {
		r := srv.post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"`+name+`","version":"1"}}}`)
		for range 2 {
			srv.post(r.header["Mcp-Session-Id"], listOne)
		}
	}
	var said []string
	for _, line := range srv.logs.FilterMessage("lost in translation").FilterLevelExact(zap.WarnLevel).All() {
		m := line.ContextMap()
		said = append(said, fmt.Sprint(m["client"], " ", m["losses"]))
	}
	if len(said) != 2 || !strings.HasPrefix(said[0], "one 1 [map[") || !strings.HasPrefix(said[1], "two 1 [map[") || strings.Contains(fmt.Sprint(said), "C05") {
		t.Errorf("%q", said)
	}
	if n := counted(t, srv.Metrics, "dragoman_losses_total", "rule=C05"); n != 6 {
		t.Errorf("%d losses of C05", n)
	}
}
