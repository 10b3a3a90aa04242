package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// notModern are the steps of the scenario for which 2026-07-28 has no message, or to
// which no peer answers.
var notModern = map[string]string{
	"ping":           "ended with sessions",
	"roots changed":  "ended with sessions",
	"roots asked":    "a server asks in calls only",
	"initialize":     "is server/discover",
	"unknown method": "has a status of its own",
	"asked":          "what is asked, and in which order, shows in the calls",
	"heard":          "when and how often is up to clocks",
	"exit":           "compared by itself",
}

// notGoModern are the steps for which the Go SDK's client of that revision has no method.
var notGoModern = map[string]string{
	"set log level":      "each request says its own",
	"log message":        "no client asked for log messages",
	"resource updated":   "comes before the stream of the subscription stands",
	"cancellations seen": "the request is cancelled by closing its stream",
	"subscribe":          "is a stream",
	"unsubscribe":        "is a stream",
}

// notModern returns the steps that have another result without a session because of what the server does.
func (s *server) notModern(over transport) map[string]string {
	not := map[string]string{}
	if strings.HasPrefix(s.name, "everything 2025.") {
		not["resource updated"] = "it asks the client for a completion before it accepts a subscription, in no call"
		not["log message"] = "its log messages come by the clock, in no call"
	}
	if s.name == "everything 2026.8.31" && over == streamable {
		not["log message"] = "its first one comes on the stream of the session, in no order with the answer that ends the call; the others come by the clock, in no call"
	}
	switch {
	case s.name != "everything 2025.9.25":
	case over == streamable:
		not["roots"] = "it asks for them as a session begins, when there is no stream to ask on; only roots/list_changed makes it ask again"
	default:
		not["roots"] = "it asks for them as a session begins; here a subscription comes before the first call, and waits as long as that question may"
	}
	return not
}

// progressApart reports whether progress comes on the stream of the session, and not on that of the answer.
func (s *server) progressApart(over transport) bool {
	return over == streamable && (s.name == "everything 2025.4.28" || s.name == "everything 2025.7.1")
}

// cutLateProgress reduces the progress that a client with a session got to what one without a session got. Without a
// session, the answer ends the call, and progress that comes later on another stream is lost.
func cutLateProgress(with, without transcript) {
	for i := range with {
		all, _ := with[i].Progress.([]any)
		early, _ := without.step(with[i].Step).Progress.([]any)
		if n := len(early); n > 0 && n < len(all) {
			with[i].Progress = all[:n]
		}
	}
}

func withAll[V any](a, b map[string]V) map[string]V {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// except leaves out steps that would wait in vain.
func except(not map[string]string) func(scene) bool {
	return func(s scene) bool { return s.Await == "" && s.Step != "cancellations seen" || not[s.Step] == "" }
}

// TestModernClient runs published clients of 2026-07-28 with every server through
// the proxy: the results of their calls must be the same as in a session,
// questions during calls included.
func TestModernClient(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	m := nodePeers(t)
	proxy := build(t)
	several := newSeveral(t)
	defer several.wait()
	type pair struct {
		name          string
		with, without func() outcome // runs with and without a session
		not           map[string]string
		apart         bool // progress and answer come on streams of their own
	}
	var pairs []pair
	for i, s := range append(publishedServers(m), m.typescriptServer2("2025-11-25"), goServerOfBothEras(false)) {
		for j, name := range []string{"Go", "TypeScript", "TypeScript as it is"} {
			for k, down := range []transport{streamable, stdio} {
				up := inTurn(s.transports, i+j+k)
				if up == withSSE && s.once && down == stdio && j > 0 {
					up = stdio // on a pipe this client starts the server's command twice, the first time to find out the era
				}
				not := withAll(notModern, s.notModern(up))
				var with, without *client
				switch name {
				case "Go":
					not = withAll(not, notGoModern)
					with, without = goSDK("2025-11-25", except(not)), goSDKAsItIs(except(not))
				case "TypeScript":
					with, without = m.typescript2("legacy", "2025-11-25", not), m.typescript2(pinned(newest), newest, not)
				default:
					with, without = m.typescript2("legacy", "2025-11-25", not), m.typescript2("auto", newest, not)
				}
				run := func(what string, c *client) func() outcome {
					return several.start(func(ctx context.Context) outcome {
						return proxied(ctx, proxy, cell{client: c, server: s, down: down, up: up}, markOf(fmt.Sprintf("modern-%d-%d-%s-%s", i, j, down, what)))
					})
				}
				pairs = append(pairs, pair{fmt.Sprintf("%s_%s_to_%s_%s", name, down, up, s.name), run("with", with), run("without", without), not, s.progressApart(up)})
			}
		}
	}
	for _, p := range pairs {
		t.Run(strings.ReplaceAll(p.name, " ", "_"), func(t *testing.T) {
			want, got := p.with(), p.without()
			if want.err != nil || got.err != nil {
				t.Fatalf("with a session: %v\nwithout: %v\n%s", want.err, got.err, tail(got.log))
			}
			hello := got.steps.step("initialize").Result
			if supported, _ := at(hello, "supportedVersions").([]any); at(hello, "protocolVersion") != newest && !slices.Contains(supported, any(newest)) {
				t.Fatalf("the client was told %v", hello)
			}
			if p.apart {
				cutLateProgress(want.steps, got.steps)
			}
			compareEras(t, want.steps, got.steps, p.not)
			for _, line := range errorLines(got.log) {
				t.Errorf("logged: %s", line)
			}
			if t.Failed() {
				t.Log(tail(got.log))
			}
		})
	}
}

// compareEras compares the transcript of a client without a session with that of one
// with a session, except for what only one of the eras has.
func compareEras(t *testing.T, legacy, modern transcript, not map[string]string) {
	t.Helper()
	for _, e := range slices.Concat(legacy, modern) {
		withoutTaskTools(e)
	}
	want, got := legacy.comparable(), modern.comparable()
	same := 0
	var seen []string
	for _, e := range slices.Concat(legacy, modern) {
		if not[e.Step] != "" || slices.Contains(seen, e.Step) {
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

// withoutTaskTools removes the tools that are called as tasks only, which clients without a session do not get.
func withoutTaskTools(e entry) {
	pages, _ := e.Result.([]any)
	for _, page := range pages {
		page, _ := page.(map[string]any)
		if tools, ok := page["tools"].([]any); ok {
			page["tools"] = slices.DeleteFunc(tools, func(tool any) bool { return at(tool, "name") == "simulate-research-query" })
		}
	}
}

// withoutEra removes the members that results have in one era only.
func withoutEra(e entry) entry {
	var clean func(v any) any
	clean = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := map[string]any{}
			for k, w := range v {
				switch k {
				case "resultType", "ttlMs", "cacheScope", "io.modelcontextprotocol/serverInfo", "execution": // execution is about tasks
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
