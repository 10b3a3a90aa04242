package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/transform/tree"
)

// schemaCase is a schema and a value that it describes.
type schemaCase struct{ schema, value string }

// genCase generates a schema as a server would list it, and a value as the
// server would return it.
func genCase(depth int) *rapid.Generator[schemaCase] {
	return rapid.Custom(func(t *rapid.T) schemaCase {
		kind := rapid.IntRange(0, 12).Draw(t, "kind")
		if depth <= 0 {
			kind = 6 + kind%6
		}
		switch kind {
		case 0, 1, 2, 3:
			var schemas, members, required []string
			for _, n := range rapid.SliceOfNDistinct(genName(), 0, 5, rapid.ID).Draw(t, "names") {
				c := genCase(depth-1).Draw(t, "member")
				schemas = append(schemas, string(quoted(n))+":"+c.schema)
				members = append(members, string(quoted(n))+":"+c.value)
				if rapid.Bool().Draw(t, "required") {
					required = append(required, string(quoted(n)))
				}
			}
			extra := rapid.SampledFrom([]string{"", `,"additionalProperties":false`, `,"minProperties":` + fmt.Sprint(len(members)), `,"maxProperties":` + fmt.Sprint(len(members)),
				`,"patternProperties":{"^":{"maxLength":1000000}}`, `,"unevaluatedProperties":false`, `,"propertyNames":{"maxLength":4}`}).Draw(t, "extra")
			if strings.Contains(extra, "propertyNames") {
				extra = ""
			}
			typ := rapid.SampledFrom([]string{`"object"`, `["object","null"]`}).Draw(t, "type")
			return schemaCase{
				`{"type":` + typ + `,"properties":{` + strings.Join(schemas, ",") + `},"required":[` + strings.Join(required, ",") + `]` + extra + `}`,
				`{` + strings.Join(members, ",") + `}`,
			}
		case 4, 5:
			c := genCase(depth-1).Draw(t, "element")
			n := min(rapid.IntRange(0, 60).Draw(t, "length"), 1+(1<<20)/len(c.value)) // lists in lists grow to hundreds of megabytes
			extra := rapid.SampledFrom([]string{"", fmt.Sprintf(`,"minItems":%d`, n/2), `,"prefixItems":[` + c.schema + `]`, `,"contains":` + c.schema}).Draw(t, "extra")
			if n == 0 && strings.Contains(extra, "contains") {
				extra = ""
			}
			return schemaCase{`{"items":` + c.schema + extra + `}`, `[` + strings.TrimSuffix(strings.Repeat(c.value+",", n), ",") + `]`}
		case 6, 7, 8:
			text := rapid.SampledFrom([]string{"", "x", "word ", "👨‍👩‍👧‍👦 e\u0301 "}).Draw(t, "text")
			text = strings.Repeat(text, rapid.IntRange(0, 100).Draw(t, "times"))
			n := len([]rune(text))
			extra := rapid.SampledFrom([]string{"", fmt.Sprintf(`,"minLength":%d`, n/2), fmt.Sprintf(`,"maxLength":%d`, n), `,"const":` + string(quoted(text)),
				`,"enum":["other",` + string(quoted(text)) + `]`, `,"pattern":"^` + text + `$"`}).Draw(t, "extra")
			return schemaCase{`{"type":"string"` + extra + `}`, string(quoted(text))}
		case 9:
			return schemaCase{`{"type":["number","null"]}`, rapid.SampledFrom([]string{"1.50", "null", "12345678901234567890"}).Draw(t, "number")}
		case 10:
			return schemaCase{`{"type":"array","items":{"type":"string"}}`, `[` + strings.TrimSuffix(strings.Repeat(`"some text that is long enough to be shortened, which takes more than sixty characters",`, rapid.IntRange(0, 30).Draw(t, "texts")), ",") + `]`}
		case 11:
			return rapid.SampledFrom([]schemaCase{{`true`, `null`}, {`{}`, `{"a":[1,2,{"b":""}]}`}, {`{"type":"null"}`, `null`}, {`{"$ref":"#/$defs/text"}`, `"` + strings.Repeat("refer ", 50) + `"`}}).Draw(t, "small")
		}
		c := genCase(depth-1).Draw(t, "choice")
		return schemaCase{rapid.SampledFrom([]string{`{"anyOf":[` + c.schema + `,{"type":"null"}]}`, `{"oneOf":[{"type":"boolean"},` + c.schema + `]}`, `{"allOf":[` + c.schema + `,{}]}`, `{"not":{"type":"boolean"},"allOf":[` + c.schema + `]}`,
			`{"if":` + c.schema + `,"else":false}`}).Draw(t, "how"), c.value}
	})
}

func compileSchema(t fatal, text string) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", doc); err != nil {
		t.Fatalf("%v", err)
	}
	s, err := c.Compile("s.json")
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return s
}

func valid(t fatal, s *jsonschema.Schema, text []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return s.Validate(v)
}

func TestTransformedResultsFitTheOutputSchema(t *testing.T) {
	e := engine(t, `
transform:
  rules:
    - {match: {tool: paged}, page_size: 3, truncate: {title: {max: 20}, "*": {max: 60, strategy: middle}}}
    - {match: {tool: derived}, output_schema: derive, exclude_fields: [title, "*.a"], page_size: 3}
    - {match: {tool: included}, output_schema: derive, include_fields: [id, "items.b", "a.*.c"]}
`)
	rapid.Check(t, func(t *rapid.T) {
		c := genCase(4).Draw(t, "case")
		schema := `{"type":"object","properties":{"v":` + c.schema + `,"title":{"type":"string"}},"required":["v"],"$defs":{"text":{"type":"string"}}}`
		value := `{"v":` + c.value + `,"title":"` + strings.Repeat("long ", 100) + `"}`
		s := compileSchema(t, schema)
		if err := valid(t, s, []byte(value)); err != nil {
			return // "one of" may mean two of them
		}
		tool := rapid.SampledFrom([]string{"x", "paged", "derived", "included"}).Draw(t, "tool")
		in := []byte(`{"content":[{"type":"text","text":` + string(quoted(value)) + `}],"structuredContent":` + value + `}`)
		listed, err := e.ListTool(nil, "", []byte(`{"name":"`+tool+`","outputSchema":`+schema+`}`))
		if err != nil {
			t.Fatal(err)
		}
		s = compileSchema(t, string(tree.Member(listed, "outputSchema")))
		out, r := e.Apply(nil, in, &Call{Tool: tool, Schemas: Seen, Schema: []byte(schema), MaxTokens: 100})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		p := parse(t, out)
		if p.StructuredContent == nil {
			t.Fatalf("the structured content went: %s", out)
		}
		if err := valid(t, s, p.StructuredContent); err != nil {
			t.Fatalf("I3: %v\nschema %s\nvalue  %s\nbecame %s", err, schema, value, p.StructuredContent)
		}
		if n := p.count(e.encoding); n > 100 && !r.OverBudget {
			t.Fatalf("I5: %d tokens and OverBudget is false: %s", n, out)
		}
	})
}

func TestARequiredSchemaMayExceedTheBudget(t *testing.T) {
	schema := []byte(`{"type":"object","properties":{"text":{"type":"string","pattern":"^x"}},"required":["text"]}`)
	value := `{"text":"x` + strings.Repeat(" word", 1000) + `"}`
	in := []byte(`{"content":[{"type":"text","text":` + string(quoted(value)) + `}],"structuredContent":` + value + `}`)
	call := &Call{Tool: "x", Schemas: Seen, Schema: schema, MaxTokens: 500}

	out, r := engine(t, "transform: {}").Apply(nil, in, call)
	if p := parse(t, out); !r.OverBudget || string(p.StructuredContent) != value || !strings.Contains(string(p.Meta[ownMeta]), `"over_budget":true`) || len(out) > len(in)-len(value)/2 {
		t.Errorf("%v: %.300s", r.OverBudget, out)
	}
	out, r = engine(t, "transform: {rules: [{on_conflict: error}]}").Apply(nil, in, call)
	p := parse(t, out)
	if p.IsError == nil || p.StructuredContent != nil || p.count(engine(t, "transform: {}").encoding) > 500 || r.Cursor == "" || !strings.Contains(*p.Content[0].Text, r.Cursor) {
		t.Errorf("%s", out)
	}
	call.Schemas = Unknown
	out, r = engine(t, "transform: {}").Apply(nil, in, call)
	if p := parse(t, out); string(p.StructuredContent) != value || !r.OverBudget {
		t.Errorf("of a tool that was not listed: %s", out)
	}
}

func TestCappedResultsAreResultsOfEveryRevision(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "translate", "testdata", "schema", revision+".json"))
			if err != nil {
				t.Fatal(err)
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			defs := "$defs"
			if _, ok := doc.(map[string]any)[defs]; !ok {
				defs = "definitions"
			}
			c := jsonschema.NewCompiler()
			if err := c.AddResource("mcp.json", doc); err != nil {
				t.Fatal(err)
			}
			e := engine(t, `transform: {cap_resources: true, cap_prompts: true, rules: [{match: {tool: p}, page_size: 3, max_chars: 300}]}`)
			long := string(quoted(issues(200)))
			extra := ""
			if revision == "2026-07-28" {
				extra = `"resultType":"complete","ttlMs":0,"cacheScope":"private",`
			}
			for _, x := range []struct{ name, method, tool, in string }{
				{"CallToolResult", "tools/call", "x", `{` + extra + `"content":[{"type":"text","text":` + long + `},{"type":"image","data":"aGVsbG8=","mimeType":"image/png"},{"type":"resource","resource":{"uri":"a:b","text":` + long + `}}]}`},
				{"CallToolResult", "tools/call", "p", `{` + extra + `"content":[{"type":"text","text":` + long + `},{"type":"text","text":"more"}],"isError":false}`},
				{"ReadResourceResult", "resources/read", "", `{` + extra + `"contents":[{"uri":"a:b","mimeType":"application/json","text":` + long + `},{"uri":"c:d","blob":"aGVsbG8="}]}`},
				{"GetPromptResult", "prompts/get", "", `{` + extra + `"messages":[{"role":"user","content":{"type":"text","text":` + long + `}},{"role":"assistant","content":{"type":"text","text":` + long + `}}]}`},
			} {
				s, err := c.Compile("mcp.json#/" + defs + "/" + x.name)
				if err != nil {
					t.Fatal(err)
				}
				if err := valid(t, s, []byte(x.in)); err != nil {
					t.Fatalf("the test's own %s: %v", x.name, err)
				}
				out, r := e.Apply(nil, []byte(x.in), &Call{Tool: x.tool, Method: x.method, Schemas: None, MaxTokens: 500})
				if err := valid(t, s, out); err != nil || r.Outcome == Passed || r.Err != nil {
					t.Errorf("I1: %s: %v, %v: %s", x.name, err, r.Outcome, out)
				}
			}
		})
	}
}

func TestListedOutputSchemasFitTheResults(t *testing.T) {
	e := engine(t, `
transform:
  rules:
    - {match: {tool: stripped}, include_fields: [a]}
    - {match: {tool: kept}, include_fields: [a], output_schema: keep}
    - {match: {tool: derived}, exclude_fields: [a], output_schema: derive}
    - {match: {tool: paged}, page_size: 3}
`)
	const schema = `{"type":"object","required":["a"],"properties":{"a":{"type":"object","required":["b"]}}}`
	for name, want := range map[string]string{
		"stripped": `{"name":"stripped","x":1}`, "paged": "", "other": "", "kept": "",
		"derived": `{"name":"derived","outputSchema":{"type":"object","properties":{"a":{"type":"object"}}},"x":1}`,
	} {
		in := []byte(`{"name":"` + name + `", "outputSchema": ` + schema + `, "x": 1}`)
		if want == "" {
			want = string(in)
		}
		out, err := e.ListTool(nil, "", in)
		if string(out) != want || !json.Valid(out) || (err != nil) != (name == "kept") {
			t.Errorf("%s\n got  %s, %v\n want %s", name, out, err, want)
		}
		if err != nil && (!strings.Contains(err.Error(), "kept") || !strings.Contains(err.Error(), "line 5")) {
			t.Error(err)
		}
	}
}

// TestALargerBudgetKeepsNoLessText checks that the text that
// repeats the structured content has its share of the budget, even if its
// preview takes less.
func TestALargerBudgetKeepsNoLessText(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	var members []string
	for i := range 30 {
		members = append(members, fmt.Sprintf(`"m%d":"%s"`, i, strings.Repeat("word ", 1+i%7)))
	}
	value := `{"title":"` + strings.Repeat("long ", 20) + `",` + strings.Join(members, ",") + `}`
	in := []byte(`{"content":[{"type":"text","text":` + string(quoted(value)) + `}],"structuredContent":` + value + `}`)
	e, err := New(DefaultConfig(), Options{Keys: [][]byte{make([]byte, 32)}}) // handles cost the same each time
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for _, budgets := range [][2]int{{100, 183}, {184, 300}} { // in each the notice is as long
		most = 0
		for budget := budgets[0]; budget <= budgets[1]; budget++ {
			out, r := e.Apply(nil, in, &Call{Tool: "x", Schemas: Seen, Schema: []byte(`{"type":"object"}`), MaxTokens: budget})
			p := parse(t, out)
			if n := p.count(e.encoding); n > budget || n != r.TokensAfter {
				t.Fatalf("%d tokens for %d, said to be %d", n, budget, r.TokensAfter)
			}
			kept := strings.Count(string(p.StructuredContent), `":"`)
			if kept < most {
				t.Errorf("%d members at %d tokens, %d at fewer", kept, budget, most)
			}
			most = max(most, kept)
		}
	}
	if most < 18 {
		t.Errorf("at most %d members", most)
	}
}
