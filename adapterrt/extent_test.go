package adapterrt

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

const extentOps = `
create:
- name: make
  maps_to: POST /x
  description: Make
  params:
    weight: {type: number, exclusiveMinimum: 0, exclusiveMaximum: 1.5, multipleOf: 0.5}
    step: {type: integer, minimum: 2, multipleOf: 5}
    tags: {type: array, items: {type: string}, minItems: 2, maxItems: 3, uniqueItems: true}
    some: {type: string, types: [array], minItems: 1}
    labels: {type: object, properties: {a: {type: integer}}, additionalProperties: {type: string, maxLength: 3}}
    rows: {type: array, items: {type: object, additionalProperties: {type: object, properties: {n: {type: integer, required: true}}}}}
    blob: {type: string, format: binary, description: The picture}
  request: {as: json}`

// TestExtent: the numbers of elements, open bounds, steps and the values of members that are not described are checked before
// anything is sent, and a model sees them.
func TestExtent(t *testing.T) {
	rt := one(t, Options{}, "https://api.example.com", extentOps)
	all := capture(rt, `1`)
	for params, want := range map[string]string{
		`{"weight":0}`:    "Parameter 'weight' must be > 0|\"exclusiveMinimum\":0",
		`{"weight":1.50}`: "Parameter 'weight' must be < 1.5|\"exclusiveMaximum\":1.5",
		`{"weight":0.3}`:  "", // fractions are for the API to check
		`{"step":0}`:      "Parameter 'step' must be >= 2|\"minimum\":2",
		`{"step":12}`:     "Parameter 'step' must be a multiple of 5|\"multipleOf\":5",
		`{"step":1.5e1}`:  "",
		`{"step":1` + strings.Repeat("0", 50) + `}`: "",
		`{"tags":["a"]}`:                               "Parameter 'tags' must have >= 2 elements|\"minItems\":2",
		`{"tags":[]}`:                                  "Parameter 'tags' must have >= 2 elements|\"minItems\":2",
		`{"tags":["a","b","c","d"]}`:                   "Parameter 'tags' must have <= 3 elements|\"maxItems\":3",
		`{"tags":["a","b","a"]}`:                       "Parameter 'tags[2]' is there twice|\"uniqueItems\":true",
		`{"tags":["a","b","c"]}`:                       "",
		`{"some":[]}`:                                  "Parameter 'some' must have >= 1 elements|\"minItems\":1",
		`{"some":"text"}`:                              "",
		`{"labels":{"a":1,"b":"xyz","c":null}}`:        "",
		`{"labels":{"b":"wxyz"}}`:                      "Parameter 'labels.b' must have <= 3 characters|\"maxLength\":3",
		`{"labels":{"b":5}}`:                           "Parameter 'labels.b' expected 'string', got 'integer'|",
		`{"labels":{"a":"x"}}`:                         "Parameter 'labels.a' expected 'integer', got 'string'|",
		`{"rows":[{"r":{"n":1}},{"r":{"m":1}}]}`:       "Parameter 'rows[1].r.n' is required|",
		`{"rows":[{"r":{"n":1}},{"s":{"n":2,"m":1}}]}`: "",
	} {
		sent := len(*all)
		got := ask(rt, Endpoint{}, `{"operation":"make","params":`+params+`}`)
		text, detail, _ := strings.Cut(want, "|")
		if want == "" && (len(*all) == sent || !strings.Contains(got, `"success":true`)) || want != "" && (len(*all) > sent || !strings.Contains(got, text) || !strings.Contains(got, detail)) {
			t.Errorf("%s: want %s\n got %s", params, want, got)
		}
	}
	for _, want := range []string{
		`"weight":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1.5,"multipleOf":0.5}`,
		`"tags":{"type":"array","minItems":2,"maxItems":3,"uniqueItems":true,"items":{"type":"string"}}`,
		`"labels":{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string","maxLength":3}}`,
	} {
		if got := discreteTools(t, extentOps); !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	shown := query(rt, "operations", "make")
	conforms(t, "detailExtended", shown)
	strict := one(t, Options{Introspection: present.Strict}, "https://api.example.com", extentOps)
	conforms(t, "detail", query(strict, "operations", "make"))
	if want := `"exclusiveMinimum":0`; !strings.Contains(shown, want) {
		t.Errorf("no %s in %s", want, shown)
	}
}

// TestFilesAreToldToBeBase64: a model that reads a tool's schema knows in which form dragoman takes the content of a file.
func TestFilesAreToldToBeBase64(t *testing.T) {
	got := discreteTools(t, `
create:
- name: attach
  maps_to: POST /x
  description: Attach
  request: {as: multipart}
  params:
    photo: {type: string, format: binary, description: The picture}
    other: {type: string, file: {}}
    list: {type: array, items: {type: string, format: binary}}
    note: {type: string, file: {text: true}, description: A note}
    said: {type: string, file: {}, description: The content in base64}`)
	for _, want := range []string{`"photo":{"type":"string","description":"The picture (in base64)"`, `"other":{"type":"string","description":"in base64"`, `"list":{"type":"array","description":"each in base64"`,
		`"note":{"type":"string","description":"A note"}`, `"said":{"type":"string","description":"The content in base64"}`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// discreteTools returns the tools for one operation each of a file.
func discreteTools(t *testing.T, ops string) string {
	t.Helper()
	var all strings.Builder
	for _, tool := range one(t, Options{Shown: Shown{Mode: present.Discrete}}, "https://api.example.com", ops).Tools("") {
		all.Write(tool.JSON)
	}
	return all.String()
}
