package toolindex

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func answerOf(id, tools string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[` + tools + `]}}`)
}

// TestEachChangeOfAListIsLearnt, although an answer that was learnt before is not read again.
func TestEachChangeOfAListIsLearnt(t *testing.T) {
	var x Index
	tool := func(arguments string) string { return `{"name":"a","inputSchema":{"properties":{` + arguments + `}}}` }
	narrowing := func(answer []byte) string {
		t.Helper()
		if less, changed := x.Learn(answer, zap.NewNop()); changed || &less[0] != &answer[0] {
			t.Errorf("%s became %s", answer, less)
		}
		a, _ := x.Find("a")
		return a.Narrowing()
	}
	for i, c := range []struct{ id, tools, want string }{
		{"1", tool(`"limit":{}`), "limit"},
		{"2", tool(`"limit":{}`), "limit"},
		{`"a,b"`, tool(`"limit":{}`), "limit"},
		{"3", tool(`"query":{}`), "query"},
		{"4", tool(`"limit":{}`), "limit"}, // again what it was
		{"4", tool(`"query":{}`), "query"},
		{"5", `{"name":"b"}`, "query"}, // another page
		{"6", tool(`"limit":{}`), "limit"},
		{"7", tool(``), ""},
	} {
		if got := narrowing(answerOf(c.id, c.tools)); got != c.want {
			t.Errorf("%d: got %q, want %q", i, got, c.want)
		}
	}
	one := answerOf("1", tool(`"limit":{}`))
	narrowing(one)
	x.Forget()
	if got := narrowing(one); got != "limit" {
		t.Errorf("after Forget: %q", got)
	}
	x.Forget()
	l := listing{pages: []string{tool(`"query":{}`)}}
	if _, err := x.Look(t.Context(), "a", l.ask); err != nil {
		t.Fatal(err)
	}
	if got := narrowing(one); got != "limit" {
		t.Errorf("after another list was read: %q", got)
	}
}

// TestAnswerWithWrongToolsIsChangedEachTime.
func TestAnswerWithWrongToolsIsChangedEachTime(t *testing.T) {
	var x Index
	for i := range 3 {
		answer := answerOf(fmt.Sprint(i), `{"name":"a"},{"name":"bad","inputSchema":{"properties":{"x":{"type":"object","x-mcp-header":"X"}}}}`)
		if less, changed := x.Learn(answer, zap.NewNop()); !changed || strings.Contains(string(less), "bad") {
			t.Errorf("time %d: %s", i, less)
		}
	}
}

// BenchmarkLearn measures a list of 50 tools that was learnt before, and one that differs each time.
func BenchmarkLearn(b *testing.B) {
	var tools []string
	for i := range 50 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool-%d","description":%q,"inputSchema":{"type":"object","properties":{"limit":{"type":"integer"},"query":{"type":"string"}}}}`, i, strings.Repeat("words ", 100)))
	}
	list := strings.Join(tools, ",")
	for name, text := range map[string]string{"same": "words", "other": "WORDS"} {
		b.Run(name, func(b *testing.B) {
			var x Index
			answers := [2][]byte{answerOf("1", list), answerOf("2", strings.Replace(list, "words", text, 1))}
			if name == "other" {
				answers[1] = answerOf("2", strings.Replace(list, `"limit"`, `"first"`, 1))
			}
			b.SetBytes(int64(len(list)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.Learn(answers[i%2], zap.NewNop())
			}
		})
	}
}
