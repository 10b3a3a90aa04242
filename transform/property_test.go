package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/transform/fit"
	"github.com/dragoman-proxy/dragoman/transform/tokens"
	"github.com/dragoman-proxy/dragoman/transform/tree"
)

// engine makes an engine of a configuration in YAML.
func engine(t testing.TB, text string) *Engine {
	t.Helper()
	tt, ok := t.(*testing.T)
	if !ok {
		tt = new(testing.T)
	}
	e, err := configure(tt, text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// words returns the pieces that random texts are made of. Pieces that are hard
// to cut stand first.
func words() []string {
	return []string{
		"👨‍👩‍👧‍👦", "e\u0301", "🇩🇪🇫🇷", "नि", "각", "日本語", "한국", "\r\n", "\n", "\n\n", "  ", "\t", "```\n", "~~~", "`x", "[a](http://x.y/z)", "![i](u)",
		"| a | b |\n", "# Head\n", "- item\n", "\\", "\"", "\u0000", "\u2028", "a", "word", "Some sentence. ", "{", "[", "}", "=", "\x7f", "…", strings.Repeat("=", 300),
	}
}

func genText(most int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words()), 0, most).Draw(t, "words"), rapid.SampledFrom([]string{"", " "}).Draw(t, "between"))
	})
}

func genName() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"id", "title", "name", "url", "a", "b", "c", "x.y", "nodes", "items", "data", "has_more", "next_cursor", "pageInfo", "é\"", ""})
}

// genJSON makes the text of a JSON value.
func genJSON(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 9).Draw(t, "kind")
		if depth <= 0 {
			kind = 5 + kind%5
		}
		switch kind {
		case 0, 1, 2:
			var members []string
			for _, n := range rapid.SliceOfNDistinct(genName(), 0, 6, rapid.ID).Draw(t, "names") {
				members = append(members, string(quoted(n))+":"+genJSON(depth-1).Draw(t, "value"))
			}
			return "{" + strings.Join(members, ",") + "}"
		case 3:
			var list []string
			for range rapid.IntRange(0, 5).Draw(t, "length") {
				list = append(list, genJSON(depth-1).Draw(t, "value"))
			}
			return "[" + strings.Join(list, ", ") + "]"
		case 4: // one value, many times
			one := genJSON(depth-1).Draw(t, "value")
			n := rapid.IntRange(1, 60).Draw(t, "times")
			return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]"
		case 5, 6:
			return string(quoted(genText(40).Draw(t, "text")))
		case 7:
			return rapid.SampledFrom([]string{"1.0", "-0", "12345678901234567890.10", "1e400", "0.50E+3"}).Draw(t, "number")
		}
		return rapid.SampledFrom([]string{"null", "true", "false", `""`, "[]", "{}", `"2025-01-31T00:00:00Z"`}).Draw(t, "scalar")
	})
}

func genDoc() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		for {
			doc := genJSON(rapid.IntRange(1, 6).Draw(t, "depth")).Draw(t, "doc")
			if len(doc) > 200_000/effort {
				continue
			}
			if tree.IsContainer([]byte(doc)) {
				return doc
			}
			return `{"items":[` + doc + `]}`
		}
	})
}

// genResult makes a CallToolResult.
func genResult() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var blocks []string
		doc := genDoc().Draw(t, "structured")
		for range rapid.IntRange(0, 8).Draw(t, "blocks") {
			switch rapid.IntRange(0, 7).Draw(t, "kind") {
			case 0:
				blocks = append(blocks, `{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}`)
			case 1:
				blocks = append(blocks, `{"type":"resource_link","uri":"file:///a/b","name":`+string(quoted(genText(5).Draw(t, "name")))+`}`)
			case 2:
				blocks = append(blocks, `{"type":"resource","resource":{"uri":"file:///x","text":`+string(quoted(genText(60).Draw(t, "text")))+`}}`)
			case 3, 4:
				blocks = append(blocks, `{"annotations":{"priority":0.50},"type":"text","text":`+string(quoted(genDoc().Draw(t, "json")))+`}`)
			case 5:
				blocks = append(blocks, `{"type":"text","text":`+string(quoted(doc))+`}`)
			default:
				blocks = append(blocks, `{"type":"text","text":`+string(quoted(genText(120).Draw(t, "text")))+`}`)
			}
		}
		members := []string{`"content":[` + strings.Join(blocks, " , ") + `]`}
		if doc[0] == '{' && rapid.Bool().Draw(t, "with structured") {
			members = append(members, `"structuredContent":`+doc)
		}
		if rapid.Bool().Draw(t, "error") {
			members = append(members, `"isError" : true`)
		}
		if rapid.Bool().Draw(t, "meta") {
			members = append(members, `"_meta":{"server/x":[1.50]}`)
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}

type plainResult struct {
	Content           []plainBlock               `json:"content"`
	StructuredContent json.RawMessage            `json:"structuredContent"`
	IsError           *bool                      `json:"isError"`
	Meta              map[string]json.RawMessage `json:"_meta"`
}

type plainBlock struct {
	Type     string  `json:"type"`
	Text     *string `json:"text"`
	Resource *struct {
		Text *string `json:"text"`
	} `json:"resource"`
	Meta map[string]json.RawMessage `json:"_meta"`
	raw  string
}

func (b *plainBlock) UnmarshalJSON(text []byte) error {
	type plain plainBlock
	b.raw = string(text)
	return json.Unmarshal(text, (*plain)(b))
}

func parse(t fatal, raw []byte) (p plainResult) {
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return p
}

type fatal interface{ Fatalf(string, ...any) }

// count returns what a result costs, counted in a simple way.
func (p plainResult) count(e *tokens.Encoding) (n int) {
	for _, b := range p.Content {
		switch {
		case b.Type == "text" && b.Text != nil:
			n += e.Count([]byte(*b.Text))
		case b.Type == "resource" && b.Resource.Text != nil:
			n += e.Count([]byte(*b.Resource.Text))
		case b.Type == "resource_link":
			n += e.Count(compact([]byte(b.raw)))
		}
	}
	if p.StructuredContent != nil {
		n += e.Count(compact(p.StructuredContent))
	}
	return n
}

// kept returns the blocks of a type, as they are written.
func (p plainResult) kept(kind string) (all []string) {
	for _, b := range p.Content {
		if b.Type == kind {
			all = append(all, b.raw)
		}
	}
	return all
}

func TestRandomResultsAreCappedToTheirBudget(t *testing.T) {
	e := engine(t, "transform: {more_tool: {enabled: off}}")
	rapid.Check(t, func(t *rapid.T) {
		in := []byte(genResult().Draw(t, "result"))
		before := bytes.Clone(in)
		budget := rapid.OneOf(rapid.SampledFrom([]int{100, 120, 200, 500}), rapid.IntRange(100, 3000)).Draw(t, "budget")
		call := &Call{Tool: "x", Schemas: None, MaxTokens: budget}
		out, r := e.Apply(nil, in, call)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if !bytes.Equal(in, before) {
			t.Fatal("the result was changed in place")
		}
		p, was := parse(t, out), parse(t, in)
		if n := p.count(e.encoding); n > budget || r.OverBudget {
			t.Fatalf("I5: %d tokens, over the budget of %d:\n%s", n, budget, out)
		} else if same(in, out) != (r.Outcome == Passed) || !same(in, out) && n != r.TokensAfter {
			t.Fatalf("%d tokens, reported as %d, %v", n, r.TokensAfter, r.Outcome)
		}
		if was.count(e.encoding) <= budget && !same(in, out) {
			t.Fatalf("I7: it fits, and was changed to\n%s", out)
		}
		if again, r := e.Apply(nil, out, call); !same(again, out) {
			t.Fatalf("I6: applied twice, it goes on: %v\n%s\n%s", r.Steps, out, again)
		}
		if again, _ := e.Apply([]byte("dst"), in, call); !same(again, in) && string(again) != "dst"+string(out) {
			t.Fatalf("I6: another time\n%s\nbecame\n%s", out, again)
		}
		if (p.IsError == nil) != (was.IsError == nil) || was.Meta["server/x"] != nil && string(p.Meta["server/x"]) != "[1.50]" {
			t.Fatalf("I8: isError or _meta went: %s", out)
		}
		if !slices.Equal(p.kept("image"), was.kept("image")) {
			t.Fatalf("I8: images went: %s", out)
		}
		if links := was.kept("resource_link"); !slices.Equal(p.kept("resource_link"), links[:len(links)-r.Links]) {
			t.Fatalf("I8: links went, and not the last %d: %s", r.Links, out)
		}
		for _, b := range p.Content {
			if b.Text == nil {
				continue
			}
			if !utf8.ValidString(*b.Text) || strings.ContainsRune(*b.Text, utf8.RuneError) {
				t.Fatalf("I4: a broken rune in %q", *b.Text)
			}
		}
	})
}

func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

func TestJSONStaysJSONWithItsNumbersAndOrder(t *testing.T) {
	e := engine(t, "transform: {}")
	rapid.Check(t, func(t *rapid.T) {
		doc := genDoc().Draw(t, "doc")
		doc = "[" + strings.TrimSuffix(strings.Repeat(doc+",", rapid.IntRange(1, 20).Draw(t, "times")), ",") + "]"
		if rapid.Bool().Draw(t, "object") {
			doc = `{"list":` + doc + `,"n":1.50}`
		}
		out, _ := e.Apply(nil, textResult(doc), &Call{Tool: "x", Schemas: None, MaxTokens: 100})
		text := *parse(t, out).Content[0].Text
		if !json.Valid([]byte(text)) || text[0] != doc[0] {
			t.Fatalf("I2: %s\nbecame %s", doc, text)
		}
		if !within(numbersAndNames(t, text), numbersAndNames(t, doc)) {
			t.Fatalf("I10: %s\nbecame %s", doc, text)
		}
	})
}

// numbersAndNames lists the numbers and member names of a document, in order.
func numbersAndNames(t *rapid.T, doc string) (all []string) {
	var tp tree.Document
	if err := tp.Read([]byte(doc)); err != nil {
		t.Fatal(err)
	}
	for n := range tp.Nodes {
		if name := tp.Name(uint32(n)); name != nil {
			all = append(all, string(name))
		}
		if value := tp.Raw(uint32(n)); value[0] == '-' || value[0] >= '0' && value[0] <= '9' {
			all = append(all, string(value))
		}
	}
	return all
}

// within reports whether part is whole with some elements left out.
func within(part, whole []string) bool {
	for _, w := range whole {
		if len(part) > 0 && part[0] == w {
			part = part[1:]
		}
	}
	return len(part) == 0
}

func TestNoCutSplitsAGrapheme(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(genText(60).Draw(t, "text"))
		total := utf8.RuneCount(text)
		if total < 2 {
			return
		}
		s := shortening{
			max:      rapid.IntRange(1, total-1).Draw(t, "max"),
			strategy: rapid.SampledFrom([]string{"end", "middle", "word"}).Draw(t, "strategy"),
			marker:   rapid.SampledFrom([]string{"…", "... [truncated]", "[%d more]"}).Draw(t, "marker"),
		}
		out := s.text(text, total)
		if n := utf8.RuneCount(out); n > s.max || !utf8.Valid(out) {
			t.Fatalf("%q became %q: %d of %d", text, out, n, s.max)
		}
		ends := map[int]bool{0: true}
		state, rest, at := -1, text, 0
		for len(rest) > 0 {
			var cluster []byte
			cluster, rest, _, state = uniseg.FirstGraphemeCluster(rest, state)
			at += len(cluster)
			ends[at] = true
		}
		head, tail := s.parts(text, s.max)
		if !ends[head] || !ends[tail] {
			t.Fatalf("%q is cut at %d and %d", text, head, tail)
		}
	})
}

func TestACutCodeFenceIsClosed(t *testing.T) {
	e := engine(t, "transform: {more_tool: {enabled: off}}")
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(genText(60).Draw(t, "text")+"\n\n", rapid.IntRange(10, 100).Draw(t, "times"))
		for _, e := range []*Engine{e} {
			out, r := e.Apply(nil, textResult(text), &Call{Tool: "x", Schemas: None, MaxTokens: 100})
			if r.Outcome != Capped {
				return
			}
			for _, b := range parse(t, out).Content {
				if fence, _ := fit.OpenFence([]byte(*b.Text)); fence != "" {
					t.Fatalf("%q leaves a fence open in %q", text, *b.Text)
				}
			}
		}
	})
}

// broken is a source that does what no source should.
type broken struct{ how string }

func (b broken) Name() string                    { return "broken" }
func (b broken) Match(_, _ string, _ []byte) int { return 0 }
func (b broken) Options() []Option               { return nil }
func (b broken) Apply(dst, _ []byte, _ Values) ([]byte, Kind, error) {
	switch b.how {
	case "panic":
		panic("no")
	case "error":
		return append(dst, "half of"...), JSON, errors.New("no")
	case "broken":
		return append(dst, `{"a":`...), JSON, nil
	case "rune":
		return append(dst, 0xFF), Text, nil
	}
	return dst, JSON, ErrUnchanged
}

func TestAFailedSourceLeavesTheResultUnchanged(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	for _, how := range []string{"panic", "error", "broken", "rune", "unchanged"} {
		cfg := DefaultConfig()
		cfg.Rules = []Rule{{Match: Match{Tool: "x"}, Adapter: "broken"}}
		e, err := New(cfg, Options{Sources: []Source{broken{how}}})
		if err != nil {
			t.Fatal(err)
		}
		in := textResult(`{"a":1}`)
		out, r := e.Apply(nil, in, &Call{Tool: "x", Schemas: None})
		if !same(in, out) || (r.Err == nil) != (how == "unchanged") || r.Err != nil && r.Outcome != Failed {
			t.Errorf("%s: %s, %v, %v", how, out, r.Outcome, r.Err)
		}
		big := textResult(issues(500))
		out, r = e.Apply(nil, big, &Call{Tool: "x", Schemas: None})
		if n := parse(t, out).count(e.encoding); n > 4000 || (r.Err == nil) != (how == "unchanged") {
			t.Errorf("%s: %d tokens, %v", how, n, r.Err)
		}
	}
}
