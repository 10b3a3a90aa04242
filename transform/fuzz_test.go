package transform

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/fit"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// FuzzApply checks that valid JSON stays valid, fits its budget, and does not
// change a second time, and that invalid JSON does not cause a panic.
func FuzzApply(f *testing.F) {
	for _, in := range []string{
		string(textResult(issues(20))), `{"content":[{"type":"text","text":"` + strings.Repeat("a ", 200) + `"}],"structuredContent":{"a":1}}`,
		`{"content":{"type":"text"}}`, `{"content":[[{}]],"_meta":7}`, `{"content":[{"type":"text","text":7}],"isError":"true"}`, `[1]`, `7`, "{\"content\":[[{}\x1d\x8f]]}", `{"content":[{"type":"text","text":"`, `{"\u0063ontent":[{"\u0074ype":"text","text":"` + strings.Repeat("\\ud800 ", 100) + `"}]}`,
		`{"content":[{"type":"resource","resource":{"text":"` + strings.Repeat("x ", 300) + `","text":"y"}}]}`, `{"content":[{"type":"resource","resource":{"type":"text","text":"` + strings.Repeat("x ", 300) + `"}}]}`,
		`{"content":[{"type":"text","text":"x","content":{"type":"text","text":"` + strings.Repeat("x ", 300) + `"}}]}`,
		`{"_meta":{"dragoman/transform":{"notice":1}},"content":[{"type":"text","text":"` + strings.Repeat("x ", 300) + `","_meta":{"dragoman/transform":1}}]}`,
	} {
		f.Add([]byte(in), false)
		f.Add([]byte(in), true)
	}
	// The engines count bytes instead of tokens: what a tokenizer caches of one
	// input would look like new coverage in the next one.
	plain := engine(f, "transform: {adapters: {capper: {model: bytes}}}")
	ruled := engine(f, `transform: {adapters: {capper: {model: bytes}}, rules: [{include_fields: ["*.id", a, title], truncate: {"*": {max: 20}}, page_size: 2, max_chars: 500}]}`)
	const budget = 300
	f.Fuzz(func(t *testing.T, in []byte, rules bool) {
		e := plain
		if rules {
			e = ruled
		}
		call := &Call{Tool: "x", Schemas: None, MaxTokens: budget}
		before := bytes.Clone(in)
		out, r := e.Apply(nil, in, call)
		if !bytes.Equal(in, before) {
			t.Error("the result was changed in place")
		}
		if !wire.Valid(in) {
			return // for invalid JSON, Apply only promises not to panic
		}
		if !json.Valid(out) {
			t.Fatalf("%q became %q", in, out)
		}
		count := tally{encoding: e.encoding, left: unlimited}
		count.result(out, "")
		if count.sum > budget || r.Err != nil {
			t.Errorf("%d tokens, %v: %s", count.sum, r.Err, out)
		}
		if again, r := e.Apply(nil, out, call); !same(again, out) {
			t.Errorf("applied twice, %v:\n%s\n%s", r.Steps, out, again)
		}
	})
}

// FuzzProse checks that a text that is cut by its characters is no longer than
// its limit, has no broken rune, and leaves no fence open.
func FuzzProse(f *testing.F) {
	for _, text := range []string{"# a\n\n```go\nx\n```\nlast [link](url) `code`", "| a |\n|---|\n| b |\n", "```\n", "~~~ `\n```\n~~~", "    ```\nx", "> ```\n> x\n", "e\u0301\u0301\r\n", "- ```\n  x\n"} {
		f.Add(text, 10)
		f.Add(strings.Repeat(text+"\n", 20), 50)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if !utf8.ValidString(text) || limit < 0 || limit > 1000 || utf8.RuneCountInString(text) <= limit {
			return
		}
		out := beginning([]byte(text), limit, defaultMarker)
		if fence, _ := fit.OpenFence(out); fence != "" || !utf8.Valid(out) || utf8.RuneCount(out) > limit {
			t.Errorf("%q to %d leaves %q", text, limit, out)
		}
	})
}

// FuzzDocument checks that Read accepts a container exactly if encoding/json does,
// and that a plan with room for all of it writes the same document.
func FuzzDocument(f *testing.F) {
	for _, in := range []string{`{"a":[1,-0.5e+1,"\u00e9",null]}`, `[]`, ` [ ] `, `{}x`, `[1,]`, `{"a"}`, `[01]`, `["\x"]`, "[\"\t\"]", `[tru]`, `{"a":1,"a":2}`, `[-]`, `[1.]`, `[1e]`, `[`, `["`} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if !utf8.Valid(in) || bytes.Count(in, []byte("["))+bytes.Count(in, []byte("{")) > wire.MaxDepth {
			return
		}
		var doc tree.Document
		err := doc.Read(in)
		if want := json.Valid(in) && tree.IsContainer(in); (err == nil) != want {
			t.Fatalf("%q: %v, want %t", in, err, want)
		}
		if err != nil {
			return
		}
		plan := fit.New([]fit.Part{{Text: in}}, fit.Options{Most: unlimited})
		parts, _ := plan.Fit(unlimited, 1, func(parts [][]byte) int { return len(parts[0]) })
		if !bytes.Equal(parts[0], compact(bytes.TrimSpace(in))) {
			t.Errorf("%q became %q", in, parts[0])
		}
	})
}
