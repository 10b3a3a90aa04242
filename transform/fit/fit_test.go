package fit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/grapheme"
	"github.com/dragoman-proxy/dragoman/transform/schema"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func fitted(src []byte, room int) ([]byte, *Plan) {
	p := New([]Part{{Text: src}}, Options{Most: room})
	parts, _ := p.Fit(room, 1, func(parts [][]byte) int { return len(parts[0]) })
	return parts[0], p
}

func TestLogarithmIsMonotonic(t *testing.T) {
	for n := range 5000 {
		if lg(n+1) < lg(n) {
			t.Fatalf("lg(%d) is %d, lg(%d) is %d", n, lg(n), n+1, lg(n+1))
		}
	}
	if lg(0) != 0 || lg(1) != bit || lg(1023) != 10*bit {
		t.Errorf("%d %d %d", lg(0), lg(1), lg(1023))
	}
}

func TestImportantLinesAreKept(t *testing.T) {
	many := strings.Repeat("2026-11-20 INFO request handled in 12 ms\n", 500)
	var hits, issues, run strings.Builder
	for file := range 5 {
		for line := range 40 {
			fmt.Fprintf(&hits, "src/part%d.go:%d:\tif timeout > limit {\n", file, line+1)
		}
	}
	for i := range 20 {
		fmt.Fprintf(&issues, `{"id":%d,"repository":{"id":7,"full_name":"acme/shop","visibility":"private","language":"Go"},"title":"Issue %d"},`, i, i)
		fmt.Fprintf(&run, "____ test_%d ____\n\n    def test_%d():\n        total = price(%d)\n>       assert total == 7\nE       assert %d == 7\n\n", i, i, i, i)
	}
	run.WriteString("=== short summary ===\nFAILED test_shop.py::test_8 - assert 8 == 7\nFAILED test_shop.py::test_9 - assert 9 == 7\n=== 2 failed, 18 passed ===\n")
	items := strings.Repeat(`{"id":1,"title":"One of many things that are all the same, and take some room","status":"passed"},`, 100)
	for _, c := range []struct {
		claim, in string
		room      int
		want      []string
	}{
		{"the error in the middle", many + "Error: no such table users\n    at query (db.js:12)\n" + many, 300, []string{"Error: no such table users", "at query (db.js:12)"}},
		{"the end", many + "exit status 1", 200, []string{"exit status 1"}},
		{"the failed item", `{"tests":[` + items + `{"id":77,"title":"Breaks","status":"failed"},` + items + `{"id":2}]}`, 300, []string{`"Breaks"`, `"failed"`}},
		{"headings", "# A\n\n" + strings.Repeat("Words of a text. ", 100) + "\n\n## B\n\n" + strings.Repeat("Words of a text. ", 100), 300, []string{"# A", "## B"}},
		{"what stands beside base64", `{"data":"` + strings.Repeat("QUJDREVGR0hJSktMTU5PUFFS0123", 200) + `","name":"a.png","note":"kept"}`, 200, []string{`"a.png"`, `"kept"`, "QUJD", "characters"}},
		{"a text in JSON", `{"exit":1,"stdout":"` + strings.Repeat(`a line of it\n`, 300) + `the last line"}`, 300, []string{`"exit":1`, "the last line"}},
		{"what failed, before where sections begin", run.String(), 300, []string{"test_8 - assert", "test_9 - assert", "2 failed", "E       assert"}},
		{"the first hit in each file", hits.String(), 400, []string{"part0.go:1:", "part1.go:1:", "part2.go:1:", "part3.go:1:", "part4.go:1:"}},
		{"the same object once", "[" + issues.String() + `{"id":99}]`, 600, []string{`"acme/shop"`, `"Issue 0"`, `"Issue 1"`, `"Issue 2"`, `"Issue 19"`}},
		{"methods, and no directives", "# define A 1\n\n# define B 2\n\n" + strings.Repeat("- (void)first:(int)a\n{\n  [self b:a];\n  [self c:a];\n}\n\n", 20) + "- (void)last:(int)b\n{\n  [self b:b];\n}\n", 400, []string{"- (void)last:(int)b"}},
		{"signatures", strings.Repeat("func f(a int) {\n\tfor range a {\n\t\tprintln(a)\n\t\tprintln(a + a)\n\t}\n}\n\n", 20) + "func last(b string) error {\n\treturn nil\n}\n", 1500, []string{"func last(b string) error {"}},
	} {
		out, _ := fitted([]byte(c.in), c.room)
		if len(out) > c.room {
			t.Errorf("%s: %d bytes", c.claim, len(out))
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: %q is not in\n%s", c.claim, want, out)
			}
		}
	}
}

// TestTitlesOfATextAreItsSections checks that a rule after a blank line does
// not make a title of the line above.
func TestTitlesOfATextAreItsSections(t *testing.T) {
	in := []byte("# A\n\nSee [it](x).\n\n---\n\nB\n---\n\n# A\n\n```\n# no\n```\n\n## C\n\nEnd.\n")
	p := New([]Part{{Text: in, Markdown: true}}, Options{Most: len(in)})
	var got []string
	for _, m := range p.survey(1).sections {
		got = append(got, strings.TrimSpace(string(p.raw(p.at(1).first+uint32(m.line)))))
	}
	if s := strings.Join(got, ", "); s != "# A, B, ## C" {
		t.Errorf("titles are %s", s)
	}
}

func TestMethodsOfObjectiveCAreNoItemsOfAList(t *testing.T) {
	for line, want := range map[string]bool{
		"- (void)save": true, "+ (instancetype)with:(int)a {": true, "- (a) an item": false, "- (void)": false, "- an (item)s": false, "-(void)save": false, "(void)save": false, "* (void)save": false,
	} {
		if isMethod([]byte(line)) != want {
			t.Errorf("isMethod(%q) is %t", line, !want)
		}
	}
}

// TestTheSmallestBudgetStillGivesJSON checks that an array stays an array, and
// an object an object.
func TestTheSmallestBudgetStillGivesJSON(t *testing.T) {
	for in, want := range map[string]string{`[["` + strings.Repeat("word ", 15) + `"]]`: "[]", `{"number":` + strings.Repeat("1", 300) + `}`: "{}"} {
		if out, _ := fitted([]byte(in), 20); string(out) != want {
			t.Errorf("%s became %s", in, out)
		}
	}
}

// seeds are texts that are hard to cut.
func seeds(f *testing.F) {
	for _, s := range []string{
		"a\nb\n\n\nc", "e\u0301\u0301" + strings.Repeat("x", 300), strings.Repeat("👨‍👩‍👧‍👦", 60), "```go\nx\n```\n" + strings.Repeat("error: y\n", 30),
		`{"a":[1,2,{"b":"` + strings.Repeat("text ", 80) + `"}],"n":null}`, `[[[]],{},""]`, strings.Repeat("QUJDREVGR0hJSktMTU5PUFFS0123", 20),
		"\x1b[31ma\x1b[0m\rb\x1b[2A\x1b[Kc\n", "<html><head><title>x</title><script>y</script></head><p>z 1,234.5", "data:;base64," + strings.Repeat("QUJDREVGR0hJSktMTU5PUFFS0123", 20) + " x",
		`{"a":"{\"b\":\"` + strings.Repeat("c ", 150) + `\"}"}`, "\r\n\r\n \t\nx", "~~~\n", `{"m":{` + strings.TrimSuffix(strings.Repeat(`"k":{"v":1,"w":"`+strings.Repeat("z", 150)+`"},`, 30), ",") + `}}`,
	} {
		f.Add([]byte(s), 100, 200)
	}
}

// FuzzUnits checks that the units of a text are all of it, and that none ends
// within a character as readers see it.
func FuzzUnits(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, in []byte, _, _ int) {
		if !utf8.Valid(in) {
			return
		}
		p := New([]Part{{Text: in}}, Options{Most: len(in) + 1})
		if at := p.at(1); len(in) == 0 || at.kind != text {
			return
		}
		in = p.docOf(1).src // as a terminal leaves it
		end := uint32(0)
		p.leaves(1, func(n uint32) bool {
			at := p.at(n)
			if at.pos != end || at.end <= at.pos {
				t.Fatalf("a unit from %d to %d begins behind %d in %q", at.pos, at.end, end, in)
			}
			if i := int(at.pos); i > 0 && in[i-1] != '\n' && grapheme.Floor(in, i) != i {
				t.Errorf("%q is cut at %d", in, i)
			}
			end = at.end
			return true
		})
		if int(end) != len(in) {
			t.Fatalf("the units of %q end at %d", in, end)
		}
	})
}

// FuzzRank checks that a rank does not depend on the budget: more room keeps
// all that less room keeps.
func FuzzRank(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, in []byte, less, more int) {
		if !utf8.Valid(in) || less < 10 || less > more || more > 5000 {
			return
		}
		p := New([]Part{{Text: in}}, Options{Most: more})
		few := New([]Part{{Text: in}}, Options{Most: less})
		if len(few.units) > len(p.units) {
			t.Fatalf("%d units for less, %d for more", len(few.units), len(p.units))
		}
		for i := range few.units {
			if a, b := few.at(few.units[i]), p.at(p.units[i]); a.rank != b.rank || a.pos != b.pos {
				t.Fatalf("unit %d ranks at %d and at %d", i, a.rank, b.rank)
			}
		}
		for i := 1; i < len(p.units); i++ {
			if p.at(p.units[i-1]).rank > p.at(p.units[i]).rank {
				t.Fatalf("unit %d is not in order", i)
			}
		}
	})
}

// FuzzRendering checks that the output is no longer than there is room for,
// valid, of the same kind as the input, and without an open fence.
func FuzzRendering(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, in []byte, room, _ int) {
		if !utf8.Valid(in) || room < 2 || room > 5000 || len(in) == 0 {
			return
		}
		out, _ := fitted(in, room)
		if !utf8.Valid(out) {
			t.Fatalf("%q became %q", in, out)
		}
		if wire.Valid(in) && tree.IsContainer(in) {
			if !json.Valid(out) || out[0] != bytes.TrimSpace(in)[0] {
				t.Fatalf("%q became %q", in, out)
			}
		} else if fence, _ := OpenFence(out); fence != "" {
			t.Fatalf("%q leaves a fence open in %q", in, out)
		}
		if len(out) > room && len(out) > 2 {
			t.Fatalf("%q is %d bytes, and not %d", out, len(out), room)
		}
	})
}

// TestOutputDependsOnlyOnTheKeptItems checks that the output does not
// depend on what was tried before. A list whose places mean something has all
// items up to the last one that is kept.
func TestOutputDependsOnlyOnTheKeptItems(t *testing.T) {
	value := []byte(`{"v":[{"text":"` + strings.Repeat("a ", 99) + `"},{"text":"` + strings.Repeat("b ", 99) + `"},{"id":1}],"title":"c"}`)
	s := schema.New([]byte(`{"type":"object","required":["v"],"properties":{"v":{"type":"array","prefixItems":[{"type":"object"},{"type":"object"}],"items":{"type":"object"}}}}`))
	p := New([]Part{{Text: value, Guards: s.Root(value)}}, Options{Most: 100})
	w := &writer{Plan: p}
	written := func(n int) string {
		p.mark(n)
		w.write()
		return string(w.texts[0])
	}
	var up []string
	for n := range len(p.units) + 1 {
		up = append(up, written(n))
	}
	if len(up) < 4 {
		t.Fatalf("%q", up)
	}
	for n := len(p.units); n >= 0; n-- {
		if down := written(n); down != up[n] {
			t.Errorf("%d units are\n %s\nfrom above, and\n %s\nfrom below", n, down, up[n])
		}
	}
}
