package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// notModern are the steps of the scenario that 2026-07-28 has no message for, or
// nobody to answer.
var notModern = map[string]string{
	"ping":               "ended with sessions",
	"set log level":      "each request says its own",
	"log message":        "nobody asked for log messages",
	"initialize":         "is server/discover",
	"roots asked":        "a server asks in calls only",
	"resource updated":   "came by a subscription, which is a stream",
	"tools changed":      "comes by a subscription",
	"cancellations seen": "the request is cancelled by closing its stream",
	"unknown method":     "has a status of its own",
	"asked":              "what is asked, and in which order, shows in the calls",
	"heard":              "nobody subscribed",
	"subscribe":          "is a stream",
	"unsubscribe":        "is a stream",
	"exit":               "compared by itself",
}

// onlyModern leaves out what would be waited for in vain.
func onlyModern(s scene) bool { return s.Await == "" || notModern[s.Step] == "" }

// TestModernClient lets the Go SDK's client, left to itself, meet every server
// through the proxy: it finds out that it needs no session, and what comes of its
// calls is what comes of them in one, questions in mid-call included.
func TestModernClient(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a dozen peers")
	}
	m := nodePeers(t)
	proxy := build(t)
	without, with := goSDKAsItIs(onlyModern), goSDK("2025-11-25", onlyModern)
	several := newSeveral(t)
	defer several.wait()
	type pair struct {
		name          string
		with, without func() outcome // a session
	}
	var pairs []pair
	for i, s := range publishedServers(m) {
		for _, down := range []transport{streamable, stdio} {
			up := inTurn(s.transports, i)
			run := func(what string, c *client) func() outcome {
				return several.start(func(ctx context.Context) outcome {
					return proxied(ctx, proxy, cell{client: c, server: s, down: down, up: up}, fmt.Sprintf("e2e-modern-%d-%s-%s", i, down, what))
				})
			}
			pairs = append(pairs, pair{fmt.Sprintf("%s_to_%s_%s", down, up, s.name), run("with", with), run("without", without)})
		}
	}
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			want, got := p.with(), p.without()
			if want.err != nil || got.err != nil {
				t.Fatalf("with a session: %v\nwithout: %v\n%s", want.err, got.err, tail(got.log))
			}
			if v := at(got.steps.step("initialize").Result, "protocolVersion"); v != "2026-07-28" {
				t.Fatalf("the client speaks %v", v)
			}
			compareEras(t, want.steps, got.steps)
			for _, line := range errorLines(got.log) {
				t.Errorf("logged: %s", line)
			}
			if t.Failed() {
				t.Log(tail(got.log))
			}
		})
	}
}

// compareEras compares what a client without a session lived through with what one
// with a session did, but for what only one of the eras has.
func compareEras(t *testing.T, legacy, modern transcript) {
	t.Helper()
	for _, e := range slices.Concat(legacy, modern) {
		withoutTaskTools(e)
	}
	want, got := legacy.comparable(), modern.comparable()
	same := 0
	var seen []string
	for _, e := range slices.Concat(legacy, modern) {
		if notModern[e.Step] != "" || slices.Contains(seen, e.Step) {
			continue
		}
		seen = append(seen, e.Step)
		w, g := withoutEra(want[e.Step]), withoutEra(got[e.Step])
		if diff := cmp.Diff(w, g); diff != "" {
			t.Errorf("%s (-with a session +without):\n%s", e.Step, diff)
			continue
		}
		same++
	}
	if same < 15 {
		t.Errorf("only %d steps are the same", same)
	}
}

// withoutTaskTools removes the tools that are called as tasks only, which no client without a session is shown.
func withoutTaskTools(e entry) {
	pages, _ := e.Result.([]any)
	for _, page := range pages {
		page, _ := page.(map[string]any)
		if tools, ok := page["tools"].([]any); ok {
			page["tools"] = slices.DeleteFunc(tools, func(tool any) bool { return at(tool, "name") == "simulate-research-query" })
		}
	}
}

// withoutEra removes what results have in one era only.
func withoutEra(e entry) entry {
	var clean func(v any) any
	clean = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for k, w := range v {
				switch k {
				case "resultType", "ttlMs", "cacheScope", "io.modelcontextprotocol/serverInfo":
					continue
				}
				c := clean(w)
				if m, ok := c.(map[string]any); k == "_meta" && ok && len(m) == 0 {
					continue
				}
				out[k] = c
			}
			return out
		case []any:
			out := make([]any, len(v))
			for i, w := range v {
				out[i] = clean(w)
			}
			return out
		}
		return v
	}
	e.Result, e.Error = clean(e.Result), clean(e.Error)
	return e
}
