package tests

import (
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
)

func TestEveryLineOfARequestNamesItsTrace(t *testing.T) {
	f := newFake(initializing("2025-11-25", func(m string) ([]string, error) {
		return one(`not a message`, `{"jsonrpc":"2.0","id":"nobody's","result":{}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","title":"T","inputSchema":{"type":"object"}}]}}`)
	}))
	srv := front(t, f)
	s := srv.initialize("2024-11-05")
	srv.logs.TakeAll()
	long := strings.Repeat("x", 2*trace.MaxLogged)
	r := srv.post(s, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "traceparent", "00-a-b-01", "tracestate", "k=v", "baggage", long, "Authorization", "Bearer secret")
	if r.status != 200 {
		t.Fatalf("%+v", r)
	}
	lines := srv.logs.All()
	if len(lines) < 3 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		m := l.ContextMap()
		if m["traceparent"] != "00-a-b-01" || m["tracestate"] != "k=v" || m["baggage"] != long[:trace.MaxLogged] || len(m) > 12 {
			t.Errorf("%s: %v", l.Message, m)
		}
		for _, v := range m {
			if v, ok := v.(string); ok && strings.Contains(v, "secret") {
				t.Errorf("%s: %v", l.Message, m)
			}
		}
	}
	if n := srv.logs.FilterLevelExact(zap.WarnLevel).Len(); n == 0 {
		t.Error("nothing to warn of")
	}
}

func TestServerTimingWhenAskedFor(t *testing.T) {
	f := newFake(initializing("2025-06-18", obliging))
	srv := front(t, f)
	s := srv.initialize("2025-06-18")
	if r := srv.post(s, pingOne); r.header["Server-Timing"] != "" {
		t.Errorf("told without being asked: %v", r.header)
	}
	r := srv.post(s, pingOne, "X-Dragoman-Timing", "1")
	if !regexp.MustCompile(`^parse;dur=\d+\.\d{3}, translate;dur=\d+\.\d{3}, upstream;dur=\d+\.\d{3}$`).MatchString(r.header["Server-Timing"]) {
		t.Errorf("%v", r.header)
	}
	if r := srv.post("", initialize("2025-06-18", `{}`), "X-Dragoman-Timing", "1"); r.header["Server-Timing"] == "" || r.header["Mcp-Session-Id"] == "" {
		t.Errorf("initialize: %v", r.header)
	}
	s = srv.initialize("2025-03-26")
	if r := srv.post(s, "["+pingOne+"]", "X-Dragoman-Timing", "1"); r.header["Server-Timing"] == "" {
		t.Errorf("an array: %v", r.header)
	}
}
