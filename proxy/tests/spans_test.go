package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry/collectortest"
)

const (
	sampledParent  = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`
	declinedParent = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"`
)

// spansOf returns the spans of one method, the client's edge first.
func spansOf(all []collectortest.Span, method string) []collectortest.Span {
	of := slices.DeleteFunc(slices.Clone(all), func(s collectortest.Span) bool { return s.Attributes["mcp.method.name"] != method })
	slices.SortFunc(of, func(a, b collectortest.Span) int { return -strings.Compare(a.Kind, b.Kind) })
	return of
}

// TestSpansOfACallOnEachWay: a sampled call has a span at each edge, with the revision of that edge, and the server
// receives the context of the second. A call whose parent was not sampled passes as it came.
func TestSpansOfACallOnEachWay(t *testing.T) {
	old := func(id string, parent string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"add","arguments":{},"_meta":{` + parent + `}}}`
	}
	modern := func(id string, parent string) string {
		return modernRequestOf(id, "tools/call", `"name":"add","arguments":{},`+meta(`{}`, parent))
	}
	answer := func(id, method, _ string) ([]string, error) {
		if method == "tools/list" {
			return one(result(id, `"tools":[{"name":"add","inputSchema":{"type":"object"}}]`))
		}
		return one(result(id, `"content":[]`))
	}
	for _, c := range []struct {
		name, client, server string
		call                 func(id, parent string) string
		modern, piped        bool
	}{
		{"handshake over HTTP", "2025-06-18", "2025-11-25", old, false, false},
		{"handshake, server on a pipe", "2025-06-18", "2025-11-25", old, false, true},
		{"modern client, handshake server", "2026-07-28", "2025-11-25", modern, true, false},
	} {
		for _, stdio := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stdio %t", c.name, stdio), func(t *testing.T) {
				to := collectortest.New(t)
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
				f := legacyServer(`{"tools":{}}`, answer)
				f.piped = c.piped
				srv := front(t, f)
				say, end := func(string) {}, srv.Tracer.Close
				switch {
				case stdio:
					client := srv.pipe()
					if !c.modern {
						client.say(initialize(c.client, `{}`))
						client.hear()
					}
					say = func(body string) { client.say(body); client.hear() }
					end = func() { client.end() }
				case c.modern:
					say = func(body string) { srv.modernly(body) }
				default:
					session := srv.initialize(c.client)
					say = func(body string) { srv.post(session, body) }
				}
				say(c.call("1", declinedParent))
				say(c.call("2", sampledParent))
				calls := f.said("tools/call")
				if len(calls) != 2 {
					t.Fatalf("%q", calls)
				}
				if !strings.Contains(calls[0], declinedParent) {
					t.Errorf("the unsampled call was changed: %s", calls[0])
				}
				end()
				spans := spansOf(to.Spans(t, 2), "tools/call")
				if len(spans) != 2 {
					t.Fatalf("%+v", spans)
				}
				in, out := spans[0], spans[1]
				if in.Name != "tools/call add" || in.Parent != "b7ad6b7169203331" || out.Parent != in.ID || in.Failed || out.Failed {
					t.Errorf("%+v\n%+v", in, out)
				}
				if in.Attributes["mcp.protocol.version"] != c.client || out.Attributes["mcp.protocol.version"] != c.server {
					t.Errorf("%+v\n%+v", in, out)
				}
				if got, want := gjson.Get(calls[1], "params._meta.traceparent").String(), "00-"+out.Trace+"-"+out.ID+"-01"; got != want {
					t.Errorf("the server got %s, want %s", got, want)
				}
			})
		}
	}
}

// TestSpansOfAQuestion: the server's question is a child of the call, and the client receives its context.
func TestSpansOfAQuestion(t *testing.T) {
	to := collectortest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	f, gate := asksName(nameQuestion)
	srv := front(t, f)
	session := srv.initializeWith("2025-06-18", `{"elicitation":{}}`)
	r := srv.open("POST", session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{}}}`)
	question := string(r.next().Data)
	srv.post(session, `{"jsonrpc":"2.0","id":`+gjson.Get(question, "id").Raw+`,"result":{"action":"decline"}}`)
	gate <- struct{}{}
	r.next()
	r.leaves()
	eventually(t, "the call has ended", func() bool { return srv.Streams.Load() == 0 })
	srv.Tracer.Close()
	all := to.Spans(t, 4)
	call, asked := spansOf(all, "tools/call"), spansOf(all, "elicitation/create")
	if len(call) != 2 || len(asked) != 2 {
		t.Fatalf("%+v", all)
	}
	if asked[0].Parent != call[1].ID || asked[0].Attributes["mcp.protocol.version"] != "2025-11-25" || asked[1].Attributes["mcp.protocol.version"] != "2025-06-18" {
		t.Errorf("%+v\n%+v", call, asked)
	}
	if got := gjson.Get(question, "params._meta.traceparent").String(); !strings.Contains(got, asked[1].ID) {
		t.Errorf("the client got %q, want the context of %s", got, asked[1].ID)
	}
}

// TestSpansOfFailures: an error of the server, and a server that does not answer.
func TestSpansOfFailures(t *testing.T) {
	to := collectortest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	srv := front(t, legacyServer(`{"tools":{}}`, func(id, method, m string) ([]string, error) {
		if gjson.Get(m, "params.name").String() == "mute" {
			return []string{}, nil
		}
		return one(rpcError(id, `"code":-32602,"message":"no such tool"`))
	}))
	session := srv.initialize("2025-06-18")
	for n, tool := range []string{"none", "mute"} {
		srv.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, n, tool))
	}
	srv.Tracer.Close()
	got := map[string]bool{}
	for _, s := range spansOf(to.Spans(t, 4), "tools/call") {
		got[s.Attributes["gen_ai.tool.name"]+": "+s.Attributes["error.type"]] = s.Failed
	}
	if !got["none: -32602"] || !got["mute: stream_closed"] || len(got) != 2 {
		t.Errorf("%v", got)
	}
}
