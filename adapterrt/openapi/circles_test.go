package openapi_test

import (
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestSchemasInsideThemselves: what a schema that contains itself holds is described once, with its types where it comes again,
// and a finding says so. A schema that only occurs twice is described twice.
func TestSchemasInsideThemselves(t *testing.T) {
	const circle = "weaker | a schema contains itself: what is in it again is not described"
	for name, c := range map[string]struct {
		body, schemas, want string
		finding             bool
	}{
		"a tree": {"{$ref: '#/components/schemas/Tree'}", "Tree: {type: object, properties: {name: {type: string}, kids: {type: array, items: {$ref: '#/components/schemas/Tree'}}}}",
			"kids: {type: array, items: {type: object}}", true},
		"through another": {"{$ref: '#/components/schemas/A'}", "A: {type: object, properties: {b: {$ref: '#/components/schemas/B'}}}, B: {type: object, properties: {a: {$ref: '#/components/schemas/A'}}}",
			"b: {type: object, properties: {a: {type: object}}}", true},
		"a type that is an object or a text": {"{type: object, properties: {of: {$ref: '#/components/schemas/Type'}}}",
			"Type: {oneOf: [{type: string}, {$ref: '#/components/schemas/List'}]}, List: {type: object, properties: {element: {$ref: '#/components/schemas/Type'}}}",
			"element: {type: string, types: [object]}", true},
		"a variant inside another variant": {"{type: object, properties: {key: {oneOf: [{$ref: '#/components/schemas/Key'}, {$ref: '#/components/schemas/Pair'}]}}}",
			"Key: {oneOf: [{type: string}, {type: integer}]}, Pair: {type: object, properties: {target: {$ref: '#/components/schemas/Key'}}}",
			"target: {type: string, types: [integer]}", false},
		"an object that occurs twice": {"{type: object, properties: {key: {anyOf: [{$ref: '#/components/schemas/Flat'}, {type: object, properties: {flat: {$ref: '#/components/schemas/Flat'}}}]}}}",
			"Flat: {type: object, properties: {a: {type: string}}}",
			"flat: {type: object, properties: {a: {type: string}}}", false},
		"a base that lists its variants": {"{$ref: '#/components/schemas/Pet'}",
			"Pet: {type: object, properties: {tag: {type: string}}, oneOf: [{$ref: '#/components/schemas/Cat'}]}, Cat: {type: object, allOf: [{$ref: '#/components/schemas/Pet'}], properties: {claws: {type: integer}}}",
			"claws: {type: integer}", false},
	} {
		t.Run(name, func(t *testing.T) {
			text := "openapi: 3.0.3\ninfo: {title: Circles, version: '1'}\nservers: [{url: 'https://h.example.com'}]\npaths: {" + post(c.body) + "}\ncomponents: {schemas: {" + c.schemas + "}}\n"
			d, err := openapi.Read("d.yaml", []byte(text), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, files := written(t, d, openapi.Options{Name: "circles"})
			got := string(files["circles-adapter.md"])
			if !strings.Contains(got, c.want) {
				t.Errorf("no %s in\n%s", c.want, got)
			}
			if strings.Contains(got, circle) != c.finding {
				t.Errorf("the finding is wanted: %v\n%s", c.finding, got)
			}
		})
	}
}
