package adapterrt

import (
	"context"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

const richOps = `
create:
- {name: create_issue, maps_to: POST /issues, description: Create, params: {title: {type: string, required: true, minLength: 2, maxLength: 5}, labels: {type: array, items: {type: string, pattern: '^[a-z]+$'}}}}
read:
- name: list_issues
  maps_to: GET /issues
  description: List
  params:
    state: {type: string, enum: [open, closed, all], default: open}
    per_page: {type: integer, minimum: 1, maximum: 100}
    ratio: {type: number}
    deep: {type: boolean}
    filter: {type: object}
    secret: {type: integer, sensitive: true}
- {name: get_issue, maps_to: "GET /issues/{owner}/{number}", description: Get, params: {owner: {type: string, required: true}, number: {type: integer, required: true}}}
update:
- {name: edit_issue, maps_to: "PATCH /issues/{number}", description: Edit, params: {number: {type: integer, required: true}, title: {type: string}}}
delete:
- {name: drop_issue, maps_to: "DELETE /issues/{number}", description: Delete, params: {number: {type: integer, required: true}}}
execute:
- {name: lock_issue, maps_to: "PUT /issues/{number}/lock", description: Lock, params: {number: {type: integer, required: true}}}`

// refusals are requests with the exact failure that each must get.
var refusals = []struct{ name, body, want string }{
	{"no operation", `{}`, `{"code":"VALIDATION_MISSING_PARAM","message":"Missing required parameter 'operation'. Expected: string.","details":{"param_name":"operation","expected_type":"string","missing":["operation"]}}`},
	{"null operation", `{"operation":null}`, `{"code":"VALIDATION_MISSING_PARAM","message":"Missing required parameter 'operation'. Expected: string.","details":{"param_name":"operation","expected_type":"string","missing":["operation"]}}`},
	{"numeric operation", `{"operation":5}`, `{"code":"VALIDATION_INVALID_TYPE","message":"Parameter 'operation' expected 'string', got 'integer'","details":{"param_name":"operation","expected_type":"string","actual_type":"integer"}}`},
	{"bad operation name", `{"operation":"Get Issue"}`, `{"code":"VALIDATION_INVALID_VALUE","message":"Parameter 'operation' is not a valid operation name","details":{"param_name":"operation"}}`},
	{"an array", `[1]`, `{"code":"VALIDATION_INVALID_TYPE","message":"Parameter 'params' expected 'object', got 'array'","details":{"param_name":"params","expected_type":"object","actual_type":"array"}}`},
	{"params no object", `{"operation":"get_issue","params":"x"}`, `{"code":"VALIDATION_INVALID_TYPE","message":"Parameter 'params' expected 'object', got 'string'","details":{"param_name":"params","expected_type":"object","actual_type":"string"}}`},
	{"broken JSON", `{"operation":`, `{"code":"VALIDATION_INVALID_TYPE","message":"Request is not valid JSON: unexpected end of input","details":{"param_name":"params","expected_type":"object","byte_offset":13}}`},
	{"trailing", `{"operation":"get_issue"} x`, `{"code":"VALIDATION_INVALID_TYPE","message":"Request is not valid JSON: trailing data","details":{"param_name":"params","expected_type":"object","byte_offset":26}}`},
	{"NUL", `{"operation":"get_issue","params":{"owner":"a\u0000"}}`, `{"code":"VALIDATION_INVALID_ENCODING","message":"Invalid character encoding in request","details":{"location":"params.owner","byte_offset":45}}`},
	{"lone surrogate", `{"operation":"get_issue","x":"\ud800"}`, `{"code":"VALIDATION_INVALID_ENCODING","message":"Invalid character encoding in request","details":{"location":"x","byte_offset":30}}`},
	{"invalid UTF-8", "{\"operation\":\"\xff\"}", `{"code":"VALIDATION_INVALID_ENCODING","message":"Invalid character encoding in request","details":{"location":"operation","byte_offset":14}}`},
	{"too deep", `{"operation":"get_issue","params":{"owner":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}}`, `{"code":"VALIDATION_PAYLOAD_TOO_LARGE","message":"Payload exceeds nesting_depth limit of 32","details":{"limit_type":"nesting_depth","limit_value":32,"actual_value":33,"unit":"levels"}}`},
	{"too long an array", `{"operation":"get_issue","params":{"owner":[` + strings.Repeat("1,", 10_000) + `1]}}`, `{"code":"VALIDATION_PAYLOAD_TOO_LARGE","message":"Payload exceeds array_elements limit of 10000","details":{"limit_type":"array_elements","limit_value":10000,"actual_value":10001,"unit":"elements"}}`},
	{"too large", `{"operation":"` + strings.Repeat("x", 1<<20) + `"}`, `{"code":"VALIDATION_PAYLOAD_TOO_LARGE","message":"Payload exceeds request_size limit of 1048576","details":{"limit_type":"request_size","limit_value":1048576,"actual_value":1048592,"unit":"bytes"}}`},
	{"unknown operation", `{"operation":"get_isue"}`, `{"code":"NOT_FOUND_OPERATION","message":"Unknown operation: 'get_isue'","details":{"operation":"get_isue","available":["get_issue","edit_issue","create_issue","drop_issue","list_issues","lock_issue","introspect"],"hint":"introspect","did_you_mean":["get_issue"]}}`},
	{"unknown adapter", `{"operation":"get_issue","adapter":"other"}`, `{"code":"NOT_FOUND_RESOURCE","message":"Unknown adapter: 'other'","details":{"adapter":"other","available":["test-api"]}}`},
	{"missing", `{"operation":"get_issue","params":{"x":1}}`, `{"code":"VALIDATION_MISSING_PARAM","message":"Missing required parameter 'owner'. Expected: string.","details":{"param_name":"owner","operation":"get_issue","expected_type":"string","missing":["owner","number"],"unknown_params":["x"]}}`},
	{"null is missing", `{"operation":"get_issue","params":{"owner":"o","number":null}}`, `{"code":"VALIDATION_MISSING_PARAM","message":"Missing required parameter 'number'. Expected: integer.","details":{"param_name":"number","operation":"get_issue","expected_type":"integer","missing":["number"]}}`},
	{"no coercion", `{"operation":"list_issues","params":{"per_page":"50"}}`, `{"code":"VALIDATION_INVALID_TYPE","message":"Parameter 'per_page' expected 'integer', got 'string'","details":{"param_name":"per_page","expected_type":"integer","actual_type":"string","value":"50"}}`},
	{"fraction", `{"operation":"list_issues","params":{"per_page":1.5}}`, `{"code":"VALIDATION_INVALID_TYPE","message":"Parameter 'per_page' expected 'integer', got 'number'","details":{"param_name":"per_page","expected_type":"integer","actual_type":"number","value":1.5}}`},
	{"boolean", `{"operation":"list_issues","params":{"deep":1}}`, `{"code":"VALIDATION_INVALID_TYPE","message":"Parameter 'deep' expected 'boolean', got 'integer'","details":{"param_name":"deep","expected_type":"boolean","actual_type":"integer","value":1}}`},
	{"object", `{"operation":"list_issues","params":{"filter":[]}}`, `{"code":"VALIDATION_INVALID_TYPE","message":"Parameter 'filter' expected 'object', got 'array'","details":{"param_name":"filter","expected_type":"object","actual_type":"array"}}`},
	{"sensitive", `{"operation":"list_issues","params":{"secret":"hush"}}`, `{"code":"VALIDATION_INVALID_TYPE","message":"Parameter 'secret' expected 'integer', got 'string'","details":{"param_name":"secret","expected_type":"integer","actual_type":"string"}}`},
	{"type before unknown", `{"operation":"list_issues","params":{"a":1,"deep":"x"}}`, `{"code":"VALIDATION_INVALID_TYPE","message":"Parameter 'deep' expected 'boolean', got 'string'","details":{"param_name":"deep","expected_type":"boolean","actual_type":"string","value":"x"}}`},
	{"unknown before range", `{"operation":"edit_issue","a":1,"params":{"number":1,"b":2}}`, `{"code":"VALIDATION_UNKNOWN_PARAM","message":"Unknown parameter(s) for operation 'edit_issue': b, a. Valid parameters: number, title.","details":{"operation":"edit_issue","unknown_params":["b","a"],"valid_params":["number","title"]}}`},
	{"enum", `{"operation":"list_issues","params":{"state":"shut"}}`, `{"code":"VALIDATION_INVALID_VALUE","message":"Parameter 'state' must be one of: open, closed, all","details":{"param_name":"state","allowed":["open","closed","all"],"value":"shut"}}`},
	{"minimum", `{"operation":"list_issues","params":{"per_page":0}}`, `{"code":"VALIDATION_INVALID_VALUE","message":"Parameter 'per_page' must be >= 1","details":{"param_name":"per_page","minimum":1,"value":0}}`},
	{"maximum", `{"operation":"list_issues","params":{"per_page":1e3}}`, `{"code":"VALIDATION_INVALID_VALUE","message":"Parameter 'per_page' must be <= 100","details":{"param_name":"per_page","maximum":100,"value":1e3}}`},
	{"short", `{"operation":"create_issue","params":{"title":"é"}}`, `{"code":"VALIDATION_INVALID_VALUE","message":"Parameter 'title' must have >= 2 characters","details":{"param_name":"title","minLength":2,"value":"é"}}`},
	{"long", `{"operation":"create_issue","params":{"title":"123456"}}`, `{"code":"VALIDATION_INVALID_VALUE","message":"Parameter 'title' must have <= 5 characters","details":{"param_name":"title","maxLength":5,"value":"123456"}}`},
	{"pattern of an element", `{"operation":"create_issue","params":{"title":"abc","labels":["ok","N0"]}}`, `{"code":"VALIDATION_INVALID_VALUE","message":"Parameter 'labels[1]' does not match its pattern","details":{"param_name":"labels[1]","pattern":"^[a-z]+$"}}`},
	{"type of an element", `{"operation":"create_issue","params":{"title":"abc","labels":["ok",{}]}}`, `{"code":"VALIDATION_INVALID_TYPE","message":"Parameter 'labels[1]' expected 'string', got 'object'","details":{"param_name":"labels[1]","expected_type":"string","actual_type":"object"}}`},
	{"unknown in input", `{"operation":"edit_issue","params":{"number":1,"input":{"colour":1}}}`, `{"code":"VALIDATION_UNKNOWN_FIELD","message":"Unknown field(s) in input for operation 'edit_issue': colour","details":{"operation":"edit_issue","unknown_params":["colour"],"valid_params":["number","title"]}}`},
	{"path in input", `{"operation":"edit_issue","params":{"input":{"number":1}}}`, `{"code":"VALIDATION_INVALID_VALUE","message":"Parameter 'number' must not be part of input","details":{"param_name":"number"}}`},
	{"dots", `{"operation":"get_issue","params":{"owner":"..","number":1}}`, `{"code":"VALIDATION_INVALID_VALUE","message":"Parameter 'owner' must not make a path segment of dots","details":{"param_name":"owner"}}`},
	{"encoded dots", `{"operation":"get_issue","params":{"owner":"%2e%2E","number":1}}`, `{"code":"VALIDATION_INVALID_VALUE","message":"Parameter 'owner' must not make a path segment of dots","details":{"param_name":"owner"}}`},
	{"encoded NUL", `{"operation":"get_issue","params":{"owner":"a%00","number":1}}`, `{"code":"VALIDATION_INVALID_ENCODING","message":"Invalid character encoding in request","details":{"location":"params.owner","byte_offset":1}}`},
}

func TestRefusals(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", richOps)
	all := capture(rt, `{}`)
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			if got, want := ask(rt, Endpoint{}, c.body), `{"success":false,"error":`+c.want+`}`; got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
	if len(*all) > 0 {
		t.Errorf("sent %v", *all)
	}
}

func TestEachOperationHasItsEndpoint(t *testing.T) {
	rt := one(t, Options{ToolPrefix: "x_"}, "https://api.example.com", richOps)
	capture(rt, `1`)
	of := map[file.Category]string{
		file.Create:  `{"operation":"create_issue","params":{"title":"abc"}}`,
		file.Read:    `{"operation":"get_issue","params":{"owner":"o","number":1}}`,
		file.Update:  `{"operation":"edit_issue","params":{"number":1}}`,
		file.Delete:  `{"operation":"drop_issue","params":{"number":1}}`,
		file.Execute: `{"operation":"lock_issue","params":{"number":1}}`,
	}
	names := map[file.Category]string{file.Create: "create_issue", file.Read: "get_issue", file.Update: "edit_issue", file.Delete: "drop_issue", file.Execute: "lock_issue"}
	for own, body := range of {
		for at := file.AnyCategory; at <= file.Execute; at++ {
			got := ask(rt, Endpoint{Category: at}, body)
			want := `{"success":true,"data":1}`
			if at != file.AnyCategory && at != own {
				want = `{"success":false,"error":{"code":"VALIDATION_ENDPOINT_MISMATCH","message":"Operation '` + names[own] + `' must be called via x_mcp_aql_` + own.String() + `, not x_mcp_aql_` + at.String() +
					`","details":{"operation":"` + names[own] + `","expected_endpoint":"` + own.String() + `","actual_endpoint":"` + at.String() + `"}}}`
			}
			if got != want {
				t.Errorf("%s\n got %s\nwant %s", body, got, want)
			}
		}
	}
	if got := ask(rt, Endpoint{Category: file.Create}, `{"operation":"introspect","params":{"query":"types"}}`); !strings.Contains(got, "must be called via x_mcp_aql_read, not x_mcp_aql_create") {
		t.Error(got)
	}
	// The failure for an unknown operation comes before the one for a wrong endpoint.
	if got := ask(rt, Endpoint{Category: file.Create}, `{"operation":"nope"}`); !strings.Contains(got, "NOT_FOUND_OPERATION") {
		t.Error(got)
	}
}

func TestTwoAdaptersWithTheSameOperation(t *testing.T) {
	two := func() map[string]string {
		b := strings.Replace(front("https://b.example.com", "read:\n- {name: list_issues, maps_to: GET /b, description: B, params: {q: {type: string}}}\n- {name: only_b, maps_to: GET /only, description: B}"), "name: test-api", "name: b-api", 1)
		return map[string]string{"test-api-adapter.md": front("https://a.example.com", richOps), "b-api-adapter.md": b}
	}
	rt := start(t, Options{}, two())
	all := capture(rt, `1`)
	if got := ask(rt, Endpoint{}, `{"operation":"list_issues"}`); got != `{"success":false,"error":{"code":"VALIDATION_AMBIGUOUS_OPERATION","message":"'list_issues' is in b-api, test-api. Use 'b-api.list_issues' or 'test-api.list_issues'.","details":{"operation":"list_issues","adapters":["b-api","test-api"]}}}` {
		t.Error(got)
	}
	for _, body := range []string{`{"operation":"list_issues","adapter":"b-api"}`, `{"operation":"b-api.list_issues"}`, `{"operation":"only_b"}`} {
		if got := ask(rt, Endpoint{}, body); got != `{"success":true,"data":1}` {
			t.Error(body, got)
		}
	}
	if (*all)[0].url != "https://b.example.com/b" || (*all)[1].url != "https://b.example.com/b" || (*all)[2].url != "https://b.example.com/only" {
		t.Error(*all)
	}
	if got := ask(rt, Endpoint{}, `{"operation":"introspect","params":{"query":"operations"}}`); !strings.Contains(got, `"description":"[b-api] B"`) {
		t.Error(got)
	}
	if got := ask(rt, Endpoint{}, `{"operation":"introspect","params":{"query":"operations","name":"test-api.list_issues"}}`); !strings.Contains(got, `"per_page"`) {
		t.Error(got)
	}
	// Introspection lists the adapters that have an operation of the name, and does not choose one.
	for query, want := range map[string]string{
		`{"query":"operations","name":"list_issues"}`:          `"code":"VALIDATION_AMBIGUOUS_OPERATION","message":"'list_issues' is in b-api, test-api. Use 'b-api.list_issues' or 'test-api.list_issues'."`,
		`{"query":"operations","name":"test-api.list_issues"}`: `"examples":[{"request":{"operation":"test-api.list_issues",`,
		`{"query":"operations","name":"b-api.list_issues"}`:    `"adapter":"b-api"`,
		`{"query":"operations","name":"only_b"}`:               `"examples":[{"request":{"operation":"b-api.only_b",`,
		`{"query":"types","name":"ListIssuesParams"}`:          `"code":"VALIDATION_AMBIGUOUS_OPERATION","message":"'ListIssuesParams' is in b-api, test-api. Use`,
		`{"query":"types","name":"b-api.ListIssuesParams"}`:    `"Parameters of list_issues"`,
		`{"query":"operations","name":"introspect"}`:           `"examples":[{"request":{"operation":"introspect",`,
	} {
		if got := ask(rt, Endpoint{}, `{"operation":"introspect","params":`+query+`}`); !strings.Contains(got, want) {
			t.Errorf("%s: %s", query, got)
		}
	}
	if got := ask(rt, Endpoint{}, `{"operation":"introspect","adapter":"b-api","params":{"query":"operations","name":"list_issues"}}`); !strings.Contains(got, `{"operation":"list_issues",`) {
		t.Error("one adapter alone needs no qualified name:", got)
	}
	if got := ask(rt, Endpoint{Adapter: "test-api"}, `{"operation":"b-api.list_issues"}`); !strings.Contains(got, `VALIDATION_INVALID_VALUE`) {
		t.Error("left its adapter:", got)
	}
	per := start(t, Options{PerAdapter: true}, two())
	if u := per.live.Load().full.byTool["b_api_mcp_aql_read"]; u == nil || u.at != (Endpoint{Adapter: "b-api", Category: file.Read}) || len(per.Tools("")) != 10 {
		t.Error(u)
	}
	if rt, err := New(Options{PerAdapter: true, ToolPrefix: "x_"}); err != nil {
		t.Error(err)
	} else if _, paths := write(t, two()); true {
		if _, err := rt.Load(paths); err == nil || !strings.Contains(err.Error(), "x_mcp_aql_create") {
			t.Error("two tools of one name were accepted:", err)
		}
	}
}

func TestPanicsBecomeInternalErrors(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", status)
	rt.send = func(context.Context, *adapter, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
		panic("token=abcdefghijklmnop in /src/x.go")
	}
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`), ID: "r1"})
	if got := string(r.JSON()); got != `{"success":false,"error":{"code":"INTERNAL_ERROR","message":"Operation failed: INTERNAL_ERROR","details":{"request_id":"r1"}}}` || r.HTTPStatus() != 500 {
		t.Error(got)
	}
	if s := r.Call.Cause.Error(); strings.Contains(s, "abcdefghijkl") {
		t.Error(s)
	}
}

// TestSimilarNamesAreSuggested shows that failures suggest similar names, and that the runtime does not use them
// itself.
func TestSimilarNamesAreSuggested(t *testing.T) {
	const ops = "read:\n- {name: search_issues, maps_to: GET /s, description: S, params: {q: {type: string, required: true}, per_page: {type: integer}}}\n- {name: get_user, maps_to: GET /u, description: U}"
	rt := one(t, Options{}, "https://api.example.com", ops)
	all := capture(rt, "1")
	for body, want := range map[string]string{
		`{"operation":"search_issues","params":{"query":"x"}}`:                             `"missing":["q"],"unknown_params":["query"],"did_you_mean":{"query":"q"}}`,
		`{"operation":"search_issues","params":{"q":"x","perPage":5}}`:                     `"valid_params":["q","per_page"],"did_you_mean":{"perPage":"per_page"}}`,
		`{"operation":"issues_search","params":{"q":"x"}}`:                                 `"did_you_mean":["search_issues"]`,
		`{"operation":"introspect","params":{"query":"operations","name":"getUser"}}`:      `{"operation":null,"did_you_mean":["get_user"]}`,
		`{"operation":"introspect","params":{"query":"types","name":"SearchIssueParams"}}`: `{"type":null,"did_you_mean":["SearchIssuesParams"]}`,
		`{"operation":"introspect","params":{"query":"operations","name":"zzzzzzzzzz"}}`:   `{"operation":null}`,
	} {
		if got := ask(rt, Endpoint{}, body); !strings.Contains(got, want) {
			t.Errorf("%s: %s", body, got)
		}
	}
	if len(*all) > 0 {
		t.Error("something was sent", *all)
	}
	strict := one(t, Options{Introspection: present.Strict}, "https://api.example.com", ops)
	if got := query(strict, "operations", "get_usr"); got != `{"success":true,"data":{"operation":null}}` {
		t.Error(got)
	}
}

// TestFieldsAsACommaSeparatedString shows that fields may be a comma-separated string, and that a field that no item
// has gets a warning.
func TestFieldsAsACommaSeparatedString(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", "read:\n- {name: get_user, maps_to: GET /u, description: U, supports_fields: true, default_fields: [id, gone]}", "presets: {minimal: [id]}")
	capture(rt, `[{"id":1,"title":"T"},{"id":2}]`)
	for params, want := range map[string]string{
		`{"fields":"id, title"}`:    `{"success":true,"data":[{"id":1,"title":"T"},{"id":2}]}`,
		`{"fields":["id","titel"]}`: `{"success":true,"data":[{"id":1},{"id":2}],"warnings":[{"code":"FIELD_UNKNOWN","message":"No item has the field 'titel'","details":{"field":"titel","did_you_mean":["title"]},"severity":"low"}]}`,
		`{}`:                        `{"success":true,"data":[{"id":1},{"id":2}]}`,
		`{"preset":"minmal"}`:       `{"success":false,"error":{"code":"VALIDATION_INVALID_VALUE","message":"Parameter 'preset' names no preset of the adapter","details":{"param_name":"preset","available":["minimal"],"did_you_mean":["minimal"]}}}`,
		`{"fields":"minimal"}`:      `{"success":true,"data":[{"id":1},{"id":2}]}`,
	} {
		if got := ask(rt, Endpoint{}, `{"operation":"get_user","params":`+params+`}`); got != want {
			t.Errorf("%s\n got %s\nwant %s", params, got, want)
		}
	}
}
