package adapterrt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// shippedRuntime returns a runtime with all adapters in deploy.
func shippedRuntime(t testing.TB, opt Options) *Runtime {
	t.Helper()
	if opt.Getenv == nil {
		opt.Getenv = environment("GITHUB_TOKEN", "a", "NOTION_TOKEN", "b", "LINEAR_API_KEY", "c")
	}
	rt, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob("../deploy/adapters/*-adapter.md")
	if _, err := rt.Load(files); err != nil || len(files) < 3 {
		t.Fatal(err, files)
	}
	t.Cleanup(rt.Close)
	return rt
}

// allOfGitHub returns a runtime with an adapter that has all operations of GitHub.
func allOfGitHub(t testing.TB, opt Options) *Runtime {
	t.Helper()
	rt, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "hub-adapter.md")
	if err := os.WriteFile(path, gitHubAdapter(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if problems, err := rt.Load([]string{path}); err != nil {
		t.Fatal(err, problems)
	}
	t.Cleanup(rt.Close)
	return rt
}

// gitHubAdapter makes an adapter file of find/testdata/github-operations.tsv.
func gitHubAdapter(t testing.TB) []byte {
	data, err := os.ReadFile("find/testdata/github-operations.tsv")
	if err != nil {
		t.Fatal(err)
	}
	byCategory := map[string]*bytes.Buffer{}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		method, _, _ := strings.Cut(f[1], " ")
		category := map[string]string{"GET": "read", "POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete"}[method]
		b := byCategory[category]
		if b == nil {
			b = new(bytes.Buffer)
			byCategory[category] = b
		}
		fmt.Fprintf(b, "    - {name: %s, maps_to: %q, description: %q, params: {", f[0], f[1], f[2])
		for i, p := range strings.Fields(f[3]) {
			name, kind, _ := strings.Cut(p, ":")
			kind, required := strings.CutSuffix(kind, "!")
			if i > 0 {
				b.WriteString(", ")
			}
			values := ""
			if k, v, ok := strings.Cut(kind, "{"); ok {
				kind, values = k, `, enum: ["`+strings.ReplaceAll(strings.TrimSuffix(v, "}"), "|", `", "`)+`"]`
			}
			if element, ok := strings.CutSuffix(kind, "[]"); ok {
				kind, values = "array", ", items: {type: "+strings.TrimSuffix(element, "[]")+"}"
			}
			own := ""
			if slices.Contains([]string{"operation", "params", "adapter", "operations", "first", "after", "fields"}, name) {
				own = ", wire_name: " + name
				name = "the_" + name
			}
			fmt.Fprintf(b, "%s: {type: %s, required: %v%s%s}", name, kind, required, values, own)
		}
		b.WriteString("}}\n")
	}
	out := bytes.NewBufferString("---\nname: hub\ntype: adapter\nversion: \"1.0.0\"\ndescription: GitHub\ntarget: {base_url: \"https://api.github.com\", transport: http, protocol: rest, serialization: json}\noperations:\n")
	for _, c := range []string{"create", "read", "update", "delete"} {
		fmt.Fprintf(out, "  %s:\n%s", c, byCategory[c])
	}
	out.WriteString("---\n")
	return out.Bytes()
}

// toolEntry is a tool as tools/list has it.
type toolEntry struct {
	Name, Title, Description  string
	InputSchema, OutputSchema json.RawMessage
	Annotations               map[string]bool
}

func toolEntries(t testing.TB, rt *Runtime) (all []toolEntry) {
	t.Helper()
	for _, tool := range rt.Tools("") {
		var l toolEntry
		if err := json.Unmarshal(tool.JSON, &l); err != nil {
			t.Fatal(err)
		}
		if l.Name != tool.Name {
			t.Errorf("%s is listed as %s", tool.Name, l.Name)
		}
		all = append(all, l)
	}
	return all
}

// compiledSchema compiles a schema with a validator of JSON Schema 2020-12.
func compiledSchema(t testing.TB, raw []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("s.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("s.json")
	if err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return s
}

// complete checks what APIs of models demand of schemas in addition to JSON Schema: a type, and items
// of each array.
func complete(t *testing.T, at string, schema []byte) {
	t.Helper()
	var walk func(path string, v any)
	walk = func(path string, v any) {
		s, _ := v.(map[string]any)
		if s["type"] == nil && s["anyOf"] == nil && len(s) > 0 {
			t.Errorf("%s%s has no type", at, path)
		}
		if s["type"] == "array" && s["items"] == nil {
			t.Errorf("%s%s has no items", at, path)
		}
		if props, ok := s["properties"].(map[string]any); ok {
			for name, p := range props {
				walk(path+"."+name, p)
			}
		}
		if s["items"] != nil {
			walk(path+"[]", s["items"])
		}
	}
	var v any
	if err := json.Unmarshal(schema, &v); err != nil {
		t.Fatal(err)
	}
	walk(" ", v)
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// TestToolsOfEachMode checks what clients and APIs of models demand of every tool.
func TestToolsOfEachMode(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	for _, mode := range []present.Mode{present.Semantic, present.Single, present.All, present.Discrete, present.Search, present.Auto} {
		for name, rt := range map[string]*Runtime{
			"shipped": shippedRuntime(t, Options{Shown: Shown{Mode: mode}}),
			"per":     shippedRuntime(t, Options{Shown: Shown{Mode: mode}, PerAdapter: true}),
			"pinned":  shippedRuntime(t, Options{Shown: Shown{Mode: mode, Pin: []string{"get_issue", "notion.search"}}}),
			"github":  allOfGitHub(t, Options{Shown: Shown{Mode: mode}}),
			"all":     one(t, Options{Shown: Shown{Mode: mode}}, "https://api.example.com", everything, everythingElse...),
		} {
			seen := map[string]bool{}
			for _, l := range toolEntries(t, rt) {
				at := name + " " + mode.String() + " " + l.Name
				if !toolName.MatchString(l.Name) || seen[l.Name] {
					t.Errorf("%s: bad name, or twice", at)
				}
				seen[l.Name] = true
				if l.Description == "" || len([]rune(l.Description)) > 1000 {
					t.Errorf("%s: %q", at, l.Description)
				}
				for _, schema := range [][]byte{l.InputSchema, l.OutputSchema} {
					if schema == nil {
						continue
					}
					if bytes.Contains(schema, []byte(`"$ref"`)) {
						t.Errorf("%s has $ref: %s", at, schema)
					}
					compiledSchema(t, schema)
					complete(t, at, schema)
				}
				_, destructive := l.Annotations["destructiveHint"]
				if open, ok := l.Annotations["openWorldHint"]; ok && !open || !l.Annotations["readOnlyHint"] && !destructive {
					t.Errorf("%s: %v", at, l.Annotations)
				}
				if l.Annotations["readOnlyHint"] && l.Annotations["destructiveHint"] {
					t.Errorf("%s is read-only and destructive", at)
				}
			}
			if len(seen) == 0 {
				t.Errorf("%s %s: no tools", name, mode)
			}
		}
	}
}

// TestDiscreteTools shows that a tool's schema accepts the parameters of each example of its
// operation, and that the tool does what the operation does.
func TestDiscreteTools(t *testing.T) {
	rt := shippedRuntime(t, Options{Shown: Shown{Mode: present.Discrete}, CursorKey: make([]byte, 32)}) // the key that Rehearse uses
	for _, a := range rt.live.Load().adapters {
		a.guard = guard.New(&file.Adapter{Operations: a.Operations}, rt.opt.policy(), &rt.sharing) // without the adapter's limits
	}
	capture(rt, `{"data":{}}`)
	tools := map[string]toolEntry{}
	for _, l := range toolEntries(t, rt) {
		tools[l.Name] = l
		if l.Title == "" || len([]rune(l.Description)) > 200 || !bytes.Contains(l.InputSchema, []byte(`"additionalProperties":false`)) {
			t.Errorf("%+v", l)
		}
	}
	n := 0
	for _, a := range rt.live.Load().adapters {
		for _, op := range a.Operations {
			l := tools[a.Name+"_"+op.Name]
			if l.Name == "" {
				t.Fatalf("no tool for %s", op.Name)
			}
			if l.Annotations["readOnlyHint"] != (op.Category == file.Read) || op.Category == file.Delete && !l.Annotations["destructiveHint"] {
				t.Errorf("%s: %v", l.Name, l.Annotations)
			}
		}
		examples, _ := file.Examples(a.Documentation, 1)
		for _, e := range examples {
			var r struct {
				Operation string
				Params    json.RawMessage
			}
			if json.Unmarshal(e.Request, &r) != nil || !bytes.HasPrefix(bytes.TrimSpace(e.Want), []byte(`{"success":true`)) {
				continue
			}
			if r.Params == nil {
				r.Params = json.RawMessage("{}")
			}
			l := tools[a.Name+"_"+r.Operation]
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.Params))
			if err != nil {
				t.Fatal(err)
			}
			if err := compiledSchema(t, l.InputSchema).Validate(v); err != nil {
				t.Errorf("%s refuses %s: %v", l.Name, r.Params, err)
			}
			res, ok := rt.CallTool(context.Background(), l.Name, &Request{Body: r.Params, Session: "s"})
			if !ok || res.Call.Operation != r.Operation || res.Call.Adapter != a.Name || res.Failure != nil && res.Failure.Code != failure.ConfirmationRequired {
				t.Errorf("%s %s: %s", l.Name, r.Params, res.JSON())
			}
			n++
		}
	}
	if n < 70 {
		t.Error("only", n, "examples")
	}
}

func TestDiscreteNames(t *testing.T) {
	long := strings.Repeat("very_", 20) + "long_name"
	ops := "read:\n- {name: " + long + ", maps_to: GET /a}\n- {name: " + strings.Replace(long, "long", "lang", 1) + ", maps_to: GET /b}\n- {name: " +
		strings.Repeat("x", 120) + ", maps_to: GET /c}\n- {name: " + strings.Repeat("x", 121) + ", maps_to: GET /d}\n- {name: b_c, maps_to: GET /e}"
	rt := one(t, Options{Shown: Shown{Mode: present.Discrete}}, "https://api.example.com", ops)
	var names []string
	for _, l := range toolEntries(t, rt) {
		names = append(names, l.Name)
	}
	veries := "very_" + strings.Repeat("ver_", 13)
	want := []string{veries + "lon_nam", veries + "lan_nam", strings.Repeat("x", 64), strings.Repeat("x", 62) + "_2", "b_c"}
	if !slices.Equal(names, want) {
		t.Errorf("\n%q\n%q", names, want)
	}
	// aa + b_c and aa-b + c
	two := start(t, Options{Shown: Shown{Mode: present.Discrete}, ToolPrefix: "p_"}, map[string]string{
		"aa-adapter.md":   strings.Replace(front("https://a.example.com", "read:\n- {name: b_c, maps_to: GET /bc}"), "test-api", "aa", 1),
		"aa-b-adapter.md": strings.Replace(front("https://b.example.com", "read:\n- {name: c, maps_to: GET /c}"), "test-api", "aa-b", 1),
	})
	all := capture(two, "1")
	names = nil
	for _, tool := range two.Tools("") {
		names = append(names, tool.Name)
		two.CallTool(context.Background(), tool.Name, &Request{Body: []byte("{}")})
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"p_aa_b__c", "p_aa_b_c"}) || len(*all) != 2 || (*all)[0].url == (*all)[1].url {
		t.Error(names, *all)
	}
}

// TestArgumentsStayArguments shows that the arguments of a tool for one operation cannot name
// another operation.
func TestArgumentsStayArguments(t *testing.T) {
	rt := one(t, Options{Shown: Shown{Mode: present.Discrete}}, "https://api.example.com", "read:\n- {name: get_a, maps_to: GET /a, params: {q: {type: string}}}\ndelete:\n- {name: drop_b, maps_to: DELETE /b}")
	all := capture(rt, "1")
	for _, args := range []string{
		`{},"operation":"drop_b","x":{}`, `{}}{"operation":"drop_b"`, `{}],"operation":"drop_b"`, `[]`, `"x"`, ``, `{"operation":"drop_b"}`, `{"operations":[{"operation":"drop_b"}]}`,
		`{"params":{},"operation":"drop_b"}`, `null`,
	} {
		r, ok := rt.CallTool(context.Background(), "get_a", &Request{Body: []byte(args)})
		if !ok || r.Failure == nil && args != "null" {
			t.Errorf("%s: %s", args, r.JSON())
		}
	}
	for _, s := range *all {
		if s.method != "GET" {
			t.Error(s)
		}
	}
}

func TestAutoMode(t *testing.T) {
	for _, c := range []struct {
		ops  int
		want string
	}{{40, "op_0"}, {41, "search_operations"}} {
		ops := "read:\n"
		for i := range c.ops {
			ops += fmt.Sprintf("- {name: op_%d, maps_to: GET /%d}\n", i, i)
		}
		rt := one(t, Options{Shown: Shown{Mode: present.Auto}}, "https://api.example.com", ops)
		if got := rt.Tools("")[0].Name; got != c.want {
			t.Errorf("%d operations: %s", c.ops, got)
		}
		if text := rt.Instructions(""); strings.Contains(text, "search_operations") != (c.want == "search_operations") {
			t.Error(text)
		}
	}
}

func TestPinned(t *testing.T) {
	for mode, want := range map[present.Mode][]string{
		present.Semantic: {"mcp_aql_create", "mcp_aql_read", "mcp_aql_update", "mcp_aql_delete", "mcp_aql_execute", "github_get_issue", "linear_get_issue", "notion_search"},
		present.Search:   {"search_operations", "describe_operations", "call_read", "call_write", "github_get_issue", "linear_get_issue", "notion_search"},
	} {
		rt := shippedRuntime(t, Options{Shown: Shown{Mode: mode, Pin: []string{"get_issue", "notion.search", "github.nothing", "elsewhere.get_issue", "get_issue"}}})
		var names []string
		for _, tool := range rt.Tools("") {
			names = append(names, tool.Name)
		}
		if !slices.Equal(names, want) {
			t.Error(names)
		}
		if left := rt.Unpinned(); !slices.Equal(left, []string{"github.nothing", "elsewhere.get_issue"}) {
			t.Error(left)
		}
		for name, tool := range map[string]string{"github.get_issue": "github_get_issue", "linear.get_issue": "linear_get_issue"} {
			got := ask(rt, Endpoint{}, `{"operation":"introspect","params":{"query":"operations","name":"`+name+`"}}`)
			if !strings.Contains(got, `"mcpTool":"`+tool+`"`) {
				t.Errorf("%s %s", mode, got)
			}
		}
	}
}

// called returns the text of the first content block of a tool's result.
func called(t testing.TB, rt *Runtime, tool, args string) string {
	t.Helper()
	r, ok := rt.CallTool(context.Background(), tool, &Request{Body: []byte(args), Session: "s"})
	if !ok {
		t.Fatalf("no tool %s", tool)
	}
	var out struct {
		Content []struct{ Type, Text string }
	}
	if err := json.Unmarshal(rt.AppendToolResult(nil, &r), &out); err != nil || len(out.Content) == 0 || out.Content[0].Type != "text" {
		t.Fatal(err, string(rt.AppendToolResult(nil, &r)))
	}
	return out.Content[0].Text
}

func TestSearchMode(t *testing.T) {
	rt := shippedRuntime(t, Options{Shown: Shown{Mode: present.Search}})
	all := capture(rt, `{"id":1}`)
	for _, c := range []struct{ tool, args, want string }{
		{"search_operations", `{"query":"open an issue on github","limit":1}`, "github.create_issue(owner: string, repo: string, title: string, body?: string, labels?: string[], assignees?: string[], milestone?: integer) – Open an issue [write]\n"},
		{"search_operations", `{"query":"get_me","adapter":"notion"}`, "notion.get_me(fields?) – Get the bot"},
		{"search_operations", `{"query":"","adapter":"linear","category":"delete"}`, "linear.delete_issue(id: string) – Move an issue to the trash, from where it is gone after a while [write, a person must confirm]"},
		{"search_operations", `{"query":"zzz"}`, "Nothing found. Tags, with the number of operations: "},
		{"search_operations", `{"query":"merg_pul"}`, "merge_pull"},
		{"search_operations", `{"query":"list","limit":99}`, "more, which fit less."},
		{"search_operations", `{}`, `"code":"VALIDATION_MISSING_PARAM"`},
		{"search_operations", `{"query":5}`, `"code":"VALIDATION_INVALID_TYPE"`},
		{"search_operations", `{"query":"a","limit":0}`, "must be >= 1"},
		{"search_operations", `{"query":"a","limit":"many"}`, `"code":"VALIDATION_INVALID_TYPE"`},
		{"search_operations", `{"query":"a","adapter":"jira"}`, "must be one of: github, linear, notion"},
		{"search_operations", `{"query":"a","category":"write"}`, "must be one of: create, read"},
		{"search_operations", `{"query":"a","tag":"none"}`, "must be one of: "},
		{"search_operations", `{"query":"a","querry":"b"}`, "which has: query, limit, adapter, category, tag"},
		{"describe_operations", `{"operations":["github.create_issue","nope","linear.creat_issue"]}`, `{"name":"nope","found":false},{"name":"linear.creat_issue","found":false,"did_you_mean":["github.create_issue","linear.create_issue"]}`},
		{"describe_operations", `{"operations":"github.get_repo"}`, `"mcpTool":"call_read"`},
		{"describe_operations", `{"operations":["introspect"]}`, `"name":"introspect"`},
		{"describe_operations", `{"operations":["create_issue"]}`, `'create_issue' is in github, linear`},
		{"describe_operations", `{"operations":[]}`, "must hold names"},
		{"describe_operations", `{"operations":[1]}`, `"code":"VALIDATION_INVALID_TYPE"`},
		{"describe_operations", `{"names":["x"]}`, "which has: operations"},
		{"call_read", `{"operation":"github.get_repo","params":{"owner":"o","repo":"r"}}`, `{"success":true`},
		{"call_write", `{"operation":"github.create_issue","params":{"owner":"o","repo":"r","title":"t"}}`, `{"success":true`},
		{"call_write", `{"operation":"github.get_repo","params":{"owner":"o","repo":"r"}}`, `{"success":true`},
		{"call_read", `{"operation":"github.create_issue","params":{"owner":"o","repo":"r","title":"t"}}`, "Operation 'create_issue' must be called via call_write, not call_read"},
		{"call_read", `{"operations":[{"operation":"github.get_repo","params":{"owner":"o","repo":"r"}},{"operation":"github.merge_pull","params":{}}]}`, "must be called via call_write, not call_read"},
		{"call_read", `{"operation":"introspect","params":{"query":"quota_status"}}`, `"quota_status"`},
	} {
		if got := called(t, rt, c.tool, c.args); !strings.Contains(got, c.want) {
			t.Errorf("%s %s:\n got  %s\n want %s", c.tool, c.args, got, c.want)
		}
	}
	if n := len(*all); n != 4 {
		t.Error(n, "requests")
	}
	if lines := strings.Count(called(t, rt, "search_operations", `{"query":"list","limit":99}`), "\n"); lines != present.MostHits {
		t.Error(lines)
	}
}

// TestFailuresOfOneOperationToolsAreErrors: a tool for one operation says with isError that it failed, as MCP wants it, also
// where an agent can correct the request; the tools of MCP-AQL say so with success alone, as its runner wants it.
func TestFailuresOfOneOperationToolsAreErrors(t *testing.T) {
	ops := `read:
- {name: get_item, maps_to: "GET /items/{id}", description: Get, params: {id: {type: integer, required: true}}}
delete:
- {name: drop_item, maps_to: "DELETE /items/{id}", description: Drop, danger_level: destructive, requires_confirmation: true, params: {id: {type: integer, required: true}}}`
	base := api(t, say(404, "application/json", `{"message":"no such item"}`)).URL
	const aql = `{"operation":"get_item","params":{"id":%s}}`
	for _, c := range []struct {
		mode      present.Mode
		tool      string
		arguments string
		code      string
		isError   bool
	}{
		{present.Discrete, "get_item", `{"id":1}`, "NOT_FOUND_RESOURCE", true},
		{present.Discrete, "get_item", `{}`, "VALIDATION_MISSING_PARAM", true},
		{present.Discrete, "get_item", `{"id":"x"}`, "VALIDATION_INVALID_TYPE", true},
		{present.Discrete, "get_item", `[]`, "VALIDATION_INVALID_TYPE", true},
		{present.Discrete, "drop_item", `{"id":1}`, "CONFIRMATION_REQUIRED", true},
		{present.Semantic, "get_item", `{"id":1}`, "NOT_FOUND_RESOURCE", true}, // it is pinned
		{present.Search, "get_item", `{"id":1}`, "NOT_FOUND_RESOURCE", true},
		{present.Semantic, "mcp_aql_read", fmt.Sprintf(aql, "1"), "NOT_FOUND_RESOURCE", false},
		{present.Semantic, "mcp_aql_read", fmt.Sprintf(aql, `"x"`), "VALIDATION_INVALID_TYPE", false},
		{present.Single, "mcp_aql", fmt.Sprintf(aql, "1"), "NOT_FOUND_RESOURCE", false},
		{present.Search, "call_read", fmt.Sprintf(aql, "1"), "NOT_FOUND_RESOURCE", false},
		{present.Search, "search_operations", `{}`, "VALIDATION_MISSING_PARAM", false},
	} {
		rt := one(t, Options{Shown: Shown{Mode: c.mode, Pin: []string{"get_item"}}}, base, ops)
		r, ok := rt.CallTool(context.Background(), c.tool, &Request{Body: []byte(c.arguments), Session: "s"})
		if !ok {
			t.Fatalf("%v: no tool %s", c.mode, c.tool)
		}
		out := string(rt.AppendToolResult(nil, &r))
		code := gjson.Get(gjson.Get(out, "content.0.text").Str, "error.code").Str
		if code != c.code || gjson.Get(out, "isError").Bool() != c.isError || r.IsError() != c.isError {
			t.Errorf("%v %s %s: %s", c.mode, c.tool, c.arguments, out)
		}
	}
	// Neither the plain endpoints nor their status change.
	rt := one(t, Options{Shown: Shown{Mode: present.Discrete}}, base, ops)
	if r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: fmt.Appendf(nil, aql, "1")}); r.IsError() || r.HTTPStatus() != 404 {
		t.Errorf("the endpoint: %v %d", r.IsError(), r.HTTPStatus())
	}
}

func TestOneOperationToolNeedsConfirmation(t *testing.T) {
	rt := one(t, Options{Shown: Shown{Mode: present.Discrete}}, "https://api.example.com", "delete:\n- {name: drop, maps_to: 'DELETE /x/{id}', description: Drop it, danger: {level: destructive, requires_confirmation: true}, params: {id: {type: integer, required: true}}}")
	all := capture(rt, "1")
	l := toolEntries(t, rt)[0]
	if !strings.HasSuffix(l.Description, "(a person must confirm)") || !l.Annotations["destructiveHint"] {
		t.Error(l)
	}
	first := called(t, rt, "drop", `{"id":1}`)
	if !strings.Contains(first, "Ask the person first, then send it again with the argument _confirmation.") {
		t.Error(first)
	}
	token := regexp.MustCompile(`conf_[0-9a-f]+`).FindString(first)
	args := `{"id":1,"_confirmation":"` + token + `"}`
	v, _ := jsonschema.UnmarshalJSON(strings.NewReader(args))
	if err := compiledSchema(t, l.InputSchema).Validate(v); err != nil {
		t.Error(err)
	}
	if got := called(t, rt, "drop", args); !strings.Contains(got, `"success":true`) || len(*all) != 1 {
		t.Error(got)
	}
}

// TestOutputSchema shows that a result has structuredContent if the file describes the answer,
// that the schema accepts it in any case, and that a difference is only a warning.
func TestOutputSchema(t *testing.T) {
	ops := `
read:
- name: get_issue
  maps_to: GET /issue
  response: {schema: {type: object, properties: {id: {type: integer, required: true}, labels: {type: array, items: {type: string}}}}}
- name: get_some
  maps_to: GET /some
  supports_fields: true
  default_fields: {id: integer, user.login: string}
- {name: get_any, maps_to: GET /any}`
	rt := one(t, Options{Shown: Shown{Mode: present.Discrete}}, "https://api.example.com", ops)
	tools := map[string]toolEntry{}
	for _, l := range toolEntries(t, rt) {
		tools[l.Name] = l
	}
	if tools["get_any"].OutputSchema != nil {
		t.Error("a schema of nothing")
	}
	for _, c := range []struct{ tool, args, answer, want string }{
		{"get_issue", `{}`, `{"id":1,"labels":["a"],"more":true}`, ""},
		{"get_issue", `{}`, `{"id":"1"}`, "data.id is of type string, not integer"},
		{"get_issue", `{}`, `[]`, "data is of type array, not object"},
		{"get_issue", `{}`, `null`, ""},
		{"get_issue", `{"nothing":1}`, `{}`, "failure"},
		{"get_some", `{}`, `{"id":1,"user":{"login":"a","x":1},"y":2}`, ""},
		{"get_some", `{}`, `{"user":[{"login":"a"}]}`, ""},
		{"get_some", `{}`, `{"id":"x"}`, "data.id is of type string, not integer"},
		{"get_some", `{"fields":["y"]}`, `{"id":"x","y":1}`, ""},
	} {
		capture(rt, c.answer)
		r, _ := rt.CallTool(context.Background(), c.tool, &Request{Body: []byte(c.args)})
		var out struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
		}
		if err := json.Unmarshal(rt.AppendToolResult(nil, &r), &out); err != nil {
			t.Fatal(err)
		}
		if string(out.StructuredContent) != out.Content[0].Text {
			t.Errorf("%s: %s and %s", c.tool, out.StructuredContent, out.Content[0].Text)
		}
		v, _ := jsonschema.UnmarshalJSON(bytes.NewReader(out.StructuredContent))
		if err := compiledSchema(t, tools[c.tool].OutputSchema).Validate(v); err != nil {
			t.Errorf("%s: %v", out.StructuredContent, err)
		}
		got := ""
		switch {
		case r.Failure != nil:
			got = "failure"
		case len(r.Warnings) > 0:
			got = strings.TrimPrefix(r.Warnings[0].Message, "The API's answer differs from its description: ")
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.tool, c.answer, got, c.want)
		}
	}
	capture(rt, "1")
	r, _ := rt.CallTool(context.Background(), "get_any", &Request{Body: []byte("{}")})
	if bytes.Contains(rt.AppendToolResult(nil, &r), []byte("structuredContent")) {
		t.Error("structured without a schema")
	}
}

// TestDescriptionsTellOfStructuredOutput shows what a model learns of the output of a tool, and that its schema has nothing with which a
// client's library may fail.
func TestDescriptionsTellOfStructuredOutput(t *testing.T) {
	const schema = `response: {schema: {type: object, properties: {name: {type: string, pattern: "^\\p{L}+$", format: odd, minLength: 1, maxLength: 9}, n: {type: integer, minimum: 1}}}}`
	rt := one(t, Options{Shown: Shown{Mode: present.Discrete}}, "https://api.example.com", `
read:
- {name: get_any, maps_to: GET /any, description: Get any}
- {name: get_one, maps_to: GET /one, description: Get one, `+schema+`}
- {name: get_some, maps_to: GET /some, description: Get some, supports_fields: true, `+schema+`}
- {name: get_page, maps_to: GET /page, description: Get a page, params: {page: {type: integer}}, pagination: {style: page, param_name: page}, `+schema+`}
- {name: get_both, maps_to: GET /both, description: Get both, supports_fields: true, params: {page: {type: integer}}, pagination: {style: page, param_name: page}, `+schema+`}
create:
- {name: make, maps_to: POST /make, description: Make one, `+schema+`}
delete:
- {name: drop, maps_to: DELETE /drop, description: Drop one, danger_level: destructive, requires_confirmation: true, `+schema+`}`)
	want := map[string]string{
		"get_any": "Get any", "get_one": "Get one (structured output; narrow large results)", "get_some": "Get some (structured output; select fields)",
		"get_page": "Get a page (structured output; page large results)", "get_both": "Get both (structured output; page, or select fields)",
		"make": "Make one (structured output)", "drop": "Drop one (a person must confirm) (structured output)",
	}
	for _, l := range toolEntries(t, rt) {
		if l.Description != want[l.Name] {
			t.Errorf("%s: %q, want %q", l.Name, l.Description, want[l.Name])
		}
		const all = `{"type":"object","properties":{"success":{"type":"boolean"},"data":{"anyOf":[{"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer"}}},{}]},"error":{"type":"object"}},"required":["success"]}`
		if got := string(l.OutputSchema); got != all && l.Name != "get_any" {
			t.Errorf("%s: %s", l.Name, got)
		}
	}
}

func TestReloadChangesTools(t *testing.T) {
	dir, paths := write(t, map[string]string{"test-api-adapter.md": front("https://api.example.com", "read:\n- {name: get_a, maps_to: GET /a}")})
	rt, err := New(Options{Shown: Shown{Mode: present.Auto}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	if _, err := rt.Load(paths); err != nil {
		t.Fatal(err)
	}
	if n := len(rt.Tools("")); n != 1 {
		t.Error(n)
	}
	if err := os.WriteFile(filepath.Join(dir, "test-api-adapter.md"), []byte(front("https://api.example.com", "read:\n- {name: get_a, maps_to: GET /a}\n- {name: get_b, maps_to: GET /b}")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, changed, err := rt.Reload(paths); err != nil || !changed || len(rt.Tools("")) != 2 {
		t.Error(changed, err, len(rt.Tools("")))
	}
}

// TestDescriptionOfManyAdapters shows that the description of the search stays short.
func TestDescriptionOfManyAdapters(t *testing.T) {
	for n, want := range map[int]string{
		1:  "Find operations of api-00 (1) by what they do",
		3:  "Find operations of api-00 (1), api-01 (1), api-02 (1) by what they do",
		4:  "Find operations of api-00, api-01, api-02, api-03 by what they do",
		60: "api-16, api-17 and 42 more APIs by what they do",
	} {
		files := map[string]string{}
		for i := range n {
			name := fmt.Sprintf("api-%02d", i)
			files[name+"-adapter.md"] = strings.Replace(front("https://"+name+".example.com", "read:\n- {name: get_a, maps_to: GET /a}"), "test-api", name, 1)
		}
		got := toolEntries(t, start(t, Options{Shown: Shown{Mode: present.Search}}, files))[0].Description
		if !strings.Contains(got, want) || len(got) > 250 {
			t.Errorf("%d: %s", n, got)
		}
	}
}
