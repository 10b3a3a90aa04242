package adapterrt

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func github(t testing.TB, opt Options) *Runtime {
	t.Helper()
	text, err := os.ReadFile("testdata/github-api-adapter.md")
	if err != nil {
		t.Fatal(err)
	}
	return start(t, opt, map[string]string{"github-api-adapter.md": string(text)})
}

// compiled holds the compiled schemas of testdata.
var compiled struct {
	sync.Mutex
	compiler *jsonschema.Compiler
}

// conforms checks a result against one of the schemas in testdata.
func conforms(t *testing.T, definition, result string) {
	t.Helper()
	compiled.Lock()
	if compiled.compiler == nil {
		compiled.compiler = jsonschema.NewCompiler()
	}
	s, err := compiled.compiler.Compile("testdata/introspection.schema.json#/$defs/" + definition)
	compiled.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(result))
	if err != nil {
		t.Fatal(err, result)
	}
	if err := s.Validate(v); err != nil {
		t.Errorf("%s: %v\n%s", definition, err, result)
	}
}

func query(rt *Runtime, q, name string) string {
	p := wire.Members(nil).Str("query", q)
	if name != "" {
		p = p.Str("name", name)
	}
	return ask(rt, Endpoint{Category: file.Read}, `{"operation":"introspect","params":`+string(p.End())+`}`)
}

// TestOurFileOfTwentyOperations tests a file of this project that has the size and the shape
// of the public example.
func TestOurFileOfTwentyOperations(t *testing.T) {
	text, err := os.ReadFile("testdata/github-api-adapter.md")
	if err != nil {
		t.Fatal(err)
	}
	sendsWhatItSays(t, text)
}

// publicExample is the example that the format's authors published. It has another licence, so
// it is fetched and not part of this repository.
const publicExample = "https://raw.githubusercontent.com/MCPAQL/examples/115b5b9e731bebb4771f4cfaa2113934eca5530f/adapters/github-api-adapter.md"

func TestThePublicExample(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, "GET", publicExample, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Skip("the public example cannot be fetched: ", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil || res.StatusCode != 200 {
		t.Skip("the public example cannot be fetched: ", res.Status, err)
	}
	sendsWhatItSays(t, text)
}

// sendsWhatItSays checks that a file of 20 operations loads without a problem, and that a call
// of each operation with its required parameters sends the method and path of its maps_to.
func sendsWhatItSays(t *testing.T, text []byte) {
	opt := fromEnv("GITHUB_TOKEN", "x")
	a, problems := Parse("github-api-adapter.md", text, &opt)
	if a == nil || len(problems) > 0 || len(a.Operations) != 20 {
		t.Fatal(problems)
	}
	var file struct {
		Operations map[string][]struct {
			Name   string
			MapsTo string `yaml:"maps_to"`
			Params map[string]struct {
				Type     string
				Required bool
			}
		}
	}
	if err := yaml.Unmarshal([]byte(strings.Split(string(text), "\n---\n")[0]), &file); err != nil {
		t.Fatal(err)
	}
	rt := start(t, opt, map[string]string{"github-api-adapter.md": string(text)})
	all := capture(rt, `{}`)
	values := map[string]string{"string": `"a b"`, "integer": "7", "number": "1.5", "boolean": "true", "array": `["x"]`, "object": "{}"}
	for _, ops := range file.Operations {
		for _, op := range ops {
			params := wire.Members(nil)
			method, path, _ := strings.Cut(op.MapsTo, " ")
			for name, p := range op.Params {
				if p.Required {
					params = params.Raw(name, []byte(values[p.Type]))
					path = strings.ReplaceAll(path, "{"+name+"}", map[string]string{"string": "a%20b", "integer": "7"}[p.Type])
				}
			}
			*all = nil
			got := ask(rt, Endpoint{}, `{"operation":"`+op.Name+`","params":`+string(params.End())+`}`)
			if len(*all) != 1 || !strings.Contains(got, `"success":true`) {
				t.Errorf("%s: %s", op.Name, got)
				continue
			}
			if s := (*all)[0]; s.method != method || !strings.HasPrefix(s.url+"?", "https://api.github.com"+path+"?") {
				t.Errorf("%s: sent %s %s", op.Name, s.method, s.url)
			}
		}
	}
}

// TestIntrospectionIsComplete reads the file with another YAML reader, and checks that
// introspection returns everything in it.
func TestIntrospectionIsComplete(t *testing.T) {
	for _, opt := range []Options{{}, {Introspection: present.Strict}, {Shown: Shown{Mode: present.Single}}} {
		rt := github(t, opt)
		text, _ := os.ReadFile("testdata/github-api-adapter.md")
		var file struct {
			Operations map[string][]struct {
				Name, Description string
				Params            map[string]map[string]any
			}
		}
		if err := yaml.Unmarshal([]byte(strings.Split(string(text), "\n---\n")[0]), &file); err != nil {
			t.Fatal(err)
		}
		list := query(rt, "operations", "")
		conforms(t, "list", list)
		for category, ops := range file.Operations {
			for _, op := range ops {
				item := `{"name":"` + op.Name + `","semantic_category":"` + strings.ToUpper(category) + `","endpoint":"` + category + `","description":"` + op.Description + `"}`
				if !strings.Contains(list, item) {
					t.Errorf("no %s in %s", item, list)
				}
				detail := query(rt, "operations", op.Name)
				if opt.Introspection == present.Strict {
					conforms(t, "detail", detail)
				} else {
					conforms(t, "detailExtended", detail)
				}
				var got struct {
					Data struct {
						Operation struct {
							MCPTool    string `json:"mcpTool"`
							Parameters []map[string]any
							Params     []map[string]any
						}
					}
				}
				if err := json.Unmarshal([]byte(detail), &got); err != nil {
					t.Fatal(err)
				}
				o := got.Data.Operation
				if want := map[present.Mode]string{present.Semantic: "mcp_aql_" + category, present.Single: "mcp_aql"}[opt.Mode]; o.MCPTool != want {
					t.Errorf("%s: tool %s, want %s", op.Name, o.MCPTool, want)
				}
				if len(o.Parameters) != len(op.Params) || (o.Params == nil) != (opt.Introspection == present.Strict) {
					t.Fatalf("%s: %s", op.Name, detail)
				}
				for _, p := range o.Parameters {
					want := op.Params[p["name"].(string)]
					if want["required"] == nil {
						want["required"] = false
					}
					delete(p, "name")
					a, _ := json.Marshal(p)
					b, _ := json.Marshal(want)
					if string(a) != string(b) {
						t.Errorf("%s: got %s, want %s", op.Name, a, b)
					}
				}
				conforms(t, "typed", query(rt, "types", typeName(op.Name)+"Params"))
			}
		}
		types := query(rt, "types", "")
		conforms(t, "types", types)
		var all struct {
			Data struct{ Types []struct{ Name string } }
		}
		if err := json.Unmarshal([]byte(types), &all); err != nil || len(all.Data.Types) != 7+20+4 {
			t.Error(err, len(all.Data.Types))
		}
		for _, typ := range all.Data.Types {
			got := query(rt, "types", typ.Name)
			conforms(t, "typed", got)
			if strings.Contains(got, "null") {
				t.Error(got)
			}
		}
	}
}

// typeName returns GetIssue for get_issue.
func typeName(operation string) string {
	name := ""
	for _, w := range strings.Split(operation, "_") {
		name += strings.ToUpper(w[:1]) + w[1:]
	}
	return name
}

func TestIntrospectionWordForWord(t *testing.T) {
	const protocol = `{"version":"1.0.0-draft","conformance":"level-2","mode":"semantic","capabilities":{"batch":true,"field_selection":true,"pagination":true,"warnings":true,"confirmation":true,"dangerous_operations":true},"limits":{"max_request_size":1048576,"max_response_size":10485760,"max_string_length":1048576,"max_array_elements":10000,"max_nesting_depth":32},"concurrency":"fully-concurrent"}`
	rt := one(t, Options{}, "https://api.example.com", `read: [{name: get_repo, maps_to: "GET /repos/{owner}", description: Get repository details, params: {owner: {type: string, required: true, description: Repository owner}}}]`)
	for _, c := range [][3]string{
		{"operations", "", `{"success":true,"data":{"_protocol":` + protocol + `,"operations":[{"name":"get_repo","semantic_category":"READ","endpoint":"read","description":"Get repository details"},{"name":"introspect","semantic_category":"READ","endpoint":"read","description":"Discover operations and types"}]}}`},
		{"operations", "get_repo", `{"success":true,"data":{"operation":{"name":"get_repo","semantic_category":"READ","endpoint":"read","mcpTool":"mcp_aql_read","description":"Get repository details","permissions":{"readOnly":true,"destructive":false},"parameters":[{"name":"owner","type":"string","required":true,"description":"Repository owner"}],"returns":{"name":"JsonValue","kind":"scalar"},"examples":[{"request":{"operation":"get_repo","params":{"owner":"…"}}}],"params":[{"name":"owner","type":"string","required":true,"description":"Repository owner"}]}}}`},
		{"operations", "nope", `{"success":true,"data":{"operation":null}}`},
		{"types", "nope", `{"success":true,"data":{"type":null}}`},
		{"adapter_info", "", `{"success":true,"data":{"adapter":{"name":"test-api","version":"1.0.0","description":"An API for tests","operation_count":1}}}`},
		{"x", "", `{"success":false,"error":{"code":"INVALID_QUERY_TYPE","message":"Unknown introspection query: 'x'. Use 'operations' or 'types'."}}`},
	} {
		if got := query(rt, c[0], c[1]); got != c[2] {
			t.Errorf("%v\n got %s\nwant %s", c[:2], got, c[2])
		}
	}
	if got := ask(rt, Endpoint{}, `{"operation":"introspect"}`); got != `{"success":false,"error":{"code":"VALIDATION_MISSING_PARAM","message":"Missing required parameter 'query'. Expected: string."}}` {
		t.Error(got)
	}
	conforms(t, "failure", ask(rt, Endpoint{}, `{"operation":"introspect","params":{"query":"types","x":1}}`))
}

func TestResultsConform(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", richOps)
	capture(rt, `{"a":1}`)
	for _, c := range refusals {
		conforms(t, "result", ask(rt, Endpoint{}, c.body))
	}
	conforms(t, "result", ask(rt, Endpoint{}, `{"operation":"list_issues"}`))
}

func TestAdapterTextIsCleaned(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", "read: [{name: op, maps_to: GET /q, description: \"a\\u202eb\\x1b[31m\\u200b\\nc"+strings.Repeat("x", 2000)+"\"}]")
	got := query(rt, "operations", "op")
	if strings.ContainsAny(got, "\u202e\u200b\x1b") || !strings.Contains(got, `"description":"ab[31m cxxx`) || len(got) > 2000 {
		t.Error(got)
	}
}
