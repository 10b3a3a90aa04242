package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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
	for _, want := range []string{"outcome  capped\n", "the budget is 200\n", "steps    ", "kept     ", " of 500 items"} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not in\n%s", want, told)
		}
	}
	if _, _, err := run(t.Context(), "{}", "transform"); err == nil || !strings.Contains(err.Error(), "no transform section") {
		t.Errorf("without a configuration: %v", err)
	}
	write(t, config, `transform: {rules: [{match: {tool: x}, adapter: nobody}]}`)
	if _, _, err := run(t.Context(), "{}", "transform", "--config", config); err == nil || !strings.Contains(err.Error(), "transform.rules[0].adapter") {
		t.Errorf("a bad rule: %v", err)
	}
}

// TestTransformOfARecordedAnswer transforms the result of directory_tree of @modelcontextprotocol/server-filesystem
// 2026.8.31.
func TestTransformOfARecordedAnswer(t *testing.T) {
	recorded, err := os.ReadFile("../../transform/testdata/directory_tree.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config, schema := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "s.json")
	write(t, config, "transform: {default_max_tokens: 4000}")
	write(t, schema, `{"type":"object","properties":{"content":{"type":"string"}},"required":["content"],"additionalProperties":false}`)
	for _, args := range [][]string{nil, {"--output-schema", schema}} {
		out, told, err := run(t.Context(), string(recorded), append([]string{"transform", "--config", config, "--tool", "directory_tree"}, args...)...)
		if err != nil || !strings.Contains(told, "tokens   39952 -> ") {
			t.Fatalf("%v\n%s", err, told)
		}
		r := gjson.Parse(out)
		if text := r.Get("content.0.text").Str; !gjson.Valid(text) || !gjson.Parse(text).IsArray() || !strings.HasPrefix(text, `[{"name":"LICENSE"`) {
			t.Errorf("%.200s", text)
		}
		counted := ""
		for _, b := range r.Get("content").Array() {
			counted += b.Get("text").Str + "\n"
		}
		n, _, err := run(t.Context(), counted+r.Get("structuredContent").Raw, "tokens")
		if tokens, e := strconv.Atoi(strings.TrimSpace(n)); err != nil || e != nil || tokens > 4010 || tokens < 1000 {
			t.Errorf("%s tokens, %v", n, err)
		}
		if args != nil && r.Get("structuredContent.content").Type != gjson.String {
			t.Errorf("structuredContent is %.100s", r.Get("structuredContent").Raw)
		}
	}
}

// TestTransformSaysWhatItDid checks that the report has the rule that matched or why none did, those of its paths
// that match nothing, and the tokens of each part.
func TestTransformSaysWhatItDid(t *testing.T) {
	config := filepath.Join(t.TempDir(), "c.yaml")
	write(t, config, `
upstream: {url: "http://issues.example/mcp"}
transform:
  default_max_tokens: 300
  rules:
    - match: {tool: list_issues}
      include_fields: [issues.id, issues.titel, issues.state.nmae, total]
      exclude_fields: [issues.state.colour]
      truncate: {titles: {max: 20}, title: {max: 20}}
    - {match: {tool: get_issue, server: issues.example}, max_tokens: 200}
    - {match: {tool: search, server: other.example}, max_tokens: 200}
`)
	var list []string
	for i := range 60 {
		list = append(list, fmt.Sprintf(`{"id":%d,"title":"The %dth issue","state":{"name":"open","color":"red"},"labels":[]}`, i, i))
	}
	in := `{"issues":[` + strings.Join(list, ",") + `],"total":60}`
	for tool, want := range map[string][]string{
		"list_issues": {"rule     transform.rules[0] (tool list_issues of server *)\n",
			"warning  rules[0].include_fields: issues.titel matches nothing; did you mean title?\n",
			"warning  rules[0].include_fields: issues.state.nmae matches nothing; did you mean name?\n",
			"warning  rules[0].exclude_fields: issues.state.colour matches nothing; did you mean color?\n"},
		"get_issue": {"rule     transform.rules[1] (tool get_issue of server issues.example)\n", "outcome  capped\n", "  content[0]\n", "    issues\n", "1      1    total\n", "  notice\n"},
		"get_isue":  {"rule     none: no rule is for tool get_isue of server issues.example; there is one for get_issue\n"},
		"search":    {"rule     none: no rule is for tool search of server issues.example; rules[2] is for that tool of server other.example\n"},
		"":          {"rule     none: no --tool was named\n"},
	} {
		_, told, err := run(t.Context(), in, "transform", "--config", config, "--tool", tool)
		for _, w := range want {
			if err != nil || !strings.Contains(told, w) {
				t.Errorf("%s: %v: %q is not in\n%s", tool, err, w, told)
			}
		}
	}
	_, told, err := run(t.Context(), "x", "transform", "--config", config, "--tool", "get_issue")
	if err != nil || !strings.Contains(told, "outcome  passthrough\nrule     transform.rules[1]") {
		t.Errorf("a result that passes: %v\n%s", err, told)
	}
}

func TestTransformOfACallInARecording(t *testing.T) {
	config := filepath.Join(t.TempDir(), "c.yaml")
	write(t, config, `transform: {rules: [{match: {tool: list_issues}, adapter: linear, include_fields: [id, title]}]}`)
	line := func(call int, edge, direction, payload string) string {
		return fmt.Sprintf(`{"kind":"message","seq":%d,"edge":%q,"direction":%q,"call":%d,"method":"tools/call",%s}`+"\n", call, edge, direction, call, payload)
	}
	const ask, answer = `"payload":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_issues"}}`,
		`"payload":{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"identifier\":\"ENG-1\",\"title\":\"T\"}"}]}}`
	in := `{"kind":"header","format":1}` + "\n" +
		line(7, "client", "client-to-server", ask) + line(7, "server", "client-to-server", ask) +
		line(7, "server", "server-to-client", `"payload":{"jsonrpc":"2.0","method":"notifications/progress"}`) + "a line that was cut\n" +
		line(7, "server", "server-to-client", answer) + line(7, "client", "server-to-client", `"payload":{"result":{}}`) +
		line(8, "server", "server-to-client", `"text":"{","size":2000000`) + line(9, "client", "client-to-server", ask)
	out, told, err := run(t.Context(), in, "transform", "--config", config, "--call", "7")
	if err != nil || gjson.Get(out, "content.0.text").String() != `{"id":"ENG-1","title":"T"}` || !strings.Contains(told, "adapter  linear\n") {
		t.Errorf("%v\n%s\n%s", err, out, told)
	}
	for call, want := range map[string]string{
		"8": "only the beginning of the answer's 2000000 bytes", "9": "no result of the server for call 9", "10": "has no call 10",
		"0": "the recording has no call 0: its calls are 7 to 9; dragoman inspect FILE shows them",
	} {
		if _, _, err := run(t.Context(), in, "transform", "--config", config, "--call", call); exitCode(err) != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("call %s: %d (%v)", call, exitCode(err), err)
		}
	}
	if _, _, err := run(t.Context(), "{}", "transform", "--config", config, "--call", "7"); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "not a recording") {
		t.Errorf("no recording: %v", err)
	}
}
