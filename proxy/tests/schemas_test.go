package tests

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// timesAsked returns how often a server got a method.
func timesAsked(f *fakeServer, method string) (n int) {
	for _, m := range f.sent() {
		if gjson.Get(m, "method").String() == method {
			n++
		}
	}
	return n
}

// TestSchemasAreAskedForWhereTheListWasNeverSeen: once, and again when the list has changed. The
// client does not see that.
func TestSchemasAreAskedForWhereTheListWasNeverSeen(t *testing.T) {
	list := `{"tools":[{"name":"few","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"issues":{"type":"array","minItems":450}}}},` +
		`{"name":"free","inputSchema":{"type":"object"}}]}`
	result := func(string) string {
		return `{"content":[],"structuredContent":{"issues":` + gjson.Get(issues(500), "issues").Raw + `}}`
	}
	for _, piped := range []bool{false, true} {
		for _, c := range []struct {
			server, client, tool string
			least, most          int // of the issues that are left
			asks                 int
		}{
			{"2025-11-25", "2025-11-25", "few", 450, 499, 1},
			{"2025-11-25", "2025-06-18", "few", 450, 499, 1},
			{"2025-11-25", "2025-11-25", "free", 1, 100, 1},
			{"2025-11-25", "2025-11-25", "unlisted", 500, 500, 1},
			{"2025-11-25", "2025-03-26", "few", 0, 0, 0}, // what this client gets has no schema
		} {
			t.Run(fmt.Sprint(piped, c.client, c.tool), func(t *testing.T) {
				f := answering(c.server, piped, result, list)
				srv := front(t, f, shaped(t, "default_max_tokens: 600"))
				session := srv.initialize(c.client)
				for range 2 {
					answer := srv.post(session, callOf(1, c.tool, "")).body
					if n := int(gjson.Get(answer, "result.structuredContent.issues.#").Int()); n < c.least || n > c.most {
						t.Errorf("%d issues: %.300s", n, answer)
					}
				}
				if n := timesAsked(f, "tools/list"); n != c.asks {
					t.Errorf("asked %d times", n)
				}
				s, err := srv.Table.Find(session, sealed.Owner{}, &downstream.Sender{})
				if err != nil {
					t.Fatal(err)
				}
				s.Tools.Forget() // as for notifications/tools/list_changed
				s.Leave()
				srv.post(session, callOf(1, c.tool, ""))
				if n := timesAsked(f, "tools/list"); n != 2*c.asks {
					t.Errorf("asked %d times after a change", n)
				}
			})
		}
	}
}

// TestSchemasAreNotAskedForInVain: not for a client that listed the tools, for tools without a
// rule, or without shaping; and a server without a list is asked once.
func TestSchemasAreNotAskedForInVain(t *testing.T) {
	list := `{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`
	result := func(string) string { return `{"content":[],"structuredContent":{"a":1}}` }
	for name, c := range map[string]struct {
		change []func(*config.Config)
		lists  bool
		want   int
	}{
		"nothing is shaped": {nil, false, 0},
		"another tool's":    {[]func(*config.Config){shaped(t, "{default_max_tokens: 0, rules: [{match: {tool: b}, max_tokens: 100}]}")}, false, 0},
		"it was listed":     {[]func(*config.Config){shaped(t, "{}")}, true, 1},
		"it was not":        {[]func(*config.Config){shaped(t, "{}")}, false, 1},
	} {
		f := answering("2025-11-25", false, result, list)
		srv := front(t, f, c.change...)
		session := srv.initialize("2025-11-25")
		if c.lists {
			srv.post(session, listTools)
		}
		srv.post(session, callOf(1, "a", ""))
		if n := timesAsked(f, "tools/list"); n != c.want {
			t.Errorf("%s: asked %d times", name, n)
		}
	}

	f := answering("2025-11-25", false, func(string) string {
		return `{"content":[{"type":"text","text":` + quote(strings.Repeat("word ", 3000)) + `}],"structuredContent":{"a":[1,2,3]}}`
	}, list)
	f.First = failing(func(m string) error {
		if gjson.Get(m, "method").String() == "tools/list" {
			return errors.New("not now")
		}
		return nil
	})
	srv := front(t, f, shaped(t, "default_max_tokens: 300"))
	session := srv.initialize("2025-11-25")
	for range 2 {
		answer := srv.post(session, callOf(1, "a", "")).body
		if s := gjson.Get(answer, "result.structuredContent").Raw; s != `{"a":[1,2,3]}` || len(answer) > 3000 {
			t.Errorf("%.400s", answer)
		}
	}
}
