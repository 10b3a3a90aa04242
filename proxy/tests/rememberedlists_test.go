package tests

import (
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
)

// TestRememberedListsAreToldOfAsNewOnes: spans and the live page say the same of a list whose translation is remembered as of
// one that is translated.
func TestRememberedListsAreToldOfAsNewOnes(t *testing.T) {
	const tools = `"tools":[{"name":"a","title":"A","icons":[{"src":"https://a.test/i.png"}],"annotations":{"title":"x","readOnlyHint":true},` +
		`"inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"x":{"definitions":{"y":{}}}}},"outputSchema":{"type":"object"}}]`
	say := func(id, _, _ string) ([]string, error) { return one(result(id, `"_meta":{"a":1},`+tools)) }
	complete := func(id, _, _ string) ([]string, error) {
		return one(result(id, `"resultType":"complete","ttlMs":0,"cacheScope":"private",`+tools))
	}
	for _, speaks := range []string{"2025-06-18", "2025-11-25", modernVersion} {
		bothTransports(t, func(t *testing.T, piped bool) {
			for _, version := range []string{"2024-11-05", "2025-11-25", modernVersion} {
				for _, over := range []string{"http", "stdio"} {
					t.Run(fmt.Sprintf("%s on %s to %s", version, over, speaks), func(t *testing.T) {
						to := traced(t)
						f := modernServer(piped, `"capabilities":{"tools":{}}`, complete)
						f.asked = version == modernVersion
						if speaks != modernVersion {
							f = newFake(initializing(speaks, func(m string) ([]string, error) {
								if id := gjson.Get(m, "id"); id.Exists() {
									return say(id.Raw, "", "")
								}
								return nil, nil
							}))
							f.piped = piped
						}
						srv := front(t, f)
						ring, end := observedBy(srv)
						ask := askingAs(srv, version, over == "stdio")
						const times = 5
						for n := range times {
							request := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{"_meta":{%s}}}`, 10+n, sampledParent)
							if version == modernVersion {
								request = modernRequestOf(fmt.Sprint(10+n), "tools/list", meta(`{}`, sampledParent))
							}
							if got := ask(request); gjson.Get(got, "result.tools.0.name").Str != "a" {
								t.Fatal(got)
							}
						}
						if len(srv.Lists.Known()) == 0 {
							t.Error("nothing is remembered")
						}
						rows := rowsOf(ring, "tools/list")
						eventually(t, "all calls have ended", func() bool {
							rows = rowsOf(ring, "tools/list")
							return len(rows) == times && rows[times-1].Row.Status == "ok" && len(rows[times-1].Messages) >= len(rows[0].Messages)
						})
						end()
						srv.Tracer.Close()
						spans := spansOf(to.Spans(t, 2*times), "tools/list")
						for n, s := range spans[:times] {
							for _, name := range []string{"dragoman.rules", "dragoman.losses"} {
								if got, want := s.Attributes[name], spans[0].Attributes[name]; got != want {
									t.Errorf("span %d: %s is %q, want %q", n, name, got, want)
								}
							}
						}
						for n, d := range rows {
							if got, want := fmt.Sprint(steps(d)), fmt.Sprint(steps(rows[0])); got != want {
								t.Errorf("call %d: %s, want %s", n, got, want)
							}
							if unexplained(d) != unexplained(rows[0]) {
								t.Errorf("call %d: %d differences without a reason: %+v", n, unexplained(d), d.Messages)
							}
							for i, m := range d.Messages {
								was := rows[0].Messages[i]
								if !reflect.DeepEqual(m.Changes, was.Changes) {
									t.Errorf("call %d, message %d:\n got  %+v\n want %+v", n, i, m, was)
								}
							}
						}
					})
				}
			}
		})
	}
}

// TestAListThatIsNoSuccessIsCountedAsEver: a list may say that the server needs an answer first, and is one round of a call
// then, or that a tool has failed.
func TestAListThatIsNoSuccessIsCountedAsEver(t *testing.T) {
	const times = 5
	for members, failed := range map[string]int{`"resultType":"input_required","requestState":"s"`: 0, `"resultType":"complete","isError":true,"tools":[]`: times} {
		bothTransports(t, func(t *testing.T, piped bool) {
			var says atomic.Value
			says.Store(members)
			f := modernServer(piped, `"capabilities":{"tools":{}}`, func(id, _, _ string) ([]string, error) { return one(result(id, says.Load().(string))) })
			f.asked = true
			srv := front(t, f)
			ask := askingAs(srv, modernVersion, false)
			for n := range times {
				ask(modernRequestOf(fmt.Sprint(n), "tools/list", meta(`{}`)))
			}
			says.Store(`"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]`)
			ask(modernRequestOf("9", "tools/list", meta(`{}`)))
			eventually(t, "the last one is counted", func() bool { return srv.outcomes(metrics.Succeeded, "tools/list") > 0 })
			eventually(t, "all have ended", func() bool {
				return counted(t, srv.Metrics, "dragoman_requests_total", "method=tools/list") == failed+1
			})
			if n := srv.outcomes(metrics.ToolError, "tools/list"); n != failed {
				t.Errorf("%d are counted as failed, want %d", n, failed)
			}
		})
	}
}

// TestTheMemoryOfRememberedListsIsCounted: many clients may read large lists slowly. What is written over the server's answer
// needs no more memory.
func TestTheMemoryOfRememberedListsIsCounted(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // what is collected is not counted any more
	list := `"tools":[{"name":"a","title":"T","description":"` + strings.Repeat("x", 2*large.Size) + `","inputSchema":{"type":"object"}}]`
	bothTransports(t, func(t *testing.T, piped bool) {
		f := newFake(initializing("2025-06-18", func(m string) ([]string, error) {
			if id := gjson.Get(m, "id"); id.Exists() {
				return one(result(id.Raw, list))
			}
			return nil, nil
		}))
		f.piped = piped
		srv := front(t, f)
		ask := askingAs(srv, modernVersion, false)
		var translated int64
		for n := range 6 {
			before := srv.Host.Memory().Budget.Taken()
			if got := ask(modernRequestOf(fmt.Sprint(n), "tools/list", meta(`{}`))); len(got) < len(list) {
				t.Fatal(got)
			}
			more := srv.Host.Memory().Budget.Taken() - before
			if n == 0 {
				translated = more
			}
			if more < translated || piped && more < int64(len(list)) {
				t.Errorf("list %d: %d bytes are counted, for a translated one %d", n, more, translated)
			}
		}
		if len(srv.Lists.Known()) == 0 {
			t.Error("nothing is remembered")
		}
	})
}
