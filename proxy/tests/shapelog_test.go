package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestMetricsNameOnlyListedTools, and not more of them than the bound.
func TestMetricsNameOnlyListedTools(t *testing.T) {
	var tools []string
	for i := range 250 {
		tools = append(tools, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
	}
	f := answering("2025-11-25", false, func(string) string { return texts("x") }, `{"tools":[`+strings.Join(tools, ",")+`]}`)
	srv := front(t, f, shaped(t, "{}"))
	session := srv.initialize("2025-11-25")
	for i := range tools {
		srv.post(session, callOf(1, fmt.Sprintf("t%d", i), ""))
	}
	for i := range 3 {
		srv.post(session, callOf(1, fmt.Sprintf("made-up-%d", i), ""))
	}
	for tool, want := range map[string]int{"t0": 1, "t199": 1, "t200": 0, "made-up-0": 0, "_other": 50, "_unknown": 3} {
		if n := counted(t, srv.Metrics, "dragoman_transform_results_total", "tool="+tool); n != want {
			t.Errorf("%s: %d results, want %d", tool, n, want)
		}
	}
}

// TestMetricsNameToolsOfClientsWithoutSessions: modern clients need not list the tools first.
func TestMetricsNameToolsOfClientsWithoutSessions(t *testing.T) {
	f := plainFake(false, func(id, method, m string) ([]string, error) {
		if method == "tools/list" {
			return one(result(id, `"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"theirs","inputSchema":{"type":"object"}}]`))
		}
		return one(result(id, `"resultType":"complete","content":[{"type":"text","text":"theirs"}]`))
	})
	srv := front(t, f, shaped(t, "{}"))
	for _, tool := range []string{"theirs", "theirs", "made-up"} {
		srv.modernly(modernRequestOf("1", "tools/call", `"name":"`+tool+`","arguments":{},`+meta(`{}`)))
	}
	for tool, want := range map[string]int{"theirs": 2, "made-up": 0, "_unknown": 1} {
		if n := counted(t, srv.Metrics, "dragoman_transform_results_total", "tool="+tool); n != want {
			t.Errorf("%s: %d results, want %d", tool, n, want)
		}
	}
}

// TestTokensThatRulesSaveAreCounted, also if the budget has room for the result.
func TestTokensThatRulesSaveAreCounted(t *testing.T) {
	f := answering("2025-11-25", false, func(string) string { return texts(issues(3)) }, `{"tools":[{"name":"list_issues"}]}`)
	srv := front(t, f, shaped(t, `{rules: [{match: {tool: list_issues}, include_fields: [issues.identifier]}]}`))
	srv.post(srv.initialize("2025-11-25"), callOf(1, "list_issues", ""))
	stage := func(name string) int {
		return counted(t, srv.Metrics, "dragoman_transform_tokens_total", "tool=list_issues", "stage="+name)
	}
	if before, after := stage("before"), stage("after"); after < 10 || before < 2*after {
		t.Errorf("%d tokens before, %d after", before, after)
	}
}

func TestAdaptersThatActByShapeAreNamedAtStart(t *testing.T) {
	f := answering("2025-11-25", false, func(string) string { return texts(issues(1)) }, `{"tools":[{"name":"t"}]}`)
	for settings, want := range map[string]string{
		"{}":                                     "",
		"adapters: {linear: {enabled: true}}":    "linear",
		"adapters: {linear: {tools: [other_*]}}": "",
		"{auto_detect: false, adapters: {linear: {enabled: true}}}": "",
	} {
		srv := front(t, f, shaped(t, settings))
		var said []string
		for _, line := range srv.logs.FilterMessageSnippet("reshapes every result of its form").All() {
			said = append(said, fmt.Sprint(line.ContextMap()["adapter"]))
		}
		if got := strings.Join(said, " "); got != want {
			t.Errorf("%s: %q is said to act by shape, want %q", settings, got, want)
		}
		got := gjson.Get(srv.post(srv.initialize("2025-11-25"), callOf(1, "t", "")).body, "result.content.0.text").Str
		if summary := gjson.Get(got, "issues.0.id").Str == "ENG-0"; summary != (want != "") {
			t.Errorf("%s: %s", settings, got)
		}
	}
}

// TestMisspeltFieldsAreWarnedOfOnce: once for each rule and tool, when a result shows that the
// field does not exist.
func TestMisspeltFieldsAreWarnedOfOnce(t *testing.T) {
	f := answering("2025-11-25", false, func(tool string) string {
		if tool == "empty" {
			return texts(`{"issues":[],"total":0}`)
		}
		return texts(issues(2))
	}, `{"tools":[{"name":"a"},{"name":"b"},{"name":"good"},{"name":"empty"}]}`)
	srv := front(t, f, shaped(t, `{rules: [{match: {tool: good}, include_fields: [issues.identifier]},
		{include_fields: [issues.identifier, issues.titel, issues.colour], exclude_fields: [issues.nubmer, secrets]}]}`))
	session := srv.initialize("2025-11-25")
	for range 3 {
		for _, tool := range []string{"a", "b", "good", "empty"} {
			srv.post(session, callOf(1, tool, ""))
		}
	}
	var got []string
	for _, line := range srv.logs.FilterMessageSnippet("match nothing").All() {
		got = append(got, fmt.Sprintf("%v %v %v %v", line.Level, line.ContextMap()["rule"], line.ContextMap()["tool"], line.ContextMap()["paths"]))
	}
	const paths = "[include_fields: issues.colour include_fields: issues.titel; did you mean title? exclude_fields: issues.nubmer; did you mean number?]"
	if want := []string{"warn transform.rules[1] a " + paths, "warn transform.rules[1] b " + paths}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
