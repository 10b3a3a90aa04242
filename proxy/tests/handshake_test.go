package tests

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// What client and server exchange is in testdata/scripts/handshakes-*.txt.

// TestConnectionOfAHandshakeThatFailedIsClosed: if the server refuses initialize, or answers in an unknown revision.
func TestConnectionOfAHandshakeThatFailedIsClosed(t *testing.T) {
	for _, said := range []string{
		`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2023-01-01","capabilities":{},"serverInfo":{"name":"s","version":"2"}}}`,
		`{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"not today"}}`,
	} {
		bothInBubbles(t, func(t *testing.T, piped bool) {
			f := newFake(replies(func(string) ([]string, error) { return one(said) }))
			f.piped = piped
			r := front(t, f, func(cfg *config.Config) { cfg.Upstream.Version = "2025-06-18" }).post("", initialize("2025-06-18", `{}`))
			if !gjson.Get(r.body, "error").Exists() {
				t.Errorf("%+v", r)
			}
			eventually(t, "upstream closed", func() bool { return f.ends() == 1 })
		})
	}
}

func TestServerWithoutHandshakeIsNamed(t *testing.T) {
	for name, answer := range map[string]func(string) ([]string, error){
		"version list": func(string) ([]string, error) {
			return one(`{"jsonrpc":"2.0","id":0,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"x"}}}`)
		},
		"status 400": func(string) ([]string, error) {
			return nil, &upstream.StatusError{Code: 400, Body: []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"missing _meta key io.modelcontextprotocol/protocolVersion"}}`)}
		},
		"status 400 and versions": func(string) ([]string, error) {
			return nil, &upstream.StatusError{Code: 400, Body: []byte(`{"jsonrpc":"2.0","id":0,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := front(t, newFake(replies(answer))).post("", initialize("2025-11-25", `{}`))
			if gjson.Get(r.body, "error.code").Int() != -32603 || !strings.Contains(r.body, "2026-07-28") ||
				gjson.Get(r.body, "id").Raw != "0" {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestUnreachableServerAtInitialize(t *testing.T) {
	f := newFake(replies(func(string) ([]string, error) {
		return nil, &upstream.Error{Op: "connect", Addr: "127.0.0.1:1", Err: errors.New("connection refused")}
	}))
	r := front(t, f).post("", initialize("2025-06-18", `{}`))
	if r.status != 502 || withoutAdvice(gjson.Get(r.body, "error.message").String()) != "upstream request failed: connection refused" || gjson.Get(r.body, "id").Raw != "0" {
		t.Errorf("%+v", r)
	}
}
