package transform

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// hostile are results that want too much of whoever reads them.
func hostile(n int) map[string][]byte {
	many := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }
	blocks := func(block string, n int) []byte { return []byte(`{"content":[` + many(block, n) + `]}`) }
	var members strings.Builder
	for i := range n / 20 {
		members.WriteString(`,"m` + string(rune('a'+i%26)) + strings.Repeat("x", i%7) + `":[` + `1]`)
	}
	return map[string][]byte{
		"one string":                 textResult(`{"log":"` + strings.Repeat("0123456789", n/10) + `"}`),
		"one string of base64":       textResult(`{"data":"` + strings.Repeat("QUJD", n/4) + `"}`),
		"one id":                     textResult(`{"id":"` + strings.Repeat("QUJD", n/4) + `"}`),
		"one number":                 textResult(`[` + strings.Repeat("1", n) + `]`),
		"one name":                   textResult(`{"` + strings.Repeat("n", n) + `":1}`),
		"one letter":                 textResult(strings.Repeat("=", n)),
		"blanks":                     textResult("x" + strings.Repeat(" \n", n/2) + "x"),
		"marks":                      textResult("e" + strings.Repeat("\u0301", n/2)),
		"marks in a member":          textResult(`{"a":"e` + strings.Repeat("\u0301", n/2) + `"}`),
		"flags":                      textResult(strings.Repeat("🇩", n/4)),
		"headings":                   textResult(strings.Repeat("# a\n", n/4)),
		"ticks":                      textResult(strings.Repeat("` ", n/2)),
		"fences":                     textResult(strings.Repeat("```\n", n/4)),
		"brackets":                   textResult(strings.Repeat("[a](", n/4)),
		"rows":                       textResult(strings.Repeat("|", n)),
		"escapes":                    textResult(strings.Repeat("\u0001\"", n/2)),
		"200,000 arrays":             textResult(strings.Repeat("[", 200_000/effort) + strings.Repeat("]", 200_000/effort)),
		"arrays as deep as goes":     textResult(many(strings.Repeat("[", wire.MaxDepth-1)+strings.Repeat("]", wire.MaxDepth-1), 1)),
		"deep objects":               textResult("[" + many(strings.Repeat(`{"a":`, 500)+"1"+strings.Repeat("}", 500), n/5000) + "]"),
		"empty arrays":               textResult("[" + many("[]", n/3) + "]"),
		"members":                    textResult(`{"first":1` + members.String() + `}`),
		"tiny blocks":                blocks(`{"type":"text","text":"x"}`, n/10),
		"empty blocks":               blocks(`{"type":"text","text":""}`, n/10),
		"tiny documents":             blocks(`{"type":"text","text":"[1]"}`, n/10),
		"links":                      blocks(`{"type":"resource_link","uri":"file:///a/b/c","name":"c"}`, 5000),
		"unknown blocks":             blocks(`{"type":"novel","what":"is this"}`, n/40),
		"texts and images":           blocks(`{"type":"text","text":"x"},{"type":"image","data":"","mimeType":"image/png"}`, n/100),
		"a block that says it twice": blocks(`{"type":"text","text":"`+strings.Repeat("x ", n/2)+`","type":"text","text":"y"}`, 1),
		"content twice":              []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x ", n/2) + `"}],"content":[{"type":"text","text":"y"}]}`),
		"structured content":         []byte(`{"content":[],"structuredContent":[` + many(`{"a":"bcd"}`, n/12) + `]}`),
		"no content":                 []byte(`{"structuredContent":{"a":[` + many(`1`, n/2) + `]}}`),
	}
}

func TestHostileResultsFitEveryBudget(t *testing.T) {
	e := engine(t, "transform: {}")
	for name, in := range hostile((1 << 20) / effort / effort) {
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
	for name, in := range hostile((1 << 20) / effort / effort) {
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

// TestTheLargestResultsFitEveryBudget at the sizes that are promised: 10 MB of one
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
