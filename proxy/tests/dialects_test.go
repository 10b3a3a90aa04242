package tests

import (
	"context"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/translate"
)

const (
	oldSchema = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"p":{"items":[{"type":"string"}],"additionalItems":false}}}`
	newSchema = `{"type":"object","properties":{"p":{"prefixItems":[{"type":"string"}],"items":false}}}`
	oldTool   = `{"name":"t","inputSchema":` + oldSchema + `,"description":"$schema draft-07"}`
)

// drafting is a server of a revision with a tool whose schema is in draft-07. Over HTTP it may
// answer with a batch.
func drafting(version string, piped, array bool) *fakeServer {
	list := func(id, more string) ([]string, error) {
		answer := result(id, more+`"tools":[`+oldTool+`]`)
		if array {
			answer = `[` + answer + `]`
		}
		return one(answer)
	}
	if translate.Lookup(version).Modern {
		return modernServer(piped, `"capabilities":{"tools":{}}`, func(id, method, _ string) ([]string, error) {
			return list(id, `"resultType":"complete","ttlMs":60000,"cacheScope":"public",`)
		})
	}
	f := newFake(initializing(version, func(m string) ([]string, error) {
		if id := gjson.Get(m, "id"); id.Exists() {
			return list(id.Raw, "")
		}
		return nil, nil
	}))
	f.piped = piped
	return f
}

// listOver reads the list of tools in one way.
func listOver(t *testing.T, srv testServer, client *translate.Revision, over string, session *string) string {
	t.Helper()
	const ask = `{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{}}`
	switch {
	case over == "pipe":
		c := srv.pipe()
		if client.Modern {
			c.say(modernRequestOf("3", "tools/list", meta(`{}`)))
		} else {
			c.say(initialize(client.Name, `{}`))
			c.hear()
			c.say(ask)
		}
		return c.hear()
	case client.Modern:
		r := srv.modernly(modernRequestOf("3", "tools/list", meta(`{}`)))
		return r.body + strings.Join(r.events, "")
	}
	if *session == "" {
		*session = srv.initialize(client.Name)
	}
	r := srv.post(*session, ask)
	return r.body + strings.Join(r.events, "")
}

// TestToolsInDraft07: the schemas are updated on every path, also in lists that come from a cache.
func TestToolsInDraft07(t *testing.T) {
	for _, vu := range translate.All() {
		for _, vc := range translate.All() {
			for _, over := range []string{"http", "pipe"} {
				for _, server := range []string{"http", "pipe", "array", "cached"} {
					if vu.Modern && (vc.Modern || server == "array") {
						continue // testdata/scripts/schemas-of-draft-07-between-modern-peers.txt
					}
					t.Run(vu.Name+" to "+vc.Name+" over "+over+" from "+server, func(t *testing.T) {
						t.Parallel()
						srv := front(t, drafting(vu.Name, server == "pipe", server == "array"), func(c *config.Config) {
							if server == "cached" {
								c.Bridge.Cache.Bytes = 1 << 20
							}
						})
						want := oldSchema
						if vc.Schemas2020 {
							want = newSchema
						}
						session := ""
						for range 3 {
							said := listOver(t, srv, vc, over, &session)
							got := gjson.Get(said, "result.tools.0")
							if got.Get("inputSchema").Raw != want || got.Get("description").String() != "$schema draft-07" {
								t.Fatalf("got %s", said)
							}
							if over == "pipe" {
								break
							}
						}
						if n := srv.logs.FilterMessageSnippet("draft-07").Len(); (n > 0) != vc.Schemas2020 {
							t.Errorf("%d lines", n)
						}
					})
				}
			}
		}
	}
}

func TestSchemaDialectOff(t *testing.T) {
	srv := front(t, drafting("2025-11-25", false, false), func(c *config.Config) { c.Contract.SchemaDialect = "off" })
	session := ""
	if got := listOver(t, srv, translate.Lookup("2025-11-25"), "http", &session); gjson.Get(got, "result.tools.0").Raw != oldTool {
		t.Errorf("got %s", got)
	}
}

func TestProbeWarnsOfDraft07(t *testing.T) {
	for _, setting := range []string{"auto", "off"} {
		srv := front(t, drafting("2025-11-25", false, false), func(c *config.Config) { c.Contract.SchemaDialect = setting })
		r, err := srv.Probe(context.Background(), probe.AllCapabilities())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Clients {
			vc := translate.Lookup(c.Revision)
			said := ""
			for _, ch := range c.Changes {
				if ch.Rule == "C36" {
					said += ch.Level + strings.Join(ch.Names, ",")
				}
			}
			want := map[string]string{"auto": "infot", "off": "warnt"}[setting]
			if !vc.Schemas2020 {
				want = ""
			}
			if said != want {
				t.Errorf("%s, %s: %q", setting, vc, said)
			}
		}
	}
}
