package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestTransform(t *testing.T) {
	config := filepath.Join(t.TempDir(), "c.yaml")
	write(t, config, `transform: {default_max_tokens: 200, rules: [{match: {tool: list_issues}, adapter: linear, include_fields: [id, title]}]}`)
	issue := `{"identifier":"ENG-1","title":"T","state":{"name":"Todo"}}`
	for name, c := range map[string]struct{ in, args, out, told string }{
		"a result":             {`{"content":[{"type":"text","text":"{\"identifier\":\"ENG-1\",\"title\":\"T\"}"}]}`, "--tool list_issues", `{"id":"ENG-1","title":"T"}`, "adapter  linear\n"},
		"a response":           {`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}]}}`, "", "x", "outcome  passthrough\n"},
		"JSON":                 {issue, "--tool list_issues", `{"id":"ENG-1","title":"T"}`, "outcome  transformed\n"},
		"another tool":         {issue, "--tool get_issue", issue, "outcome  passthrough\n"},
		"all detail":           {issue, "--tool list_issues --full", issue, "outcome  passthrough\n"},
		"text":                 {"not \xff JSON\n", "", "not \uFFFD JSON", "outcome  passthrough\n"},
		"messages of a prompt": {`{"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`, "--method prompts/get", "", "outcome  passthrough\n"},
	} {
		out, told, err := run(t.Context(), c.in, append([]string{"transform", "--config", config}, strings.Fields(c.args)...)...)
		if got := gjson.Get(out, "result.content.0.text").String() + gjson.Get(out, "content.0.text").String(); err != nil || got != c.out || !strings.Contains(told, c.told) {
			t.Errorf("%s: %v\n%s\n%s", name, err, out, told)
		}
	}
	var list []string
	for i := range 500 {
		list = append(list, fmt.Sprintf(`{"id":%d,"text":"some words"}`, i))
	}
	out, told, err := run(t.Context(), "["+strings.Join(list, ",")+"]", "transform", "--config", config)
	if err != nil || !gjson.Valid(gjson.Get(out, "content.0.text").String()) || len(out) > 2000 {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{"outcome  capped\n", "the budget is 200\n", "steps    ", "kept     ", " of 500 in "} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not in\n%s", want, told)
		}
	}
	if _, _, err := run(t.Context(), "{}", "transform"); err == nil || !strings.Contains(err.Error(), "no section transform") {
		t.Errorf("without a configuration: %v", err)
	}
	write(t, config, `transform: {rules: [{match: {tool: x}, adapter: nobody}]}`)
	if _, _, err := run(t.Context(), "{}", "transform", "--config", config); err == nil || !strings.Contains(err.Error(), "transform.rules[0].adapter") {
		t.Errorf("a bad rule: %v", err)
	}
}
