package tests

import (
	"slices"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry/collectortest"
)

// TestRetryOfAParkedCallIsLinked: the request that brings the answers is linked to the one that got the questions.
func TestRetryOfAParkedCallIsLinked(t *testing.T) {
	to := traced(t)
	f, gate := asksName(nameQuestion)
	srv := front(t, f, func(c *config.Config) { c.Bridge.Coalesce = 0 })
	first := srv.modernly(modernCall("7", ""))
	open(f, gate)
	srv.modernly(retryOf("8", ada, first))
	eventually(t, "the call has ended", func() bool { return srv.Modern.Counts().Uses == 0 })
	srv.Tracer.Close()
	got := spansOf(to.Spans(t, 5), "tools/call")
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	slices.SortFunc(got[:2], func(a, b collectortest.Span) int { return len(a.Links) - len(b.Links) })
	asked, retry, sent := got[0], got[1], got[2]
	if asked.Kind != "SERVER" || retry.Kind != "SERVER" || sent.Parent != asked.ID || asked.Failed || retry.Failed || sent.Failed {
		t.Errorf("%+v", got)
	}
	if len(retry.Links) != 1 || retry.Links[0] != asked.ID || retry.Attributes["jsonrpc.request.id"] != "8" || len(asked.Links) != 0 {
		t.Errorf("%+v is not linked to %+v", retry, asked)
	}
}

// TestRetryToAModernServerIsLinked: the request that brings a client's answers has a span of its own, which is linked to
// that of the request that got the questions.
func TestRetryToAModernServerIsLinked(t *testing.T) {
	bothTransports(t, func(t *testing.T, piped bool) {
		to := traced(t)
		f := asksFirst(piped, `"inputRequests":{"k":{"method":"roots/list"}},"requestState":"S1"`)
		srv := front(t, f)
		session := srv.initializeWith("2025-11-25", `{"roots":{}}`)
		events := srv.reads(session, toolCalled("5"))
		question := <-events
		srv.post(session, `{"jsonrpc":"2.0","id":`+gjson.Get(question, "id").Raw+`,"result":{"roots":[]}}`)
		for range events {
		}
		eventually(t, "the call has ended", func() bool { return srv.Streams.Load() == 0 })
		srv.Tracer.Close()
		got := spansOf(to.Spans(t, 3), "tools/call")
		if len(got) != 3 {
			t.Fatalf("%+v", got)
		}
		in, first, again := got[0], got[1], got[2]
		if first.Parent != in.ID || again.Parent != in.ID || len(again.Links) != 1 || again.Links[0] != first.ID {
			t.Errorf("%+v", got)
		}
		calls := f.said("tools/call")
		for n, s := range []collectortest.Span{first, again} {
			if got := gjson.Get(calls[n], "params._meta.traceparent").String(); got != contextOf(s) {
				t.Errorf("request %d has %q, want %q", n, got, contextOf(s))
			}
		}
	})
}
