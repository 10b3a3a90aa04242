package transform

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// textResult is a result with these texts.
func textResult(texts ...string) []byte {
	var blocks []string
	for _, text := range texts {
		blocks = append(blocks, fmt.Sprintf(`{"type":"text","text":%s}`, quoted(text)))
	}
	return []byte(`{"content":[` + strings.Join(blocks, ",") + `]}`)
}

func quoted(text string) []byte { return appendQuoted(nil, []byte(text)) }

// issues is a JSON list of n issues.
func issues(n int) string {
	var b strings.Builder
	b.WriteString(`{"issues":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"ENG-%d","title":"Fix the %dth bug","state":{"name":"Todo","color":null},"priority":%d.0,"url":"https://linear.app/acme/issue/ENG-%d","description":"%s"}`,
			i, i, i%5, i, strings.Repeat("The quick brown fox jumps over the lazy dog. ", 1+i%7))
	}
	b.WriteString(`],"next_cursor":"abc"}`)
	return b.String()
}

func seen(t *testing.T, out []byte) (texts []string, parsed map[string]any) {
	t.Helper()
	if err := json.Unmarshal(out, &parsed); err != nil {
		t.Fatalf("%v in %.300s", err, out)
	}
	list, _ := parsed["content"].([]any)
	for _, b := range list {
		if text, ok := b.(map[string]any)["text"].(string); ok {
			texts = append(texts, text)
		}
	}
	return texts, parsed
}

func TestAnAnswerThatIsTooLongFitsItsBudget(t *testing.T) {
	e := engine(t, "transform: {}")
	for name, in := range map[string][]byte{
		"issues": textResult(issues(3000 / effort)),
		"prose":  textResult(strings.Repeat("# Head\n\nSome words. And some more of them.\n\n", 20000/effort)),
		"plain":  textResult(strings.Repeat("Some words. And some more of them 日本語.\n", 200_000/effort)),
		"blocks": textResult(strings.Split(strings.Repeat("tiny,", 100_000/effort), ",")...),
		"one":    textResult(`{"log":"` + strings.Repeat("x y ", (1<<20)/effort) + `"}`),
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
