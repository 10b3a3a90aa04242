package transform

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

func engineOf(t *testing.T, cfg Config, given ...Rule) *Engine {
	t.Helper()
	e, err := New(cfg, Options{Given: given})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func givenRule(t *testing.T, server, tool, block string) Rule {
	t.Helper()
	r, err := GivenRule(Match{Server: server, Tool: tool}, []byte(block))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDataIsShapedByTheRuleThatCameWithItsTool(t *testing.T) {
	e := engineOf(t, DefaultConfig(),
		givenRule(t, "github", "list_issues", `{"include_fields":["id","owner.name"],"page_size":2}`),
		givenRule(t, "notion", "get_page", `{"adapter":"notion"}`))
	for _, c := range []struct{ server, tool, in, want, notice string }{
		{"github", "list_issues", `[{"id":1.50,"x":1},{"id":2},{"id":3,"owner":{"name":"a","y":0}}]`, `[{"id":1.50},{"id":2}]`, "kept 2 of 3 items. Next: fetch_more"},
		{"github", "other", `[{"id":1,"x":1}]`, `[{"id":1,"x":1}]`, ""},
		{"gitlab", "list_issues", `[{"id":1,"x":1}]`, `[{"id":1,"x":1}]`, ""},
		{"notion", "get_page", `[{"object":"block","type":"paragraph","paragraph":{"rich_text":[{"plain_text":"Hi \"you\""}]}}]`, `"Hi \"you\""`, ""},
		{"github", "list_issues", `"text"`, `"text"`, ""},
		{"github", "list_issues", `7`, `7`, ""},
		{"github", "list_issues", `null`, `null`, ""},
		{"github", "list_issues", ``, ``, ""},
	} {
		out, notice, report := e.Data(nil, []byte(c.in), &Call{Server: c.server, Tool: c.tool})
		if string(out) != c.want || !strings.Contains(notice, c.notice) || (notice == "") != (c.notice == "") || report.Err != nil {
			t.Errorf("%s %s: %s %q %+v", c.tool, c.in, out, notice, report)
		}
	}
}

// TestDataIsCutToItsBudget checks values with every kind of root, and that the
// handle gives back the value itself.
func TestDataIsCutToItsBudget(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	cfg := DefaultConfig()
	cfg.DefaultMaxTokens = 400
	e := engineOf(t, cfg)
	var items []string
	for i := range 3000 {
		items = append(items, fmt.Sprintf(`{"id":%d,"title":"number %d"}`, i, i))
	}
	list := "[" + strings.Join(items, ",") + "]"
	for _, in := range []string{list, `{"items":` + list + `}`, `"` + strings.Repeat(`a \"word\" `, 3000) + `"`} {
		out, notice, report := e.Data(nil, []byte(in), &Call{Session: "s", Caller: "c"})
		if report.Outcome != Capped || report.TokensAfter > 400 || report.TokensBefore < 5000 || !gjson.ValidBytes(out) || out[0] != in[0] {
			t.Fatalf("%+v %.200s", report, out)
		}
		if !strings.Contains(notice, report.Cursor) || report.Cursor == "" {
			t.Errorf("%q", notice)
		}
		var all strings.Builder
		for offset := int64(0); ; {
			part := e.More(context.Background(), "s", "c", fmt.Appendf(nil, `{"cursor":%q,"from":%d,"count":16384,"raw":true}`, report.Cursor, offset))
			all.WriteString(gjson.GetBytes(part, "content.0.text").String())
			next, total := gjson.GetBytes(part, "_meta.dragoman/transform.next").Int(), gjson.GetBytes(part, "_meta.dragoman/transform.total").Int()
			if offset = next; next >= total {
				break
			}
			if all.Len() > 20_000 {
				break // the rest is alike
			}
		}
		want := in
		if in[0] == '"' {
			want = gjson.Parse(in).Str
		}
		if !strings.HasPrefix(want, all.String()) || all.Len() < 20_000 {
			t.Errorf("%d: %.100s", all.Len(), all.String())
		}
		out, notice, report = e.Data(nil, []byte(in), &Call{NoMore: true})
		if strings.Contains(notice, "fetch_more") || strings.Contains(notice, "too large") || report.Cursor != "" || len(out) >= len(in) {
			t.Errorf("%q %+v", notice, report)
		}
	}
}

func TestConfigurationOverridesRulesThatCameWithTools(t *testing.T) {
	n := 700
	for _, c := range []struct {
		name  string
		rules []Rule
		want  int
	}{
		{"no other rule", nil, 300},
		{"a pattern", []Rule{{Match: Match{Tool: "*"}, MaxTokens: &n}}, 300},
		{"another tool's", []Rule{{Match: Match{Tool: "get_issue"}, MaxTokens: &n}}, 300},
		{"another server's", []Rule{{Match: Match{Server: "gitlab", Tool: "list_issues"}, MaxTokens: &n}}, 300},
		{"its name", []Rule{{Match: Match{Tool: "list_issues"}, MaxTokens: &n}}, 700},
		{"its name and server", []Rule{{Match: Match{Server: "github", Tool: "list_issues"}, MaxTokens: &n}}, 700},
	} {
		cfg := DefaultConfig()
		cfg.Rules = c.rules
		e := engineOf(t, cfg, givenRule(t, "github", "list_issues", `{"max_tokens":300}`))
		if got := e.Budget(&Call{Server: "github", Tool: "list_issues"}); got != c.want {
			t.Errorf("%s: %d", c.name, got)
		}
		if got := e.Budget(&Call{Server: "github", Tool: "list_issues", MaxTokens: 150}); got != 150 {
			t.Errorf("%s: a client's %d", c.name, got)
		}
	}
}

func TestClosestName(t *testing.T) {
	op, tool := Name{"github", "list_issues"}, Name{"host", "mcp_aql_read"}
	for _, c := range []struct {
		config string
		want   Name
	}{
		{"{}", op},
		{"{rules: [{match: {tool: mcp_aql_read}}]}", tool},
		{"{rules: [{match: {tool: mcp_aql_read}}, {match: {tool: list_issues}}]}", op},
		{"{rules: [{match: {tool: mcp_aql_read}}, {match: {tool: 'list_*'}}]}", tool},
		{"{rules: [{match: {tool: 'mcp_aql_*'}}]}", tool},
		{"{rules: [{match: {tool: '*'}}]}", op},
		{"{adapters: {linear: {tools: ['mcp_aql_*']}}}", tool},
	} {
		var cfg Config
		if err := yaml.Unmarshal([]byte(c.config), &cfg); err != nil {
			t.Fatal(err)
		}
		if got := engineOf(t, cfg).Closest(op, tool); got != c.want {
			t.Errorf("%s: %v", c.config, got)
		}
	}
}

func TestGivenRuleMistakes(t *testing.T) {
	for block, want := range map[string]string{
		`{"max_tokns":1}`:                 "unknown key max_tokns",
		`{"max_tokens":5}`:                "max_tokens: 5 is not 0 or at least 100",
		`{"match":{"tool":"x"}}`:          "match",
		`{"truncate":{"a":{"most":1}}}`:   "unknown key truncate.a.most",
		`{"page_size":"x"}`:               "cannot unmarshal",
		`{"max_depth":11,"page_size":-1}`: "page_size",
	} {
		if _, err := GivenRule(Match{"a", "b"}, []byte(block)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "line 0") {
			t.Errorf("%s: %v", block, err)
		}
	}
	if _, err := New(DefaultConfig(), Options{Given: []Rule{{Match: Match{"a", "b"}, Adapter: "nobody"}}}); err == nil || !strings.Contains(err.Error(), `b of a: transform.adapter: there is no "nobody"`) {
		t.Error(err)
	}
}
