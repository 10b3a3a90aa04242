//go:build !race

package adapterrt

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/transform/tokens"
)

// TestTokensOfEachMode measures what a model reads of the tools: tools/list, and the first
// answer that leads to a call. docs/adapters.md has the numbers.
func TestTokensOfEachMode(t *testing.T) {
	o200k, err := tokens.Named(tokens.O200K, 1)
	if err != nil {
		t.Fatal(err)
	}
	list := func(rt *Runtime) int {
		var entries [][]byte
		for _, tool := range rt.Tools("") {
			entries = append(entries, tool.JSON)
		}
		return o200k.Count([]byte(`{"tools":[` + string(bytes.Join(entries, []byte{','})) + `]}`))
	}
	const introspect = `{"operation":"introspect","params":{"query":"operations"}}`
	for name, make := range map[string]func(Options) *Runtime{
		"shipped": func(o Options) *Runtime { return shippedRuntime(t, o) },
		"github":  func(o Options) *Runtime { return allOfGitHub(t, o) },
	} {
		crude, search, discrete := make(Options{}), make(Options{Shown: Shown{Mode: present.Search}}), make(Options{Shown: Shown{Mode: present.Discrete}})
		tools := len(discrete.Tools(""))
		c, s, d := list(crude), list(search), list(discrete)
		first := o200k.Count([]byte(ask(crude, Endpoint{}, introspect)))
		hits := o200k.Count([]byte(called(t, search, "search_operations", `{"query":"comment on an issue","limit":5}`)))
		eight := o200k.Count([]byte(called(t, search, "search_operations", `{"query":"comment on an issue"}`)))
		t.Logf("%s, %d operations: crude %d + introspect %d; search %d + 5 hits %d, 8 hits %d; discrete %d, %d a tool", name, tools, c, first, s, hits, eight, d, d/tools)
		if s > 450 || name == "shipped" && (c > 950 || d > 180*tools) {
			t.Errorf("%s: tools/list takes %d, %d and %d tokens", name, c, s, d)
		}
		if hits > 5*80 {
			t.Errorf("%s: 5 hits take %d tokens: %s", name, hits, called(t, search, "search_operations", `{"query":"comment on an issue","limit":5}`))
		}
		for _, rt := range []*Runtime{crude, search, discrete} {
			if text := rt.Instructions(""); len(text) > 2048 || strings.Contains(text, "\n\n") {
				t.Errorf("%q", text)
			}
		}
	}
}
