package adapterrt

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// specification is the variable with the path of a checkout of the format's specification,
// https://github.com/MCPAQL/spec, in which "npm ci" was run. Its conformance runner judges the answers of an
// implementation, which this test collects.
const specification = "DRAGOMAN_MCPAQL_SPEC"

const widgetOps = `create:
- {name: create_widget, maps_to: POST /widgets, description: Create a widget, params: {widget_name: {type: string, required: true, maxLength: 20, description: Its name}, colour: {type: string, enum: [red, blue], default: red, description: Its colour}, size: {type: integer, minimum: 1, maximum: 9, description: Its size}}}
read:
- {name: get_widget, maps_to: "GET /widgets/{widget_id}", description: Get a widget, supports_fields: true, params: {widget_id: {type: string, required: true, description: Its id}}}
- {name: list_widgets, maps_to: GET /widgets, description: List widgets, supports_fields: true, pagination: {style: page, param_name: page, per_page_param: limit, items_path: items, default_limit: 10, max_limit: 50}, params: {colour: {type: string, enum: [red, blue], description: Of this colour}}}
update:
- {name: update_widget, maps_to: "PATCH /widgets/{widget_id}", description: Change a widget, params: {widget_id: {type: string, required: true, description: Its id}, colour: {type: string, enum: [red, blue], description: Its colour}}}
delete:
- {name: delete_widget, maps_to: "DELETE /widgets/{widget_id}", description: Delete a widget, params: {widget_id: {type: string, required: true, description: Its id}}}`

// widgets starts an API that stores the widgets that it receives.
func widgets(t *testing.T) string {
	var mu sync.Mutex
	kept := map[string]map[string]any{}
	return api(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		id := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/widgets"), "/")
		said := map[string]any{}
		if body, _ := io.ReadAll(r.Body); len(body) > 0 && json.Unmarshal(body, &said) != nil {
			w.WriteHeader(400)
			return
		}
		var answer any
		switch widget := kept[id]; {
		case r.Method == "POST":
			id = fmt.Sprint("w", len(kept)+1)
			said["widget_id"] = id
			kept[id], answer = said, said
		case id == "":
			all := []any{}
			for _, widget := range kept {
				all = append(all, widget)
			}
			answer = map[string]any{"items": all, "limit": r.URL.Query().Get("limit")}
		case widget == nil:
			say(404, "application/json", `{"message":"TypeError: no widget\n    at find (/srv/app/node_modules/x/index.js:12:3)"}`)(w, r)
			return
		case r.Method == "DELETE":
			delete(kept, id)
		default:
			for k, v := range said {
				widget[k] = v
			}
			answer = widget
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(answer)
	}).URL
}

// TestPublicConformanceRunner judges the runtime at level 2 with the runner of the format's authors.
func TestPublicConformanceRunner(t *testing.T) {
	spec := os.Getenv(specification)
	if spec == "" {
		t.Skip(specification + " names no checkout of the specification")
	}
	base := widgets(t)
	var rt *Runtime
	call := func(operation string, params map[string]any) json.RawMessage {
		body, err := json.Marshal(map[string]any{"operation": operation, "params": params})
		if err != nil {
			t.Fatal(err)
		}
		return json.RawMessage(ask(rt, Endpoint{}, string(body)))
	}
	type evidence = map[string]any
	for _, opt := range []Options{{Introspection: present.Strict, Shown: Shown{Mode: present.All}}, {Introspection: present.Strict, Shown: Shown{Mode: present.Single}}} {
		rt = one(t, opt, base, widgetOps)
		operations := call("introspect", evidence{"query": "operations"})
		var details []json.RawMessage
		accepted, missing, unknown := evidence{}, []evidence{}, []evidence{}
		good := map[string]map[string]any{
			"introspect": {"query": "operations"}, "create_widget": {"widget_name": "Atlas"}, "get_widget": {"widget_id": "w1"},
			"list_widgets": {}, "update_widget": {"widget_id": "w1"}, "delete_widget": {"widget_id": "none"},
		}
		for _, name := range gjson.GetBytes(operations, "data.operations.#.name").Array() {
			op := name.String()
			detail := json.RawMessage(gjson.GetBytes(call("introspect", evidence{"query": "operations", "name": op}), "data.operation").Raw)
			details = append(details, detail)
			with := func(param string, value any) json.RawMessage {
				params := evidence{}
				for k, v := range good[op] {
					params[k] = v
				}
				if params[param] = value; value == nil {
					delete(params, param)
				}
				return call(op, params)
			}
			takes := []string{}
			for _, param := range []string{"query", "name", "adapter", "category", "tag", "match", "widget_id", "widget_name", "colour", "size", "first", "after", "fields", "preset", "filter", "sort", "page", "limit", "page_size"} {
				if !strings.Contains(string(with(param, "x")), `"VALIDATION_UNKNOWN_PARAM"`) {
					takes = append(takes, param)
				}
			}
			accepted[op] = takes
			for _, p := range gjson.GetBytes(detail, `parameters.#(required==true)#.name`).Array() {
				missing = append(missing, evidence{"operation": op, "parameter": p.String(), "response": with(p.String(), nil)})
			}
			unknown = append(unknown, evidence{"operation": op, "parameter": "page_sizes", "response": with("page_sizes", 1)})
		}
		made := call("create_widget", evidence{"widget_name": "Atlas Widget", "size": 3})
		id := gjson.GetBytes(made, "data.widget_id").String()
		read := call("get_widget", evidence{"widget_id": id})
		call("update_widget", evidence{"widget_id": id, "colour": "blue"})
		wrong := func(name, operation string, params evidence, words ...string) evidence {
			return evidence{"name": name, "must_mention": words, "response": call(operation, params)}
		}
		bundle, err := json.Marshal(evidence{
			"implementation": "dragoman", "version": "1", "spec_version": "1.0.0-draft", "endpoint_modes": []string{"crude", "single"},
			"capabilities":        evidence{"field_selection": true, "batch_operations": true},
			"introspection":       evidence{"operations_list": operations, "types_list": call("introspect", evidence{"query": "types"}), "operation_details": details},
			"accepted_parameters": accepted,
			"parameter_tests": evidence{"missing_required": missing, "unknown_parameter": unknown, "optional_defaults": []evidence{
				{"operation": "create_widget", "parameter": "colour", "expected_value_path": "data.colour", "expected_value": "red", "response": made},
			}},
			"error_tests": []evidence{
				wrong("unknown operation", "get_widgets", evidence{}, "get_widgets"),
				wrong("unknown parameter", "get_widget", evidence{"widget_id": id, "page_size": 1}, "page_size"),
				wrong("wrong type", "create_widget", evidence{"widget_name": 5}, "widget_name"),
				wrong("the API's own words", "get_widget", evidence{"widget_id": "none"}),
				wrong("not in the enumeration", "create_widget", evidence{"widget_name": "x", "colour": "green"}, "colour", "red"),
			},
			"round_trip_tests":          []evidence{{"name": "create and read", "expected_fields": evidence{"data.widget_name": "Atlas Widget", "data.size": 3, "data.colour": "red"}, "read_response": read}},
			"update_preservation_tests": []evidence{{"name": "update and read", "preserved_fields": evidence{"data.widget_name": "Atlas Widget", "data.size": 3}, "read_response": call("get_widget", evidence{"widget_id": id})}},
			"batch_example":             json.RawMessage(ask(rt, Endpoint{}, `{"operations":[{"operation":"get_widget","params":{"widget_id":"`+id+`"}},{"operation":"get_widget","params":{"widget_id":"none"}}]}`)),
			"constraint_tests": []evidence{
				{"name": "longest name", "documented": gjson.GetBytes(call("introspect", evidence{"query": "operations", "name": "create_widget"}), `data.operation.parameters.#(name=="widget_name").maxLength`).Exists(), "response": call("create_widget", evidence{"widget_name": strings.Repeat("x", 21)})},
				{"name": "largest size", "documented": gjson.GetBytes(call("introspect", evidence{"query": "operations", "name": "create_widget"}), `data.operation.parameters.#(name=="size").maximum`).Exists(), "response": call("create_widget", evidence{"widget_name": "x", "size": 10})},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "evidence.json")
		if err := os.WriteFile(path, bundle, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "node", "scripts/run-conformance-tests.mjs", "test", path, "--level", "2", "--format", "json")
		cmd.Dir = spec
		report, err := cmd.Output()
		if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() > 2 || err != nil && !ok {
			t.Fatalf("%v\n%s", err, report)
		}
		t.Logf("%s: level %s, %s", opt.Mode, gjson.GetBytes(report, "conformanceLevel"), gjson.GetBytes(report, "summary").Raw)
		if gjson.GetBytes(report, "conformanceLevel").Int() != 2 || gjson.GetBytes(report, "summary.passed").Int() < 15 {
			t.Errorf("%s", report)
		}
		for _, category := range gjson.GetBytes(report, "categories").Array() {
			for _, test := range category.Get("tests").Array() {
				if result := test.Get("result").String(); result != "PASS" {
					t.Errorf("%s: %s: %s: %s", result, category.Get("name"), test.Get("name"), test.Get("detail"))
				}
			}
		}
	}
}
