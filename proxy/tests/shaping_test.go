package tests

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/transform/tokens"
)

// shaped configures transformations as a configuration file does.
func shaped(t *testing.T, text string) func(*config.Config) {
	t.Helper()
	c := new(transform.Config)
	if err := yaml.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return func(cfg *config.Config) { cfg.Transform = c }
}

// issues returns a JSON text of n issues.
func issues(n int) string {
	var b strings.Builder
	b.WriteString(`{"issues":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"identifier":"ENG-%d","title":"Issue number %d of \"many\" ü","state":{"name":"Todo"},"number":%d.50}`, i, i, i)
	}
	b.WriteString(`]}`)
	return b.String()
}

// answering is a server of a revision whose tools all return the result.
func answering(version string, piped bool, result func(tool string) string, list string) *fakeServer {
	f := newFake(initializing(version, func(m string) ([]string, error) {
		id := []byte(gjson.Get(m, "id").Raw)
		switch gjson.Get(m, "method").String() {
		case "tools/call":
			return one(string(mcp.AppendResult(nil, id, result(gjson.Get(m, "params.name").String()))))
		case "tools/list":
			return one(string(mcp.AppendResult(nil, id, list)))
		case "resources/read":
			return one(string(mcp.AppendResult(nil, id, `{"contents":[{"uri":"file:///x","text":`+quote(strings.Repeat("word ", 5000))+`}]}`)))
		}
		return nil, nil
	}))
	f.piped = piped
	return f
}

func quote(text string) string {
	q, _ := json.Marshal(text)
	return string(q)
}

func texts(result string) string {
	return `{"content":[{"type":"text","text":` + quote(result) + `}]}`
}

const noTools = `{"tools":[]}`

// roads are the ways in which a client may connect. Each is a function that sends a request and
// returns the response.
func roads(t *testing.T, f func() *fakeServer, version string, change ...func(*config.Config)) map[string]func(message string) string {
	srv := front(t, f(), change...)
	session := srv.initialize(version)
	pipe, _ := pipeClient(t, f(), change...)
	pipe.initialize(version, "{}")
	base, _ := listening(t, f(), change...)
	sse := peertest.NewSSEClient(t, base)
	sse.Post(initialize(version, "{}"))
	sse.Next()
	return map[string]func(string) string{
		"http": func(m string) string { return srv.post(session, m).body },
		"pipe": func(m string) string { pipe.say(m); return pipe.hear() },
		"sse":  func(m string) string { sse.Post(m); return sse.Next() },
	}
}

func callOf(id int, tool, rest string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q%s}}`, id, tool, rest)
}

func count(t *testing.T, result gjson.Result) int {
	t.Helper()
	e, err := tokens.Named(tokens.O200K, 1)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, b := range result.Get("content").Array() {
		n += e.Count([]byte(b.Get("text").String()))
	}
	return n + e.Count([]byte(result.Get("structuredContent").Raw))
}

// TestResultsAreCutToTheirBudget on every transport, for clients of each revision; and the rest
// can be read.
func TestResultsAreCutToTheirBudget(t *testing.T) {
	original := issues(2000 / min(effort, 5)) // three times what is read on
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		for _, piped := range []bool{false, true} {
			server := func() *fakeServer {
				return answering("2025-11-25", piped, func(string) string { return texts(original) }, noTools)
			}
			for road, ask := range roads(t, server, version, shaped(t, "default_max_tokens: 500")) {
				t.Run(fmt.Sprint(version, road, piped), func(t *testing.T) {
					listed := ask(listTools)
					if names(listed) != "fetch_more" {
						t.Errorf("tools %s", listed)
					}
					answer := ask(callOf(7, "list_issues", ""))
					result := gjson.Get(answer, "result")
					if !gjson.Valid(answer) || gjson.Get(answer, "id").Raw != "7" {
						t.Fatalf("%.300s", answer)
					}
					if n := count(t, result); n > 500 || n < 300 {
						t.Errorf("%d tokens", n)
					}
					if text := result.Get("content.0.text").String(); !gjson.Valid(text) || gjson.Get(text, "issues.0.number").Raw != "0.50" {
						t.Errorf("%.200s", text)
					}
					cursor := result.Get("_meta.dragoman/transform.cursor").String()
					var all strings.Builder
					for offset := 0; ; {
						part := gjson.Get(ask(callOf(8, "fetch_more", fmt.Sprintf(`,"arguments":{"cursor":%q,"from":%d,"count":16384,"raw":true,"max_tokens":5000}`, cursor, offset))), "result")
						if part.Get("isError").Bool() || !part.Get("content").Exists() {
							t.Fatalf("%s", part.Raw)
						}
						all.WriteString(part.Get("content.0.text").String())
						meta := part.Get("_meta.dragoman/transform")
						offset = int(meta.Get("next").Int())
						if all.Len() > 20_000 || offset >= int(meta.Get("total").Int()) {
							break
						}
					}
					if !strings.HasPrefix(original, all.String()) || all.Len() < 20_000 {
						t.Errorf("%d bytes of what was read on are not the original", all.Len())
					}
				})
			}
		}
	}
}

func TestUnderItsBudgetAResultPassesAsItCame(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2025-06-18"} {
		f := answering("2025-11-25", false, func(string) string { return `{ "content" : [{"text":"1.50","type":"text"}], "x":[1.0e+2] }` }, noTools)
		srv := front(t, f, shaped(t, "{}"))
		got := srv.post(srv.initialize(version), callOf(1, "t", "")).body
		if want := `{"jsonrpc":"2.0","id":1,"result":{ "content" : [{"text":"1.50","type":"text"}], "x":[1.0e+2] }}`; got != want {
			t.Errorf("%s\n got  %s\n want %s", version, got, want)
		}
		if n := counted(t, srv.Metrics, "dragoman_transform_results_total", "tool=_unknown", "result=passthrough"); n != 1 {
			t.Errorf("%d counted", n)
		}
	}
}

func TestRulesApplyByTool(t *testing.T) {
	rules := `{rules: [{match: {tool: "list_*"}, adapter: linear}, {match: {tool: notes}, adapter: notion}, {match: {server: other, tool: "*"}, include_fields: [x]}]}`
	blocks := `{"object":"list","results":[{"object":"block","type":"heading_1","heading_1":{"rich_text":[{"plain_text":"Title"}]}}]}`
	f := answering("2025-11-25", false, func(tool string) string {
		if tool == "notes" {
			return texts(blocks)
		}
		return texts(issues(1))
	}, noTools)
	srv := front(t, f, shaped(t, rules))
	session := srv.initialize("2025-11-25")
	for tool, want := range map[string]string{
		"list_issues": `{"issues":[{"id":"ENG-0","title":"Issue number 0 of \"many\" ü","status":"Todo","assignee":null,"priority":null}]}`,
		"notes":       "# Title",
		"other":       issues(1),
	} {
		if got := gjson.Get(srv.post(session, callOf(1, tool, "")).body, "result.content.0.text").String(); got != want {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if srv.logs.FilterMessage("result transformed").Len() != 2 {
		t.Errorf("%d lines in the log", srv.logs.FilterMessage("result transformed").Len())
	}
	for _, line := range srv.logs.All() {
		if strings.Contains(fmt.Sprint(line.Message, line.ContextMap()), "many") {
			t.Errorf("the log tells what stood in a result: %v", line)
		}
	}
}

// TestOwnToolsAreShaped: rules apply to dragoman's own tools as to the server's.
func TestOwnToolsAreShaped(t *testing.T) {
	own := echoing("ours")
	srv := frontWith(t, listing("2025-11-25", nil, nil).origin(), []owntools.Source{own}, shaped(t, "default_max_tokens: 100"))
	session := srv.initialize("2025-11-25")
	long := quote(strings.Repeat("word ", 3000))
	result := gjson.Get(srv.post(session, callOurs(1, "ours", long)).body, "result")
	if n := count(t, result); n > 100 {
		t.Errorf("%d tokens: %.200s", n, result.Raw)
	}
	if got := names(srv.post(session, listSecond).body); got != "ours fetch_more" {
		t.Errorf("tools %s", got)
	}
}

func TestClientsMayLowerTheirBudget(t *testing.T) {
	f := answering("2025-11-25", false, func(string) string { return texts(issues(2000)) }, noTools)
	srv := front(t, f, shaped(t, "default_max_tokens: 1000"))
	session := srv.initialize("2025-11-25")
	for _, c := range []struct {
		claim, meta string
		header      []string
		most        int
	}{
		{"by _meta", `,"_meta":{"dragoman/max_tokens":200}`, nil, 200},
		{"by a header", "", []string{"X-Max-Tokens", "300"}, 300},
		{"the lower one of both", `,"_meta":{"dragoman/max_tokens":400}`, []string{"X-Max-Tokens", "300"}, 300},
		{"but not raise it", `,"_meta":{"dragoman/max_tokens":5000}`, []string{"X-Max-Tokens", "99999"}, 1000},
		{"nor by nonsense", `,"_meta":{"dragoman/max_tokens":"all"}`, []string{"X-Max-Tokens", "-1"}, 1000},
	} {
		result := gjson.Get(srv.post(session, callOf(1, "t", c.meta), c.header...).body, "result")
		if n := count(t, result); n > c.most || n < c.most/2 {
			t.Errorf("%s: %d tokens, %d are allowed", c.claim, n, c.most)
		}
	}
}

func TestFullDetailIsOnlyCapped(t *testing.T) {
	f := answering("2025-11-25", false, func(string) string { return texts(issues(3)) }, noTools)
	srv := front(t, f, shaped(t, `{rules: [{adapter: linear}]}`))
	session := srv.initialize("2025-11-25")
	got := gjson.Get(srv.post(session, callOf(1, "t", `,"_meta":{"dragoman/detail":"full"}`)).body, "result.content.0.text").String()
	if got != issues(3) {
		t.Errorf("%s", got)
	}
}

// TestOutputSchemaGoesWithTheShape: if a rule changes a tool's result, its outputSchema is changed
// or removed too; otherwise it stays.
func TestOutputSchemaGoesWithTheShape(t *testing.T) {
	list := `{"tools":[{"name":"summary","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}},` +
		`{"name":"plain","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["issues","total"],"properties":{"issues":{"type":"array","minItems":2}},"additionalProperties":false}}]}`
	f := answering("2025-11-25", false, func(string) string {
		return `{"content":[{"type":"text","text":"see structuredContent"}],"structuredContent":{"issues":` + gjson.Get(issues(500), "issues").Raw + `,"total":500}}`
	}, list)
	srv := front(t, f, shaped(t, `{default_max_tokens: 400, rules: [{match: {tool: summary}, adapter: linear}]}`))
	session := srv.initialize("2025-11-25")
	tools := gjson.Get(srv.post(session, listTools).body, "result.tools")
	if tools.Get("0.outputSchema").Exists() || !tools.Get("1.outputSchema.required").Exists() {
		t.Errorf("%s", tools.Raw)
	}
	result := gjson.Get(srv.post(session, callOf(1, "plain", "")).body, "result")
	if s := result.Get("structuredContent"); s.Get("total").Int() != 500 || s.Get("issues.#").Int() < 2 || s.Get("issues.#").Int() > 100 || s.Get("_pagination").Exists() {
		t.Errorf("%.300s", result.Raw)
	}
	if n := count(t, result); n > 400 {
		t.Errorf("%d tokens", n)
	}
}

func TestResourcesAreCappedOnRequest(t *testing.T) {
	const read = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///x"}}`
	for settings, capped := range map[string]bool{"{}": false, "cap_resources: true": true} {
		srv := front(t, answering("2025-11-25", false, nil, noTools), shaped(t, settings))
		if got := srv.post(srv.initialize("2025-11-25"), read).body; (len(got) < 25_000) != capped {
			t.Errorf("%s: %d bytes", settings, len(got))
		}
	}
}

func TestHandlesAreForTheirSessionAndCaller(t *testing.T) {
	f := answering("2025-11-25", false, func(string) string { return texts(issues(500)) }, noTools)
	srv := front(t, f, shaped(t, "default_max_tokens: 200"))
	session, other := srv.initialize("2025-11-25"), srv.initialize("2025-11-25")
	mine := []string{"Authorization", "Bearer mine"}
	cursor := gjson.Get(srv.post(session, callOf(1, "t", ""), mine...).body, "result._meta.dragoman/transform.cursor").String()
	more := callOf(2, "fetch_more", fmt.Sprintf(`,"arguments":{"cursor":%q}`, cursor))
	said := map[string]bool{}
	for name, r := range map[string]reply{
		"another session": srv.post(other, more, mine...), "another caller": srv.post(session, more, "Authorization", "Bearer other"), "nobody": srv.post(session, more),
	} {
		if result := gjson.Get(r.body, "result"); !result.Get("isError").Bool() {
			t.Errorf("%s: %s", name, r.body)
		} else {
			said[result.Get("content.0.text").String()] = true
		}
	}
	if len(said) != 1 {
		t.Errorf("refused in different words: %v", said)
	}
	if r := srv.post(session, more, mine...); gjson.Get(r.body, "result.isError").Bool() {
		t.Errorf("its own: %s", r.body)
	}
}

// TestNewRulesCountAtOnce, and what was kept before can still be read.
func TestNewRulesCountAtOnce(t *testing.T) {
	f := answering("2025-11-25", false, func(string) string { return texts(issues(500)) }, noTools)
	srv := front(t, f, shaped(t, "default_max_tokens: 200"))
	session := srv.initialize("2025-11-25")
	cursor := gjson.Get(srv.post(session, callOf(1, "t", "")).body, "result._meta.dragoman/transform.cursor").String()
	cfg := srv.Now().Config
	shaped(t, "{default_max_tokens: 1000}")(&cfg)
	if err := srv.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if n := count(t, gjson.Get(srv.post(session, callOf(1, "t", "")).body, "result")); n < 500 || n > 1000 {
		t.Errorf("%d tokens", n)
	}
	more := callOf(2, "fetch_more", fmt.Sprintf(`,"arguments":{"cursor":%q}`, cursor))
	if r := srv.post(session, more); gjson.Get(r.body, "result.isError").Bool() {
		t.Errorf("%s", r.body)
	}
	shaped(t, "{rules: [{adapter: nobody}]}")(&cfg)
	if err := srv.Reload(cfg); err == nil || !strings.Contains(err.Error(), "transform.rules[0].adapter") {
		t.Errorf("a bad rule: %v", err)
	}
	cfg.Transform = nil
	if err := srv.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if got := gjson.Get(srv.post(session, callOf(1, "t", "")).body, "result").Raw; got != texts(issues(500)) {
		t.Errorf("%.200s", got)
	}
	if got := names(srv.post(session, listTools).body); got != "" {
		t.Errorf("tools %s", got)
	}
}

// TestNoticesNameParametersOfTheTool, whether the client has listed the tools or not, and no
// parameters that the tool does not have.
func TestNoticesNameParametersOfTheTool(t *testing.T) {
	list := `{"tools":[{"name":"read","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"head":{"type":"number"},"tail":{"type":"number"}}}},{"name":"plain","inputSchema":{"type":"object"}}]}`
	f := answering("2025-11-25", false, func(string) string { return texts(issues(2000)) }, list)
	srv := front(t, f, shaped(t, "default_max_tokens: 500"))
	for _, version := range []string{"2025-11-25", "2024-11-05"} {
		session := srv.initialize(version)
		if version == "2024-11-05" {
			srv.post(session, listTools)
		}
		for tool, want := range map[string]bool{"read": true, "plain": false} {
			result := gjson.Get(srv.post(session, callOf(1, tool, "")).body, "result")
			notice := result.Get("content.1.text").Str
			if !strings.Contains(notice, "Next: fetch_more ") || strings.Contains(notice, "; ask for less with head, tail. Next: ") != want || count(t, result) > 500 {
				t.Errorf("%s, %s: %s", version, tool, notice)
			}
		}
	}
}
