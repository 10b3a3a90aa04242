package page_test

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/observe/inspect"
	"github.com/dragoman-proxy/dragoman/proxy/observe/page"
	"github.com/dragoman-proxy/dragoman/proxy/observe/redact"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// newReal serves the page as dragoman does, with a list of 50 tools of 60 KB that was translated from 2025-11-25 to 2024-11-05,
// and returns its address.
func newReal(t *testing.T) string {
	t.Helper()
	hide, err := redact.New(redact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := &observe.Observer{}
	h, err := inspect.New(inspect.Options{
		Ring: observe.NewRing(hide), Observer: seen, Keep: true, Files: page.Files(), Token: testToken, Redactor: hide, Started: time.Now(), Payloads: "masked",
		AllowsHost: func(string, net.Addr) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &fasthttp.Server{Handler: h.Serve}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() {
		h.Close()
		if err := server.Shutdown(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	table, err := translate.NewTable(translate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	down := table.Between(translate.Lookup("2025-11-25"), translate.Lookup("2024-11-05"))
	const request = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	list, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "result": object{"tools": fiftyTools()}})
	if err != nil {
		t.Fatal(err)
	}
	c := seen.Begin(&observe.Peers{Client: "cursor 0.41", ClientRevision: "2024-11-05", Server: "everything 2.0", ServerRevision: "2025-11-25", ClientTransport: "http", ServerTransport: "stdio"}, seen.Keep([]byte(request)), false)
	c.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: seen.Keep([]byte(request))})
	c.Went(observe.ServerEdge, observe.ToServer, []byte(request))
	kept := seen.Keep(list)
	m := wire.Message{}
	if err := m.Scan(list, down.Shape()); err != nil {
		t.Fatal(err)
	}
	m.Method = wire.ToolsList
	out, _, err := down.Rewrite(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	c.Came(observe.Message{Edge: observe.ServerEdge, Direction: observe.ToClient, Method: "tools/list", Copy: kept, Losses: m.Losses, Why: observe.Why{Translator: down, Known: translate.Known{Method: wire.ToolsList}}})
	c.Went(observe.ClientEdge, observe.ToClient, out)
	c.End("ok", "")
	return "http://" + ln.Addr().String() + inspect.Path + "#token=" + testToken
}

func fiftyTools() (list []object) {
	words := strings.Repeat("what this tool does, and when to use it; ", 9)
	for i := range 50 {
		properties := object{}
		for j := range 5 {
			properties[fmt.Sprintf("p%d", j)] = object{"type": "string", "description": words[:80]}
		}
		name := fmt.Sprintf("tool_%d", i)
		list = append(list, object{"name": name, "title": name, "description": words, "inputSchema": object{"type": "object", "properties": properties},
			"annotations": object{"readOnlyHint": true}, "outputSchema": object{"type": "object", "properties": object{"x": object{"type": "number"}}}})
	}
	return list
}

// TestRealPage opens the page of a real handler, follows a translated list to its differences, and filters by a word in it.
func TestRealPage(t *testing.T) {
	b := newTab(t)
	b.open(newReal(t))
	b.until(drawnRows + " === 1")
	value[any](b, `document.querySelector("#rows tr").click()`)
	b.until(`document.querySelector("#body > .note")?.textContent === "150 differences, each explained."`)
	if marks := value[string](b, `[...new Set([...document.querySelectorAll(".why")].map((e) => e.textContent))].join()`); marks != ",C02,C03,C01" {
		t.Errorf("the rules beside the differences are %q", marks)
	}
	value[any](b, `document.querySelector(".why .chip").click()`)
	if at := value[string](b, `document.activeElement.dataset.rule`); !strings.HasPrefix(at, "C0") {
		t.Errorf("the rule leads to %q", at)
	}
	for query, rows := range map[string]int{"tool_49": 1, "-tool_49": 0, "tool_50": 0, "status:ok TOOL_1": 1} {
		value[any](b, fmt.Sprintf(`(q => { q.value = %q; q.dispatchEvent(new Event("input")) })(document.getElementById("q"))`, query))
		b.until(fmt.Sprintf(`document.getElementById("table").ariaBusy === "false" && %s === %d`, drawnRows, rows))
	}
}
