package transform

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// randomRules returns n rules with settings of every kind, for the tools r0, r1 and so on.
func randomRules(n int) string {
	random := rand.New(rand.NewPCG(13, 6))
	settings := []func() string{
		func() string { return fmt.Sprintf("page_size: %d", 1+random.IntN(20)) },
		func() string { return fmt.Sprintf("max_chars: %d", 50+random.IntN(3000)) },
		func() string { return fmt.Sprintf("max_depth: %d", 1+random.IntN(5)) },
		func() string { return fmt.Sprintf("truncate: {title: {max: %d}}", 1+random.IntN(60)) },
		func() string { return fmt.Sprintf(`truncate: {"*": {max: %d, strategy: middle}}`, 5+random.IntN(100)) },
		func() string { return `include_fields: [id, v, "items.b", "a.*.c", "*.name"], output_schema: derive` },
		func() string { return `exclude_fields: [title, "*.a"], output_schema: derive` },
		func() string { return `exclude_fields: [b, "nodes.*"]` },
	}
	var all []string
	for i := range n {
		rule := []string{fmt.Sprintf("match: {tool: r%d}", i)}
		seen := map[string]bool{}
		for range 1 + random.IntN(3) {
			s := settings[random.IntN(len(settings))]()
			if key, _, _ := strings.Cut(s, "_fields"); !seen[key[:4]] { // a rule includes fields or excludes them
				seen[key[:4]], seen["incl"], seen["excl"] = true, seen["incl"] || strings.HasSuffix(key, "clude"), seen["excl"] || strings.HasSuffix(key, "clude")
				rule = append(rule, s)
			}
		}
		all = append(all, "{"+strings.Join(rule, ", ")+"}")
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// TestInvariantsUnderRandomRulesSchemasAndBudgets checks that under every rule, schema,
// option and budget a result stays within its budget, is valid, keeps the kinds of its
// documents, fits its schema, and has no less if the budget is larger.
//
//	go test ./transform -run Invariants -v -rapid.checks=50000
func TestInvariantsUnderRandomRulesSchemasAndBudgets(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	const rules = 300
	var engines []*Engine
	for _, options := range []string{"", "adapters: {capper: {keep_nulls: true}}, ", "adapters: {capper: {dedupe: structured}}, more_tool: {enabled: off}, "} {
		engines = append(engines, engine(t, "transform: {"+options+"rules: "+randomRules(rules)+"}"))
	}
	did := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		e := engines[rapid.IntRange(0, len(engines)-1).Draw(t, "engine")]
		call := Call{Tool: fmt.Sprintf("r%d", rapid.IntRange(0, rules*3/2).Draw(t, "rule")), Session: "s", Caller: "c", Schemas: None}
		in, schema := []byte(nil), []byte(nil)
		if rapid.Bool().Draw(t, "with a schema") {
			c := genCase(4).Draw(t, "case")
			schema = []byte(`{"type":"object","properties":{"v":` + c.schema + `,"title":{"type":"string"}},"required":["v"],"$defs":{"text":{"type":"string"}}}`)
			value := `{"v":` + c.value + `,"title":"` + strings.Repeat("long ", rapid.IntRange(0, 1000).Draw(t, "title")) + `"}`
			if valid(t, compileSchema(t, string(schema)), []byte(value)) != nil {
				return // "one of" may mean two of them
			}
			in = []byte(`{"content":[{"type":"text","text":` + string(quoted(value)) + `}],"structuredContent":` + value + `}`)
			call.Schemas, call.Schema = Seen, schema
			listed, err := e.ListTool(nil, "", []byte(`{"name":"`+call.Tool+`","outputSchema":`+string(schema)+`}`))
			if err != nil {
				t.Fatal(err)
			}
			schema = tree.Member(listed, "outputSchema")
			did["with a schema"]++
		} else {
			in = []byte(genResult().Draw(t, "result"))
		}
		less := rapid.OneOf(rapid.SampledFrom([]int{100, 120, 200, 500}), rapid.IntRange(100, 4000)).Draw(t, "budget")
		more := less + rapid.OneOf(rapid.IntRange(20, 100), rapid.IntRange(20, 2000)).Draw(t, "more")
		before, smaller := map[string]int{}, []byte(nil)
		for _, budget := range []int{less, more} {
			call.MaxTokens = budget
			out, r := e.Apply(nil, in, &call)
			did["results"]++
			did[fmt.Sprint(r.Outcome)]++
			if errors.Is(r.Err, errTooMany) {
				did["too much for its rule"]++
			} else if r.Err != nil {
				t.Fatalf("it failed: %v", r.Err)
			}
			p := parse(t, out)
			if n := p.count(e.encoding); n > budget && !r.OverBudget {
				t.Fatalf("%d tokens, over the budget of %d:\n%s", n, budget, out)
			}
			if r.OverBudget {
				if did["over budget for a schema"]++; schema == nil {
					t.Fatalf("over the budget of %d without a schema:\n%s", budget, out)
				}
			}
			if schema != nil {
				if p.StructuredContent == nil {
					t.Fatalf("the structured content went: %s", out)
				}
				if err := valid(t, compileSchema(t, string(schema)), p.StructuredContent); err != nil {
					t.Fatalf("%v\nschema %s\nvalue  %s\nbecame %s", err, schema, in, p.StructuredContent)
				}
			}
			was, plain := kinds(parse(t, in))
			is, now := kinds(p)
			if !within(is, was) || now > plain {
				t.Fatalf("documents %q and %d texts became %q and %d in\n%s", was, plain, is, now, out)
			}
			kept := numbers(t, p)
			for what, n := range before {
				if kept[what] < n {
					t.Fatalf("%s is there %d times in %d tokens, and %d times in %d:\n%s\n%s\n%s", what, n, less, kept[what], more, in, smaller, out)
				}
			}
			before, smaller = kept, out
		}
	})
	t.Log(did)
}

// kinds returns the kinds of the documents of a result, in their order: those of texts that
// are JSON, and of the structured content. plain is how many texts are not JSON.
func kinds(p plainResult) (all []string, plain int) {
	for _, b := range p.Content {
		switch {
		case b.Text == nil || b.Type != "text" || b.Meta != nil:
		case wire.Valid([]byte(*b.Text)) && tree.IsContainer([]byte(*b.Text)):
			all = append(all, strings.TrimSpace(*b.Text)[:1])
		default:
			plain++
		}
	}
	if p.StructuredContent != nil {
		all = append(all, "structured "+strings.TrimSpace(string(p.StructuredContent))[:1])
	}
	return all, plain
}

// numbers counts the numbers and booleans in the documents of a result, by their names.
func numbers(t fatal, p plainResult) map[string]int {
	seen := make(map[string]int)
	add := func(where string, doc []byte) {
		var tp tree.Document
		if tp.Read(doc) != nil {
			return
		}
		for n := range uint32(len(tp.Nodes)) {
			if raw := tp.Raw(n); tree.Scalar(raw) && !wire.Hollow(raw) && raw[0] != '"' {
				seen[where+string(tp.Name(n))+":"+string(raw)]++
			}
		}
	}
	for _, b := range p.Content {
		if b.Text != nil && b.Meta == nil {
			if !utf8.ValidString(*b.Text) {
				t.Fatalf("a broken rune in %q", *b.Text)
			}
			add("", []byte(*b.Text))
		}
	}
	if p.StructuredContent != nil {
		add("structured ", p.StructuredContent)
	}
	return seen
}
