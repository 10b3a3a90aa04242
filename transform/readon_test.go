package transform

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var namedCall = regexp.MustCompile(`fetch_more (\{.*\})\]$`)

// followed reads an answer to its end by the calls that the notices name, and returns
// all that was read and what it cost.
func followed(t fatal, e *Engine, out []byte, budget int) (all string, spent int) {
	for range 10_000 {
		p := parse(t, out)
		n := p.count(e.encoding)
		if n > budget {
			t.Fatalf("%d tokens of %d: %s", n, budget, out)
		}
		spent += n
		last := ""
		for _, b := range p.Content {
			if last = *b.Text; b.Meta == nil {
				all += last + "\n"
			}
		}
		if p.StructuredContent != nil {
			all += string(p.StructuredContent) + "\n"
		}
		m := namedCall.FindStringSubmatch(last)
		if m == nil {
			return all, spent
		}
		next := e.More(context.Background(), "s", "c", []byte(m[1]))
		if bytes.Contains(next, []byte(`"isError":true`)) || bytes.Equal(next, out) {
			t.Fatalf("%s answers %s", m[1], next)
		}
		out = next
	}
	t.Fatalf("reading on has no end")
	return
}

// withTables returns an engine that writes lists as they are, and one that writes them as
// tables.
func withTables(t *testing.T) []*Engine {
	return []*Engine{engine(t, "transform: {}"), engine(t, "transform: {adapters: {capper: {tables: columns}}}")}
}

// TestCallsNamedByNoticesReturnTheWholeResult checks that the calls which the notices name return
// every line of a text and every value of a document.
func TestCallsNamedByNoticesReturnTheWholeResult(t *testing.T) {
	engines := withTables(t)
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(engines).Draw(t, "engine")
		budget := rapid.IntRange(300, 2000).Draw(t, "budget")
		call := &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None, MaxTokens: budget}
		if rapid.Bool().Draw(t, "text") {
			var lines []string
			for i := range rapid.IntRange(50, 400).Draw(t, "lines") {
				lines = append(lines, fmt.Sprintf("line %d is %s", i, rapid.StringMatching(`[a-z ]{1,60}`).Draw(t, "line")))
			}
			text := strings.Join(lines, "\n")
			out, _ := e.Apply(nil, textResult(text), call)
			all, _ := followed(t, e, out, budget)
			for _, l := range lines {
				if l = strings.TrimSpace(l); !strings.Contains(all, l) {
					t.Fatalf("%q is never read in\n%s", l, all)
				}
			}
			return
		}
		var items []string
		n := rapid.IntRange(5, 80).Draw(t, "items")
		for i := range n {
			items = append(items, fmt.Sprintf(`{"id":%d,"name":"n%dn","deep":{"a":[%d.5,{"b":"v%dv"}],"url":"http://x/%d"},"body":%s}`, i+1000, i, i+5000, i, i,
				quoted(fmt.Sprintf("body %d ", i)+rapid.StringMatching(`[a-z]{2,8}( [a-z]{2,8}){0,80}`).Draw(t, "body"))))
		}
		doc := `{"total":` + fmt.Sprint(n) + `,"list":[` + strings.Join(items, ",") + `],"end":"the end"}`
		out, _ := e.Apply(nil, textResult(doc), call)
		all, _ := followed(t, e, out, budget)
		for i := range n {
			id := fmt.Sprintf(`"id":%d`, i+1000)
			if e != engines[0] { // the name may be that of a column
				id = id[len(`"id":`):]
			}
			for _, want := range []string{id, fmt.Sprintf(`"n%dn"`, i), fmt.Sprintf("%d.5", i+5000), fmt.Sprintf(`"v%dv"`, i), fmt.Sprintf(`"http://x/%d"`, i), fmt.Sprintf("body %d ", i)} {
				if !strings.Contains(all, want) {
					t.Fatalf("%s is never read in\n%s", want, all)
				}
			}
		}
	})
}

// TestReadingOnEndsForRandomResults checks that reading on ends, and stays within its budget.
func TestReadingOnEndsForRandomResults(t *testing.T) {
	engines := withTables(t)
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(engines).Draw(t, "engine")
		in := []byte(genResult().Draw(t, "result"))
		budget := rapid.IntRange(200, 1000).Draw(t, "budget")
		out, r := e.Apply(nil, in, &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None, MaxTokens: budget})
		if r.Cursor == "" {
			return
		}
		for _, args := range []string{"", `,"path":"items"`, `,"find":"e"`, `,"from":1`, `,"path":"title","from":1,"count":2`} {
			ask := fmt.Sprintf(`{"cursor":%q%s}`, r.Cursor, args)
			for range 2000 {
				next := e.More(context.Background(), "s", "c", []byte(ask))
				if !json.Valid(next) {
					t.Fatalf("%s answers %s", ask, next)
				}
				p := parse(t, next)
				if n := p.count(e.encoding); n > budget {
					t.Fatalf("%s: %d tokens of %d", ask, n, budget)
				}
				m := namedCall.FindStringSubmatch(*p.Content[len(p.Content)-1].Text)
				if m == nil {
					break
				}
				if m[1] == ask {
					t.Fatalf("%s goes on with itself: %s", ask, next)
				}
				ask = m[1]
			}
		}
		_ = out
	})
}

func TestReadingOnReturnsTheRequestedPart(t *testing.T) {
	e := engine(t, "transform: {}")
	var lines []string
	for i := range 200 {
		lines = append(lines, fmt.Sprintf("line %d of the body", i))
	}
	lines[150] = "ERROR: needle in line 150"
	doc := `{"items":[{"n":0},{"n":1,"body":` + string(quoted(strings.Join(lines, "\n"))) + `},{"n":2},{"n":3}],"pad":"` + strings.Repeat("x y z ", 4000) + `"}`
	_, r := e.Apply(nil, textResult(doc), &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None, MaxTokens: 500})
	for args, want := range map[string][]string{
		`,"path":"items.1.body","from":10,"count":2`: {"line 10 of the body\nline 11 of the body", "[the end]"},
		`,"path":"items","from":2,"count":1`:         {`[{"n":2}]`, "[the end]"},
		`,"path":"items.1.body"`:                     {"line 0 of the body\nline 1 of the body\n"},
		`,"find":"NEEDLE"`:                           {"items.1.body:150: ERROR: needle in line 150", "[1 found, the end]"},
		`,"find":"no such thing"`:                    {"[nothing found]"},
		`,"path":"nothing"`:                          {"INVALID_ARGUMENTS", "items, pad"},
		`,"path":"items.9","from":0`:                 {"INVALID_ARGUMENTS"},
	} {
		out := e.More(context.Background(), "s", "c", []byte(`{"cursor":"`+r.Cursor+`"`+args+`}`))
		texts, _ := seen(t, out)
		for _, w := range want {
			if !strings.Contains(strings.Join(texts, "\n"), w) {
				t.Errorf("%s: %q is not in %q", args, w, texts)
			}
		}
	}
}

// TestAPathOfATextBlockCountsItsLines checks that the path of a text block, which notices name, counts
// its lines or its items.
func TestAPathOfATextBlockCountsItsLines(t *testing.T) {
	e := engine(t, "transform: {}")
	var lines strings.Builder
	for i := range 300 {
		fmt.Fprintf(&lines, "line %d of the text\n", i)
	}
	_, r := e.Apply(nil, textResult(lines.String(), issues(20)), &Call{Tool: "x", Session: "s", Schemas: None, MaxTokens: 200})
	for args, want := range map[string]string{
		`"path":"content.0","from":10,"count":2`:       "line 10 of the text\nline 11 of the text",
		`"path":"content.0"`:                           "line 0 of the text\nline 1 of the text\n",
		`"path":"content.1.issues","from":3,"count":1`: `{"id":"ENG-3"`,
		`"path":"content.1.issues.4.id"`:               `"ENG-4"`,
		`"path":"content.1","from":1,"count":1`:        `"next_cursor":"abc"`,
		`"path":"content.0","from":298,"count":5`:      "line 298 of the text\nline 299 of the text",
		`"path":"content.0","raw":true,"from":0`:       `{"type":"text","text":"line 0`,
		`"path":"content.2","from":0,"count":1`:        "INVALID_ARGUMENTS",
	} {
		texts, _ := seen(t, e.More(context.Background(), "s", "", []byte(`{"cursor":"`+r.Cursor+`",`+args+`}`)))
		if !strings.Contains(texts[0], want) {
			t.Errorf("%s: %q is not in %.300q", args, want, texts)
		}
	}
}

// TestNumbersInGapsAreValuesOfFrom checks that the number in a gap can be copied to
// from, and that a gap without a number is among the lines after the last number.
func TestNumbersInGapsAreValuesOfFrom(t *testing.T) {
	e := engine(t, "transform: {}")
	var lines []string
	for i := range 400 {
		lines = append(lines, fmt.Sprintf("the line with the number %d", i))
	}
	text := string(quoted(strings.Join(lines, "\n")))
	short := slices.Clone(lines)
	for i := range short {
		if i%5 == 0 {
			short[i] = "## the line with the number " + strconv.Itoa(i)
		}
	}
	sections := string(quoted(strings.Join(short, "\n")))
	for path, in := range map[string]string{"log": `{"log":` + text + `}`, "sections": `{"sections":` + sections + `}`, "list": `{"list":["` + strings.Join(lines, `","`) + `"]}`} {
		out, r := e.Apply(nil, textResult(in), &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None, MaxTokens: 500})
		texts, _ := seen(t, out)
		gaps := regexp.MustCompile(`…(\d+)(?:–(\d+))?`).FindAllStringSubmatch(texts[0], -1)
		if len(gaps) == 0 {
			t.Fatalf("no gap in %s", texts[0])
		}
		if path == "sections" {
			checkBareGaps(t, e, r.Cursor, path, texts[0])
		}
		for _, gap := range gaps {
			for _, number := range gap[1:] {
				if number == "" {
					continue
				}
				texts, _ := seen(t, e.More(context.Background(), "s", "c", fmt.Appendf(nil, `{"cursor":%q,"path":%q,"from":%s,"count":1}`, r.Cursor, path, number)))
				if want := "the line with the number " + number; !strings.Contains(texts[0], want) {
					t.Errorf("%s from %s is %q", path, number, texts)
				}
			}
		}
	}
}

// checkBareGaps reads the lines of gaps without a number: they are among the 17 lines from the last number on.
// A gap is a line of its own: a mark at the end of a line says that the line itself is cut.
func checkBareGaps(t *testing.T, e *Engine, cursor, path, text string) {
	t.Helper()
	shown := regexp.MustCompile(`the line with the number (\d+)|\\n…(\d*)`).FindAllStringSubmatch(text, -1)
	bare, number := 0, ""
	for i, m := range shown {
		switch {
		case m[1] != "" || m[2] != "":
			number = cmp.Or(m[2], number)
		case i > 0:
			bare++
			before, _ := strconv.Atoi(shown[i-1][1])
			texts, _ := seen(t, e.More(context.Background(), "s", "c", fmt.Appendf(nil, `{"cursor":%q,"path":%q,"from":%s,"count":17}`, cursor, path, number)))
			if want := fmt.Sprintf("the line with the number %d\n", before+1); !strings.Contains(texts[0], want) {
				t.Errorf("from %s: no %q in %q", number, want, texts)
			}
		}
	}
	if bare == 0 {
		t.Errorf("each gap has a number in %s", text)
	}
}

// TestLineNumbersCountBlankLines checks the numbers of lines: blank lines count, and a long
// line is one line, whose pieces are its entries.
func TestLineNumbersCountBlankLines(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	e := engine(t, "transform: {}")
	long := "long:" + strings.Repeat(" some words", 1000)
	var lines []string
	for i := range 600 {
		lines = append(lines, fmt.Sprintf("line %d of the text", i))
	}
	for i := 20; i < 500; i += 20 {
		lines[i], lines[i+1] = "", "   "
	}
	lines[250] = long
	lines[555] = "the needle"
	text := strings.Join(lines, "\n")
	for name, in := range map[string]struct {
		result       []byte
		path, prefix string
	}{
		"alone":       {textResult(text), "", ""},
		"in a member": {textResult(`{"id":1,"body":` + string(quoted(text)) + `}`), `,"path":"body"`, "body."},
	} {
		t.Run(name, func(t *testing.T) {
			_, r := e.Apply(nil, in.result, &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None, MaxTokens: 500})
			for args, want := range map[string]string{
				in.path + `,"from":300,"count":4`:      strings.Join(lines[302:304], "\n"), // blank lines belong to the line before them
				in.path + `,"from":18,"count":2`:       strings.Join(lines[18:20], "\n"),
				in.path + `,"from":21,"count":3`:       strings.Join(lines[22:24], "\n"),
				in.path + `,"from":249,"count":1`:      lines[249],
				in.path + `,"from":251,"count":1`:      lines[251],
				`,"path":"` + in.prefix + `251"`:       lines[251],
				`,"path":"` + in.prefix + `250.1"`:     "INVALID_ARGUMENTS",
				`,"path":"` + in.prefix + `900"`:       "INVALID_ARGUMENTS",
				`,"path":"` + in.prefix + `none"`:      "INVALID_ARGUMENTS",
				`,"find":"needle"`:                     strings.TrimSuffix(in.prefix, ".") + ":555: the needle",
				in.path + `,"from":598,"count":100000`: strings.Join(lines[598:], "\n"),
			} {
				texts, _ := seen(t, e.More(context.Background(), "s", "c", []byte(`{"cursor":"`+r.Cursor+`"`+args+`}`)))
				if got := strings.TrimSpace(strings.TrimPrefix(texts[0], ":")); got != strings.TrimPrefix(want, ":") && (want != "INVALID_ARGUMENTS" || !strings.HasPrefix(got, want)) {
					t.Errorf("%s: %.300q, want %.300q", args, texts, want)
				}
			}
			// Read the long line piece by piece, with the calls that the notices name.
			ask, read := `{"cursor":"`+r.Cursor+`"`+in.path+`,"from":250,"count":1}`, ""
			for n := 0; !strings.HasSuffix(read, "line 251 of the text") && n < 20; n++ {
				texts, _ := seen(t, e.More(context.Background(), "s", "c", []byte(ask)))
				read += texts[0]
				if m := namedCall.FindStringSubmatch(texts[len(texts)-1]); m != nil {
					ask = m[1]
					if want := `"path":"` + in.prefix + `250","from":`; n == 0 && !strings.Contains(ask, want) {
						t.Errorf("the next call is %s", ask)
					}
				} else {
					break
				}
				if i := strings.Index(read, "\n"); i >= 0 {
					read = read[:i]
					break
				}
			}
			if read != long {
				t.Errorf("of the long line %d of %d characters are read: …%.100q", len(read), len(long), read[max(0, len(read)-100):])
			}
		})
	}
}

// TestCountEndsAfterLargeEntries checks that entries larger than a budget are read to their
// end, and no further.
func TestCountEndsAfterLargeEntries(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	e := engine(t, "transform: {}")
	word := func(i, k int) string { return fmt.Sprintf("word%d-%d", i, k) }
	var items []string
	for i := range 6 {
		var body, tags []string
		for k := range 300 {
			body, tags = append(body, word(i, k)), append(tags, string(quoted(word(i, 300+k))))
		}
		items = append(items, fmt.Sprintf(`{"n":%d,"body":%s,"tags":[%s]}`, i, quoted(strings.Join(body, " ")), strings.Join(tags, ",")))
	}
	list := "[" + strings.Join(items, ",") + "]"
	for _, c := range []struct {
		doc, args   string
		first, last int
	}{
		{list, `"from":2,"count":2`, 2, 3},
		{`{"items":` + list + `,"more":"word6-0"}`, `"path":"items","from":2,"count":2`, 2, 3},
		{`{"items":` + list + `,"more":"word6-0"}`, `"path":"items"`, 0, 5},
	} {
		_, r := e.Apply(nil, textResult(c.doc), &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None, MaxTokens: 500})
		times := make(map[string]int)
		for ask, calls := fmt.Sprintf(`{"cursor":%q,%s}`, r.Cursor, c.args), 0; ask != ""; calls++ {
			texts, _ := seen(t, e.More(context.Background(), "s", "c", []byte(ask)))
			for _, w := range regexp.MustCompile(`word\d+-\d+`).FindAllString(strings.Join(texts[:len(texts)-1], "\n"), -1) {
				times[w]++
			}
			last := texts[len(texts)-1]
			next := namedCall.FindStringSubmatch(last)
			if ask = ""; next != nil {
				ask = next[1]
			} else if last != "[the end]" || calls > 100 {
				t.Fatalf("%s: after %d calls the notice is %s", c.args, calls, last)
			}
		}
		for i := range 7 {
			for k := range 600 {
				if n, read := times[word(i, k)], i >= c.first && i <= c.last; n > 1 || read != (n == 1) {
					t.Fatalf("%s: %s is there %d times", c.args, word(i, k), n)
				}
			}
		}
	}
}

// TestAPagesCursorFetchesTheNextPage checks the cursor in _pagination.
func TestAPagesCursorFetchesTheNextPage(t *testing.T) {
	e := engine(t, "transform: {rules: [{page_size: 2}]}")
	out, _ := e.Apply(nil, textResult(`{"a":{"list":[1,2,3,4,5]}}`), &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None})
	var page struct {
		A struct {
			Page struct{ Cursor string } `json:"_pagination"`
		}
	}
	if err := json.Unmarshal([]byte(*parse(t, out).Content[0].Text), &page); err != nil || page.A.Page.Cursor == "" {
		t.Fatalf("%v in %s", err, out)
	}
	next := e.More(context.Background(), "s", "c", quotedAsk(page.A.Page.Cursor))
	if texts, _ := seen(t, next); texts[0] != "[3,4]" {
		t.Errorf("%q", texts)
	}
}

func quotedAsk(cursor string) []byte {
	return append(append([]byte(`{"cursor":`), quoted(cursor)...), '}')
}

// TestALargerBudgetKeepsEverythingASmallerOneKeeps checks random documents, by their numbers and
// booleans.
func TestALargerBudgetKeepsEverythingASmallerOneKeeps(t *testing.T) {
	e := engine(t, "transform: {more_tool: {enabled: off}}")
	rapid.Check(t, func(t *rapid.T) {
		doc := genDoc().Draw(t, "doc")
		less := rapid.IntRange(100, 1000).Draw(t, "less")
		more := less + rapid.IntRange(20, 1000).Draw(t, "more")
		kept := func(budget int) map[string]int {
			out, _ := e.Apply(nil, textResult(doc), &Call{Tool: "x", Schemas: None, MaxTokens: budget})
			var tp tree.Document
			if err := tp.Read([]byte(*parse(t, out).Content[0].Text)); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			seen := make(map[string]int)
			for n := range uint32(len(tp.Nodes)) {
				if raw := tp.Raw(n); tree.Scalar(raw) && !wire.Hollow(raw) && raw[0] != '"' {
					seen[string(tp.Name(n))+":"+string(raw)]++
				}
			}
			return seen
		}
		few, many := kept(less), kept(more)
		for what, n := range few {
			if many[what] < n {
				t.Fatalf("%s is there %d times in %d tokens, and %d times in %d:\n%s", what, n, less, many[what], more, doc)
			}
		}
	})
}

// TestLinksBeyondTheBudgetAreRemovedFromTheEnd checks that links beyond the budget go from the end, and that
// how many there are changes neither the ranks nor the paths of the texts beside them.
func TestLinksBeyondTheBudgetAreRemovedFromTheEnd(t *testing.T) {
	e := engine(t, "transform: {}")
	var blocks, links []string
	line := strings.Repeat("A line of the text. ", 4) + `\n`
	for i := range 400 {
		links = append(links, fmt.Sprintf(`{"type":"resource_link","uri":"file:///a/%d","name":"%d"}`, i, i))
	}
	text := func(last string) string {
		return `{"type":"text","text":"` + strings.Repeat(line, 100) + last + `"}`
	}
	blocks = append(append(append(blocks, text("first end")), links...), text("second end"))
	in := []byte(`{"content":[` + strings.Join(blocks, ",") + `]}`)
	before := 0
	for _, budget := range []int{200, 500, 1000, 2000, 4000, 8000} {
		out, r := e.Apply(nil, in, &Call{Tool: "x", Schemas: None, MaxTokens: budget})
		p := parse(t, out)
		kept := p.kept("resource_link")
		if !slices.Equal(kept, links[:len(links)-r.Links]) || len(kept) < before {
			t.Errorf("%d tokens: %d links, %d before, %d are said to be left out", budget, len(kept), before, r.Links)
		}
		before = len(kept)
		texts, _ := seen(t, out)
		if all := strings.Join(texts, "\n"); !strings.Contains(all, "first end") || !strings.Contains(all, "second end") {
			t.Errorf("%d tokens: an end is missing in\n%s", budget, all)
		}
		if last := texts[len(texts)-1]; budget > 200 && !strings.Contains(last, `"path":"content.0"`) && !strings.Contains(last, `"path":"content.401"`) {
			t.Errorf("%d tokens: the notice is %s", budget, last)
		}
	}
	if before < 40 {
		t.Errorf("only %d links are kept", before)
	}
}

// TestACallWithoutAPlaceReadsOnAtTheFirstGap checks notices that have no room for a place: their call is answered like one that
// names the first gap.
func TestACallWithoutAPlaceReadsOnAtTheFirstGap(t *testing.T) {
	e := engine(t, "transform: {}")
	in := `{"data":{"issues":{"nodes":[` + strings.Repeat(`{"identifier":"ENG-1","title":"One of the issues of this list","body":"it has a text"},`, 90) + `{"identifier":"ENG-2"}]}}}`
	out, _ := e.Apply(nil, textResult(in), &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None, MaxTokens: 200})
	texts, _ := seen(t, out)
	m := namedCall.FindStringSubmatch(texts[len(texts)-1])
	if m == nil || strings.Contains(m[1], "path") {
		t.Fatalf("the notice is %q", texts[len(texts)-1])
	}
	bare := e.More(context.Background(), "s", "c", []byte(m[1]))
	placed := e.More(context.Background(), "s", "c", []byte(strings.TrimSuffix(m[1], "}")+`,"path":"data.issues.nodes","from":0}`))
	if !bytes.Equal(bare, placed) || bytes.Contains(bare, []byte(`"isError":true`)) {
		t.Errorf("without a place: %s\nwith it: %s", bare, placed)
	}
}

// TestReadingInALineSaysWhere checks that an answer that begins within a long line says at which character.
func TestReadingInALineSaysWhere(t *testing.T) {
	e := engine(t, "transform: {}")
	var line strings.Builder
	for i := range 900 {
		fmt.Fprintf(&line, "wörd%d ", i)
	}
	all := strings.TrimRight(line.String(), " ")
	for name, in := range map[string]string{"a text": "first line\n" + all + "\nlast line", "a text in a document": `{"log":` + string(quoted("first line\n"+all+"\nlast line")) + `,"n":1}`} {
		out, _ := e.Apply(nil, textResult(in), &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None, MaxTokens: 300})
		calls := 0
		for ; ; calls++ {
			texts, _ := seen(t, out)
			notice := texts[len(texts)-1]
			if m := regexp.MustCompile(`From character ([\d,]+) of ([\d,]+) of the line`).FindStringSubmatch(notice); m != nil {
				at, _ := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
				first, _, _ := strings.Cut(texts[0], "\n")
				if rest := string([]rune(all)[at:]); !strings.HasPrefix(rest, first[:min(len(first), 100)]) || m[2] != thousands(len([]rune(all))) {
					t.Errorf("%s: %s, but %.40q is at %.40q", name, m[0], first, rest)
				}
			} else if calls > 0 && !strings.Contains(notice, "the end") {
				t.Errorf("%s: %q does not say where %.40q is", name, notice, texts[0])
			}
			m := namedCall.FindStringSubmatch(notice)
			if m == nil {
				break
			}
			out = e.More(context.Background(), "s", "c", []byte(m[1]))
		}
		if calls < 3 {
			t.Errorf("%s: %d calls", name, calls)
		}
	}
}
