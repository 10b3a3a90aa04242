package tests

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry/collectortest"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// traced makes proxies of this test send their traces to the collector that it returns.
func traced(t *testing.T) *collectortest.Collector {
	t.Helper()
	to := collectortest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	return to
}

// contextOf is the traceparent of a span.
func contextOf(s collectortest.Span) string { return "00-" + s.Trace + "-" + s.ID + "-01" }

// initializeIn is an initialize whose _meta has these members.
func initializeIn(parent string) string {
	return strings.Replace(initialize("2025-06-18", `{}`), `"capabilities"`, `"_meta":{`+parent+`},"capabilities"`, 1)
}

// TestSpansOfAHandshake: the client's initialize has a span, and each proposal to the server another one below it. One
// whose parent was not sampled has none, and passes as it came.
func TestSpansOfAHandshake(t *testing.T) {
	bothTransports(t, func(t *testing.T, piped bool) {
		to := traced(t)
		server := func() *fakeServer {
			f := newFake(func(u *peertest.Turn) {
				if gjson.Get(u.Text, "params.protocolVersion").String() == "2025-03-26" {
					initializing("2025-03-26", nil)(u)
					return
				}
				u.Say(`{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no","data":{"supported":["2025-03-26"]}}}`)
			})
			f.piped = piped
			return f
		}
		f := server()
		front(t, f).post("", initializeIn(declinedParent))
		if got := gjson.Get(f.sent()[0], "params._meta").Raw; got != "{"+declinedParent+"}" {
			t.Errorf("the unsampled request was changed: %s", got)
		}
		f = server()
		srv := front(t, f)
		id := srv.post("", initializeIn(sampledParent), "peer", "192.0.2.7").header["Mcp-Session-Id"]
		srv.Tracer.Close()
		got := spansOf(to.Spans(t, 3), "initialize")
		if len(got) != 3 {
			t.Fatalf("%+v", got)
		}
		in, refused, accepted := got[0], got[1], got[2]
		if in.Kind != "SERVER" || in.Parent != "b7ad6b7169203331" || in.Failed || in.Attributes["mcp.protocol.version"] != "2025-06-18" ||
			in.Attributes["mcp.session.id"] != session.Fingerprint(id) || in.Attributes["client.address"] != "192.0.2.7" {
			t.Errorf("%+v", in)
		}
		if refused.Parent != in.ID || refused.Attributes["error.type"] != "-32602" || !refused.Failed {
			t.Errorf("%+v", refused)
		}
		if accepted.Parent != in.ID || accepted.Attributes["mcp.protocol.version"] != "2025-03-26" || accepted.Failed {
			t.Errorf("%+v", accepted)
		}
		for n, s := range []collectortest.Span{refused, accepted} {
			if got := gjson.Get(f.said("initialize")[n], "params._meta.traceparent").String(); got != contextOf(s) {
				t.Errorf("the server got %q, want %q", got, contextOf(s))
			}
		}
	})
}

// TestSpansOfOwnRequests: what dragoman asks the server because of a call is below the span of the call.
func TestSpansOfOwnRequests(t *testing.T) {
	answer := func(id, method, _ string) ([]string, error) {
		if method == "tools/list" {
			return one(result(id, `"resultType":"complete","tools":[{"name":"t","inputSchema":{"type":"object"}}]`))
		}
		return one(result(id, `"resultType":"complete","content":[]`))
	}
	discover := `"capabilities":{"tools":{}},"_meta":{}`
	for name, c := range map[string]struct {
		server *fakeServer
		modern bool
		want   []string // the methods of dragoman's own requests
	}{
		"modern client, handshake server":  {legacyServer(`{"tools":{},"logging":{}}`, answer), true, []string{"initialize", "logging/setLevel"}},
		"modern client, modern server":     {modernServer(false, discover, answer), true, []string{"tools/list"}},
		"handshake client, modern server":  {modernServer(false, discover, answer), false, []string{"tools/list"}},
		"modern client, process, no spans": {modernServer(true, discover, answer), true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			to := traced(t)
			c.server.asked = c.modern && strings.Contains(name, "modern server")
			parent, at := sampledParent, c.server.origin()
			if c.want == nil {
				parent = declinedParent
				at = origin.Opened(true, func(context.Context) (upstream.Conn, error) {
					return modernServer(true, discover, answer).conn(), nil
				}) // a process for each connection
			}
			srv := frontOf(t, at)
			if c.modern {
				srv.modernly(modernRequestOf("7", "tools/call", `"name":"t","arguments":{},`+meta(`{}`, parent, `"io.modelcontextprotocol/logLevel":"info"`)), "peer", "192.0.2.7")
			} else {
				session := srv.initialize("2025-06-18")
				srv.post(session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{},"_meta":{`+parent+`}}}`)
			}
			srv.Tracer.Close()
			var below []string
			for _, s := range to.Spans(t, len(c.want)+min(len(c.want), 1)) {
				if s.Trace != "0af7651916cd43dd8448eb211c80319c" || s.Kind != "CLIENT" || s.Attributes["mcp.method.name"] == "tools/call" {
					continue
				}
				below = append(below, s.Name)
				asked := c.server.said(s.Name)
				if last := asked[len(asked)-1]; gjson.Get(last, "params._meta.traceparent").String() != contextOf(s) {
					t.Errorf("%+v is not in %s", s, last)
				}
				if call := spansOf(to.Spans(t, 2), "tools/call")[0]; s.Parent != call.ID || call.Parent != "b7ad6b7169203331" {
					t.Errorf("%+v is not below %+v", s, call)
				}
			}
			slices.Sort(below)
			if !slices.Equal(below, c.want) {
				t.Errorf("%q, want %q", below, c.want)
			}
		})
	}
}

// TestSpanOfAProbe: what no message has caused is a trace of its own, as the sampler says.
func TestSpanOfAProbe(t *testing.T) {
	for sampler, want := range map[string]int{"always_on": 1, "always_off": 0} {
		to := traced(t)
		t.Setenv("OTEL_TRACES_SAMPLER", sampler)
		f := modernServer(false, `"capabilities":{}`, nil)
		f.asked = true
		srv := front(t, f)
		if _, err := srv.Eras.Of(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		srv.Tracer.Close()
		got := spansOf(to.Spans(t, want), "server/discover")
		if len(got) != want || want == 1 && (got[0].Kind != "CLIENT" || got[0].Parent != "" || got[0].Failed) {
			t.Errorf("%s: %+v", sampler, got)
		}
		if got := gjson.Get(f.sent()[0], "params._meta.traceparent").Exists(); got != (want == 1) {
			t.Errorf("%s: %s", sampler, f.sent()[0])
		}
	}
}
