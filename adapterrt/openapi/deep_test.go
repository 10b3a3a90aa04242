package openapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestNeededMembersAreDescribedDeep: what an object must have, and what a map holds, is described deeper than other members, because
// the API refuses the whole without it. It costs other members no depth.
func TestNeededMembersAreDescribedDeep(t *testing.T) {
	const side = "{type: object, required: [box], properties: {note: {type: string}, box: {type: object, required: [image], properties: {image: {type: string}, size: {type: integer}}}}}"
	const deep = "{type: object, properties: {b: {type: object, properties: {c: {type: object, properties: {d: {type: object, required: [side], properties: {side: " + side + "}}," +
		" e: {type: object, additionalProperties: {type: integer}}, f: {type: object, properties: {g: {type: object, additionalProperties: {type: array, items: {type: object, required: [h], properties: {h: {type: boolean}, i: {type: string}}}}}}}}}}}}}"
	var wide strings.Builder // so many that all are described to fewer levels
	for i := range 20 {
		fmt.Fprintf(&wide, ", m%d: {type: object, properties: {", i)
		for k := range 10 {
			fmt.Fprintf(&wide, "n%d: {type: object, properties: {o: {type: string}, p: {type: string}}}, ", k)
		}
		wide.WriteString("}}")
	}
	const box = `{"properties":{"image":{"type":"string"}},"required":["image"],"type":"object"}`
	for _, c := range []struct{ members, path, want string }{
		{"a: " + deep, "a b c d side", `{"properties":{"box":` + box + `},"required":["box"],"type":"object"}`},
		{"a: " + deep, "a b c e", `{"additionalProperties":{"type":"integer"},"type":"object"}`},
		{"a: " + deep, "a b c f g", `{"additionalProperties":{"items":{"properties":{"h":{"type":"boolean"}},"required":["h"],"type":"object"},"type":"array"},"type":"object"}`},
		{"a: {type: object, properties: {b: {type: object, required: [c], properties: {c: {type: object, required: [side], properties: {side: " + side + "}}, x: {type: string}}}, e: {type: object, additionalProperties: {type: integer}}}}" + wide.String(),
			"a", `{"properties":{"b":{"properties":{"c":{"properties":{"side":{"properties":{"box":` + box + `},"required":["box"],"type":"object"}},"required":["side"],"type":"object"}},"required":["c"],"type":"object"},` +
				`"e":{"additionalProperties":{"type":"integer"},"type":"object"}},"type":"object"}`},
	} {
		schema, _, _ := zoo(t, func(server string) string {
			return documentFor("3.0.3", server, "{type: object, properties: {"+c.members+"}}", "")
		})
		var path []string
		for _, name := range strings.Fields(c.path) {
			path = append(path, "properties", name)
		}
		if got, _ := json.Marshal(at(schema, path...)); string(got) != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.path, got, c.want)
		}
	}
}

// TestDeepMembersAreBounded: objects that must have many members, which must have many, do not make a huge file.
func TestDeepMembersAreBounded(t *testing.T) {
	var schemas strings.Builder
	for level := range 7 {
		var members, names []string
		for i := range 8 {
			members = append(members, fmt.Sprintf("m%d: {$ref: '#/BASE/S%d'}", i, level+1))
			names = append(names, fmt.Sprintf("m%d", i))
		}
		fmt.Fprintf(&schemas, "S%d: {type: object, required: [%s], properties: {%s}}, ", level, strings.Join(names, ", "), strings.Join(members, ", "))
	}
	schemas.WriteString("S7: {type: string}")
	got, _, _ := zoo(t, func(server string) string {
		return documentFor("3.0.3", server, "{type: object, properties: {a: {$ref: '#/components/schemas/S0'}}}", schemas.String())
	})
	if text, _ := json.Marshal(got); len(text) > 100_000 {
		t.Errorf("the schema has %d bytes", len(text))
	} else {
		t.Logf("%d bytes", len(text))
	}
}
