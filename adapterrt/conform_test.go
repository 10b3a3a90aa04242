package adapterrt

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// everything is an adapter with all that introspection can show.
const everything = `
create:
- name: create_issue
  maps_to: "POST /repos/{owner}/issues"
  description: Create an issue
  response: {type: Issue, description: The new one, fields: [id, {a: b}]}
  deprecated: {since: 1.0.0, replacement: add_issue, removal_date: 2027-01-01}
  params:
    owner: {type: string, required: true, minLength: 1, maxLength: 39, pattern: '^[a-z]+$'}
    title: {type: string, required: true, description: What it is called, format: text}
    labels: {type: array, items: {type: string, enum: [bug, wish], description: One of them}}
    matrix: {type: array, items: {type: array, items: {type: integer, minimum: 0, maximum: 9}}}
    weight: {type: number, minimum: -1.5, maximum: 1e3, default: 0.5}
    urgent: {type: boolean, default: false}
    extra: {type: object, sensitive: true}
    size: {type: integer, enum: [1, 2, 3], default: 2}
read:
- name: list_issues
  maps_to: GET /issues
  description: List issues
  supports_fields: true
  default_fields: [id, title]
  pagination: {style: page, param_name: page, per_page_param: per_page, default_limit: 10, max_limit: 50}
  params: {state: {type: string, enum: [open, closed], default: open}}
- {name: bare, maps_to: GET /bare}
delete:
- {name: delete_issue, maps_to: "DELETE /issues/{id}", description: Delete, danger: {level: dangerous, requires_confirmation: true}, params: {id: {type: integer, required: true}}}
execute:
- {name: run, maps_to: POST /run, description: Run, lifecycle: {states: [on, off], supports_cancel: true, supports_retry: false, progress_reporting: none}}`

var everythingElse = []string{
	declaredTypes,
	"author: Somebody\ntags: [a, b]\ntriggers: [issue]\ncreated: 2026-01-01\nmodified: 2026-01-02T03:04:05Z",
	"trust: {level: community, verified_by: us, verified_at: 2026-01-01, promotion_history: [{to: community}]}",
	"presets: {minimal: [id]}",
	"rate_limits: {requests_per_minute: 60, quotas: {limits: [{metric: requests_per_day, warn: 5, pause: 8, hard_stop: 10}, {metric: calls_per_hour, warn: 1}]}}",
}

// TestIntrospectionConforms makes all introspection queries, of one adapter and of several,
// with the options that change what introspection shows.
func TestIntrospectionConforms(t *testing.T) {
	text := front("https://api.example.com/v1", everything, everythingElse...)
	second := strings.Replace(text, "name: test-api", "name: other-api", 1)
	for _, opt := range []Options{
		{}, {Introspection: present.Strict}, {Shown: Shown{Mode: present.Single}, Introspection: present.Strict}, {Shown: Shown{Mode: present.All}}, {Introspection: present.Strict, TrustEnforcement: guard.TrustStrict},
		{PerAdapter: true}, {PerAdapter: true, Introspection: present.Strict},
	} {
		detail := "detailExtended"
		if opt.Introspection == present.Strict {
			detail = "detail"
		}
		for _, files := range []map[string]string{{"test-api-adapter.md": text}, {"test-api-adapter.md": text, "other-api-adapter.md": second}} {
			rt := start(t, opt, files)
			info := "adapterInfo"
			prefix := ""
			if len(files) > 1 {
				info, prefix = "adapterInfos", "other-api."
			}
			list := query(rt, "operations", "")
			conforms(t, "list", list)
			conforms(t, "types", query(rt, "types", ""))
			conforms(t, info, query(rt, "adapter_info", ""))
			conforms(t, "adapterInfo", query(rt, "adapter_info", "test-api"))
			conforms(t, "adapterInfo", query(rt, "adapter_info", "nobody"))
			conforms(t, "quotaStatus", query(rt, "quota_status", ""))
			conforms(t, detail, query(rt, "operations", "nothing"))
			conforms(t, "typed", query(rt, "types", "Nothing"))
			conforms(t, "failure", query(rt, "something", ""))
			conforms(t, detail, query(rt, "operations", "introspect"))
			for _, op := range []string{"create_issue", "list_issues", "bare", "delete_issue", "run"} {
				got := query(rt, "operations", prefix+op)
				conforms(t, detail, got)
				if !strings.Contains(got, `"name":"`+op+`"`) || !strings.Contains(list, `"name":"`+op+`"`) {
					t.Errorf("%s is missing", op)
				}
			}
			for _, typ := range []string{"CreateIssueParams", "CreateIssueSize", "ListIssuesState", "ListIssuesParams", "DeleteIssueParams", "Issue", "Colour", "Thing", "Date", "OperationResult"} {
				got := query(rt, "types", prefix+typ)
				conforms(t, "typed", got)
				if !strings.Contains(got, `"name":"`+typ+`"`) {
					t.Errorf("%s: %s", typ, got)
				}
			}
		}
	}
}

// TestListedParametersAreAccepted shows that introspection lists the cross-cutting parameters that
// an operation accepts and not those that only the runtime sets, and that all listed
// parameters are accepted.
func TestListedParametersAreAccepted(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com/v1", everything, everythingElse[0], everythingElse[3])
	capture(rt, `[{"id":1,"title":"T"}]`)
	var got struct {
		Data struct {
			Operation struct{ Parameters []struct{ Name, Type string } }
		}
	}
	if err := json.Unmarshal([]byte(query(rt, "operations", "list_issues")), &got); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range got.Data.Operation.Parameters {
		names = append(names, p.Name)
	}
	if fmt.Sprint(names) != "[state first after fields preset]" {
		t.Error(names)
	}
	for params, accepted := range map[string]bool{
		`{"state":"open"}`: true, `{"first":5}`: true, `{"fields":["id"]}`: true, `{"preset":"minimal"}`: true,
		`{"page":1}`: false, `{"per_page":5}`: false, `{"colour":"red"}`: false,
	} {
		r := ask(rt, Endpoint{}, `{"operation":"list_issues","params":`+params+`}`)
		if strings.Contains(r, `"success":true`) != accepted {
			t.Errorf("%s: %s", params, r)
		}
	}
}

// TestSchemasAreClosed checks that the schemas permit no unknown members: each object in them
// names all its members, except the objects whose content comes from a file or a request.
func TestSchemasAreClosed(t *testing.T) {
	text, err := os.ReadFile("testdata/introspection.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	free := []string{
		"/$defs/operation/properties/examples/items/properties/request/properties/params", "/$defs/info/properties/trust",
		"/$defs/success/properties/data", // depends on the query
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			_, members := v["properties"]
			_, described := v["additionalProperties"].(map[string]any) // any names, described values
			members = members && !strings.HasSuffix(path, "/properties")
			if (v["type"] == "object" || members && !strings.Contains(path, "/if") && !strings.HasSuffix(path, "/allOf/1")) &&
				v["additionalProperties"] != false && !described && !slices.Contains(free, path) {
				t.Errorf("%s is open", path)
			}
			for k, e := range v {
				walk(path+"/"+k, e)
			}
		case []any:
			for i, e := range v {
				walk(fmt.Sprintf("%s/%d", path, i), e)
			}
		}
	}
	for name, def := range root["$defs"].(map[string]any) {
		if name != "result" { // the result of any operation has open data, details and _meta
			walk("/$defs/"+name, def)
		}
	}
}
