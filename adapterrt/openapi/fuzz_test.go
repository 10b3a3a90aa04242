package openapi_test

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// FuzzRead checks that no document makes the reader panic, and that its errors are short.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"openapi":"3.0.0"}`, `{"swagger":"2.0","paths":{"/a":{"get":{}}}}`, "openapi: 3.1.0\npaths: {/a: {get: {}}}", "a: &a [*a]", "a: &a {<<: *a}", "<<: 1", "? a\n: b", "- - - -",
		`{"a":1,"a":2}`, `{"a":"\ud800"}`, `{"":{"":[[[]]]}}`, `[`, `{"a":`, "\ufeff{}", "\x00", "a: !!binary x", "a: 0x1F\nb: 1_000\nc: .inf\nd: 2001-01-01\ne: no", "%YAML 1.2\n---\n{}\n...\n---\n{}",
		"a: |\n  x\n b", "{a: b, c: d}: 1", "&a a: *a", "a: 'x", "a: \"\\u\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := openapi.Read("d", data, nil); err != nil {
			var e *openapi.Error
			if !errors.As(err, &e) || len(err.Error()) > 400 {
				t.Errorf("%v", err)
			}
		}
	})
}

// FuzzImport checks that every document that can be imported becomes files that are valid, whose examples pass,
// and which do not differ from the document.
func FuzzImport(f *testing.F) {
	for _, name := range []string{"petstore3.yaml", "petstore2.json", "schemas.yaml", "styles.yaml", "bodies.yaml"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{
		document(post("{allOf: [{$ref: '#/components/schemas/A'}]}"), "A: {oneOf: [{$ref: '#/components/schemas/A'}, {type: object, properties: {a: {enum: [1, a, null]}}}]}"),
		document(post(`{type: object, properties: {"<<": {type: string}, "a: b": {type: [integer, "null"]}, "\u202e": {}}}`), ""),
		document(`"/{a}/{b*}/{+c}": {get: {parameters: [{name: a, in: path, style: matrix, schema: {type: array}}, {name: first, in: query}, {name: page, in: query}, {name: limit, in: query}]}}`, ""),
		document(`/a: {get: {operationId: "\n---\n", summary: "\"}\n---", tags: ["\u0000"]}}`, ""),
		document(`/a?x={y}: {put: {requestBody: {content: {text/plain: {}, "x/y; z": {}}}, responses: {2XX: {content: {"*/*": {}}}}}}`, ""),
		strings.Replace(document("/a: {get: {}}", ""), "https://h.example.com", "https://{h}.example.com/{v}", 1),
		`{"swagger":"2.0","info":{"title":"x","version":1},"host":"h","paths":{"/a":{"post":{"consumes":["multipart/form-data"],"parameters":[{"in":"formData","name":"f","type":"file"},{"in":"formData","name":"g","type":"array","collectionFormat":"tsv"},{"in":"body","name":"b","schema":{}}]}}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 100<<10 {
			return
		}
		d, err := openapi.Read("d", data, func(string) ([]byte, error) { return nil, errors.New("no files") })
		if err != nil {
			return
		}
		in, err := d.Import(openapi.Options{Most: 300, Fields: true})
		if err != nil {
			return
		}
		sound(t, d, in)
	})
}

// sound checks that the files of an import are valid, that their examples pass, and that they do not differ from the
// document.
func sound(t *testing.T, d *openapi.Document, in *openapi.Import) {
	t.Helper()
	for _, m := range in.Files {
		front := m.Front()
		a, problems := adapterrt.Parse(m.FileName(), front, &adapterrt.Options{})
		if a == nil {
			t.Fatalf("%v\n%s", problems, front)
		}
		var drafts []adapterrt.Draft
		for _, d := range m.Drafts {
			if !d.Random {
				drafts = append(drafts, adapterrt.Draft{Request: d.Request, Receives: d.Receives})
			}
		}
		made, _ := adapterrt.Illustrate(m.FileName(), front, &adapterrt.Options{}, drafts)
		var examples []string
		for _, e := range made {
			if e.Fault == "" {
				examples = append(examples, e.Example)
			}
		}
		whole := m.Bytes(d, examples)
		if len(whole) > file.MaxFile {
			continue
		}
		played(t, m.FileName(), whole)
		changes, err := openapi.Diff(whole, a, d, nil)
		if err != nil || len(changes) > 0 {
			t.Fatalf("%v %v\n%s", err, changes, whole)
		}
		u, err := openapi.Update(whole, a, d, d, nil)
		if err != nil || string(u.Data) != string(whole) {
			t.Fatalf("%v\n%s\nbecame\n%s", err, whole, u.Data)
		}
	}
}

// ugly are values that replace others in documents.
var ugly = []string{
	`null`, `true`, `false`, `0`, `-1`, `1e300`, `0.5`, `""`, `"x"`, `"\u202e"`, `"a b"`, `"---"`, `"<<"`, `"#/"`, `"#"`, `"{}"`, `[]`, `{}`, `[null]`, `[1,"a",{}]`, `{"":null}`,
	`"string"`, `"object"`, `"array"`, `"integer"`, `["string","null"]`, `"deepObject"`, `"query"`, `"body"`, `"cookie"`, `"formData"`, `"path"`, `"multi"`, `"binary"`, `"password"`,
	`{"$ref":"#/components/schemas/Pet"}`, `{"$ref":"#/definitions/Pet"}`, `{"$ref":"#/paths"}`, `{"$ref":"#"}`, `{"$ref":"#/components/schemas/Tree"}`, `{"type":"object","properties":{"id":{}}}`,
	`{"oneOf":[{"type":"string","enum":["a"]},{"type":"array","items":{"type":"integer"}},{"type":"null"}]}`, `{"allOf":[{"required":["zz"]},{"type":"object","additionalProperties":{"type":"boolean"}}]}`,
	`{"type":"string","pattern":"^a{3,}[0-9]+$","minLength":9}`, `{"type":"integer","minimum":3,"exclusiveMaximum":4,"enum":[3,9]}`, `{"type":"number","enum":[1,1.0]}`, `{"name":"first","in":"query"}`,
}

// mutated returns a document in which the random generator has replaced, removed, moved and renamed values.
func mutated(r *rand.Rand, doc any) any {
	var all []func()
	var values []any
	var walk func(v any)
	walk = func(v any) {
		values = append(values, v)
		put := func(set func(any)) {
			all = append(all, func() {
				var v any
				if r.IntN(3) == 0 {
					v = values[r.IntN(len(values))]
				} else if err := json.Unmarshal([]byte(ugly[r.IntN(len(ugly))]), &v); err != nil {
					panic(err)
				}
				set(v)
			})
		}
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				put(func(to any) { v[key] = to })
				all = append(all, func() { delete(v, key) }, func() {
					var name string
					_ = json.Unmarshal([]byte(ugly[r.IntN(len(ugly))]), &name)
					v[name] = v[key]
				})
				walk(v[key])
			}
		case []any:
			for i := range v {
				put(func(to any) { v[i] = to })
				walk(v[i])
			}
		}
	}
	walk(doc)
	for range 1 + r.IntN(4) {
		all[r.IntN(len(all))]()
	}
	return doc
}

// FuzzMutated is FuzzImport with documents of which parts are replaced by other values.
func FuzzMutated(f *testing.F) {
	names := []string{"petstore3.yaml", "petstore2.json", "schemas.yaml", "styles.yaml", "bodies.yaml"}
	for seed := range uint64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		text, err := os.ReadFile("testdata/" + names[seed%uint64(len(names))])
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := yaml.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		doc = mutated(rand.New(rand.NewPCG(seed, 0)), doc)
		data, err := json.Marshal(doc)
		if err != nil { // a value that contains itself
			return
		}
		d, err := openapi.Read("d", data, nil)
		if err != nil {
			return
		}
		in, err := d.Import(openapi.Options{Deprecated: seed%2 == 0})
		if err != nil {
			return
		}
		sound(t, d, in)
	})
}
