package transform

import (
	"strings"
	"testing"
)

func TestParametersThatNarrowACall(t *testing.T) {
	for tool, want := range map[string]string{
		`{"name":"x"}`: "", `{"inputSchema":{"type":"object"}}`: "", `{"inputSchema":{"properties":[1]}}`: "", `{"inputSchema":{"properties":{"path":{}}}}`: "",
		`{"inputSchema":{"properties":{"path":{},"tail":{"type":"number"},"head":{}}}}`:                             "head, tail",
		`{"inputSchema":{"properties":{"per_page":{},"page":{},"maxResults":{},"q":{},"Fields":{},"limits":{}}}}`:   "Fields, q, per_page",
		`{"inputSchema":{"properties":{"li\u006dit":{},"` + strings.Repeat("_", 50) + `limit":{},"page-size":{}}}}`: "page-size",
	} {
		if got := Narrowing([]byte(tool)); got != want {
			t.Errorf("%s: %q, want %q", tool, got, want)
		}
	}
}

// TestAdviceNamesParametersThatTheToolHas checks that the notice names them if
// there is room, and gives no advice otherwise.
func TestAdviceNamesParametersThatTheToolHas(t *testing.T) {
	e := engine(t, "transform: {rules: [{match: {tool: strict}, on_conflict: error}]}")
	for _, c := range []struct {
		narrowing string
		budget    int
		want      bool
	}{{"fields, per_page", 1000, true}, {"", 1000, false}, {"fields, per_page", 100, false}} {
		for _, off := range []bool{false, true} {
			out, _ := e.Apply(nil, textResult(issues(300)), &Call{Tool: "x", Schemas: None, MaxTokens: c.budget, Narrowing: c.narrowing, NoMore: off})
			texts, _ := seen(t, out)
			notice := texts[len(texts)-1]
			if strings.Contains(notice, "ask for less with fields, per_page") != (c.want || c.narrowing != "" && off && c.budget > 100) || strings.Contains(notice, "ask for less") != strings.Contains(notice, "with fields") {
				t.Errorf("%+v: %s", c, notice)
			}
			if !off && !strings.HasSuffix(notice, "}]") {
				t.Errorf("the call is not last: %s", notice)
			}
		}
	}
	in := []byte(`{"content":[],"structuredContent":{"a":"` + strings.Repeat("word ", 3000) + `"}}`)
	schema := []byte(`{"type":"object","required":["a"],"properties":{"a":{"type":"string","minLength":15000}}}`)
	for _, c := range []struct {
		narrowing string
		want      string
	}{{"limit", "allows no less. Ask for less with limit. Next: "}, {"", "allows no less. Next: "}} {
		out, _ := e.Apply(nil, in, &Call{Tool: "strict", Schemas: Seen, Schema: schema, MaxTokens: 200, Narrowing: c.narrowing})
		if texts, _ := seen(t, out); !strings.Contains(texts[0], c.want) {
			t.Errorf("%q: %s", c.narrowing, texts)
		}
	}
}
