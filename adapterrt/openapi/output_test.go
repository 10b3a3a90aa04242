package openapi_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// answered is a document with one operation whose responses are given as YAML on one line.
func answered(version, responses, schemas string) string {
	head := "openapi: " + version + "\n"
	if version == "2.0" {
		head = "swagger: \"2.0\"\nhost: api.example.com\nschemes: [https]\nproduces: [application/json]\ndefinitions: " + schemas + "\n"
	} else {
		head += "servers: [{url: https://api.example.com}]\ncomponents: {schemas: " + schemas + "}\n"
	}
	return head + "info: {title: Some API, version: \"1\"}\npaths:\n  /a:\n    get:\n      operationId: getA\n      responses: " + responses + "\n"
}

// frontOf returns the front matter of the only file of a document.
func frontOf(t *testing.T, document string, opt openapi.Options) string {
	t.Helper()
	d, err := openapi.Read("api.yaml", []byte(document), nil)
	if err != nil {
		t.Fatal(err)
	}
	in, err := d.Import(opt)
	if err != nil {
		t.Fatal(err)
	}
	front := string(in.Files[0].Front())
	if a, problems := file.Parse("", []byte(front), &file.Options{}); a == nil || len(problems) > 0 {
		t.Fatal(problems, front)
	}
	return front
}

// outputOf returns the schema of an answer in a file as one line, "" for none.
func outputOf(front string) string {
	m := regexp.MustCompile(`(?s)\n {8}schema: (.*?)\n(?: {0,8}\S|\n)`).FindStringSubmatch(front)
	if m == nil {
		return ""
	}
	return strings.Join(strings.Fields(m[1]), " ")
}

// TestOutputSchemas shows what a file says of the answers that a document describes.
func TestOutputSchemas(t *testing.T) {
	json := func(schema string) string {
		return `{"200": {description: OK, content: {application/json: {schema: ` + schema + `}}}}`
	}
	const pet = `{Pet: {type: object, required: [id, name], additionalProperties: false, properties: {id: {type: integer, format: int64, minimum: 1}, ` +
		`name: {type: string, pattern: "^[^\\p{C}]+$", maxLength: 5, description: Its name}, kind: {type: string, enum: [cat, dog]}, secret: {type: string, writeOnly: true}, ` +
		`made: {type: string, format: date-time, readOnly: true}}}}`
	const petIs = `{type: object, properties: {id: {type: integer}, name: {type: string}, kind: {type: string}, made: {type: string}}}`
	for _, c := range []struct{ name, version, responses, schemas, want string }{
		{"names and types, and no more", "3.0.3", json(`{$ref: "#/components/schemas/Pet"}`), pet, petIs},
		{"a list", "3.1.0", json(`{type: array, items: {$ref: "#/components/schemas/Pet"}}`), pet, `{type: array, items: ` + petIs + `}`},
		{"Swagger", "2.0", `{"200": {description: OK, schema: {$ref: "#/definitions/Pet"}}}`, pet, petIs},
		{"nullable", "3.0.3", json(`{type: object, properties: {a: {type: string, nullable: true}}}`), "{}", `{type: object, properties: {a: {type: string, types: ["null"]}}}`},
		{"nullable since 3.1", "3.1.0", json(`{type: object, properties: {a: {type: [string, "null"]}, b: {type: [integer, string]}}}`), "{}",
			`{type: object, properties: {a: {type: string, types: ["null"]}, b: {type: integer, types: [string]}}}`},
		{"beside a reference, before 3.1", "3.0.3", json(`{$ref: "#/components/schemas/Pet", type: array}`), pet, petIs},
		{"allOf", "3.0.3", json(`{allOf: [{$ref: "#/components/schemas/Pet"}, {type: object, properties: {more: {type: boolean}}}]}`), pet,
			`{type: object, properties: {id: {type: integer}, name: {type: string}, kind: {type: string}, made: {type: string}, more: {type: boolean}}}`},
		{"oneOf", "3.0.3", json(`{oneOf: [{type: object, properties: {a: {type: string}}}, {type: object, properties: {a: {type: integer}, b: {type: string}}}]}`), "{}",
			`{type: object, properties: {a: {type: string, types: [integer]}, b: {type: string}}}`},
		{"itself", "3.0.3", json(`{$ref: "#/components/schemas/Tree"}`), `{Tree: {type: object, properties: {name: {type: string}, kids: {type: array, items: {$ref: "#/components/schemas/Tree"}}, up: {$ref: "#/components/schemas/Tree"}}}}`,
			`{type: object, properties: {name: {type: string}, kids: {type: array, items: {type: object}}, up: {type: object}}}`},
		{"a list of itself", "3.0.3", json(`{$ref: "#/components/schemas/L"}`), `{L: {type: array, items: {$ref: "#/components/schemas/L"}}}`, `{type: array, items: {type: array, items: {type: array, items: {type: array, items: {type: array, items: {type: array}}}}}}`},
		{"three levels", "3.0.3", json(`{type: object, properties: {a: {type: object, properties: {b: {type: object, properties: {c: {type: object, properties: {d: {type: string}}}}}}}}}`), "{}",
			`{type: object, properties: {a: {type: object, properties: {b: {type: object, properties: {c: {type: object}}}}}}}`},
		{"a map", "3.0.3", json(`{type: object, additionalProperties: {type: integer}}`), "{}", `{type: object}`},
		{"a text", "3.0.3", json(`{type: string}`), "{}", `{type: string}`},
		{"a member of any type", "3.1.0", json(`{type: object, properties: {a: {}, b: {type: array}, c: {type: array, items: {}}}}`), "{}",
			`{type: object, properties: {a: {type: string, types: [number, boolean, array, object, "null"]}, b: {type: array}, c: {type: array}}}`},
		{"several answers", "3.0.3", `{"200": {description: OK, content: {application/json: {schema: {type: object, properties: {a: {type: string}}}}}}, ` +
			`"202": {description: Later, content: {application/json: {schema: {type: object, properties: {job: {type: string}}}}}}, "404": {description: No, content: {application/json: {schema: {type: object, properties: {e: {type: string}}}}}}}`, "{}",
			`{type: object, properties: {a: {type: string}, job: {type: string}}}`},
		{"one or nothing", "3.0.3", `{"200": {description: OK, content: {application/json: {schema: {type: object, properties: {a: {type: string}}}}}}, "204": {description: Nothing}}`, "{}", `{type: object, properties: {a: {type: string}}}`},
		{"by default", "3.0.3", `{default: {description: OK, content: {application/json: {schema: {type: boolean}}}}}`, "{}", `{type: boolean}`},
		{"the default is an error", "3.0.3", `{"204": {description: OK}, default: {description: Error, content: {application/json: {schema: {type: boolean}}}}}`, "{}", ``},
		{"anything", "3.0.3", json(`{}`), "{}", ``},
		{"no schema", "3.0.3", `{"200": {description: OK, content: {application/json: {}}}}`, "{}", ``},
		{"nowhere", "3.0.3", json(`{$ref: "#/components/schemas/None"}`), "{}", ``},
		{"no JSON", "3.0.3", `{"200": {description: OK, content: {text/plain: {schema: {type: string}}}}}`, "{}", ``},
		{"a file", "2.0", `{"200": {description: OK, schema: {type: file}}}`, "{}", ``},
		{"JSON of a kind", "3.0.3", `{"200": {description: OK, content: {application/hal+json: {schema: {type: object, properties: {a: {type: string}}}}}}}`, "{}", `{type: object, properties: {a: {type: string}}}`},
		{"odd names", "3.0.3", json(`{type: object, properties: {"a, b": {type: string}, "": {type: string}, "\u202e": {type: string}, "@id": {type: string}, "quo\"te": {type: string}, null: {type: string}, required: {type: string}}}`), "{}",
			`{type: object, properties: {"a, b": {type: string}, "@id": {type: string}, "quo\"te": {type: string}, "null": {type: string}, required: {type: string}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			document := answered(c.version, c.responses, c.schemas)
			front := frontOf(t, document, openapi.Options{})
			if got := outputOf(front); got != c.want {
				t.Errorf("%s\nwant %s\n%s", got, c.want, front)
			}
			if got := outputOf(frontOf(t, document, openapi.Options{NoOutputSchema: true})); got != "" {
				t.Errorf("%s, and it was not wanted", got)
			}
		})
	}
}

// TestOutputSchemasAreSmall shows what is left out of large answers: links first, then what says least, and what is deepest.
func TestOutputSchemasAreSmall(t *testing.T) {
	var props, links []string
	for i := range 150 {
		props = append(props, fmt.Sprintf("member_%d: {type: object, properties: {a: {type: string}}}", i))
	}
	for i := range 20 {
		links = append(links, fmt.Sprintf("link_%d_url: {type: string}", i))
	}
	schema := func(of ...string) string {
		return answered("3.0.3", `{"200": {description: OK, content: {application/json: {schema: {type: object, required: [member_149], properties: {`+strings.Join(of, ", ")+`}}}}}}`, "{}")
	}
	got := outputOf(frontOf(t, schema(append(props, "status: {type: string}", "id: {type: string}")...), openapi.Options{}))
	for _, want := range []string{"member_0: {type: object}", "member_149: ", "status: ", ", id: {type: string}}}"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if len(got) > 800 || strings.Contains(got, "a: {") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	got = outputOf(frontOf(t, schema(append(links, props[:10]...)...), openapi.Options{}))
	if !strings.Contains(got, "member_9") || strings.Contains(got, "link_19") {
		t.Error(got)
	}
	// A file that would be too large says nothing of answers, and says so.
	var b strings.Builder
	b.WriteString("openapi: 3.0.3\nservers: [{url: https://api.example.com}]\ninfo: {title: Some API, version: \"1\"}\npaths:\n")
	for i := range 1100 {
		fmt.Fprintf(&b, "  /%d: {get: {operationId: get%d, responses: {\"200\": {description: OK, content: {application/json: {schema: {type: object, properties: {%s}}}}}}}}\n", i, i, strings.Join(props[:20], ", "))
	}
	front := frontOf(t, b.String(), openapi.Options{})
	if len(front) > 512<<10 || outputOf(front) != "" {
		t.Errorf("%d bytes", len(front))
	}
	d, _ := openapi.Read("api.yaml", []byte(b.String()), nil)
	if in, _ := d.Import(openapi.Options{}); !strings.Contains(fmt.Sprint(in.Findings), "--split") {
		t.Error(in.Findings)
	}
}

// TestOutputSchemasOfLists shows what a tool answers whose results come in pages, and of which fields are selected.
func TestOutputSchemasOfLists(t *testing.T) {
	document := func(link, schema string) string {
		return "openapi: 3.0.3\nservers: [{url: https://api.example.com}]\ninfo: {title: Some API, version: \"1\"}\npaths:\n  /a:\n    get:\n      operationId: listA\n" +
			"      parameters: [{name: page, in: query, schema: {type: integer}}, {name: per_page, in: query, schema: {type: integer}}, {name: cursor, in: query, schema: {type: string}, description: The cursor of the next page}]\n" +
			"      responses: {\"200\": {description: OK, " + link + "content: {application/json: {schema: " + schema + "}}}}\n"
	}
	const link = `headers: {Link: {schema: {type: string}}}, `
	const item = `{type: object, properties: {id: {type: integer}, name: {type: string}, owner: {type: object, properties: {login: {type: string}, age: {type: integer}}}, x: {type: string}, z: {type: string}, tags: {type: array, items: {type: string}}}}`
	const page = `items: {type: array, items: {type: object}}, pageInfo: {type: object, properties: {hasNextPage: {type: boolean}, endCursor: {type: string, types: ["null"]}}}`
	for _, c := range []struct {
		name, document, want string
		fields               bool
	}{
		{"a list or a page", document(link, `{type: array, items: `+item+`}`), `{type: array, types: [object], items: ` + item + `, properties: {` + page + `}}`, false},
		{"an object or a page", document("", `{type: object, properties: {data: {type: array, items: `+item+`}, next_cursor: {type: string}}}`),
			`{type: object, properties: {data: {type: array, items: ` + item + `}, next_cursor: {type: string}, ` + page + `}}`, false},
		{"the items of both", document("", `{type: object, properties: {items: {type: array, items: `+item+`}, next_cursor: {type: string}}}`),
			`{type: object, properties: {items: {type: array, items: ` + item + `}, next_cursor: {type: string}, ` + page[strings.Index(page, "pageInfo"):] + `}}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := outputOf(frontOf(t, c.document, openapi.Options{Fields: c.fields})); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
	front := string(bytes.TrimSpace([]byte(frontOf(t, strings.Replace(document("", `{type: array, items: `+strings.Replace(item, "x: {", "self_url: {type: string}, x: {", 1)+`}`), "name: page", "name: p", 1), openapi.Options{Fields: true}))))
	if got := outputOf(front); !strings.Contains(front, "default_fields: [id, name, x, z, owner.login, tags]") ||
		got != `{type: array, items: {type: object, properties: {id: {type: integer}, name: {type: string}, owner: {type: object, properties: {login: {type: string}}}, x: {type: string}, z: {type: string}, tags: {type: array, items: {type: string}}}}}` {
		t.Errorf("%s\n%s", got, front)
	}
}

// TestOutputSchemasStayAsChosen shows that an update describes answers if the import did.
func TestOutputSchemasStayAsChosen(t *testing.T) {
	old := answered("3.0.3", `{"200": {description: OK, content: {application/json: {schema: {type: object, properties: {a: {type: string}}}}}}}`, "{}")
	edited := strings.Replace(strings.Replace(old, "a: {type: string}", "a: {type: string}, b: {type: string}", 1), "operationId: getA", "operationId: getA\n      parameters: [{name: q, in: query, schema: {type: string}}]", 1)
	for _, off := range []bool{false, true} {
		data := []byte(frontOf(t, old, openapi.Options{NoOutputSchema: off}))
		u := updated(t, data, edited, "")
		if got := outputOf(string(u.Data)); (got == "") != off || !off && !strings.Contains(got, "b: ") {
			t.Errorf("off %t: %s\n%s", off, got, u.Data)
		}
		if again := updated(t, u.Data, edited, ""); len(again.Changed) > 0 {
			t.Error("an update changes what an update made", again.Changed)
		}
		told := differences(t, data, edited)
		if strings.Contains(told, "the answer has other members") == off {
			t.Errorf("off %t: %s", off, told)
		}
	}
}
