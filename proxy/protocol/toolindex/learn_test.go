package toolindex

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// answerOf returns an answer to tools/list. The SDK for TypeScript writes the id at the end, others at the start.
func answerOf(id, tools string) []byte {
	if strings.HasPrefix(id, "end ") {
		return []byte(`{"result":{"tools":[` + tools + `]},"jsonrpc":"2.0","id":` + id[4:] + `}`)
	}
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
		{"end 8", tool(`"limit":{}`), "limit"},
		{"end 9", tool(`"limit":{}`), "limit"},
		{`end "9,9"`, tool(`"query":{}`), "query"},
		{`end "9"`, tool(`"limit":{}`), "limit"},
		{`end "x"`, tool(`"query":{}`), "query"},
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
	if _, err := x.Look(t.Context(), "a", l.as()); err != nil {
		t.Fatal(err)
	}
	if got := narrowing(one); got != "limit" {
		t.Errorf("after another list was read: %q", got)
	}
}

// TestOnlyTheIDIsNotHashed, whatever looks like one.
func TestOnlyTheIDIsNotHashed(t *testing.T) {
	same := [][2]string{
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"x","result":{}}`},
		{`{"result":{},"jsonrpc":"2.0","id":1}`, `{"result":{},"jsonrpc":"2.0","id":"x"}`},
	}
	other := [][2]string{
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`},
		{`{"result":{},"jsonrpc":"2.0","id":1}`, `{"result":{"a":1},"jsonrpc":"2.0","id":1}`},
		{`{"id":1,"result":{"a":0,"jsonrpc":"2.0","id":1}}`, `{"id":1,"result":{"a":0,"jsonrpc":"2.0","id":2}}`},
		{`{"a":0,"jsonrpc":"2.0","id":1,"result":{}}`, `{"a":0,"jsonrpc":"2.0","id":1,"result":{"a":2}}`},
		{`{"id":1,"result":{"a":[{"b":0,"jsonrpc":"2.0","id":1}]}}`, `{"id":1,"result":{"a":[{"b":0,"jsonrpc":"2.0","id":2}]}}`},
	}
	for _, c := range same {
		if hashOf([]byte(c[0])) != hashOf([]byte(c[1])) {
			t.Errorf("%s and %s differ", c[0], c[1])
		}
	}
	for _, c := range other {
		if hashOf([]byte(c[0])) == hashOf([]byte(c[1])) {
			t.Errorf("%s and %s are the same", c[0], c[1])
		}
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
