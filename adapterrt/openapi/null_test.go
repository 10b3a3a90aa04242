package openapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestNullInUpdates: an update takes null where its document allows it, at any depth, and nowhere else. Elsewhere null means the same as
// no value, and is not in the schema of what is optional.
func TestNullInUpdates(t *testing.T) {
	for version, members := range map[string]string{
		"3.0.0": `a: {type: string}, b: {type: string, nullable: true}, c: {type: string, nullable: true, enum: [x, null]}, d: {type: object, properties: {e: {type: integer, nullable: true}, f: {type: integer}}}, g: {allOf: [{$ref: '#/components/schemas/G'}], nullable: true}, h: {$ref: '#/components/schemas/H'}`,
		"3.1.0": `a: {type: string}, b: {type: [string, 'null']}, c: {type: [string, 'null'], enum: [x, null]}, d: {type: object, properties: {e: {type: [integer, 'null']}, f: {type: integer}}}, g: {anyOf: [{$ref: '#/components/schemas/G'}, {type: 'null'}]}, h: {oneOf: [{type: 'null'}, {type: number}]}`,
	} {
		for _, method := range []string{"patch", "put", "post"} {
			text := strings.Replace(document("/x: {"+method+": {operationId: x, requestBody: {content: {application/json: {schema: {type: object, properties: {"+members+"}}}}}}}",
				"G: {type: object, properties: {z: {type: string}}}, H: {type: number, nullable: true}"), "3.0.0", version, 1)
			a, problems := file.Parse("", importOf(t, text).Files[0].Front(), &file.Options{})
			if a == nil {
				t.Fatal(problems)
			}
			var got []string
			for _, p := range a.Operations[0].Params {
				if p.Also&file.AlsoNull != 0 {
					got = append(got, p.Name)
				}
				if p.Properties != nil {
					for _, e := range *p.Properties {
						if e.Also&file.AlsoNull != 0 {
							got = append(got, p.Name+"."+e.Name)
						}
					}
				}
			}
			want := []string{"b", "c", "d.e", "g", "h"}
			if version == "3.0.0" { // there, nullable without a type beside it allows nothing
				want = []string{"b", "c", "d.e", "h"}
			}
			if method == "post" {
				want = nil
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s %s: %s", version, method, d)
			}
		}
	}
	const swagger = `{"swagger": "2.0", "info": {"title": "T", "version": "1"}, "host": "h.example.com", "paths": {"/x": {"patch": {"operationId": "x", "parameters": [
		{"in": "body", "name": "b", "schema": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "x-nullable": true}}}}]}}}}`
	front := string(importOf(t, swagger).Files[0].Front())
	if !strings.Contains(front, "a: {type: string}") || !strings.Contains(front, `b: {type: string, types: ["null"]}`) {
		t.Error(front)
	}
}

// TestOnlyNull: adapter files cannot say that a value is null and nothing else, which is told. What may be null beside other values is none.
func TestOnlyNull(t *testing.T) {
	for schema, want := range map[string]bool{
		"{type: 'null'}":   true,
		"{type: ['null']}": true,
		"{enum: [null]}":   true,
		"{const: null}":    true,
		"{oneOf: [{type: 'null'}, {enum: [null]}]}":   true,
		"{allOf: [{type: 'null'}, {description: x}]}": true,
		"{type: array, items: {type: 'null'}}":        true,
		"{$ref: '#/components/schemas/N'}":            true,
		"{}":                                          false,
		"{nullable: true}":                            false,
		"{type: [string, 'null']}":                    false,
		"{enum: [x, null]}":                           false,
		"{anyOf: [{type: 'null'}, {type: string}]}":   false,
		"{oneOf: [{type: 'null'}, {}]}":               false,
		"{allOf: [{type: 'null'}, {type: string}]}":   false,
	} {
		text := strings.Replace(document(post("{type: object, properties: {a: "+schema+"}}"), "N: {type: 'null'}"), "3.0.0", "3.1.0", 1)
		in := importOf(t, text)
		if got := slices.ContainsFunc(in.Findings, func(f openapi.Finding) bool { return f.What == "values that can only be null may be any" }); got != want {
			t.Errorf("%s: told %v, want %v: %v", schema, got, want, in.Findings)
		}
	}
}
