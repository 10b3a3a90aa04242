package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate"
)

// emptyCursors is a server whose list has an empty cursor: one that leads to two more pages if it is modern, else one that
// ends the list.
func emptyCursors(modern, piped bool) *fakeServer {
	entries := func(names string) string {
		list := strings.Fields(names)
		for i, name := range list {
			list[i] = fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
		}
		return `"tools":[` + strings.Join(list, ",") + `]`
	}
	first := entries("a b") + `,"nextCursor":""`
	if !modern {
		f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) { return one(result(id, first)) })
		f.piped = piped
		return f
	}
	return plainFake(piped, func(id, _, m string) ([]string, error) {
		more := `"resultType":"complete","ttlMs":0,"cacheScope":"private",`
		switch cursor := gjson.Get(m, "params.cursor"); cursor.Raw {
		case "":
			return one(result(id, more+first))
		case `""`:
			return one(result(id, more+entries("c")+`,"nextCursor":"3"`))
		case `"3"`:
			return one(result(id, more+entries("d")))
		default:
			return one(rpcError(id, `"code":-32602,"message":"unknown cursor"`))
		}
	})
}

// walk returns the names of all tools that a client gets which ends its walk at these cursors.
func walk(t *testing.T, ask func(id int, params string) string, ends ...string) string {
	t.Helper()
	all, params := "", ""
	for id := 1; id < 20; id++ {
		page := ask(id, params)
		all += names(page) + " "
		cursor := gjson.Get(page, "result.nextCursor").Raw
		for _, end := range append(ends, "", "null") {
			if cursor == end {
				return strings.TrimSpace(all)
			}
		}
		params = `"cursor":` + cursor
	}
	t.Fatalf("no end after %.200s", all)
	return ""
}

// TestNoToolIsLostOrDoubledByAnEmptyCursor: with own tools, clients of both eras get every tool once, whichever way they
// understand an empty cursor, whether the own tools fit on a page or not.
func TestNoToolIsLostOrDoubledByAnEmptyCursor(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for _, own := range []int{1, 450} {
			t.Run(fmt.Sprintf("modern server %v, %d own tools", modern, own), func(t *testing.T) {
				bothInBubbles(t, func(t *testing.T, piped bool) {
					var ours []string
					for i := range own {
						ours = append(ours, fmt.Sprintf("ours_%04d", i))
					}
					want := "a b "
					if modern {
						want += "c d "
					}
					want += strings.Join(ours, " ")
					srv := beside(t, emptyCursors(modern, piped), echoing(ours...))
					ask := func(id int, params string) string {
						if params != "" {
							params += ","
						}
						return srv.modernly(modernRequestOf(fmt.Sprint(id), "tools/list", params+meta(`{}`))).body
					}
					if got := walk(t, ask); got != want {
						t.Errorf("a modern client gets %.100s", got)
					}
					for _, version := range []string{"2024-11-05", "2025-11-25"} {
						session := srv.initialize(version)
						ask = func(id int, params string) string {
							return srv.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{%s}}`, id, params)).body
						}
						if got := walk(t, ask, `""`); got != want {
							t.Errorf("a client of %s that ends at an empty cursor gets %.100s", version, got)
						}
						if own > 1 || modern { // else it is the server's own cursor, without end
							if got := walk(t, ask); got != want {
								t.Errorf("a client of %s that goes on after an empty cursor gets %.100s", version, got)
							}
						}
					}
				})
			})
		}
	}
}

// TestAnEmptyCursorOfTheClient: with a handshake it asks for the first page, without one for a page of own tools that there
// is not.
func TestAnEmptyCursorOfTheClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := legacyServer(`{}`, nil)
		srv := beside(t, f, echoing("ours"))
		first := srv.post(srv.initialize("2025-11-25"), `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":""}}`).body
		if names(first) != "ours" {
			t.Error(first)
		}
		if none := srv.modernly(modernRequestOf("1", "tools/list", `"cursor":"",`+meta(`{}`))).body; gjson.Get(none, "error.code").Int() != -32602 {
			t.Error(none)
		}
	})
}

// TestAnEmptyCursorCrossesTheEras: the end of a list stays its end for modern clients, and what a modern server means by an
// empty cursor, which older clients take for the end, is told once.
func TestAnEmptyCursorCrossesTheEras(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		srv := beside(t, emptyCursors(false, piped))
		if got := srv.modernly(modernRequestOf("1", "tools/list", meta(`{}`))).body; names(got) != "a b" || gjson.Get(got, "result.nextCursor").Exists() {
			t.Errorf("a modern client gets %s", got)
		}
		srv = beside(t, emptyCursors(true, piped))
		session := srv.initialize("2025-11-25")
		for range 3 {
			if got := srv.post(session, listTools).body; gjson.Get(got, "result.nextCursor").Raw != `""` {
				t.Errorf("an older client gets %s", got)
			}
		}
		told := 0
		for _, line := range srv.logs.FilterMessage("lost in translation").All() {
			if strings.Contains(fmt.Sprint(line.ContextMap()), "nextCursor") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("told %d times", told)
		}
	})
}

// TestProbeWalksByTheServersRevision: a probe reads what is behind an empty cursor of a modern server, and says which of it
// older clients do not get. A cursor that repeats ends the list.
func TestProbeWalksByTheServersRevision(t *testing.T) {
	tools := func(names string, cursor string) string {
		return `"result":{"resultType":"complete","tools":[{"name":"` + names + `","inputSchema":{"type":"object"}}]` + cursor + `}`
	}
	const modern = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{"tools":{}}}`
	const handshake = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}`
	for name, c := range map[string]struct {
		answers map[string]string
		tools   int
		endless string
		missing []string // for clients of 2025-11-25
	}{
		"modern": {map[string]string{"server/discover": modern,
			"tools/list": tools("a", `,"nextCursor":""`), `tools/list""`: tools("b", `,"nextCursor":"2"`), `tools/list"2"`: tools("c", ``)},
			3, "", []string{"tools: b: it is behind an empty cursor, with which the list ends for the client", "tools: c: it is behind an empty cursor, with which the list ends for the client"}},
		"handshake": {map[string]string{"initialize": handshake,
			"tools/list": tools("a", `,"nextCursor":""`), `tools/list""`: tools("b", ``)},
			1, "", nil},
		"a circle": {map[string]string{"initialize": handshake,
			"tools/list": tools("a", `,"nextCursor":"1"`), `tools/list"1"`: tools("b", `,"nextCursor":"2"`), `tools/list"2"`: tools("c", `,"nextCursor":"1"`)},
			3, `the cursor "1" comes a second time: the list has no end`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
				answer := c.answers[u.Method+gjson.Get(u.Text, "params.cursor").Raw]
				if answer == "" {
					answer = `"error":{"code":-32601,"message":"Method not found"}`
				}
				if u.ID != "" {
					u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,`+answer+`}`)
				}
			})
			s.NoGet = true
			cfg := config.Default()
			cfg.Upstream.URL = s.At().URL + "/mcp"
			r, err := proxy.Probe(t.Context(), cfg, probe.AllCapabilities(), zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			if r.Lists[0].Count != c.tools || r.Lists[0].Endless != c.endless {
				t.Errorf("%+v", r.Lists)
			}
			for _, client := range r.Clients {
				if client.Revision == "2025-11-25" && !slices.Equal(client.Missing, c.missing) || client.Revision == translate.Modern() && !client.Works {
					t.Errorf("%+v", client)
				}
			}
			all, err := proxy.Tools(t.Context(), cfg, probe.AllCapabilities(), zap.NewNop())
			if err != nil || len(all.Tools) != c.tools {
				t.Errorf("%d tools, %v", len(all.Tools), err)
			}
		})
	}
}
