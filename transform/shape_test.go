package transform

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// cursors replaces the handles in a text, which are different each time.
func cursors(text string) string {
	return regexp.MustCompile(`"cursor":"[\w-]{12}`).ReplaceAllString(text, `"cursor":"…`)
}

func TestRulesShapeDocuments(t *testing.T) {
	for _, c := range []struct{ claim, rule, in, want string }{
		{"fields are selected", "include_fields: [id, a.b]", `{"id":1.0,"a":{"c":1,"b":2},"x":3}`, `{"id":1.0,"a":{"b":2}}`},
		{"what is excluded goes", "include_fields: [a], exclude_fields: [a.b]", `{"a":{"b":1,"c":2},"d":3}`, `{"a":{"c":2}}`},
		{"blanks stay where nothing goes", "include_fields: [a]", `{ "a" : 1 }`, `{ "a" : 1 }`},
		{"text is no document", "include_fields: [a]", `plain {text}`, `plain {text}`},
		{"a text is shortened by its name", "truncate: {body: {max: 20}}", `{"body":"0123456789012345678901234567890123456789","x":"0123456789012345678901234567890123456789"}`, `{"body":"01234... [truncated]","x":"0123456789012345678901234567890123456789"}`},
		{"and by its path", "truncate: {a.body: {max: 20}}", `{"a":{"body":"0123456789012345678901234567890123456789"},"body":"0123456789012345678901234567890123456789"}`, `{"a":{"body":"01234... [truncated]"},"body":"0123456789012345678901234567890123456789"}`},
		{"arrays do not stop a path", "truncate: {a.body: {max: 20}}", `{"a":[{"body":["0123456789012345678901234567890123456789"]}]}`, `{"a":[{"body":["01234... [truncated]"]}]}`},
		{"the middle goes", "truncate: {body: {max: 23, strategy: middle}}", `{"body":"0123456789012345678901234567890123456789"}`, `{"body":"0123... [truncated]6789"}`},
		{"words stay whole", "truncate: {body: {max: 27, strategy: word}}", `{"body":"these words are longer than that"}`, `{"body":"these words... [truncated]"}`},
		{"a marker tells how much", `truncation_marker: "[%d more]", truncate: {body: {max: 20}}`, `{"body":"0123456789012345678901234567890123456789"}`, `{"body":"01234567890[29 more]"}`},
		{"what just fits stays", "truncate: {body: {max: 20}}", `{"body":"01234567890123456789"}`, `{"body":"01234567890123456789"}`},
		{"addresses stay whole", `truncate: {"*": {max: 16}}`, `{"url":"https://example.com/a/long/way","node_id":"0123456789012345678901234567890","at":"2025-01-31T00:00:00.000000Z","blob":"aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ="}`, `{"url":"https://example.com/a/long/way","node_id":"0123456789012345678901234567890","at":"2025-01-31T00:00:00.000000Z","blob":"aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ="}`},
		{"an array by the page", "page_size: 2", `{"a":[1.0,2,3],"b":0}`, `{"a":[1.0,2],"b":0,"_pagination":{"path":"a","total":3,"returned":2,"has_more":true,"cursor":"…:2:2:a"}}`},
		{"two arrays", "max_items: 1", `{"a":[1,2],"b":[3,4]}`, `{"a":[1],"b":[3],"_pagination":[{"path":"a","total":2,"returned":1,"has_more":true,"cursor":"…:1:1:a"},{"path":"b","total":2,"returned":1,"has_more":true,"cursor":"…:1:1:b"}]}`},
		{"arrays within the page", "page_size: 1", `{"a":[{"b":[1,2]},{"b":[3,4]}]}`, `{"a":[{"b":[1],"_pagination":{"path":"a.b","total":2,"returned":1,"has_more":true,"cursor":"…"}}],"_pagination":{"path":"a","total":2,"returned":1,"has_more":true,"cursor":"…:1:1:a"}}`},
		{"the root", "page_size: 2", `[1,2,3]`, `[1,2]`},
		{"the page may be wrapped", "page_size: 2, page_shape: wrap", `{"a":[1,2,3]}`, `{"a":{"items":[1,2],"_pagination":{"total":3,"returned":2,"has_more":true,"cursor":"…:2:2:a"}}}`},
		{"a page that is one already", "page_size: 2", `{"a":[1,2,3],"_pagination":{}}`, `{"a":[1,2],"_pagination":{}}`},
		{"no page of what fits", "page_size: 3", `{"a":[1,2,3]}`, `{"a":[1,2,3]}`},
		{"nothing of it is here", "include_fields: [x]", `{"a":1,"b":2}`, `{}`},
		{"nothing of it is here, in a list", "include_fields: [x]", `[{"a":1}]`, `[]`},
		{"all texts together", "max_chars: 40", strings.Repeat("0123456789", 10), "012345678901234567890123\n... [truncated]"},
		{"with the number of what is missing", `max_chars: 40, truncation_marker: "[%d more]"`, strings.Repeat("0123456789", 10), "012345678901234567890123456789\n[70 more]"},
		{"a document for all texts", "max_chars: 90", `{"a":[` + strings.Repeat(`"0123456789",`, 20) + `"x"]}`, `{"a":["0123456789","0123456789","0123456789","…3–19","x"],"…":"... [truncated]"}`},
		{"with a marker of its own", `max_chars: 80, truncation_marker: "(%d less)"`, `{"a":[` + strings.Repeat(`"0123456789",`, 20) + `"x"]}`, `{"a":["0123456789","0123456789","0123456789","…3–19","x"],"…":"(213 less)"}`},
		{"a list of objects", "max_chars: 60", `[` + strings.Repeat(`{"n":"0123456789"},`, 20) + `{"n":"x"}]`, `[{"n":"0123456789"},{"…":"... [truncated]"}]`},
		{"a list of lists", "max_chars: 60", `[` + strings.Repeat(`["0123456789"],`, 20) + `["x"]]`, `[["0123456789"],["0123456789"],["... [truncated]"]]`},
		{"a list of texts", "max_chars: 60", `[` + strings.Repeat(`"0123456789",`, 20) + `"x"]`, `["0123456789","0123456789","…2–20","... [truncated]"]`},
		{"a text in a document", "max_chars: 60", `{"id":1,"text":"` + strings.Repeat(`word `, 30) + `"}`, `{"id":1,"text":"word word word word word... [truncated]"}`},
		{"less than the marker", "max_chars: 20", `{"id":1,"text":"` + strings.Repeat(`word `, 30) + `"}`, `{"id":1}`},
	} {
		e := engine(t, "transform: {rules: [{"+c.rule+"}]}")
		in := textResult(c.in)
		call := &Call{Tool: "x", Schemas: None}
		out, r := e.Apply(nil, in, call)
		if r.Err != nil {
			t.Errorf("%s: %v", c.claim, r.Err)
			continue
		}
		got := cursors(*parse(t, out).Content[0].Text)
		if got != c.want || same(in, out) != (c.in == c.want) {
			t.Errorf("%s\n got  %s\n want %s", c.claim, got, c.want)
		}
		if again, _ := e.Apply(nil, out, call); !same(again, out) {
			t.Errorf("%s: applied twice\n%s\nbecomes\n%s", c.claim, out, again)
		}
		if out, _ := e.Apply(nil, in, &Call{Tool: "x", Schemas: None, Full: true}); !same(in, out) {
			t.Errorf("%s: full detail is %s", c.claim, out)
		}
	}
}

func TestStructuredContentIsShapedLikeItsText(t *testing.T) {
	e := engine(t, "transform: {rules: [{include_fields: [a], page_size: 2}]}")
	doc := `{"a":[1,2,3],"b":4}`
	in := []byte(`{"content":[{"type":"text","text":` + string(quoted(doc)) + `}],"structuredContent":` + doc + `}`)
	out, _ := e.Apply(nil, in, &Call{Tool: "x", Schemas: None})
	p := parse(t, out)
	if *p.Content[0].Text != string(p.StructuredContent) || !strings.HasPrefix(*p.Content[0].Text, `{"a":[1,2],"_pagination"`) {
		t.Errorf("%s", out)
	}
	out, _ = e.Apply(nil, in, &Call{Tool: "x", Schemas: Unknown})
	if p := parse(t, out); string(p.StructuredContent) != doc || !strings.HasPrefix(*p.Content[0].Text, `{"a":[1,2]`) {
		t.Errorf("of a tool that was not listed: %s", out)
	}
}

func TestErrorsAreOnlyCapped(t *testing.T) {
	e := engine(t, "transform: {rules: [{include_fields: [a], page_size: 2, max_chars: 50}]}")
	in := bytes.Replace(textResult(`{"b":[1,2,3]}`+strings.Repeat(" ", 100)), []byte("]}"), []byte(`],"isError":true}`), 1)
	in = []byte(`{"isError":true,"content":[{"type":"text","text":"{\"b\":[1,2,3]}` + strings.Repeat(" ", 100) + `"}]}`)
	if out, r := e.Apply(nil, in, &Call{Tool: "x", Schemas: None}); !same(in, out) {
		t.Errorf("%v: %s", r.Steps, out)
	}
	in = []byte(`{"isError":true,"content":[{"type":"text","text":"` + strings.Repeat("it went wrong ", 10_000) + `"}]}`)
	out, r := e.Apply(nil, in, &Call{Tool: "x", Schemas: None})
	if p := parse(t, out); r.Outcome != Capped || p.IsError == nil || p.count(e.encoding) > 4000 {
		t.Errorf("%v: %s", r.Outcome, out)
	}
}

func TestIfNothingMatchesTheNoticeNamesTheFieldsThatExist(t *testing.T) {
	e := engine(t, "transform: {rules: [{include_fields: [titel]}]}")
	out, _ := e.Apply(nil, textResult(`{"title":"x","id":1}`), &Call{Tool: "x", Schemas: None})
	if texts, _ := seen(t, out); len(texts) != 2 || !strings.Contains(texts[1], "title, id") {
		t.Errorf("%q", texts)
	}
}

func TestTheServersOwnCursorIsNamedFirst(t *testing.T) {
	e := engine(t, "transform: {rules: [{page_size: 2}]}")
	out, _ := e.Apply(nil, textResult(`{"results":[1,2,3],"next_cursor":"abc"}`), &Call{Tool: "x", Schemas: None})
	texts, _ := seen(t, out)
	if notice := texts[1]; strings.Index(notice, "next_cursor of the server: abc") > strings.Index(notice, "kept 2 of 3 results") {
		t.Error(notice)
	}
}

func TestProseIsCutAtParagraphsAndSentences(t *testing.T) {
	for _, c := range []struct {
		claim, in string
		max       int
		want      string
	}{
		{"at the end of a paragraph", "One two three four five six seven.\n\nEight nine", 43, "One two three four five six seven.\n[cut]"},
		{"at the end of a word", "One two three four five six seven eight nine", 35, "One two three four five six\n[cut]"},
		{"not in a link", "See [the manual](https://example.com/manual) for more of it", 40, "See\n[cut]"},
		{"not in an image", "See ![a picture](https://example.com/p.png) for more of it", 40, "See\n[cut]"},
		{"not in inline code", "Call `make all the things` and wait for a while", 25, "Call\n[cut]"},
		{"a fence is closed", "```go\nfunc main() {\n\tprintln(1)\n}\n```\nand more", 30, "```go\nfunc main() {\n```\n[cut]"},
		{"an empty fence goes", "Some words first\n```\ncode that does not fit in there\n```\n", 28, "Some words first\n[cut]"},
		{"a row stays whole", "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n", 38, "| a | b |\n|---|---|\n| 1 | 2 |\n[cut]"},
		{"a heading does not stay alone", "Words of text.\n\n## Next\n\nMore words of text that go on", 31, "Words of text.\n[cut]"},
	} {
		got := beginning([]byte(c.in), c.max, "[cut]")
		if string(got) != c.want || utf8.RuneCount(got) > c.max {
			t.Errorf("%s\n got  %q\n want %q", c.claim, got, c.want)
		}
	}
}

// TestMarkedDocumentsStayValid: whatever a document is and wherever max_chars cuts it, it stays a document of its kind within its size, and has
// the marker if there is room for it beside a value.
func TestMarkedDocumentsStayValid(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	random := rand.New(rand.NewPCG(11, 41))
	var value func(depth int) string
	list := func(depth int, open, end string, entry func(i int) string) string {
		var all []string
		for i := range random.IntN(12) {
			all = append(all, entry(i))
		}
		return open + strings.Join(all, ",") + end
	}
	value = func(depth int) string {
		switch kind := random.IntN(8); {
		case kind < 2 && depth > 0:
			return list(depth, "{", "}", func(i int) string { return fmt.Sprintf(`"k%d":%s`, i, value(depth-1)) })
		case kind < 4 && depth > 0:
			one := value(depth - 1)
			return list(depth, "[", "]", func(int) string { return one })
		case kind < 6:
			return string(quoted(strings.Repeat("wörd \"x\" ", random.IntN(30))))
		case kind == 6:
			return strconv.Itoa(random.IntN(100_000))
		}
		return "true"
	}
	for _, marker := range []string{defaultMarker, `"[%d \t gone]"`, "…"} {
		e := engine(t, "transform: {rules: ["+strings.Join(func() (rules []string) {
			for most := 40; most <= 600; most += 7 {
				rules = append(rules, fmt.Sprintf("{match: {tool: t%d}, max_chars: %d, truncation_marker: %s}", most, most, quoted(marker)))
			}
			return rules
		}(), ", ")+"]}")
		begin, end, _ := strings.Cut(marker, "%d")
		begin, end = strings.Trim(string(quoted(begin)), `"`), strings.Trim(string(quoted(end)), `"`)
		cut := 0
		for range 400 / effort {
			in := "{" + `"first":` + value(4) + `,"second":` + value(4) + "}"
			if random.IntN(2) == 0 {
				in = "[" + value(4) + "," + value(3) + "," + value(3) + "]"
			}
			most := 40 + 7*random.IntN(80)
			if utf8.RuneCountInString(in) <= most {
				continue
			}
			out, r := e.Apply(nil, textResult(in), &Call{Tool: fmt.Sprintf("t%d", most), Schemas: None})
			texts, _ := seen(t, out)
			got := texts[0]
			if r.Err != nil || !wire.Valid([]byte(got)) || got[0] != in[0] {
				t.Fatalf("%v: %s\nbecame %s", r.Err, in, got)
			}
			if n := utf8.RuneCountInString(got); n > most {
				t.Fatalf("%d code points of %d: %s", n, most, got)
			}
			if most > 100 && !(strings.Contains(got, begin) && strings.Contains(got, end)) {
				t.Fatalf("no marker in %s\nof %s", got, in)
			}
			cut++
		}
		if cut < 100/effort {
			t.Errorf("only %d documents were cut", cut)
		}
	}
}
