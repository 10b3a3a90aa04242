package observe

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate"
)

// reader makes JSON of the lines of one side again.
type reader struct {
	lines []Line
	right bool
}

func (r *reader) next() (l Line, text string, ok bool) {
	for len(r.lines) > 0 {
		l = r.lines[0]
		pieces := l.Left
		if r.right && l.Edit {
			pieces = l.Right
		}
		r.lines = r.lines[1:]
		if pieces != nil {
			return l, strings.Join(pieces, ""), true
		}
	}
	return l, "", false
}

func (r *reader) value(l Line, text string) string {
	switch {
	case l.Kind != "":
		return text
	case text == "":
		var list []string
		for {
			rest := r.lines
			next, text, ok := r.next()
			if !ok || next.Kind != "text" || next.Depth != l.Depth+1 {
				r.lines = rest
				return quoted(strings.Join(list, "\n"))
			}
			list = append(list, text)
		}
	case text == "{" || text == "[":
		var list []string
		for {
			next, inner, ok := r.next()
			if !ok {
				return "it does not end"
			}
			if next.Depth == l.Depth {
				return text + strings.Join(list, ",") + inner
			}
			item := r.value(next, inner)
			if next.Key != nil {
				item = quoted(*next.Key) + ":" + item
			}
			list = append(list, item)
		}
	}
	return text
}

func sideOf(t *testing.T, c Comparison, right bool) (v any) {
	t.Helper()
	r := &reader{c.Lines, right}
	text := r.value(must(r.next()))
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func must(l Line, text string, _ bool) (Line, string) { return l, text }

// checkBeside lays out two values, and makes them again of what is shown.
func checkBeside(t *testing.T, a, b any) Comparison {
	t.Helper()
	before, _ := json.Marshal(a)
	after, _ := json.Marshal(b)
	c := Beside(before, after, nil)
	if c.More > 0 {
		return c
	}
	if got := sideOf(t, c, false); !reflect.DeepEqual(got, a) {
		t.Fatalf("%s beside %s: the left side shows %v", before, after, got)
	}
	if got := sideOf(t, c, true); !reflect.DeepEqual(got, b) {
		t.Fatalf("%s beside %s: the right side shows %v", before, after, got)
	}
	if same := reflect.DeepEqual(a, b); same != (c.Differences == 0) || c.Unexplained != c.Differences {
		t.Fatalf("%s beside %s: %d differences, %d unexplained", before, after, c.Differences, c.Unexplained)
	}
	for _, l := range c.Lines {
		if l.Left == nil && l.Right == nil || l.Why != nil && !l.Edit || !l.Edit && l.Right != nil {
			t.Fatalf("%s beside %s: line %+v", before, after, l)
		}
	}
	return c
}

// made makes values at random, and changes them.
type made struct{ *rand.Rand }

func (m made) value(depth int) any {
	kinds := 8
	if depth == 0 {
		kinds = 5
	}
	switch n := m.IntN(kinds); {
	case n < 5:
		return []any{nil, true, 1.5, "x", "", "a long text\nwith lines", strings.Repeat("many words ", 9), "a\tb  c"}[m.IntN(8)]
	case n < 6:
		return m.list(func() any { return m.value(depth - 1) })
	case n < 7:
		return m.list(func() any {
			return map[string]any{"name": string(rune('p' + m.IntN(6))), m.name(): m.value(depth - 1)}
		})
	}
	v := map[string]any{}
	for range m.IntN(5) {
		v[m.name()] = m.value(depth - 1)
	}
	return v
}

func (m made) name() string {
	return []string{"a", "b", "name", "uri", "id", "__proto__", "a.b", "", `"`}[m.IntN(9)]
}

func (m made) list(make func() any) any {
	list := []any{}
	for range m.IntN(5) {
		list = append(list, make())
	}
	return list
}

func (m made) changed(v any, depth int) any {
	if m.IntN(4) == 0 {
		return m.value(depth)
	}
	switch v := v.(type) {
	case []any:
		list := []any{}
		for _, x := range v {
			switch m.IntN(6) {
			case 0:
			case 1:
				list = append([]any{x}, list...)
			case 2:
				list = append(list, m.changed(x, depth-1))
			default:
				list = append(list, x)
			}
		}
		return list
	case map[string]any:
		members := map[string]any{}
		for k, x := range v {
			switch m.IntN(6) {
			case 0:
			case 1:
				members[k] = m.changed(x, depth-1)
			default:
				members[k] = x
			}
		}
		return members
	case string:
		return v + "\nmore"
	}
	return v
}

func TestBesideShowsBothSides(t *testing.T) {
	for seed := range uint64(3000) {
		m := made{rand.New(rand.NewPCG(seed, 1))}
		a := m.value(4)
		b := m.changed(a, 4)
		if seed%3 == 0 {
			b = m.value(4)
		}
		checkBeside(t, a, b)
	}
}

func FuzzBeside(f *testing.F) {
	f.Add(`{"a":1,"b":[1,2,{"name":"x"}]}`, `{"b":[2,{"name":"y"}],"a":"1"}`)
	f.Add(`[{"name":"a"},{"name":"b"}]`, `[{"name":"b"},{"name":"a","x":"1\n2"}]`)
	f.Add(`"\u202e\ud800"`, `{}`)
	f.Add(strings.Repeat("[", 200)+strings.Repeat("]", 200), strings.Repeat("[", 201)+strings.Repeat("]", 201))
	f.Fuzz(func(t *testing.T, before, after string) {
		var a, b any
		if json.Unmarshal([]byte(before), &a) == nil && json.Unmarshal([]byte(after), &b) == nil {
			checkBeside(t, a, b)
		}
	})
}

// shows writes lines as a page does.
func shows(c Comparison) string {
	var out strings.Builder
	side := func(pieces []string) string {
		var text strings.Builder
		for i, piece := range pieces {
			if i%2 == 1 {
				piece = "[" + piece + "]"
			}
			text.WriteString(piece)
		}
		return text.String()
	}
	for _, l := range c.Lines {
		if !l.Edit {
			l.Right = l.Left
		}
		key := ""
		if l.Key != nil {
			key = *l.Key + ": "
		}
		fmt.Fprintf(&out, "%s%s%s | %s", strings.Repeat(" ", l.Depth), key, side(l.Left), side(l.Right))
		if l.Why != nil {
			fmt.Fprintf(&out, " %v", l.Why)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func TestBesideSaysWhy(t *testing.T) {
	before := `{"tools":[{"name":"a","title":"A","annotations":{"x":1,"y":2}},{"name":"b"},{"name":"c","n":12345678901234567890}],"text":"one two\nthree"}`
	after := `{"tools":[{"name":"a","annotations":{"x":3}},{"name":"c","n":12345678901234567891}],"more":true,"text":"one 2\nthree\nfour"}`
	c := Beside([]byte(before), []byte(after), []translate.Change{
		{Rule: "C01", Before: "tools[0].title"}, {Rule: "C02", Before: "tools[0].annotations", After: "tools[0].annotations"}, {Rule: "C03", Before: "tools[0]"},
		{Rule: "C07", Before: "tools[1].name"}, {Rule: "transform", Before: "text", After: "text"},
	})
	want := `{ | {
 tools: [ | [
  { | {
   name: "a" | "a"
   title: "A" |  [C01]
   annotations: { | {
    x: [1] | [3] [C02]
    y: 2 |  [C02]
   } | }
  } | }
  { "name": "b" } |  [C07]
  { | {
   name: "c" | "c"
   n: [12345678901234567890] | [12345678901234567891] []
  } | }
 ] | ]
 more:  | true []
 text:  | 
  one[ two] | one[ 2] [transform]
  three | three
   | four
} | }
`
	if got := shows(c); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if c.Differences != 7 || c.Unexplained != 2 {
		t.Errorf("%d differences, %d unexplained", c.Differences, c.Unexplained)
	}
}

// TestAlignIsBounded compares texts that have too many equal lines.
func TestAlignIsBounded(t *testing.T) {
	a, b := append([]string{"x"}, slices.Repeat([]string{""}, 3000)...), append(slices.Repeat([]string{""}, 3000), "y")
	if pairs, all := equal(a, b); pairs != nil || all {
		t.Errorf("%d pairs, %v", len(pairs), all)
	}
	if all := Align(a, b); len(all) != len(a)+len(b) {
		t.Errorf("%d lines", len(all))
	}
	for i := range 3000 { // with lines of their own between the equal ones; each third of these is in both
		a[i] = strconv.Itoa(i / 2)
		if b[i] = "{"; i%2 == 0 {
			a[i], b[i] = "{", strconv.Itoa(i/2*3)
		}
	}
	same := 0
	for _, p := range Align(a, b) {
		if p.A >= 0 && p.B >= 0 {
			same++
		}
	}
	if same != 1001 {
		t.Errorf("%d lines in common", same)
	}
	long := strings.Repeat("[1],", 50_000)
	c := Beside([]byte("["+long+"2]"), []byte("["+long+"3]"), nil)
	if len(c.Lines) != maxLines || c.More != 50_003-maxLines || c.Differences != 1 {
		t.Errorf("%d lines, %d more, %d differences", len(c.Lines), c.More, c.Differences)
	}
}

func TestAlignFindsTheLongest(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		list := func() (l []int) {
			for range r.IntN(12) {
				l = append(l, r.IntN(4))
			}
			return l
		}
		a, b := list(), list()
		// The plain way.
		best := make([][]int, len(a)+1)
		for i := range best {
			best[i] = make([]int, len(b)+1)
		}
		for i := range a {
			for j := range b {
				best[i+1][j+1] = max(best[i][j+1], best[i+1][j])
				if a[i] == b[j] {
					best[i+1][j+1] = best[i][j] + 1
				}
			}
		}
		n := 0
		for _, p := range Align(a, b) {
			if p.A >= 0 && p.B >= 0 {
				n++
				if a[p.A] != b[p.B] {
					t.Fatalf("%v %v: %v are not equal", a, b, p)
				}
			}
		}
		if want := best[len(a)][len(b)]; n != want {
			t.Fatalf("%v %v: %d in common, want %d", a, b, n, want)
		}
	}
}

// TestAlignTakesTheFirst: of equal lines, the first is the one that is left, so that what was removed behind it stays in one piece.
func TestAlignTakesTheFirst(t *testing.T) {
	want := []Pair{{0, -1}, {-1, 0}, {1, 1}, {2, -1}, {3, -1}, {4, -1}, {-1, 2}}
	if got := Align([]string{"a", "", "x", "", "z"}, []string{"b", "", "c"}); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
