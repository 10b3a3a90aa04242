package transform

import (
	"fmt"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// configure reads a configuration as the command would.
func configure(t *testing.T, text string) (*Engine, error) {
	t.Helper()
	var file struct {
		Transform *Config `yaml:"transform"`
	}
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		return nil, err
	}
	if file.Transform == nil {
		t.Fatalf("no transform in %s", text)
	}
	e, err := New(*file.Transform, Options{})
	if said := file.Transform.Validate(); fmt.Sprint(said) != fmt.Sprint(err) {
		t.Errorf("%s\n Validate says %v\n New says      %v", text, said, err)
	}
	return e, err
}

func TestBadConfigurationIsRefusedWithItsPath(t *testing.T) {
	for _, c := range []struct{ text, path, why string }{
		{"default_max_tokens: 99", "transform.default_max_tokens", "at least 100"},
		{"default_max_tokens: -1", "transform.default_max_tokens", "at least 100"},
		{"auto_detect: maybe", "transform.auto_detect", "auto, true, false"},
		{"enable: true", "line 2: unknown key enable", ""},
		{"adapters: {capper: {modell: x}}", "unknown key adapters.capper.modell", ""},
		{"adapters: {capper: {model: o300k_base}}", "transform.adapters.capper.model", "unknown encoding"},
		{"adapters: {capper: {model: ''}}", "transform.adapters.capper.model", "empty"},
		{"adapters: {capper: {safety_factor: -1}}", "transform.adapters.capper.safety_factor", "-1"},
		{"adapters: {capper: {dedupe: both}}", "transform.adapters.capper.dedupe", "structured, content"},
		{"adapters: {capper: {tables: both}}", "transform.adapters.capper.tables", "rows, columns"},
		{"adapters: {nobody: {}}", "transform.adapters.nobody", "unknown adapter"},
		{"adapters: {fields: {x: 1}}", "transform.adapters.fields", "no such option"},
		{"adapters: {jira: {enabled: false}}", "transform.adapters.jira", "fields, linear, notion"},
		{"adapters: {notion: {output_format: banana}}", "transform.adapters.notion", "banana"},
		{"adapters: {linear: {include_commentz: true}}", "transform.adapters.linear", "include_commentz"},
		{"rules: [{adapter: linear, options: {include_comments: maybe}}]", "transform.rules[0].options", "include_comments"},
		{"store: {ttl: 0s}", "transform.store.ttl", "1s to 24h"},
		{"store: {max_bytes: -1}", "transform.store.max_bytes", "below 0"},
		{"more_tool: {enabled: maybe}", "transform.more_tool.enabled", "auto, on, off"},
		{"more_tool: {name: 'fetch more'}", "transform.more_tool.name", "letters"},
		{"rules: [{max_depth: 11}]", "line 2: transform.rules[0].max_depth", "1 to 10"},
		{"rules: [{}, {max_chars: 10}]", "transform.rules[1].max_chars", "marker"},
		{"rules: [{max_chars: -1}]", "transform.rules[0].max_chars", "below 0"},
		{"rules: [{truncation_marker: " + strings.Repeat("x", 101) + "}]", "transform.rules[0].truncation_marker", "100"},
		{"rules: [{truncate: {a: {max: -1}}}]", "transform.rules[0].truncate.a.max", "below 0"},
		{"rules: [{truncate: {a: {strategy: start}}}]", "transform.rules[0].truncate.a.strategy", "end, middle, word"},
		{"rules: [{truncate: {a: {most: 3}}}]", "unknown key", "truncate.a.most"},
		{"rules: [{truncate: {a..b: {max: 3}}}]", "transform.rules[0].truncate", "empty step"},
		{"rules: [{page_size: 1001}]", "transform.rules[0].page_size", "1 to 1000"},
		{"rules: [{page_size: 10, max_items: 20}]", "transform.rules[0].max_items", "another name"},
		{"rules: [{max_tokens: 50}]", "transform.rules[0].max_tokens", "at least 100"},
		{"rules: [{max_response_tokens: 50}]", "transform.rules[0].max_response_tokens", "at least 100"},
		{"rules: [{max_tokens: 100, max_response_tokens: 200}]", "transform.rules[0].max_response_tokens", "another name"},
		{"rules: [{include_fields: ['a..b']}]", "transform.rules[0].include_fields", "empty step"},
		{"rules: [{exclude_fields: ['a.']}]", "transform.rules[0].exclude_fields", "empty step"},
		{"rules: [{adapter: nobody}]", "transform.rules[0].adapter", "fields, "},
		{"rules: [{adapter: fields, options: {x: 1}}]", "transform.rules[0].options", "no such option"},
		{"rules: [{options: {x: 1}}]", "transform.rules[0].options", "the rule names none"},
		{"rules: [{output_schema: drop}]", "transform.rules[0].output_schema", "strip, derive, keep"},
		{"rules: [{page_size: 5, page_shape: wrap, output_schema: keep}]", "transform.rules[0].page_shape", "keep"},
		{"rules: [{on_conflict: fail}]", "transform.rules[0].on_conflict", "keep, error"},
		{"rules: [{detail: some}]", "transform.rules[0].detail", "compact, full"},
		{"rules: [{matches: {}}]", "unknown key", "matches"},
	} {
		_, err := configure(t, "transform:\n  "+c.text)
		if err == nil || !strings.Contains(err.Error(), c.path) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s\n got  %v\n want %s … %s", c.text, err, c.path, c.why)
		}
	}
}

func TestEveryFaultIsReported(t *testing.T) {
	_, err := configure(t, "transform: {default_max_tokens: 5, adapters: {jira: {}, notion: {output_format: x}}, rules: [{max_depth: 11, page_size: -1}, {adapter: trello}]}")
	for _, path := range []string{"default_max_tokens", "adapters.jira", "adapters.notion", "rules[0].max_depth", "rules[0].page_size", "rules[1].adapter"} {
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s is not in %v", path, err)
		}
	}
}

func TestTheFirstRuleAppliesAndNamesComeBeforeGlobs(t *testing.T) {
	e, err := configure(t, `
transform:
  rules:
    - {match: {tool: "list_*"}, max_tokens: 101}
    - {match: {server: "*", tool: "list_issues"}, max_tokens: 102}
    - {match: {server: linear, tool: "list_issues"}, max_tokens: 103}
    - {match: {server: linear, tool: "list_issues"}, max_tokens: 104}
    - {match: {server: "lin*", tool: "*_x_*"}, max_tokens: 105}
    - {match: {server: "linear"}, max_tokens: 106}
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		server, tool string
		want         int
	}{
		{"", "list_users", 101}, {"other", "list_issues", 102}, {"linear", "list_issues", 103},
		{"linear", "a_x_b", 105}, {"linear", "get", 106}, {"linearity-x", "get", 4000}, {"", "get", 4000},
	} {
		if got := e.rule(c.server, c.tool).budget; got != c.want {
			t.Errorf("%s/%s has the rule with %d, want %d", c.server, c.tool, got, c.want)
		}
		if !e.Touches(c.server, c.tool) {
			t.Errorf("%s/%s is not touched", c.server, c.tool)
		}
	}
}

func TestADisabledTransformChangesNothing(t *testing.T) {
	for _, text := range []string{"enabled: false", "default_max_tokens: 0", "adapters: {capper: {enabled: false}}"} {
		e, err := configure(t, "transform: {"+text+"}")
		if err != nil {
			t.Fatal(err)
		}
		if e.Touches("", "x") {
			t.Errorf("%s: touched", text)
		}
	}
	if (*Engine)(nil).Touches("", "x") {
		t.Error("no engine touches")
	}
}
