package tests

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// TestArraysOfModernClientsAreRefused: the error says that the revision has no batches.
func TestArraysOfModernClientsAreRefused(t *testing.T) {
	const want = "JSON-RPC batching is not supported in 2026-07-28"
	array := `[` + modernRequestOf("1", "tools/list", meta(`{}`)) + `]`
	srv := front(t, legacyServer(`{"tools":{}}`, nil))
	for body, header := range map[string][]string{
		array: nil,
		`[{"jsonrpc":"2.0","method":"notifications/x"}]`: {"MCP-Protocol-Version", "2026-07-28"},
		strings.Replace(array, "[", "[ ", 1):             {"MCP-Protocol-Version", "2026-07-28"},
	} {
		r := srv.post("", body, header...)
		if r.status != 400 || gjson.Get(r.body, "error.message").String() != want || gjson.Get(r.body, "error.code").Int() != -32600 {
			t.Errorf("%s: %+v", body, r)
		}
	}
	if r := srv.post("", `[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`); gjson.Get(r.body, "error.message").String() == want {
		t.Errorf("an older client: %+v", r)
	}
	c := srv.pipe()
	c.say(array)
	if got := c.hear(); gjson.Get(got, "error.message").String() != want {
		t.Errorf("on a pipe: %s", got)
	}
}

// TestMethodsRefusedInPlainText: servers on the Go SDK before 1.8 refuse methods in plain text.
func TestMethodsRefusedInPlainText(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, nil)
	f.First = failing(func(m string) error {
		if gjson.Get(m, "method").String() != "x/y" {
			return nil
		}
		return &upstream.StatusError{Code: 400, Header: []mcp.Header{{Name: "Content-Type", Value: "text/plain; charset=utf-8"}}, Body: []byte("JSON RPC not handled: \"x/y\" unsupported\n")}
	})
	srv := front(t, f)
	if r := srv.modernly(modernRequestOf("1", "x/y", meta(`{}`))); r.status != 404 || gjson.Get(r.body, "error.code").Int() != -32601 || gjson.Get(r.body, "id").Raw != "1" {
		t.Errorf("a client without a handshake: %+v", r)
	}
	if r := srv.post(srv.initialize("2025-11-25"), `{"jsonrpc":"2.0","id":2,"method":"x/y"}`); r.status != 200 || gjson.Get(r.body, "error.code").Int() != -32601 || gjson.Get(r.body, "id").Raw != "2" {
		t.Errorf("a client with one: %+v", r)
	}
}
