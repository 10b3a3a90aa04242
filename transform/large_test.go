//go:build !race

// Tests that take too long with the race detector, and use one goroutine.

package transform

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func TestAnAnswerThatIsTooLongFitsItsBudget(t *testing.T) {
	e := engine(t, "transform: {}")
	for name, in := range map[string][]byte{
		"issues": textResult(issues(3000)),
		"prose":  textResult(strings.Repeat("# Head\n\nSome words. And some more of them.\n\n", 20000)),
		"plain":  textResult(strings.Repeat("Some words. And some more of them 日本語.\n", 200_000)),
		"blocks": textResult(strings.Split(strings.Repeat("tiny,", 100_000), ",")...),
		"one":    textResult(`{"log":"` + strings.Repeat("x y ", (1<<20)) + `"}`),
	} {
		for _, budget := range []int{100, 500, 4000} {
			out, r := e.Apply(nil, in, &Call{Tool: "x", Schemas: None, MaxTokens: budget})
			texts, _ := seen(t, out)
			if p := parse(t, out); p.count(e.encoding) > budget || r.OverBudget || r.Err != nil {
				t.Errorf("%s for %d: %d tokens, %v", name, budget, p.count(e.encoding), r.Err)
			}
			notice := texts[len(texts)-1]
			if !strings.Contains(notice, `Next: fetch_more {"cursor":"`+r.Cursor+`"`) && !strings.Contains(notice, "too large to keep the rest") {
				t.Errorf("%s for %d: the notice is %q, the cursor %q", name, budget, notice, r.Cursor)
			}
			if n := e.encoding.Count([]byte(notice)); n > max(40, budget/8) {
				t.Errorf("%s for %d: a notice of %d tokens", name, budget, n)
			}
			if share := r.TokensAfter * 100 / budget; share < 80 {
				t.Errorf("%s for %d: only %d tokens are left", name, budget, r.TokensAfter)
			}
		}
	}
}

func TestHostileResultsFitEveryBudget(t *testing.T) {
	e := engine(t, "transform: {}")
	for name, in := range hostile((1 << 20)) {
		if !wire.Valid(in) {
			t.Fatalf("%s: no JSON", name)
		}
		for _, budget := range []int{100, 500, 4000} {
			out, r := e.Apply(nil, in, &Call{Tool: "x", Schemas: None, MaxTokens: budget})
			p := parse(t, out)
			n := p.count(e.encoding)
			if n > budget || r.OverBudget || r.Err != nil || !utf8.Valid(out) {
				t.Errorf("%s for %d: %d tokens, %v, %v", name, budget, n, r.Steps, r.Err)
			}
			if again, r := e.Apply(nil, out, &Call{Tool: "x", Schemas: None, MaxTokens: budget}); !same(again, out) {
				t.Errorf("%s for %d: applied twice it goes on: %v", name, budget, r.Steps)
			}
		}
	}
}

func TestHostileResultsPassTheOtherSteps(t *testing.T) {
	e := engine(t, `transform: {default_max_tokens: 0, rules: [{include_fields: ["*.a", log, id], exclude_fields: ["a.*.a"], truncate: {"*": {max: 30, strategy: middle}}, page_size: 3, max_chars: 5000}]}`)
	for name, in := range hostile((1 << 20)) {
		out, r := e.Apply(nil, in, &Call{Tool: "x", Schemas: None})
		chars := 0
		for _, b := range parse(t, out).Content {
			if b.Text != nil && b.Meta == nil {
				chars += utf8.RuneCountInString(*b.Text)
			}
		}
		if chars > 5000 && name != "a block that says it twice" && name != "content twice" {
			t.Errorf("%s: %d characters, %v, %v", name, chars, r.Steps, r.Err)
		}
	}
}

// TestTheLargestResultsFitEveryBudget checks the promised sizes: 10 MB of one
// list, one text or prose, a million blocks, 5,000 links.
func TestTheLargestResultsFitEveryBudget(t *testing.T) {
	const large = 10 << 20
	many := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	row := `{"id":"a1","title":"A title of some words","state":"open","labels":["bug","p1"],"body":null}`
	e := engine(t, "transform: {}")
	for name, in := range map[string][]byte{
		"list":            textResult("[" + many(row, large/len(row)) + "]"),
		"one string":      textResult(`{"log":"` + strings.Repeat("some words of a log; ", large/21) + `"}`),
		"prose":           textResult(strings.Repeat("A sentence of some words. Another one.\n\n", large/40)),
		"structured":      []byte(`{"content":[],"structuredContent":{"rows":[` + many(row, large/len(row)) + `]}}`),
		"a million texts": []byte(`{"content":[` + many(`{"type":"text","text":"x y"}`, 1_000_000) + `]}`),
		"5,000 links":     []byte(`{"content":[` + many(`{"type":"resource_link","uri":"file:///a/b/c","name":"c"}`, 5000) + `]}`),
	} {
		for _, budget := range []int{100, 500, 4000} {
			out, r := e.Apply(nil, in, &Call{Tool: "x", Schemas: None, MaxTokens: budget})
			if n := parse(t, out).count(e.encoding); n > budget || n < budget/10 || r.OverBudget || r.Err != nil {
				t.Errorf("%s for %d: %d tokens, %v, %v", name, budget, n, r.Steps, r.Err)
			}
		}
	}
}
