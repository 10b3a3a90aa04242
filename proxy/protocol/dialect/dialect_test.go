package dialect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	draft07 = `"$schema":"http://json-schema.org/draft-07/schema#"`
	before  = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","inputSchema":`
	behind  = `,"annotations":{"title":"$schema draft-07"}}],"nextCursor":"draft-07"}}`
)

// updated returns the updated schema of a tool.
func updated(t testing.TB, schema string) string {
	t.Helper()
	out, _ := Update([]byte(before + schema + behind))
	return inside(t, string(out))
}

func inside(t testing.TB, list string) string {
	t.Helper()
	rest, ok := strings.CutPrefix(list, before)
	schema, ok2 := strings.CutSuffix(rest, behind)
	if !ok || !ok2 {
		t.Fatalf("more than the schema has changed: %s", list)
	}
	return schema
}

// TestDraft07KeywordsAreUpdated has an example for each thing that 2020-12 expresses otherwise or has
// removed.
func TestDraft07KeywordsAreUpdated(t *testing.T) {
	for _, c := range []struct{ what, in, want string }{
		{"$schema", `{"type":"object",` + draft07 + `,"properties":{}}`, `{"type":"object","properties":{}}`},
		{"$schema alone", `{` + draft07 + `}`, `{}`},
		{"$schema over https", `{"$schema":"https://json-schema.org/draft-07/schema","type":"object"}`, `{"type":"object"}`},
		{"$schema with escapes", `{"\u0024schema":"http:\/\/json-schema.org\/draft-07\/schema#","type":"object"}`, `{"type":"object"}`},
		{"$schema further in", `{` + draft07 + `,"properties":{"a":{` + draft07 + `,"items":[{}]}}}`, `{"properties":{"a":{"prefixItems":[{}]}}}`},
		{"another dialect in a subschema", `{` + draft07 + `,"properties":{"a":{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{}]}}}`,
			`{"properties":{"a":{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{}]}}}`},
		{"no list of items", `{` + draft07 + `,"items":{"type":"string"},"additionalItems":false}`, `{"items":{"type":"string"}}`},
		{"additionalItems alone", `{"additionalItems":{"items":[{}]},` + draft07 + `}`, `{}`},
		{"items for all", `{` + draft07 + `,"items":true}`, `{"items":true}`},
		{"a list of items", `{` + draft07 + `,"items":[{"items":[true]},false]}`, `{"prefixItems":[{"prefixItems":[true]},false]}`},
		{"... and others", `{"additionalItems":{"items":[{}]}, ` + draft07 + ` ,"items" : [{}] }`, `{"items":{"prefixItems":[{}]} ,"prefixItems" : [{}] }`},
		{"an empty list of items", `{` + draft07 + `,"items":[],"additionalItems":false}`, `{"items":false}`},
		{"dependencies on members", `{` + draft07 + `,"dependencies":{"a":["b"],"c":[]}}`, `{"dependentRequired":{"a":["b"],"c":[]}}`},
		{"dependencies on schemas", `{` + draft07 + `,"dependencies":{"a":{"items":[{}]},"b":true}}`, `{"dependentSchemas":{"a":{"prefixItems":[{}]},"b":true}}`},
		{"dependencies on both", `{` + draft07 + `,"dependencies":{"a":["b"],"c":{"items":[{}]},"d\"":["e"]}}`,
			`{"dependentRequired":{"a":["b"],"d\"":["e"]},"dependentSchemas":{"c":{"prefixItems":[{}]}}}`},
		{"beside $ref", `{` + draft07 + `,"properties":{"a":{"minLength":3,"$ref":"#/definitions/b","enum":[1],"items":[{}]}},"definitions":{"b":{}}}`,
			`{"properties":{"a":{"$ref":"#/definitions/b"}},"definitions":{"b":{}}}`},
		{"description beside $ref", `{` + draft07 + `,"properties":{"a":{"$ref":"#/definitions/b","description":"d","default":{"items":[1]},"x-mcp-header":"A"}}}`,
			`{"properties":{"a":{"$ref":"#/definitions/b","description":"d","default":{"items":[1]},"x-mcp-header":"A"}}}`},
		{"$ref of the whole", `{"$ref":"#/definitions/a","definitions":{"a":{"items":[{}]}},"type":"object","required":["x"],` + draft07 + `}`,
			`{"$ref":"#/definitions/a","definitions":{"a":{"prefixItems":[{}]}},"type":"object"}`},
		{"a property named $ref", `{` + draft07 + `,"properties":{"$ref":{"type":"string"},"items":{"items":[{}]},"$schema":{"const":1}}}`,
			`{"properties":{"$ref":{"type":"string"},"items":{"prefixItems":[{}]},"$schema":{"const":1}}}`},
		{"$ref through a renamed keyword", `{` + draft07 + `,"properties":{"a":{"items":[{"x":1}],"additionalItems":{}},"b":{"$ref":"#/properties/a/items/0"},"c":{"$ref":"#\/properties\/a\/additionalItems"},"items":{"$ref":"#/properties/items/items"},"e":{"$ref":"#/dependencies/items/items/0"}},"dependencies":{"items":{"items":[{}]}}}`,
			`{"properties":{"a":{"prefixItems":[{"x":1}],"items":{}},"b":{"$ref":"#/properties/a/prefixItems/0"},"c":{"$ref":"#/properties/a/items"},"items":{"$ref":"#/properties/items/items"},"e":{"$ref":"#/dependentSchemas/items/prefixItems/0"}},"dependentSchemas":{"items":{"prefixItems":[{}]}}}`},
		{"$ref elsewhere", `{` + draft07 + `,"properties":{"b":{"$ref":"http://x/y#/items/0"}}}`, `{"properties":{"b":{"$ref":"http://x/y#/items/0"}}}`},
		{"$id of a place", `{` + draft07 + `,"definitions":{"a":{"$id":"#here"},"b":{"$id":"http://x/y"},"c":{"$id":"#"}}}`,
			`{"definitions":{"a":{"$anchor":"here"},"b":{"$id":"http://x/y"},"c":{"$id":"#"}}}`},
		{"keywords unknown to draft-07", `{` + draft07 + `,"prefixItems":[{}],"unevaluatedItems":false,"unevaluatedProperties":false,"dependentRequired":{},"dependentSchemas":{},"minContains":2,"maxContains":3,"$anchor":"a","$dynamicRef":"#a","$defs":{"a":{"items":[{}]}}}`,
			`{"$defs":{"a":{"prefixItems":[{}]}}}`},
		{"wherever a schema stands", `{` + draft07 + `,"allOf":[{"items":[0]}],"anyOf":[{"items":[1]}],"oneOf":[{"items":[2]}],"not":{"items":[3]},"if":{"items":[4]},"then":{"items":[5]},"else":{"items":[6]},"contains":{"items":[7]},"propertyNames":{"items":[8]},"additionalProperties":{"items":[9]},"patternProperties":{"^a":{"items":[10]}}}`,
			`{"allOf":[{"prefixItems":[0]}],"anyOf":[{"prefixItems":[1]}],"oneOf":[{"prefixItems":[2]}],"not":{"prefixItems":[3]},"if":{"prefixItems":[4]},"then":{"prefixItems":[5]},"else":{"prefixItems":[6]},"contains":{"prefixItems":[7]},"propertyNames":{"prefixItems":[8]},"additionalProperties":{"prefixItems":[9]},"patternProperties":{"^a":{"prefixItems":[10]}}}`},
		{"data", `{` + draft07 + `,"const":{"items":[{}],` + draft07 + `},"enum":[{"dependencies":{}}],"default":{"$ref":"x","a":1},"examples":[{"additionalItems":1}],"x":{"items":[{}]}}`,
			`{"const":{"items":[{}],` + draft07 + `},"enum":[{"dependencies":{}}],"default":{"$ref":"x","a":1},"examples":[{"additionalItems":1}],"x":{"items":[{}]}}`},
		{"values that are no schemas", `{` + draft07 + `,"items":7,"dependencies":[],"allOf":{},"properties":[{"items":[]}],"$ref":{},"$id":1,"not":null}`,
			`{"items":7,"dependencies":[],"allOf":{},"properties":[{"items":[]}],"$ref":{},"$id":1,"not":null}`},
	} {
		t.Run(c.what, func(t *testing.T) {
			if got := updated(t, c.in); got != c.want {
				t.Errorf("\n in   %s\n got  %s\n want %s", c.in, got, c.want)
			}
			if again := updated(t, c.want); again != c.want {
				t.Errorf("updated twice: %s\n want %s", again, c.want)
			}
		})
	}
}

// TestSchemasOfOtherDialectsAreUnchanged checks that schemas of another dialect, or of none, come back as the same
// bytes.
func TestSchemasOfOtherDialectsAreUnchanged(t *testing.T) {
	for _, list := range []string{
		before + `{"type":"object","items":[{}]}` + behind,
		before + `{"$schema":"https://json-schema.org/draft/2020-12/schema","items":[{}]}` + behind,
		before + `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{` + draft07 + `}}}` + behind,
		before + `{"$schema":["http://json-schema.org/draft-07/schema#"]}` + behind,
		before + `{"$schema":"http://json-schema.org/draft-07/schema#/x"}` + behind,
		before + `true` + behind,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":{"inputSchema":{` + draft07 + `}}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[[{"inputSchema":{` + draft07 + `}}],{"_meta":{"inputSchema":{` + draft07 + `}}}]}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"draft-07"}}`,
		`draft-07`, ``,
	} {
		in := []byte(list)
		out, n := Update(in)
		if n != 0 || len(out) != len(in) || len(in) > 0 && &out[0] != &in[0] {
			t.Errorf("%d schemas of %s: %s", n, list, out)
		}
	}
}

// TestInputAndOutputSchemasAreUpdated checks that output schemas are updated too, and that the tools between
// others stay.
func TestInputAndOutputSchemasAreUpdated(t *testing.T) {
	got, n := Update([]byte(`{"jsonrpc":"2.0","id":"a","result":{"tools":[{"name":"a","inputSchema":{"items":[]}}, {"name":"b","outputSchema":{` + draft07 + `,"items":[{}]},"inputSchema":{` + draft07 + `,"type":"object"}}]}}`))
	want := `{"jsonrpc":"2.0","id":"a","result":{"tools":[{"name":"a","inputSchema":{"items":[]}}, {"name":"b","outputSchema":{"prefixItems":[{}]},"inputSchema":{"type":"object"}}]}}`
	if n != 2 || string(got) != want {
		t.Errorf("%d: %s\n want %s", n, got, want)
	}
}

// TestDeepSchemasAreUpdated updates a schema that is as deep as a message may be.
func TestDeepSchemasAreUpdated(t *testing.T) {
	const depth = 240
	schema := `{` + draft07 + `,"items":` + strings.Repeat(`[{"items":`, depth) + `[{}]` + strings.Repeat(`}]`, depth) + `}`
	if got := updated(t, schema); strings.Count(got, "prefixItems") != depth+1 || strings.Contains(got, `"items"`) || !json.Valid([]byte(got)) {
		t.Errorf("%.200s", got)
	}
	deeper := []byte(before + strings.Repeat(`[`, 600) + strings.Repeat(`]`, 600) + behind)
	if out, n := Update(deeper); n != 0 || &out[0] != &deeper[0] {
		t.Errorf("%.100s", out)
	}
}

func TestNoAllocationWithoutDraft07(t *testing.T) {
	list := []byte(before + `{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema"}` + strings.ReplaceAll(behind, "draft-07", ""))
	if n := testing.AllocsPerRun(100, func() { Update(list) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// schemas draws schemas in which everything that changes occurs, at any place.
func schemas(depth int) *rapid.Generator[any] {
	type object = map[string]any
	return rapid.Custom(func(t *rapid.T) any {
		if depth == 0 || rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
			return rapid.SampledFrom([]any{true, false, object{}, object{"type": "string"}, object{"type": "integer"}}).Draw(t, "leaf")
		}
		one := schemas(depth - 1)
		many := rapid.SliceOfN(one, 1, 3)
		named := func(what any) any { return object{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"): what} }
		s := object{}
		for range rapid.IntRange(1, 4).Draw(t, "members") {
			switch k := rapid.SampledFrom([]string{"items", "list", "additionalItems", "dependencies", "$ref", "$refItem", "properties", "allOf", "anyOf", "not", "contains", "const", "enum",
				"minItems", "minContains", "prefixItems", "unevaluatedProperties", "dependentRequired", "required", "if", "description", "propertyNames"}).Draw(t, "keyword"); k {
			case "list":
				s["items"] = many.Draw(t, k)
			case "allOf", "anyOf", "prefixItems":
				s[k] = many.Draw(t, k)
			case "properties":
				s[k] = named(one.Draw(t, k))
			case "dependencies":
				s[k] = object{"a": one.Draw(t, k), "b": rapid.SampledFrom([]any{[]any{"a"}, []any{}, true, false}).Draw(t, "dependency")}
			case "dependentRequired":
				s[k] = object{"a": []any{"b"}}
			case "$ref":
				s[k] = rapid.SampledFrom([]string{"#/definitions/x", "#/definitions/y", "#here"}).Draw(t, k)
			case "$refItem":
				s["$ref"] = "#/definitions/t/items/0"
			case "const":
				s[k] = object{"items": []any{object{}}, "a": 1.0}
			case "enum":
				s[k] = []any{"x", 1.0, object{"a": 1.0}, []any{"x"}}
			case "minItems", "minContains":
				s[k] = 2.0
			case "required":
				s[k] = []any{"a"}
			case "description":
				s[k] = "draft-07"
			default:
				s[k] = one.Draw(t, k)
			}
		}
		if s["$ref"] != nil { // beside which the library heeds these, as draft-07 does not
			for _, k := range []string{"const", "contains", "propertyNames", "if"} {
				delete(s, k)
			}
		}
		return s
	})
}

func compiled(t rapid.TB, schema string, draft *jsonschema.Draft) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatalf("%v: %s", err, schema)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(draft)
	if err := c.AddResource("s.json", doc); err != nil {
		t.Fatalf("%v: %s", err, schema)
	}
	s, err := c.Compile("s.json")
	if err != nil {
		t.Fatalf("%v: %s", err, schema)
	}
	return s
}

// TestValidStaysValid checks that the updated schema accepts under 2020-12 what the
// schema accepted under draft-07.
func TestValidStaysValid(t *testing.T) {
	values := []string{`"x"`, `1`, `null`, `{}`, `[]`, `["x"]`, `[1]`, `["x",1]`, `[1,"x",[1]]`, `[["x"],["x",1]]`, `{"a":1}`, `{"a":"x"}`, `{"b":1}`, `{"a":["x"],"b":[1,2]}`, `{"items":[{}],"a":1}`}
	rapid.Check(t, func(t *rapid.T) {
		schema := map[string]any{"allOf": []any{schemas(4).Draw(t, "schema")}, "definitions": map[string]any{
			"x": schemas(1).Filter(refless).Draw(t, "x"), "y": map[string]any{"$id": "#here", "type": "string"},
			"t": map[string]any{"items": []any{map[string]any{"type": "integer"}}},
		}, "$schema": "http://json-schema.org/draft-07/schema#"}
		text, err := json.Marshal(schema)
		if err != nil {
			t.Fatal(err)
		}
		out, n := Update([]byte(before + string(text) + behind))
		if n != 1 {
			t.Fatalf("%d schemas: %s", n, text)
		}
		now := strings.TrimSuffix(strings.TrimPrefix(string(out), before), behind)
		old, young := compiled(t, string(text), jsonschema.Draft7), compiled(t, now, jsonschema.Draft2020)
		for _, v := range values {
			value, _ := jsonschema.UnmarshalJSON(strings.NewReader(v))
			if was, is := old.Validate(value), young.Validate(value); (was == nil) != (is == nil) {
				t.Fatalf("%s: %v, now %v\n was %s\n is  %s", v, was, is, text, now)
			}
		}
	})
}

// refless reports whether s contains no reference, which could form a circle within definitions.
func refless(s any) bool {
	text, err := json.Marshal(s)
	return err == nil && !strings.Contains(string(text), "$ref")
}

// FuzzUpdate checks that the result is JSON in which only schemas have changed and no
// data in them, and that it does not change again.
func FuzzUpdate(f *testing.F) {
	for _, s := range []string{`{` + draft07 + `,"items":[{}],"additionalItems":false,"dependencies":{"a":["b"],"c":{}}}`, `{"$ref":"#/definitions/a",` + draft07 + `,"definitions":{"a":{"$id":"#x","const":{"items":[]}}}}`, `{` + draft07 + `,"items":[],"items":{},"\u0069tems":[{}]}`, `7`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, schema string) {
		if !wire.Valid([]byte(schema)) {
			return
		}
		in := before + schema + behind
		out, n := Update([]byte(in))
		if n == 0 {
			if string(out) != in {
				t.Fatalf("changed: %s", out)
			}
			return
		}
		if !json.Valid(out) {
			t.Fatalf("no JSON: %s\n of %s", out, in)
		}
		now := inside(t, string(out))
		if again, n := Update(out); n != 0 && !strings.Contains(now, "draft-07") || n == 0 && string(again) != string(out) {
			t.Fatalf("changed again: %s\n was %s", again, out)
		}
		for _, k := range []string{"const", "enum", "default", "examples"} {
			was, is := gjson.Get(schema, k), gjson.Get(now, k)
			if is.Exists() && is.Raw != was.Raw {
				t.Fatalf("%s was %s, is %s", k, was.Raw, is.Raw)
			}
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	tool := `{"name":"t","inputSchema":{` + draft07 + `,"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}]},"b":{"type":"string","description":"some words about it"}},"additionalProperties":false}}`
	for _, name := range []string{"draft-07", "other"} {
		list := []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + strings.Repeat(tool+",", 29) + tool + `]}}`)
		if name == "other" {
			list = []byte(strings.ReplaceAll(string(list), "draft-07", "draft/2020-12"))
		}
		b.Run(fmt.Sprint(name), func(b *testing.B) {
			b.SetBytes(int64(len(list)))
			b.ReportAllocs()
			for b.Loop() {
				Update(list)
			}
		})
	}
}
