package adapterrt

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// longest, longer and other have more than 64 characters; they differ only in their middle and at their end.
const (
	longest = "the_configuration_of_the_notifications_about_incoming_repository_events_for_administrators_enabled"
	longer  = "the_configuration_of_the_notifications_about_incoming_repository_events_for_applications_enabled"
	other   = "theConfigurationOfTheNotificationsAboutIncomingRepositoryEventsForAdministrators.enabled"
)

var named = `
create:
  - name: make
    maps_to: POST /things
    description: Make
    params:
      ` + longest + `: {type: string, wire_name: ` + other + `, required: true, description: ` + strings.Repeat("word ", 40) + `}
      ` + longer + `: {type: string}
      plain: {type: string}
      inner:
        type: array
        items:
          type: object
          properties:
            "@odata.type": {type: string, required: true, description: The type}
            "odata.type": {type: string}
            "$ref": {type: string}
            "größe": {type: integer}
            "名前": {type: string}
            "a b": {type: object, properties: {` + longest + `: {type: string}, ` + longer + `: {type: string}}}
update:
  - name: change
    maps_to: PATCH /things
    description: Change
    params: {` + longer + `: {type: string}}
`

// schemaOf returns the input schema of a tool.
func schemaOf(t *testing.T, rt *Runtime, tool string) map[string]any {
	t.Helper()
	for _, e := range rt.Tools("") {
		if e.Name == tool {
			var x struct{ InputSchema map[string]any }
			if err := json.Unmarshal(e.JSON, &x); err != nil {
				t.Fatal(err)
			}
			return x.InputSchema
		}
	}
	t.Fatalf("no tool %s", tool)
	return nil
}

// propertiesOf returns the properties at a path of a schema.
func propertiesOf(schema map[string]any, path ...string) map[string]any {
	for _, name := range path {
		schema, _ = schema[name].(map[string]any)
	}
	p, _ := schema["properties"].(map[string]any)
	return p
}

// TestNamesThatProvidersAccept: the keys of a tool's input schema are ^[a-zA-Z0-9_.-]{1,64}$ at every depth, since providers
// of models refuse a whole list of tools otherwise. They are the same at each start, and the description has the name that is sent.
func TestNamesThatProvidersAccept(t *testing.T) {
	opt := Options{Shown: Shown{Mode: present.Discrete}}
	rt := one(t, opt, "https://h.example.com", named)
	schema := schemaOf(t, rt, "make")
	valid := regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	var check func(v any, at string)
	check = func(v any, at string) {
		switch v := v.(type) {
		case map[string]any:
			if p, ok := v["properties"].(map[string]any); ok {
				for name := range p {
					if !valid.MatchString(name) {
						t.Errorf("%s has %q", at, name)
					}
				}
				required, _ := v["required"].([]any)
				for _, r := range required {
					if p[r.(string)] == nil {
						t.Errorf("%s requires %q, which it has not", at, r)
					}
				}
			}
			for k, w := range v {
				check(w, at+"."+k)
			}
		case []any:
			for _, w := range v {
				check(w, at+"[]")
			}
		}
	}
	check(schema, "schema")
	p := propertiesOf(schema)
	if len(p) != 4 || p["plain"] == nil || p["inner"] == nil {
		t.Fatalf("properties: %v", p)
	}
	says := func(p map[string]any, name, sent string) {
		t.Helper()
		d, _ := p[name].(map[string]any)
		if text, _ := d["description"].(string); !strings.Contains(text, sent) {
			t.Errorf("%s does not say that it is sent as %s: %q", name, sent, text)
		}
	}
	for name, d := range p {
		if name != "plain" && name != "inner" && !strings.Contains(d.(map[string]any)["description"].(string), other) && !strings.Contains(d.(map[string]any)["description"].(string), longer) {
			t.Errorf("%s: %v", name, d)
		}
	}
	inner := propertiesOf(schema, "properties", "inner", "items")
	if len(inner) != 6 || inner["odata.type"] == nil || inner["ref"] == nil {
		t.Errorf("members: %v", inner)
	}
	says(inner, "ref", "$ref")
	if d := inner["odata.type"].(map[string]any); d["description"] != nil {
		t.Errorf("a name that is valid has moved: %v", d)
	}
	again := schemaOf(t, one(t, opt, "https://h.example.com", named), "make")
	x, _ := json.Marshal(schema)
	if y, _ := json.Marshal(again); string(x) != string(y) {
		t.Errorf("another start has other names:\n%s\n%s", x, y)
	}
}

// keyFor returns the property whose description names what is sent.
func keyFor(t *testing.T, p map[string]any, sent string) string {
	t.Helper()
	for name, d := range p {
		if text, _ := d.(map[string]any)["description"].(string); strings.Contains(text, "sent as "+sent+")") {
			return name
		}
	}
	t.Fatalf("no property is sent as %s: %v", sent, p)
	return ""
}

// TestBothNamesAreAccepted: what is sent has the API's names, whichever a model uses.
func TestBothNamesAreAccepted(t *testing.T) {
	rt := one(t, Options{Shown: Shown{Mode: present.Discrete}}, "https://h.example.com", named)
	sent := capture(rt, `{}`)
	p := propertiesOf(schemaOf(t, rt, "make"))
	inner := propertiesOf(schemaOf(t, rt, "make"), "properties", "inner", "items")
	deep := propertiesOf(map[string]any{"x": inner[keyFor(t, inner, "a b")]}, "x")
	a, b, typ, size := keyFor(t, p, other), keyFor(t, p, longer), keyFor(t, inner, "@odata.type"), keyFor(t, inner, "größe")
	call := func(tool, args string) string {
		r, ok := rt.CallTool(context.Background(), tool, &Request{Body: []byte(args)})
		if !ok {
			t.Fatal("no such tool")
		}
		return string(r.JSON())
	}
	members := `"inner":[{"` + typ + `":"t","odata.type":"u","` + size + `":1,"free \u0061":[1],"` + keyFor(t, inner, "a b") + `":{"` + keyFor(t, deep, longer) + `":"x","` + longest + `":"y"}},{"@odata.type":"v"}]`
	body := `"inner":[{"@odata.type":"t","odata.type":"u","größe":1,"free a":[1],"a b":{"` + longer + `":"x","` + longest + `":"y"}},{"@odata.type":"v"}]`
	for _, c := range []struct{ tool, args, want string }{
		{"make", `{"` + a + `":"1","` + b + `":"2","plain":"3"}`, `{"` + other + `":"1","` + longer + `":"2","plain":"3"}`},
		{"make", `{"` + longest + `":"1","` + longer + `":"2"}`, `{"` + other + `":"1","` + longer + `":"2"}`},
		{"make", `{"` + other + `":"1"}`, `{"` + other + `":"1"}`},
		{"make", `{"` + a + `":"1",` + members + `}`, `{"` + other + `":"1",` + body + `}`},
		{"make", ` { "` + a + `" : "1" , "inner" : [ ] } `, `{"` + other + `":"1","inner":[]}`},
		{"change", `{"input":{"` + keyFor(t, propertiesOf(schemaOf(t, rt, "change")), longer) + `":"1"}}`, `{"` + longer + `":"1"}`},
	} {
		n := len(*sent)
		got := call(c.tool, c.args)
		if len(*sent) != n+1 {
			t.Errorf("%s\n was not sent: %s", c.args, got)
		} else if text := (*sent)[n].body; text != c.want {
			t.Errorf("%s\n sent %s\n want %s", c.args, text, c.want)
		}
	}
	n := len(*sent)
	for _, args := range []string{`{"` + a + `":"1","` + longest + `":"2"}`, `{"` + a + `":"1","inner":[{"@odata.type":"1","` + typ + `":"2"}]}`} {
		if got := call("make", args); len(*sent) != n || !strings.Contains(got, "twice") {
			t.Errorf("%s\n is a value under two names: %s", args, got)
		}
	}
	for _, args := range []string{`[]`, `1`, `{"plain":1}`, `{`} {
		if got := call("make", args); len(*sent) != n || !strings.Contains(got, `"success":false`) {
			t.Errorf("%s: %s", args, got)
		}
	}
}

// TestPatternsInSchemas: clients compile the patterns of schemas with the flag u, and some lose all tools if one is not valid.
func TestPatternsInSchemas(t *testing.T) {
	rt := one(t, Options{Shown: Shown{Mode: present.Discrete}}, "https://h.example.com", `
create:
  - name: make
    maps_to: POST /things
    description: Make
    params:
      kept: {type: string, pattern: '^[\w.-]+$'}
      rewritten: {type: string, pattern: '^[\w-.\_]{1,3}\@$'}
      left: {type: string, description: A word, pattern: '(?i)^\p{Lu}+$'}
      deep: {type: object, properties: {a: {type: array, items: {type: string, pattern: '^\-$'}}}}
    response: {schema: {type: object, properties: {a: {type: string, pattern: '^\-$'}}}}
`)
	p := propertiesOf(schemaOf(t, rt, "make"))
	for name, want := range map[string]string{
		"kept": `map[pattern:^[\w.-]+$ type:string]`, "rewritten": `map[pattern:^[\w\-._]{1,3}@$ type:string]`,
		"left": `map[description:A word (pattern, in RE2 syntax: (?i)^\p{Lu}+$) type:string]`,
		"deep": `map[properties:map[a:map[items:map[pattern:^-$ type:string] type:array]] type:object]`,
	} {
		if got := fmt.Sprint(p[name]); got != want {
			t.Errorf("%s\n got  %s\n want %s", name, got, want)
		}
	}
	i := slices.IndexFunc(rt.Tools(""), func(e Tool) bool { return e.Name == "make" })
	if entry := string(rt.Tools("")[i].JSON); strings.Contains(entry, `"^\\-$"`) {
		t.Errorf("outputSchema: %s", entry)
	}
}
