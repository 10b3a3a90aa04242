package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestWhatSchemasSayOfValues: what a document says of numbers, lists and maps is in the file, as are the members that an object
// must have, however deep, and unions keep what their variants have in common.
func TestWhatSchemasSayOfValues(t *testing.T) {
	var many strings.Builder // members, so many that objects are described less deep
	for i := range 150 {
		fmt.Fprintf(&many, ", m%d: {type: boolean}", i)
	}
	for name, c := range map[string]struct{ schema, want, not string }{
		"an open bound":                   {"{type: object, properties: {n: {type: number, minimum: 0, exclusiveMinimum: true}}}", "n: {type: number, exclusiveMinimum: 0}", "weaker"},
		"an open bound of integers":       {"{type: object, properties: {n: {type: integer, maximum: 9, exclusiveMaximum: true}}}", "n: {type: integer, maximum: 8}", "weaker"},
		"bounds without a number between": {"{type: object, properties: {n: {type: number, minimum: 3, maximum: 3, exclusiveMaximum: true}}}", "n: {type: number}", ""},
		"a step":                          {"{type: object, properties: {n: {type: integer, multipleOf: 5}}}", "n: {type: integer, multipleOf: 5}", "weaker"},
		"a step that is none":             {"{type: object, properties: {n: {type: integer, multipleOf: 0}}}", "n: {type: integer}", ""},
		"elements":                        {"{type: object, properties: {l: {type: array, minItems: 1, maxItems: 3, uniqueItems: true, items: {type: string}}}}", "l: {type: array, minItems: 1, maxItems: 3, uniqueItems: true, items: {type: string}}", "weaker"},
		"elements the wrong way round":    {"{type: object, properties: {l: {type: array, minItems: 3, maxItems: 1, items: {type: string}}}}", "l: {type: array, items: {type: string}}", ""},
		"a map":                           {"{type: object, properties: {m: {type: object, additionalProperties: {type: integer, minimum: 1}}}}", "m: {type: object, additionalProperties: {type: integer, minimum: 1}}", "weaker"},
		"a map of anything":               {"{type: object, properties: {m: {type: object, additionalProperties: {}}}}", "m: {type: object}", "weaker"},
		"a map beside members":            {"{type: object, properties: {m: {type: object, properties: {a: {type: string}}, additionalProperties: {type: boolean}}}}", "additionalProperties: {type: boolean}", "weaker"},
		"maps in maps":                    {"{type: object, properties: {m: {type: object, additionalProperties: {type: object, additionalProperties: {type: string}}}}}", "m: {type: object, additionalProperties: {type: object, additionalProperties: {type: string}}}", "weaker"},
		"a map that only one variant is":  {"{type: object, properties: {m: {oneOf: [{type: object, properties: {a: {type: string}}}, {type: object, additionalProperties: {type: boolean}}]}}}", "m: {type: object, properties: {a: {type: string}}}", ""},
		"a member that is not described":  {"{type: object, properties: {m: {type: object, required: [a, b], properties: {a: {type: string}}}}}", "b: {type: string, types: [number, boolean, object, array], required: true}", "weaker"},
		"a map in place of a body":        {"{type: object, additionalProperties: {type: string}}", "body: {type: object, required: true, description: \"The whole body\", additionalProperties: {type: string}}", "weaker"},
		"further members of a body":       {"{type: object, properties: {a: {type: string}}, additionalProperties: true}", "| weaker | further members of the body cannot be sent | post_x |", ""},
		"no further members of a body":    {"{type: object, properties: {a: {type: string}}, additionalProperties: false}", "a: {type: string}", "weaker"},
		"values of two types":             {"{type: object, properties: {v: {anyOf: [{type: string, enum: [a, '1']}, {type: integer, enum: [1, 2]}]}}}", "v: {type: string, types: [integer], enum: [a, \"1\", 1, 2]}", ""},
		"values of one of two types":      {"{type: object, properties: {v: {anyOf: [{type: string, enum: [a]}, {type: integer}]}}}", "v: {type: string, types: [integer]}", ""},
		"a member that cannot be there":   {"{type: object, properties: {m: {type: object, required: [a, b], properties: {a: {type: string}}, additionalProperties: false}}}", "m: {type: object, properties: {a: {type: string, required: true}}}", "weaker"},
		"two formats of a text":           {"{type: object, properties: {d: {anyOf: [{type: string, format: date-time}, {type: string, format: date}]}}}", "d: {type: string, format: date-time}", ""},
		"a format of one variant":         {"{type: object, properties: {d: {anyOf: [{type: string, format: date-time}, {type: string}]}}}", "d: {type: string}", ""},
		"what must be there deep below":   {"{type: object, properties: {a: {type: object, properties: {b: {type: object, required: [x], properties: {x: {type: string}" + many.String() + "}}" + many.String() + "}}}}", "b: {type: object, properties: {x: {type: string, required: true}}}", ""},
		"what may be missing deep below":  {"{type: object, properties: {a: {type: object, properties: {b: {type: object, properties: {x: {type: string}" + many.String() + "}}" + many.String() + "}}}}", "b: {type: object}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := "openapi: 3.0.3\ninfo: {title: Values, version: '1'}\nservers: [{url: 'https://h.example.com'}]\npaths: {" + post(c.schema) + "}\n"
			d, err := openapi.Read("d.yaml", []byte(text), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, files := written(t, d, openapi.Options{Name: "values"})
			got := string(files["values-adapter.md"])
			if !strings.Contains(strings.Join(strings.Fields(got), " "), c.want) {
				t.Errorf("no %s in\n%s", c.want, got)
			}
			if c.not != "" && strings.Contains(got, c.not+" | ") {
				t.Errorf("%s in\n%s", c.not, got)
			}
		})
	}
}

// TestContentTypeThatIsDeclared: Swagger 2.0 lets documents declare Content-Type as a header. Servers that require it get it,
// also with requests that have no body.
func TestContentTypeThatIsDeclared(t *testing.T) {
	const head = "{name: Content-Type, in: header, required: true, type: string"
	for _, c := range [][3]string{
		{"get", head + "}", "request: {headers: {Content-Type: application/json}}"},
		{"get", head + ", enum: [application/vnd.shop+json]}", "request: {headers: {Content-Type: \"application/vnd.shop+json\"}}"},
		{"put", head + ", default: text/plain}", "request: {headers: {Content-Type: text/plain}}"},
		{"put", head + "}, {name: b, in: body, schema: {type: object, properties: {a: {type: string}}}}", "request: {headers: {Content-Type: application/json}}"},
		{"put", "{name: Content-Type, in: header, type: string}", ""},
	} {
		text := "swagger: '2.0'\ninfo: {title: Types, version: '1'}\nhost: h.example.com\nschemes: [https]\npaths: {/x: {" + c[0] + ": {parameters: [" + strings.TrimSuffix(c[1], "}") + "}], responses: {'200': {description: x}}}}}\n"
		d, err := openapi.Read("d.yaml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, files := written(t, d, openapi.Options{Name: "types"})
		if got := string(files["types-adapter.md"]); c[2] != "" && !strings.Contains(got, c[2]) || c[2] == "" && strings.Contains(got, "headers:") {
			t.Errorf("%v\n%s", c, got)
		}
	}
}
