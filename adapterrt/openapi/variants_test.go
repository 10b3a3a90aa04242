package openapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// The bodies of one operation, as documents describe them. All are cats and dogs, by the member kind.
const (
	catAndDog = `Cat: {type: object, required: [kind, claws], properties: {kind: {type: string}, name: {type: string}, claws: {type: boolean}}},
		Dog: {type: object, required: [kind], properties: {kind: {type: string}, name: {type: string}, pack: {type: integer}}}`
	extending = `Cat: {allOf: [{$ref: '#/BASE/Pet'}, {type: object, required: [claws], properties: {claws: {type: boolean}}}]},
		Dog: {allOf: [{$ref: '#/BASE/Pet'}], properties: {pack: {type: integer}}}`
	pet = `type: object, required: [kind], properties: {kind: {type: string}, name: {type: string}}`
)

var polymorphic = []struct {
	name, version, body, schemas string
	values                       string // of kind, in their order
	cat                          string // the value for cats
}{
	{"oneOf with a mapping", "3.0.3", "{$ref: '#/components/schemas/Pet'}",
		`Pet: {oneOf: [{$ref: '#/components/schemas/Cat'}, {$ref: '#/components/schemas/Dog'}], discriminator: {propertyName: kind, mapping: {cat: '#/components/schemas/Cat', dog: Dog}}}, ` + catAndDog,
		"cat dog", "cat"},
	{"oneOf without a mapping", "3.0.3", "{oneOf: [{$ref: '#/components/schemas/Cat'}, {$ref: '#/components/schemas/Dog'}], discriminator: {propertyName: kind}}", catAndDog, "Cat Dog", "Cat"},
	{"a mapping of one of two", "3.0.3", "{oneOf: [{$ref: '#/components/schemas/Cat'}, {$ref: '#/components/schemas/Dog'}], discriminator: {propertyName: kind, mapping: {cat: Cat}}}", catAndDog, "cat Dog", "cat"},
	{"anyOf and null", "3.1.0", "{anyOf: [{type: 'null'}, {$ref: '#/components/schemas/Cat'}, {$ref: '#/components/schemas/Dog'}], discriminator: {propertyName: kind}}", catAndDog, "Cat Dog", "Cat"},
	{"oneOf of constants, with nothing else said", "3.1.0", "{oneOf: [{$ref: '#/components/schemas/Cat'}, {$ref: '#/components/schemas/Dog'}]}",
		strings.Replace(strings.Replace(catAndDog, "kind: {type: string}", "kind: {const: feline}", 1), "kind: {type: string}", "kind: {type: string, enum: [canine]}", 1), "feline canine", "feline"},
	{"constants and a discriminator", "3.1.0", "{oneOf: [{$ref: '#/components/schemas/Cat'}, {$ref: '#/components/schemas/Dog'}], discriminator: {propertyName: kind}}",
		strings.Replace(strings.Replace(catAndDog, "kind: {type: string}", "kind: {const: feline}", 1), "kind: {type: string}", "kind: {type: string, enum: [canine]}", 1), "feline canine", "feline"},
	{"inheritance with a mapping", "3.0.3", "{$ref: '#/components/schemas/Pet'}",
		`Pet: {discriminator: {propertyName: kind, mapping: {dog: '#/components/schemas/Dog', cat: '#/components/schemas/Cat'}}, ` + pet + `}, ` + extending, "dog cat", "cat"},
	{"inheritance without a mapping", "3.0.3", "{$ref: '#/components/schemas/Pet'}", `Pet: {discriminator: {propertyName: kind}, ` + pet + `}, ` + extending, "Cat Dog Pet", "Cat"},
	{"inheritance over two steps", "3.0.3", "{allOf: [{$ref: '#/components/schemas/Pet'}]}", `Pet: {discriminator: {propertyName: kind}, ` + pet + `}, ` + extending +
		`, Kitten: {allOf: [{$ref: '#/components/schemas/Cat'}, {properties: {weeks: {type: integer}}}]}`, "Cat Dog Kitten Pet", "Kitten"},
	{"one that extends another", "3.0.3", "{$ref: '#/components/schemas/Cat'}", `Pet: {discriminator: {propertyName: kind}, ` + pet + `}, ` + extending +
		`, Kitten: {allOf: [{$ref: '#/components/schemas/Cat'}, {properties: {weeks: {type: integer}}}]}`, "Kitten Cat", "Cat"},
	{"those that extend another, in a oneOf", "3.0.3", "{oneOf: [{$ref: '#/components/schemas/Cat'}, {$ref: '#/components/schemas/Dog'}]}",
		`Pet: {discriminator: {propertyName: kind}, ` + pet + `}, ` + extending, "Cat Dog", "Cat"},
	{"a oneOf of those that extend it", "3.0.3", "{$ref: '#/components/schemas/Pet'}",
		`Pet: {oneOf: [{$ref: '#/components/schemas/Cat'}, {$ref: '#/components/schemas/Dog'}], discriminator: {propertyName: kind}, ` + pet + `}, ` + extending, "Cat Dog", "Cat"},
	{"one of those", "3.0.3", "{$ref: '#/components/schemas/Cat'}",
		`Pet: {oneOf: [{$ref: '#/components/schemas/Cat'}, {$ref: '#/components/schemas/Dog'}], discriminator: {propertyName: kind}, ` + pet + `}, ` + extending, "Cat", "Cat"},
	{"another name for a oneOf", "3.0.3", "{$ref: '#/components/schemas/NewPet'}", `NewPet: {allOf: [{$ref: '#/components/schemas/Pet'}]}, ` +
		`Pet: {oneOf: [{$ref: '#/components/schemas/Cat'}, {$ref: '#/components/schemas/Dog'}], discriminator: {propertyName: kind, mapping: {cat: Cat, dog: Dog}}}, ` + catAndDog, "cat dog", "cat"},
	{"more than one that is extended", "3.0.3", "{$ref: '#/components/schemas/NewPet'}", `NewPet: {allOf: [{$ref: '#/components/schemas/Pet'}, {properties: {at: {type: string}}}]}, ` +
		`Pet: {discriminator: {propertyName: kind, mapping: {cat: Cat, dog: Dog}}, ` + pet + `}, ` + extending, "cat dog", "cat"},
	{"names in another spelling", "3.0.3", "{$ref: '#/components/schemas/Pet'}",
		`Pet: {discriminator: {propertyName: kind}, ` + strings.Replace(pet, "kind: {type: string}", "kind: {type: string, enum: [cat, dog]}", 1) + `}, ` + extending, "cat dog", "cat"},
	{"Swagger", "2.0", "{$ref: '#/definitions/Pet'}", `Pet: {discriminator: kind, ` + pet + `}, ` + extending, "Cat Dog Pet", "Cat"},
	{"Swagger with other values", "2.0", "{$ref: '#/definitions/Pet'}", `Pet: {discriminator: kind, ` + pet + `}, ` + strings.Replace(extending, "Cat: {", "Cat: {x-ms-discriminator-value: '#Zoo.Cat', ", 1), "#Zoo.Cat Dog Pet", "#Zoo.Cat"},
}

// documentFor returns a document whose only operation has that body, for a server.
func documentFor(version, server, body, schemas string) string {
	if version == "2.0" {
		return "swagger: '2.0'\ninfo: {title: Zoo, version: '1'}\nhost: " + strings.TrimPrefix(server, "http://") + "\nschemes: [http]\npaths: {/pets: {post: {operationId: add, parameters: [{in: body, name: b, required: true, schema: " + body + "}]," +
			" responses: {'200': {description: x}}}}}\ndefinitions: {" + strings.ReplaceAll(schemas, "#/BASE/", "#/definitions/") + "}\n"
	}
	return "openapi: " + version + "\ninfo: {title: Zoo, version: '1'}\nservers: [{url: '" + server + "'}]\npaths: {/pets: {post: {operationId: add, requestBody: {required: true, content: {application/json: {schema: " + body + "}}}," +
		" responses: {'200': {description: x}}}}}\ncomponents: {schemas: {" + strings.ReplaceAll(schemas, "#/BASE/", "#/components/schemas/") + "}}\n"
}

// zoo imports a document, serves it, and returns the schema of its only tool, how to call the tool, and the last body that was sent.
func zoo(t *testing.T, text func(server string) string) (schema map[string]any, call func(args string) string, body *string) {
	t.Helper()
	body = new(string)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		*body = string(b)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(api.Close)
	in, err := parse(t, "zoo.yaml", []byte(text(api.URL)), "").Import(openapi.Options{Name: "zoo"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "zoo-adapter.md")
	if err := os.WriteFile(path, in.Files[0].Front(), 0o600); err != nil {
		t.Fatal(err)
	}
	rt, err := adapterrt.New(adapterrt.Options{Shown: adapterrt.Shown{Mode: present.Discrete}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	problems, err := rt.Load([]string{path})
	if err != nil {
		t.Fatal(err, problems, string(in.Files[0].Front()))
	}
	for _, p := range problems {
		t.Error(p)
	}
	tools := rt.Tools("")
	if len(tools) != 1 {
		t.Fatal(len(tools), "tools")
	}
	var entry struct{ InputSchema map[string]any }
	if err := json.Unmarshal(tools[0].JSON, &entry); err != nil {
		t.Fatal(err)
	}
	return entry.InputSchema, func(args string) string {
		*body = ""
		r, _ := rt.CallTool(context.Background(), tools[0].Name, &adapterrt.Request{Body: []byte(args)})
		return string(r.JSON())
	}, body
}

func at(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func words(v any) string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprint(e))
	}
	return strings.Join(out, " ")
}

// constants returns the values of the constants in a oneOf: of the values themselves, or of the member kind of each.
func constants(v any) string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		c := at(e, "const")
		if c == nil {
			c = at(e, "properties", "kind", "const")
		}
		out = append(out, fmt.Sprint(c))
	}
	return strings.Join(out, " ")
}

// formsOf returns the forms in a schema: of an object that may be null, any of them is enough.
func formsOf(schema any) any {
	if list := at(schema, "oneOf"); list != nil {
		return list
	}
	return at(schema, "anyOf")
}

// described reports whether a schema has a member, in one of its forms at least.
func described(schema any, member string) bool {
	if at(schema, "properties", member) != nil {
		return true
	}
	forms, _ := formsOf(schema).([]any)
	return slices.ContainsFunc(forms, func(f any) bool { return at(f, "properties", member) != nil })
}

// TestDiscriminators: a model knows the values of the tag and what each of them brings with it, and may send it.
func TestDiscriminators(t *testing.T) {
	for _, c := range polymorphic {
		for around, body := range map[string]string{"%s": c.body, `{"pets":[%s]}`: "{type: object, properties: {pets: {type: array, items: " + c.body + "}}}"} {
			t.Run(c.name+", as "+around, func(t *testing.T) {
				schema, call, sent := zoo(t, func(server string) string { return documentFor(c.version, server, body, c.schemas) })
				one := at(schema, "properties", "pets", "items")
				wrap := "%s"
				if one == nil {
					if one = at(schema, "properties", "body"); one != nil {
						wrap = `{"body":%s}`
					} else {
						one = schema
					}
				}
				if got := words(at(one, "properties", "kind", "enum")); got != c.values {
					t.Errorf("kind is one of %s, want %s: %v", got, c.values, one)
				}
				if got := constants(formsOf(one)); strings.Contains(c.values, " ") && got != c.values {
					t.Errorf("its constants are %s, want %s: %v", got, c.values, one)
				}
				for _, member := range []string{"name", "claws"} {
					if !described(one, member) {
						t.Errorf("%s is not described: %v", member, one)
					}
				}
				args := fmt.Sprintf(around, `{"kind":"`+c.cat+`","name":"Tom","claws":true}`)
				if got := call(fmt.Sprintf(wrap, args)); !strings.Contains(got, `"success":true`) || !sameJSON(*sent, args) {
					t.Errorf("sent %s: %s", *sent, got)
				}
				if got := call(fmt.Sprintf(wrap, fmt.Sprintf(around, `{"kind":"Unicorn","claws":true}`))); strings.Contains(got, `"success":true`) {
					t.Error("another value is sent")
				}
			})
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

// TestFormsInSchemas: the members of one form only are where the tag has its value.
func TestFormsInSchemas(t *testing.T) {
	c := polymorphic[0]
	schema, _, _ := zoo(t, func(server string) string { return documentFor(c.version, server, c.body, c.schemas) })
	got, _ := json.Marshal(at(schema, "properties", "body"))
	if want := `{"description":"The whole body","oneOf":[{"properties":{"claws":{"type":"boolean"},"kind":{"const":"cat"}},"required":["kind","claws"]},` +
		`{"properties":{"kind":{"const":"dog"},"pack":{"type":"integer"}},"required":["kind"]}],` +
		`"properties":{"kind":{"enum":["cat","dog"],"type":"string"},"name":{"type":"string"}},"required":["kind"],"type":"object"}`; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// Nothing but their members tells these apart.
	schema, _, _ = zoo(t, func(server string) string {
		return documentFor("3.0.3", server, "{type: object, properties: {at: {oneOf: [{$ref: '#/components/schemas/Point'}, {$ref: '#/components/schemas/Place'}]}}}",
			"Point: {type: object, required: [x], properties: {x: {type: number}, note: {type: string}}}, Place: {type: object, required: [city], properties: {city: {type: string}, zip: {type: string}, note: {type: string}}}")
	})
	got, _ = json.Marshal(at(schema, "properties", "at"))
	if want := `{"anyOf":[{"properties":{"x":{"type":"number"}},"required":["x"]},{"properties":{"city":{"type":"string"},"zip":{"type":"string"}},"required":["city"]}],` +
		`"properties":{"note":{"type":"string"}},"type":"object"}`; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestFormsByWhatTheyRequire: branches of a oneOf that only require members of the object around them are forms of it, and the title
// of one of them does not describe the object.
func TestFormsByWhatTheyRequire(t *testing.T) {
	const all = "type: object, properties: {title: {type: string}, id: {type: string}, slug: {type: string}}"
	const shown = `{"anyOf":[{"properties":{"id":{"type":"string"}},"required":["id"]},{"properties":{"slug":{"type":"string"}},"required":["slug"]}],` +
		`"description":"The whole body","properties":{"title":{"type":"string"}},"required":["title"],"type":"object"}`
	schema, call, sent := zoo(t, func(server string) string {
		return documentFor("3.0.3", server, "{"+all+", oneOf: [{title: 'By its id', required: [title, id]}, {title: 'By its slug', required: [title, slug]}]}", "")
	})
	if got, _ := json.Marshal(at(schema, "properties", "body")); string(got) != shown {
		t.Errorf("got  %s\nwant %s", got, shown)
	}
	for _, args := range []string{`{"title":"a","slug":"b"}`, `{"title":"a","id":"c"}`} {
		if got := call(`{"body":` + args + `}`); !strings.Contains(got, `"success":true`) || !sameJSON(*sent, args) {
			t.Errorf("sent %s: %s", *sent, got)
		}
	}
}

// TestMembersBesideTheBody: a model that writes the members of the body beside each other is understood.
func TestMembersBesideTheBody(t *testing.T) {
	c := polymorphic[0]
	_, call, sent := zoo(t, func(server string) string { return documentFor(c.version, server, c.body, c.schemas) })
	args := `{"kind":"cat","claws":true}`
	if got := call(args); !strings.Contains(got, `"success":true`) || !sameJSON(*sent, args) {
		t.Errorf("sent %s: %s", *sent, got)
	}
	for _, args := range []string{`{"kind":"cat","claws":true,"wings":2}`, `{"body":{"kind":"cat","claws":true},"name":"Tom"}`, `{}`} {
		if got := call(args); strings.Contains(got, `"success":true`) {
			t.Errorf("%s is sent as %s", args, *sent)
		}
	}
}

// many returns n schemas that extend Pet, each with some members of its own.
func many(n, members int) string {
	var b strings.Builder
	b.WriteString("Pet: {discriminator: {propertyName: kind}, " + pet + "}")
	for i := range n {
		fmt.Fprintf(&b, ", Pet%d: {allOf: [{$ref: '#/BASE/Pet'}, {type: object, properties: {", i)
		for k := range members {
			fmt.Fprintf(&b, "own_%d_%d: {type: object, description: 'What it is of, in as many words as documents have', properties: {a: {type: string}, b: {$ref: '#/BASE/Pet'}}}, ", i, k)
		}
		b.WriteString("}}]}")
	}
	return b.String()
}

// TestManyVariants: whatever a document has, schemas stay of a size that a model can be given, and what the API accepts can be sent.
func TestManyVariants(t *testing.T) {
	for _, c := range []struct{ variants, members, most int }{{5, 4, 8_000}, {40, 5, 6_000}, {99, 1, 6_000}, {300, 8, 4_000}, {3, 90, 6_000}} {
		t.Run(fmt.Sprint(c.variants, " with ", c.members), func(t *testing.T) {
			schemas := many(c.variants, c.members)
			last := fmt.Sprintf(`{"kind":"Pet%d","own_%d_0":{"a":"x"}}`, c.variants-1, c.variants-1)
			for around, body := range map[string]string{"%s": "{$ref: '#/components/schemas/Pet'}", `{"pets":[%s]}`: "{type: object, properties: {pets: {type: array, items: {$ref: '#/components/schemas/Pet'}}}}"} {
				schema, call, body := zoo(t, func(server string) string { return documentFor("3.0.3", server, body, schemas) })
				text, _ := json.Marshal(schema)
				t.Logf("%s: %d bytes", around, len(text))
				if len(text) > c.most {
					t.Errorf("the schema has %d bytes", len(text))
				}
				want := fmt.Sprintf(around, last)
				args := want
				if at(schema, "properties", "body") != nil {
					args = `{"body":` + want + `}`
				}
				if got := call(args); !strings.Contains(got, `"success":true`) || !sameJSON(*body, want) {
					t.Errorf("sent %s: %s", *body, got)
				}
			}
		})
	}
}

// TestAnswersKeepTheirForm: what is known of requests says nothing of answers, whose subtypes come as they come.
func TestAnswersKeepTheirForm(t *testing.T) {
	text := strings.Replace(documentFor("3.0.3", "https://h.example.com", "{}", `Pet: {discriminator: {propertyName: kind}, `+pet+`, x-y: 1}, `+extending),
		"post: {operationId: add, requestBody: {required: true, content: {application/json: {schema: {}}}}, responses: {'200': {description: x}}}",
		"get: {operationId: list, responses: {'200': {description: x, content: {application/json: {schema: {type: array, items: {type: object, properties: {pet: {$ref: '#/components/schemas/Pet'}, a: {type: string}, b: {type: string}, c: {type: object}}}}}}}}}", 1)
	in, err := parse(t, "d", []byte(text), "").Import(openapi.Options{Fields: true})
	if err != nil {
		t.Fatal(err)
	}
	if front := string(in.Files[0].Front()); !strings.Contains(front, "[a, b, pet.name]") {
		t.Error(front)
	}
}

// TestHostileDiscriminators: schemas that extend each other in a circle, name themselves, or name what there is not, end.
func TestHostileDiscriminators(t *testing.T) {
	wide := "Pet: {discriminator: {propertyName: kind}, " + pet + "}"
	for i := range 400 {
		wide += fmt.Sprintf(", A%d: {allOf: [{$ref: '#/BASE/Pet'}, {$ref: '#/BASE/A%d'}, {$ref: '#/BASE/A%d'}]}", i, (i+1)%400, (i*7+3)%400)
	}
	for name, schemas := range map[string]string{
		"circle":         `Pet: {discriminator: {propertyName: kind}, allOf: [{$ref: '#/BASE/Cat'}]}, Cat: {allOf: [{$ref: '#/BASE/Pet'}]}`,
		"itself":         `Pet: {discriminator: {propertyName: kind}, allOf: [{$ref: '#/BASE/Pet'}], oneOf: [{$ref: '#/BASE/Pet'}]}`,
		"its own tag":    `Pet: {discriminator: {propertyName: kind}, properties: {kind: {$ref: '#/BASE/Pet'}}}, Cat: {allOf: [{$ref: '#/BASE/Pet'}]}`,
		"nowhere":        `Pet: {discriminator: {propertyName: kind, mapping: {a: '#/x', b: 'y.yaml', c: 'https://h.example.com/z', d: '', e: 5}}, type: object, properties: {a: {}}}`,
		"odd":            `Pet: {discriminator: {propertyName: 5, mapping: []}, type: object, properties: {a: {}}}, Cat: {allOf: [5, {$ref: 7}, {$ref: '#/BASE/Pet'}]}`,
		"odd values":     `Pet: {type: object, discriminator: {propertyName: kind, mapping: {"a\u202e: b": Cat, "}": Cat, "": Cat, "true": Cat, "1": Dog}}, properties: {a: {}}}, Cat: {properties: {"}: x": {type: string}, "\u202e": {type: string}}}, Dog: {required: [nope]}`,
		"all extend all": wide,
	} {
		t.Run(name, func(t *testing.T) {
			for _, body := range []string{"{$ref: '#/components/schemas/Pet'}", "{type: object, properties: {p: {$ref: '#/components/schemas/Pet'}, c: {$ref: '#/components/schemas/Cat'}}}"} {
				d := parse(t, "d", []byte(documentFor("3.1.0", "https://h.example.com", body, schemas)), "")
				in, err := d.Import(openapi.Options{})
				if err != nil {
					t.Fatal(err)
				}
				sound(t, d, in)
			}
		})
	}
}

// TestFamilyOfAFetchedDocument: for what schemas extend, no further file at a URL is read.
func TestFamilyOfAFetchedDocument(t *testing.T) {
	for _, at := range []string{"https://h.example.com/api.yaml", "http://localhost:8080/api.yaml"} {
		text := documentFor("3.0.3", "https://h.example.com", "{$ref: '#/components/schemas/Pet'}",
			`Pet: {discriminator: {propertyName: kind}, type: object, properties: {kind: {type: string}}}, Cat: {allOf: [{$ref: 'other.yaml#/Animal'}]}`)
		d, err := openapi.Read(at, []byte(text), func(path string) ([]byte, error) {
			t.Errorf("%s: %s is read", at, path)
			return []byte("Animal: {type: object}"), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Import(openapi.Options{Name: "shop"}); err != nil {
			t.Error(err)
		}
	}
}
