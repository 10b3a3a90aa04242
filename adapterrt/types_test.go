package adapterrt

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

const declaredTypes = `types:
- {name: Issue, kind: object, description: An issue, fields: [{name: id, type: integer, required: true}, {name: title, type: string, description: Title}]}
- {name: Colour, kind: enum, values: [red, green]}
- {name: Thing, kind: union, members: [Issue, Colour]}
- {name: Date, kind: scalar}`

func TestDeclaredTypes(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", "read:\n- {name: get_issue, maps_to: GET /x, description: D, response: {type: Issue, description: One issue, fields: [id]}}\n- {name: plain, maps_to: GET /x, description: D, response: {type: object}}", declaredTypes)
	types := query(rt, "types", "")
	conforms(t, "types", types)
	for name, want := range map[string]string{
		"Issue":  `{"success":true,"data":{"type":{"name":"Issue","kind":"object","description":"An issue","fields":[{"name":"id","type":"integer","required":true},{"name":"title","type":"string","required":false,"description":"Title"}]}}}`,
		"Colour": `{"success":true,"data":{"type":{"name":"Colour","kind":"enum","values":["red","green"]}}}`,
		"Thing":  `{"success":true,"data":{"type":{"name":"Thing","kind":"union","members":["Issue","Colour"]}}}`,
		"Date":   `{"success":true,"data":{"type":{"name":"Date","kind":"scalar"}}}`,
	} {
		if got := query(rt, "types", name); got != want {
			t.Error(got)
		}
		if !strings.Contains(types, `"name":"`+name+`"`) {
			t.Error(name, "is not listed")
		}
	}
	if got := query(rt, "operations", "get_issue"); !strings.Contains(got, `"returns":{"name":"Issue","kind":"object"}`) || !strings.Contains(got, `"response":{"description":"One issue","fields":["id"]}`) {
		t.Error(got)
	}
	if got := query(rt, "operations", "plain"); !strings.Contains(got, `"returns":{"name":"JsonValue","kind":"scalar"}`) {
		t.Error(got)
	}
}

func TestTypeMistakes(t *testing.T) {
	for _, c := range [][2]string{
		{"types: [{kind: enum, values: [a]}]", "types[0].name"}, {"types: [{name: A}]", "types[0].kind"}, {"types: [{name: A, kind: odd}]", "types[0].kind"},
		{"types: [{name: A, kind: enum}]", "types[0].values"}, {"types: [{name: A, kind: object}]", "types[0].fields"}, {"types: [{name: JsonValue, kind: scalar}]", "types[0].name"},
		{"types: [{name: A, kind: scalar}, {name: A, kind: scalar}]", "types[1].name"}, {"types: [5]", "types[0]"}, {"types: [{name: A, kind: object, fields: [{name: a}]}]", "types[0].fields[0].type"},
	} {
		a, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", status, c[0])), &Options{})
		if a != nil || problems[0].Path != c[1] {
			t.Error(c[0], problems)
		}
	}
	_, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", "read: [{name: a, maps_to: GET /x, description: D, response: {type: None}}]")), &Options{})
	if len(problems) != 1 || problems[0].Code != file.SchemaUnresolvedRef {
		t.Error(problems)
	}
}

func TestTransformsAreHandedOver(t *testing.T) {
	ops := "read:\n- {name: a, maps_to: GET /x, description: D, transform: {cap: 5}}\n- {name: b, maps_to: GET /x, description: D}"
	rt := one(t, Options{}, "https://api.example.com", ops, "transform: {cap: 9}")
	got := rt.Transforms()
	if len(got) != 2 || string(got[0].JSON) != `{"cap":5}` || string(got[1].JSON) != `{"cap":9}` || got[1].Operation != "b" {
		t.Errorf("%s", got)
	}
}

func TestLifecycleAndDeprecationAreShown(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", "execute:\n- {name: a, maps_to: POST /x, description: D, lifecycle: {states: [on, off], supports_cancel: true}, deprecated: {since: 1.0.0, replacement: b, removal_date: 2027-01-01}}")
	capture(rt, "1")
	if got := query(rt, "operations", "a"); !strings.Contains(got, `"deprecated":{"since":"1.0.0","replacement":"b","removal_date":"2027-01-01"},"lifecycle":{"states":["on","off"],"supports_cancel":true}`) {
		t.Error(got)
	}
	if got := ask(rt, Endpoint{}, `{"operation":"a"}`); got != `{"success":true,"data":1,"warnings":[{"code":"DEPRECATION_WARNING","message":"Operation 'a' is deprecated","details":{"operation":"a","since":"1.0.0","replacement":"b","removal_date":"2027-01-01"},"severity":"medium"}]}` {
		t.Error(got)
	}
}
