package tests

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
)

const listOps = `
  read:
    - name: list_things
      maps_to: "GET /things"
      description: List things
    - name: list_few
      maps_to: "GET /things"
      description: List few things
      transform: {include_fields: [id], page_size: 3, max_tokens: 900}
    - name: get_text
      maps_to: "GET /text"
      description: Get a text
`

// things makes a directory with an adapter for an API with long answers.
func things(t *testing.T) (dir string) {
	t.Helper()
	var list []string
	for i := range 2000 {
		list = append(list, fmt.Sprintf(`{"id":%d.0,"title":"thing number %d","internal":{"a":[1,2,3]}}`, i, i))
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/text" {
			fmt.Fprint(w, quote(strings.Repeat("A line of text.\n", 4000)))
			return
		}
		fmt.Fprintf(w, `{"items":[%s],"next_cursor":"abc"}`, strings.Join(list, ","))
	}))
	t.Cleanup(api.Close)
	t.Setenv("DRAGOMAN_TEST_API_TOKEN", "ghp_0123456789abcdefghijklmnopqrstuvwxyz")
	return adapterDir(t, map[string]string{"things-adapter.md": adapterFile("things-api", api.URL, listOps)})
}

func operate(op string) string { return fmt.Sprintf(`,"arguments":{"operation":%q}`, op) }

// TestAFileShapesWithoutConfiguration: the transform block of an adapter file applies without any
// configuration of results, and only to that adapter.
func TestAFileShapesWithoutConfiguration(t *testing.T) {
	dir := things(t)
	adapted := func(cfg *config.Config) { cfg.Adapters.Sources = []string{dir} }
	srv := front(t, listing("2025-11-25", nil, nil), adapted)
	session := srv.initialize("2025-11-25")
	ask := func(op string) gjson.Result {
		result := gjson.Get(srv.post(session, callOf(2, "mcp_aql_read", operate(op))).body, "result.content.0.text")
		return gjson.Parse(result.String())
	}
	if got := ask("list_few"); len(got.Get("data.items").Array()) != 3 || got.Get("warnings.0.code").Str != "VALIDATION_TRUNCATED_WARNING" {
		t.Errorf("%.600s", got.Raw)
	}
	if got := ask("list_things"); len(got.Get("data.items").Array()) != 2000 {
		t.Errorf("%.600s", got.Raw)
	}
	if got := names(srv.answer(session, listSecond)); !strings.Contains(got, "fetch_more") {
		t.Errorf("what was cut cannot be read: tools %s", got)
	}
	// The block may be removed from the file and added again; the store of cut results remains.
	cfg := srv.Now().Config
	for range 2 {
		if err := srv.Reload(cfg); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask("list_few"); len(got.Get("data.items").Array()) != 3 {
		t.Errorf("after a reload: %.600s", got.Raw)
	}
	off := front(t, listing("2025-11-25", nil, nil), adapted, shaped(t, "enabled: false"))
	session = off.initialize("2025-11-25")
	if got := off.post(session, callOf(2, "mcp_aql_read", operate("list_few"))).body; strings.Contains(got, "VALIDATION_TRUNCATED_WARNING") {
		t.Errorf("transform.enabled: false shapes: %.600s", got)
	}
}

// TestOperationsOfAdaptersAreShaped: results of operations are shaped by the rules that name the
// operation, in the configuration or in the file. What surrounds the data is not cut.
func TestOperationsOfAdaptersAreShaped(t *testing.T) {
	for _, c := range []struct {
		config, op string
		budget     int
		data       string // the expected data of the result; "" for any
		cut        string // the field that the warning names; "" for no warning
	}{
		{"default_max_tokens: 1000", "list_things", 1000, "", "data.items"},
		{"default_max_tokens: 0", "list_things", 0, "", ""},
		{"default_max_tokens: 0", "list_few", 900, `{"items":[{"id":0.0},{"id":1.0},{"id":2.0}],"next_cursor":"abc","_pagination":`, "data.items"},
		{"{default_max_tokens: 0, rules: [{match: {tool: list_few}, include_fields: [title], page_size: 1}]}", "list_few", 0, `{"items":[{"title":"thing number 0"}],"next_cursor":"abc","_pagination":`, "data.items"},
		{"{default_max_tokens: 0, rules: [{match: {server: things-api, tool: '*'}, page_size: 1, include_fields: [id]}]}", "list_things", 0, `{"items":[{"id":0.0}]`, "data.items"},
		{"{default_max_tokens: 0, rules: [{match: {tool: mcp_aql_read}, page_size: 1, include_fields: [id]}]}", "list_things", 0, `{"items":[{"id":0.0}]`, "data.items"},
		{"default_max_tokens: 800", "get_text", 800, "", "data"},
	} {
		t.Run(fmt.Sprint(c.config, c.op), func(t *testing.T) {
			dir := things(t)
			srv := front(t, listing("2025-11-25", nil, nil), shaped(t, c.config), func(cfg *config.Config) {
				cfg.Adapters.Sources = []string{dir}
			})
			session := srv.initialize("2025-11-25")
			answer := srv.post(session, callOf(2, "mcp_aql_read", operate(c.op))).body
			result := gjson.Get(answer, "result")
			envelope := gjson.Parse(result.Get("content.0.text").String())
			if !envelope.Get("success").Bool() || result.Get("isError").Bool() || !strings.HasPrefix(envelope.Get("data").Raw, c.data) {
				t.Fatalf("%.600s", answer)
			}
			warning := envelope.Get("warnings.0")
			if c.cut == "" {
				if warning.Exists() || len(envelope.Get("data.items").Array()) != 2000 {
					t.Errorf("%.500s", answer)
				}
				return
			}
			if warning.Get("code").String() != "VALIDATION_TRUNCATED_WARNING" || warning.Get("details.field").String() != c.cut ||
				warning.Get("details.original_count").Int() < 2000 || warning.Get("details.truncated_count").Int() > 1000 ||
				warning.Get("details.limit").Int() < 1 || warning.Get("severity").String() != "medium" {
				t.Errorf("%s", warning.Raw)
			}
			if n := count(t, result); c.budget > 0 && n > c.budget {
				t.Errorf("%d tokens", n)
			}
			_, more, _ := strings.Cut(warning.Get("message").String(), `fetch_more {"cursor":"`)
			cursor, _, _ := strings.Cut(more, `"`)
			part := srv.post(session, callOf(3, "fetch_more", fmt.Sprintf(`,"arguments":{"cursor":%q,"raw":true,"count":40}`, cursor))).body
			if got := text(part); !strings.HasPrefix(got, `{"items":[{"id":0.0,"title":"thing num`) && !strings.HasPrefix(got, "A line of text.\n") {
				t.Errorf("%.300s", part)
			}
		})
	}
}

// TestPlainEndpointsShapeTheirData: results on the plain endpoints are cut too, with a warning and
// headers that say so.
func TestPlainEndpointsShapeTheirData(t *testing.T) {
	dir := things(t)
	cfg := config.Default()
	cfg.Adapters.Sources = []string{dir}
	shaped(t, "default_max_tokens: 1000")(&cfg)
	_, base := serveAdapters(t, cfg, nil)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		body, at  string // at is the path of the result in the response
		header    []string
		truncated string
		most      int
	}{
		{`{"operation":"list_few"}`, "@this", nil, "true", 200},
		{`{"operation":"list_things"}`, "@this", nil, "true", 1000},
		{`{"operation":"list_things"}`, "@this", []string{"X-Max-Tokens", "400"}, "true", 400},
		{`{"operation":"introspect","params":{"query":"operations"}}`, "@this", nil, "", 1000},
		{`{"operations":[{"operation":"list_few"},{"operation":"list_things"}]}`, "results.1.result", nil, "true", 1000},
	} {
		status, header, body := visit(t, client, "POST", base+"/adapters/things-api/read", c.body, c.header...)
		if status != 200 || header.Get("X-Truncated") != c.truncated || (header.Get("X-Original-Tokens") != "") != (c.truncated != "") {
			t.Errorf("%s: %d %v %.300s", c.body, status, header, body)
		}
		if n := len(body); c.most > 0 && n > 6*c.most+1000 {
			t.Errorf("%s: %d bytes", c.body, n)
		}
		result := gjson.Get(body, c.at)
		if code := result.Get("warnings.0.code").String(); (code == "VALIDATION_TRUNCATED_WARNING") != (c.truncated != "") {
			t.Errorf("%s: %.300s", c.body, body)
		}
		if strings.Contains(body, "fetch_more") {
			t.Errorf("%s: no client can call that: %.300s", c.body, body)
		}
	}
}

func TestRulesInAdapterFilesFollowTheirFiles(t *testing.T) {
	base, _, _ := items(t)
	file := func(rule string) string { return adapterFile("items-api", base, adapterOps+"transform: "+rule+"\n") }
	dir := adapterDir(t, map[string]string{"items-adapter.md": file("{exclude_fields: [asked]}")})
	srv := front(t, listing("2025-11-25", nil, nil), shaped(t, "{}"), func(c *config.Config) { c.Adapters.Sources = []string{dir} })
	session := srv.initialize("2025-11-25")
	data := func() string {
		return gjson.Get(text(srv.post(session, callOf(2, "mcp_aql_read", `,"arguments":`+readItem)).body), "data").Raw
	}
	if got := data(); got != `{}` {
		t.Error(got)
	}
	for _, step := range [][2]string{
		{"{include_fields: [asked]}", `{"asked":"GET /items/7"}`},
		{"{exclude_fields: [asked]}", `{}`},
		{"{exclud_fields: [asked]}", `{}`}, // invalid: the previous version stays in use
		{"{adapter: nobody}", `{}`},
		{"{}", `{"asked":"GET /items/7"}`},
	} {
		put(t, filepath.Join(dir, "items-adapter.md"), file(step[0]))
		srv.ReloadAdapters("a test")
		if got := data(); got != step[1] {
			t.Errorf("%s: %s", step[0], got)
		}
	}

	put(t, filepath.Join(dir, "items-adapter.md"), file("{max_depth: 99}"))
	cfg := config.Default()
	cfg.Adapters.Sources = []string{dir}
	_, err := proxy.NewWith(cfg, zap.NewNop(), origin.None())
	if err == nil || !strings.Contains(err.Error(), "error: transform: max_depth: 99 is not 1 to 10") {
		t.Error(err)
	}
}

// TestResultsOfAdaptersUseTheirBudget: what surrounds the data costs no more of the budget than it has tokens.
func TestResultsOfAdaptersUseTheirBudget(t *testing.T) {
	dir := things(t)
	for _, budget := range []int{500, 1000, 4000} {
		srv := front(t, listing("2025-11-25", nil, nil), shaped(t, fmt.Sprint("default_max_tokens: ", budget)), func(cfg *config.Config) {
			cfg.Adapters.Sources = []string{dir}
		})
		session := srv.initialize("2025-11-25")
		for _, op := range []string{"list_things", "get_text"} {
			answer := srv.post(session, callOf(2, "mcp_aql_read", operate(op))).body
			result := gjson.Get(answer, "result")
			if n := count(t, result); n > budget || n*100 < budget*97 {
				t.Errorf("%s uses %d of %d tokens", op, n, budget)
			}
			envelope := gjson.Parse(result.Get("content.0.text").String())
			if envelope.Get("warnings.#").Int() != 1 || len(result.Get("content").Array()) != 1 {
				t.Errorf("%s for %d: %.800s", op, budget, answer)
			}
			_, more, _ := strings.Cut(envelope.Get("warnings.0.message").String(), `fetch_more {`)
			call, _, _ := strings.Cut(more, "}")
			next := text(srv.post(session, callOf(3, "fetch_more", fmt.Sprintf(`,"arguments":{%s}`, call))).body)
			if first, _, _ := strings.Cut(strings.TrimSpace(next), "\n"); strings.Contains(envelope.Get("data").Raw, first) && op == "list_things" {
				t.Errorf("%s for %d: what was shown comes once more: %.300s", op, budget, next)
			}
		}
	}
}

// TestTypedResultsOfAdaptersAlwaysFit: whatever the API answers, and whatever rules and budgets leave of it, the client gets
// structured content if the list has a schema for it, and the schema accepts it.
func TestTypedResultsOfAdaptersAlwaysFit(t *testing.T) {
	var list []string
	for i := range 200 {
		list = append(list, fmt.Sprintf(`{"id":%d,"title":"thing number %d","owner":{"login":"ada"},"tags":["a","b"]}`, i, i))
	}
	answers := map[string]string{
		"good": `{"id":1,"title":"t","owner":{"login":"ada"},"tags":["a"],"items":[` + strings.Join(list, ",") + `]}`, "list": "[" + strings.Join(list, ",") + "]",
		"broken": `{"id":"x","title":7,"owner":[],"tags":{"a":1},"items":"none"}`, "null": "null", "text": `"` + strings.Repeat("word ", 2000) + `"`, "empty": "",
		"long": `{"id":1,"title":"` + strings.Repeat("word ", 2000) + `"}`, "number": "12",
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, there := answers[path.Base(r.URL.Path)]
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !there:
			w.WriteHeader(404)
		case answer == "":
			w.WriteHeader(204)
		}
		io.WriteString(w, answer)
	}))
	t.Cleanup(api.Close)
	t.Setenv("DRAGOMAN_TEST_API_TOKEN", "ghp_0123456789abcdefghijklmnopqrstuvwxyz")
	dir := adapterDir(t, map[string]string{"things-adapter.md": adapterFile("things-api", api.URL, `
  read:
    - name: get_typed
      maps_to: "GET /things/{kind}"
      description: Get things
      params: {kind: {type: string, required: true}}
      response: {schema: {type: object, properties: {id: {type: integer, required: true}, title: {type: string, required: true, maxLength: 30, pattern: "^[^!]+$"},
        owner: {type: object, properties: {login: {type: string, required: true, enum: [ada]}}}, tags: {type: array, items: {type: string}},
        items: {type: array, items: {type: object, properties: {id: {type: integer, required: true}, title: {type: string, required: true}}}}}}}
`)})
	for _, rules := range []string{
		"default_max_tokens: 100", "default_max_tokens: 400",
		"rules: [{match: {server: things-api, tool: get_typed}, include_fields: [title]}]",
		"rules: [{match: {server: things-api, tool: get_typed}, include_fields: [items.title], max_tokens: 200}]",
		"rules: [{match: {server: things-api, tool: get_typed}, include_fields: [id], max_tokens: 100, on_conflict: error}]",
		"rules: [{match: {server: things-api, tool: get_typed}, page_size: 3, page_shape: wrap, max_tokens: 300}]",
		"rules: [{match: {tool: get_typed}, include_fields: [title], max_tokens: 200}]",
		"rules: [{match: {tool: get_typed}, exclude_fields: [id], output_schema: keep, max_tokens: 200}]",
		"rules: [{match: {tool: get_typed}, exclude_fields: [id], output_schema: derive, max_tokens: 200}]",
		"rules: [{match: {server: things-api, tool: get_typed}, include_fields: [title], output_schema: strip, max_tokens: 200}]",
		"rules: [{match: {server: things-api, tool: get_typed}, max_chars: 100, truncate: {title: {max: 10}}}]",
	} {
		srv := front(t, listing("2025-11-25", nil, nil), shaped(t, rules), func(cfg *config.Config) {
			cfg.Adapters.Sources = []string{dir}
			cfg.Adapters.Mode = "discrete"
		})
		session := srv.initialize("2025-11-25")
		var schema []byte
		listed := 0
		for _, tool := range gjson.Get(srv.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"2"}}`).body, "result.tools").Array() {
			listed++
			if tool.Get("name").Str == "get_typed" && tool.Get("outputSchema").Exists() {
				schema = []byte(tool.Get("outputSchema").Raw)
			}
		}
		if listed == 0 || schema == nil && !strings.Contains(rules, "{tool: get_typed}") {
			t.Fatalf("%s: %d tools, without the schema", rules, listed)
		}
		for kind := range answers {
			answer := srv.post(session, callOurs(2, "get_typed", fmt.Sprintf(`{"kind":%q}`, kind))).body
			result := gjson.Get(answer, "result")
			structured := result.Get("structuredContent")
			if schema == nil {
				continue
			}
			if !structured.Exists() && !result.Get("isError").Bool() {
				t.Errorf("%s, %s: no structured content: %.400s", rules, kind, answer)
			} else if why := misfit(t, schema, structured.Raw); structured.Exists() && why != nil {
				t.Errorf("%s, %s: %v: %.400s", rules, kind, why, answer)
			}
		}
		if answer := srv.post(session, callOurs(3, "get_typed", `{"kind":"none"}`)).body; !gjson.Get(answer, "result.isError").Bool() {
			t.Errorf("%s: %s", rules, answer)
		}
	}
}

// misfit returns why a JSON value does not fit a JSON Schema.
func misfit(t *testing.T, schema []byte, value string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("s.json")
	if err != nil {
		t.Fatal(err)
	}
	v, _ := jsonschema.UnmarshalJSON(strings.NewReader(value))
	return compiled.Validate(v)
}

// TestTypedResultsOfAdaptersUseTheirBudget: a tool for one operation with a schema has its result as structured content, too.
func TestTypedResultsOfAdaptersUseTheirBudget(t *testing.T) {
	var list []string
	for i := range 500 {
		list = append(list, fmt.Sprintf(`{"id":%d,"title":"thing number %d"}`, i, i))
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"items":[%s]}`, strings.Join(list, ","))
	}))
	t.Cleanup(api.Close)
	t.Setenv("DRAGOMAN_TEST_API_TOKEN", "ghp_0123456789abcdefghijklmnopqrstuvwxyz")
	dir := adapterDir(t, map[string]string{"things-adapter.md": adapterFile("things-api", api.URL, `
  read:
    - name: list_typed
      maps_to: "GET /things"
      description: List things
      response: {schema: {type: object, properties: {items: {type: array, items: {type: object}}}}}
`)})
	for _, budget := range []int{500, 1000, 4000} {
		for _, version := range []string{"2024-11-05", "2025-11-25"} {
			srv := front(t, listing("2025-11-25", nil, nil), shaped(t, fmt.Sprint("default_max_tokens: ", budget)), func(cfg *config.Config) {
				cfg.Adapters.Sources = []string{dir}
				cfg.Adapters.Mode = "discrete"
			})
			session := srv.initialize(version)
			srv.post(session, listTools)
			answer := srv.post(session, callOurs(2, "list_typed", `{}`)).body
			result := gjson.Get(answer, "result")
			least := 97
			if budget < 4000 {
				least = 93 // the preview and the notice leave some of their share
			}
			if version == "2024-11-05" { // it has no structured content; an item of the list takes 16 tokens
				least = 100 - max(3, 1600/budget+1)
			}
			if n := count(t, result); n > budget || n*100 < budget*least || !strings.Contains(answer, "thing number 499") {
				t.Errorf("%s: %d of %d tokens: %.1500s", version, n, budget, answer)
			}
		}
	}
}
