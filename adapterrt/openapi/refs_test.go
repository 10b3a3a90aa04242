package openapi_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestReferencesInUnusualPlaces: a reference is followed wherever it is in place of what is meant, and what cannot be read is
// a finding of its operation, at its place. If the body cannot be read, the operation is dropped.
func TestReferencesInUnusualPlaces(t *testing.T) {
	const body = `requestBody: {required: true, content: {application/json: {schema: {type: object, required: [name], properties: {name: {type: string}}}}}}`
	for name, c := range map[string]struct {
		paths, components string
		files             map[string]string
		want              []string // in the file
		finding           string   // place, class, operation and text
	}{
		"an operation in a file": {paths: `/x: {post: {$ref: create.yaml}}`, files: map[string]string{"create.yaml": "operationId: createX\n" + body + "\n"},
			want: []string{"- name: create_x", "name: {type: string, required: true}"}},
		"an operation in the document": {paths: `/x: {get: {$ref: '#/components/x-ops/get'}}`,
			components: `x-ops: {get: {operationId: getX, parameters: [{name: q, in: query, required: true, schema: {type: string}}]}}`,
			want:       []string{"- name: get_x", "q: {type: string, required: true}"}},
		"an operation with more beside it": {paths: `/x: {get: {$ref: '#/components/x-ops/get', summary: Mine}}`, components: `x-ops: {get: {operationId: getX, summary: Theirs}}`,
			want: []string{"- name: get_x", "Mine"}},
		"an operation that is nowhere":     {paths: `/y: {get: {}}, /x: {get: {$ref: none.yaml}}`, finding: `d.yaml:4 dropped GET /x $ref "none.yaml": `},
		"an operation that is no object":   {paths: `/y: {get: {}}, /x: {get: [1]}`, finding: `d.yaml:4 dropped GET /x it is no object`},
		"an operation that is absent":      {paths: `/x: {put: null, get: {operationId: getX}}`, want: []string{"- name: get_x"}},
		"a path that is no object":         {paths: `/y: {get: {}}, /x: [1]`, finding: `d.yaml:4 dropped /x it is no object`},
		"all paths in a file":              {paths: `$ref: paths.yaml`, files: map[string]string{"paths.yaml": "/x: {post: {operationId: postX, " + body + "}}\n"}, want: []string{"- name: post_x"}},
		"a path with more beside it":       {paths: `/x: {$ref: x.yaml, get: {operationId: getX}}`, files: map[string]string{"x.yaml": "put: {operationId: putX}\n"}, want: []string{"- name: get_x", "- name: put_x"}},
		"all schemas in a file":            {paths: post("{$ref: '#/components/schemas/A'}"), components: `$ref: all.yaml`, files: map[string]string{"all.yaml": "schemas: {$ref: schemas.yaml}\n", "schemas.yaml": "A: {type: object, properties: {name: {type: string}}}\n"}, want: []string{"name: {type: string}"}},
		"the members of an object":         {paths: post("{type: object, properties: {$ref: members.yaml}}"), files: map[string]string{"members.yaml": "name: {type: string}\n"}, want: []string{"name: {type: string}"}},
		"a member that is called $ref":     {paths: post("{type: object, properties: {$ref: {type: string}}}"), want: []string{`ref: {type: string, wire_name: "$ref"}`}},
		"a media type":                     {paths: `/x: {post: {requestBody: {required: true, content: {application/json: {$ref: m.yaml}}}}}`, files: map[string]string{"m.yaml": "schema: {type: object, properties: {name: {type: string}}}\n"}, want: []string{"name: {type: string}"}},
		"all media types":                  {paths: `/x: {post: {requestBody: {content: {$ref: m.yaml}}}}`, files: map[string]string{"m.yaml": "application/json: {schema: {type: object, properties: {name: {type: string}}}}\n"}, want: []string{"name: {type: string}"}},
		"all parameters":                   {paths: `/x: {get: {parameters: {$ref: p.yaml}}}`, files: map[string]string{"p.yaml": "[{name: q, in: query, schema: {type: string}}]\n"}, want: []string{"q: {type: string}"}},
		"a body that is nowhere":           {paths: `/y: {get: {}}, /x: {post: {requestBody: {$ref: none.yaml}}}`, finding: `d.yaml:4 dropped POST /x its body cannot be read: $ref "none.yaml": `},
		"a media type that is nowhere":     {paths: `/y: {get: {}}, /x: {post: {requestBody: {content: {application/json: {$ref: none.yaml}}}}}`, finding: `d.yaml:4 dropped POST /x its body cannot be read: $ref "none.yaml": `},
		"the body's schema is nowhere":     {paths: post("{$ref: none.yaml}"), finding: `d.yaml:4 weaker post_x a schema cannot be read, and any value is accepted: $ref "none.yaml": `},
		"a member's schema is nowhere":     {paths: post("{type: object, properties: {a: {$ref: '#/none'}}}"), finding: `d.yaml:4 weaker post_x a schema cannot be read, and any value is accepted: $ref "#/none": `},
		"a parameter that is nowhere":      {paths: `/x: {get: {operationId: getX, parameters: [{$ref: none.yaml}]}}`, finding: `d.yaml:4 weaker get_x a parameter cannot be read, and is left out: $ref "none.yaml": `},
		"parameters that are no list":      {paths: `/x: {get: {operationId: getX, parameters: {q: {in: query}}}}`, finding: `d.yaml:4 weaker get_x its parameters are no list, and are left out`},
		"an answer that is nowhere":        {paths: `/x: {get: {operationId: getX, responses: {'200': {$ref: none.yaml}}}}`, finding: `d.yaml:4 weaker get_x an answer cannot be read: $ref "none.yaml": `},
		"a body without a content":         {paths: `/x: {post: {operationId: postX, requestBody: {required: true}}}`, finding: `d.yaml:4 weaker post_x its body is not described, and cannot be sent`},
		"a circle of files":                {paths: `/y: {get: {}}, /x: {get: {$ref: a.yaml}}`, files: map[string]string{"a.yaml": "$ref: b.yaml\n", "b.yaml": "$ref: a.yaml\n"}, finding: `d.yaml:4 dropped GET /x $ref "a.yaml": $ref leads to itself`},
		"a circle on the way":              {paths: post("{$ref: '#/components/a/x'}"), components: `a: {$ref: '#/components/b/x'}, b: {$ref: '#/components/a/x'}`, finding: `d.yaml:4 weaker post_x a schema cannot be read, and any value is accepted: $ref "#/components/a/x": $ref leads to itself`},
		"a required parameter has no name": {paths: `/y: {get: {}}, /x: {get: {parameters: [{in: query, name: "", required: true, schema: {type: string}}]}}`, finding: `d.yaml:4 dropped GET /x a required query parameter has a name that is not valid`},
	} {
		t.Run(name, func(t *testing.T) {
			text := "openapi: 3.0.3\ninfo: {title: Refs, version: '1'}\nservers: [{url: 'https://h.example.com'}]\npaths: {" + c.paths + "}\ncomponents: {" + c.components + "}\n"
			d, err := openapi.Read("d.yaml", []byte(text), func(path string) ([]byte, error) {
				if s, there := c.files[path]; there {
					return []byte(s), nil
				}
				return nil, os.ErrNotExist
			})
			if err != nil {
				t.Fatal(err)
			}
			in, err := d.Import(openapi.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range c.want {
				if !strings.Contains(string(in.Files[0].Front()), w) {
					t.Errorf("no %s in\n%s", w, in.Files[0].Front())
				}
			}
			var all []string
			for _, f := range in.Findings {
				all = append(all, fmt.Sprintf("%s %s %s %s", f.Place, f.Class, f.Operation, f.What))
			}
			if list := "\n" + strings.Join(all, "\n"); c.finding != "" && !strings.Contains(list, "\n"+c.finding) || c.finding == "" && strings.Contains(list, "$ref") {
				t.Errorf("findings: %s\nwant %s", list, c.finding)
			}
		})
	}
}

// TestBodyAndForm: of a body and a form, which Swagger 2.0 forbids together, only one can be sent.
func TestBodyAndForm(t *testing.T) {
	in := importOf(t, "swagger: '2.0'\ninfo: {title: Both, version: '1'}\nhost: h.example.com\npaths: {/x: {post: {operationId: postX, parameters: [{in: body, name: b, schema: {type: string}}, {in: formData, name: f, type: string}]}}}\n")
	for _, f := range in.Findings {
		if f.Operation == "post_x" && strings.Contains(f.What, "the form cannot be sent") {
			return
		}
	}
	t.Errorf("no finding in %+v", in.Findings)
}

// TestTooManyFiles: a limit that is reached is a failure that says what to do, not a file with less in it.
func TestTooManyFiles(t *testing.T) {
	const files = 250
	var paths strings.Builder
	for i := range files {
		fmt.Fprintf(&paths, "/x%d: {post: {operationId: post%d, requestBody: {$ref: b%d.yaml}}}, ", i, i, i)
	}
	load := func(path string) ([]byte, error) {
		return []byte("content: {application/json: {schema: {type: object, required: [name], properties: {name: {type: string}}}}}\n"), nil
	}
	text := []byte(document(paths.String(), ""))
	for most, fails := range map[int]bool{200: true, files: true, files + 1: false, openapi.MaxFiles: false} {
		d, err := openapi.ReadMost("d.yaml", text, load, most)
		var in *openapi.Import
		if err == nil {
			in, err = d.Import(openapi.Options{})
		}
		var e *openapi.Error
		switch {
		case !fails && (err != nil || strings.Count(string(in.Files[0].Front()), "name: *name")+strings.Count(string(in.Files[0].Front()), "name: {type: string") < files):
			t.Errorf("%d: %v", most, err)
		case fails && (!errors.As(err, &e) || !strings.Contains(err.Error(), fmt.Sprintf("more than %d files", most)) || !strings.Contains(err.Error(), "--max-files")):
			t.Errorf("%d: %v", most, err)
		}
	}
	big := func(path string) ([]byte, error) { return []byte("[" + strings.Repeat("1,", 2_600_000) + "1]"), nil }
	d, err := openapi.Read("d.yaml", []byte(document(post("{$ref: big.json}"), "")), big)
	if err == nil {
		_, err = d.Import(openapi.Options{})
	}
	if err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a file with too many values: %v", err)
	}
}

// TestMembersBesideReferences: in Swagger 2.0 and OpenAPI 3.0, only a description beside a $ref counts. Since 3.1, both say
// something, and what cannot both be true is a finding.
func TestMembersBesideReferences(t *testing.T) {
	const (
		ignored   = "members beside a $ref are ignored, as this version says: "
		contrary  = "two parts of a schema contradict each other: "
		list      = "{type: array, items: {type: integer}}"
		action    = "{type: integer, enum: [0, 1, 2]}"
		nothing   = ""
		anyObject = "{type: object, properties: {x: {type: string}}}"
	)
	for _, c := range []struct{ schema, to, old, oldFinding, new, newFinding string }{
		{"additionalProperties: false, $ref: T", list, "{type: array, items: {type: integer}}", ignored + "additionalProperties", "{type: array, items: {type: integer}}", nothing},
		{"additionalProperties: false, $ref: T", action, action, ignored + "additionalProperties", action, nothing},
		{"required: [x], $ref: T", action, action, ignored + "required", action, nothing},
		{"minLength: 1, $ref: T", "{type: number}", "{type: number}", ignored + "minLength", "{type: number}", nothing},
		{"type: object, $ref: T", action, action, ignored + "type", action, contrary + "type object, type integer"},
		{"type: string, $ref: T", "{type: integer}", "{type: integer}", ignored + "type", "{type: integer}", contrary + "type string, type integer"},
		{"type: number, $ref: T", "{type: integer}", "{type: integer}", ignored + "type", "{type: integer}", nothing},
		{"description: plain, $ref: T", action, `{type: integer, enum: [0, 1, 2], description: "plain"}`, nothing, `{type: integer, enum: [0, 1, 2], description: "plain"}`, nothing},
		{"maximum: 5, $ref: T", "{type: integer}", "{type: integer}", ignored + "maximum", "{type: integer, maximum: 5}", nothing},
		{"enum: [3], $ref: T", action, action, ignored + "enum", action, contrary + "their lists of values have none in common"},
		{"enum: [2, 3], $ref: T", action, action, ignored + "enum", "{type: integer, enum: [2]}", nothing},
		{"nullable: true, x-note: a, example: 1, title: T, deprecated: true, $ref: T", "{type: integer}", "{type: integer}", ignored + "nullable", "{type: integer}", nothing},
		{"properties: {yy: {type: string}}, $ref: T", anyObject, "x: {type: string}", ignored + "properties", "yy: {type: string}", nothing},
		{"allOf: [{$ref: T}, {additionalProperties: false}]", action, action, nothing, action, nothing},
		{"type: object, allOf: [{$ref: T}]", action, action, contrary + "type object, type integer", action, contrary + "type object, type integer"},
		{"nullable: true, allOf: [{$ref: T}]", action, action, nothing, action, nothing},
		{"oneOf: [{type: boolean}, {additionalProperties: false, $ref: T}]", list, "{type: boolean, types: [array]}", ignored + "additionalProperties", "{type: boolean, types: [array]}", nothing},
		{"allOf: [{type: string}, {type: integer}]", list, "{type: string}", contrary + "type string, type integer", "{type: string}", contrary + "type string, type integer"},
		{"readOnly: true, $ref: T", "{type: integer}", "{type: integer}", ignored + "readOnly", nothing, nothing},
	} {
		for version, want := range map[string][2]string{`swagger: "2.0"`: {c.old, c.oldFinding}, "openapi: 3.0.3": {c.old, c.oldFinding}, "openapi: 3.1.0": {c.new, c.newFinding}, "openapi: 3.2.0": {c.new, c.newFinding}} {
			place := "#/components/schemas/T"
			text := version + "\ninfo: {title: Beside, version: '1'}\nservers: [{url: 'https://h.example.com'}]\npaths: {/x: {post: {operationId: postX, requestBody: {content: {application/json: {schema: BODY}}}}}}\ncomponents: {schemas: {T: " + c.to + "}}\n"
			if strings.HasPrefix(version, "swagger") {
				place = "#/definitions/T"
				text = version + "\ninfo: {title: Beside, version: '1'}\nhost: h.example.com\npaths: {/x: {post: {operationId: postX, parameters: [{in: body, name: body, schema: BODY}]}}}\ndefinitions: {T: " + c.to + "}\n"
			}
			schema := "{type: object, properties: {z: {type: string}, a: {" + strings.ReplaceAll(c.schema, "$ref: T", "$ref: '"+place+"'") + "}}}"
			in := importOf(t, strings.Replace(text, "BODY", schema, 1))
			front, _, _ := strings.Cut(string(in.Files[0].Front()), "request:")
			_, got, _ := strings.Cut(front, "        a: ")
			if _, block, ok := strings.Cut(front, "        a:\n"); ok {
				got = block
			}
			if got = strings.TrimSpace(got); want[0] == nothing && got != "" || !strings.Contains(got, want[0]) {
				t.Errorf("%s: %s: got %s, want %s", version, c.schema, got, want[0])
			}
			found := nothing
			for _, f := range in.Findings {
				if strings.HasPrefix(f.What, ignored) || strings.HasPrefix(f.What, contrary) {
					found += f.What
				}
			}
			if found != want[1] {
				t.Errorf("%s: %s: found %q, want %q", version, c.schema, found, want[1])
			}
		}
	}
}
