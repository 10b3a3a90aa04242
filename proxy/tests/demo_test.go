package tests

import (
	"context"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

func TestBuiltInServer(t *testing.T) {
	leavesNothing(t)
	core, logs := observer.New(zap.DebugLevel)
	srv, err := proxy.NewDemo(config.Default(), zap.New(core), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	ts := testServer{srv, t, logs}
	s := ts.initialize("2025-11-25")
	for _, c := range []struct{ in, path, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "result", "{}"},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "result.tools.#.name", `["echo","add","slow"]`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"<a>\n"}}}`, "result.content.0.text", "<a>\n"},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1.5,"b":2}}}`, "result.content.0.text", "3.5"},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none"}}`, "error.code", "-32602"},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}`, "error.code", "-32602"},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, "result.resources.0.uri", "demo://greeting"},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/templates/list"}`, "result.resourceTemplates", "[]"},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"demo://greeting"}}`, "result.contents.0.text", "Hello from a server of 2024-11-05."},
		{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x"}}`, "error.code", "-32002"},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`, "result.prompts.0.name", "explain"},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"explain","arguments":{"topic":"MCP"}}}`, "result.messages.0.content.text", "Explain MCP in one sentence."},
		{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x"}}`, "error.code", "-32602"},
		{`{"jsonrpc":"2.0","id":1,"method":"nothing/such"}`, "error.code", "-32601"},
	} {
		r := ts.post(s, c.in)
		if got := gjson.Get(r.body, c.path).String(); got != c.want {
			t.Errorf("%s: %s", c.in, r.body)
		}
	}
	r := ts.post(s, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"steps":2},"_meta":{"progressToken":"p"}}}`)
	if len(r.events) != 3 || !strings.Contains(r.events[2], "done in 2 steps") {
		t.Errorf("%+v", r)
	}
	if r := ts.post(s, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.status != 202 {
		t.Errorf("%+v", r)
	}
	done := make(chan reply)
	go func() {
		done <- ts.post(s, `{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"slow","arguments":{"steps":20}}}`)
	}()
	eventually(t, "call is open", func() bool { return len(srv.Table.Held(s).Open.List()) == 1 })
	ts.post(s, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}`)
	if r := <-done; r.status != 202 {
		t.Errorf("%+v", r)
	}
	if r := ts.exchange(context.Background(), "DELETE", s, ""); r.status != 200 {
		t.Errorf("%+v", r)
	}
}
