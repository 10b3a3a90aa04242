package fields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func TestApply(t *testing.T) {
	for _, c := range []struct {
		claim, in        string
		include, exclude string // paths, with blanks between
		depth            int
		want             string
	}{
		{"nothing listed keeps all", ` {"b" : 1.50, "a":[ ]} `, "", "", 0, `{"b" : 1.50, "a":[ ]}`},
		{"members keep their order", `{"b":1,"c":2,"a":3}`, "a b", "", 0, `{"b":1,"a":3}`},
		{"numbers keep their digits", `{"n":1.0e+2,"big":12345678901234567890.10}`, "n big", "", 0, `{"n":1.0e+2,"big":12345678901234567890.10}`},
		{"texts keep their escapes", `{"a":"\u00e9\/","b":1}`, "a", "", 0, `{"a":"\u00e9\/"}`},
		{"escaped names are compared by value", `{"\u0061":1,"b":2}`, "a", "", 0, `{"\u0061":1}`},
		{"names are told apart by case", `{"A":1,"a":2}`, "a", "", 0, `{"a":2}`},
		{"a name that is there twice stays twice", `{"a":1,"a":2,"b":3}`, "a", "", 0, `{"a":1,"a":2}`},
		{"a dotted path", `{"a":{"n":1,"m":2},"n":3}`, "a.n", "", 0, `{"a":{"n":1}}`},
		{"a listed object is all of it", `{"a":{"n": 1, "m":{}},"b":2}`, "a", "", 0, `{"a":{"n": 1, "m":{}}}`},
		{"a parent and its child are the parent", `{"a":{"n":1,"m":2}}`, "a.n a", "", 0, `{"a":{"n":1,"m":2}}`},
		{"a dot in a name", `{"a.b":1,"a":{"b":2}}`, `a\.b`, "", 0, `{"a.b":1}`},
		{"a star is any name", `{"x":{"id":1,"n":2},"y":{"id":3},"z":4}`, "*.id", "", 0, `{"x":{"id":1},"y":{"id":3}}`},
		{"an escaped star is a star", `{"*":1,"a":2}`, `\*`, "", 0, `{"*":1}`},
		{"arrays are passed through", `{"l":[{"t":1,"u":2},{"u":3},{"t":4}]}`, "l.t", "", 0, `{"l":[{"t":1},{},{"t":4}]}`},
		{"the root array, too", `[{"t":1,"u":2},[{"t":3}]]`, "t", "", 0, `[{"t":1},[{"t":3}]]`},
		{"an index selects one element", `{"l":[{"t":1},{"t":2},{"t":3}]}`, "l.1.t", "", 0, `{"l":[{"t":2}]}`},
		{"an index of scalars", `{"l":[10,20,30]}`, "l.0 l.2", "", 0, `{"l":[10,30]}`},
		{"an index may be a name", `{"0":{"a":1,"b":2}}`, "0.a", "", 0, `{"0":{"a":1}}`},
		{"scalars on the way are left out", `{"a":1,"b":{"c":2}}`, "a.x b.c", "", 0, `{"b":{"c":2}}`},
		{"what is missing is not invented", `{"a":{"n":1}}`, "a.n a.x b", "", 0, `{"a":{"n":1}}`},
		{"an empty parent is left out", `{"a":{"n":1},"b":{"m":2}}`, "a.n b.x", "", 0, `{"a":{"n":1}}`},
		{"an empty list is kept", `{"l":[],"b":2}`, "l.t", "", 0, `{"l":[]}`},
		{"null is a value", `{"a":null,"b":1}`, "a", "", 0, `{"a":null}`},
		{"nothing matched, of an object", `{"a":1}`, "x", "", 0, `{}`},
		{"nothing matched, of an array", `[{"a":1}]`, "x", "", 0, `[]`},
		{"wrappers need no mention", `{"nodes":[{"t":1,"u":2}],"x":1}`, "t", "", 0, `{"nodes":[{"t":1}]}`},
		{"edges have nodes", `{"issues":{"edges":[{"node":{"t":1,"u":2},"cursor":"c"}]}}`, "issues.t", "", 0, `{"issues":{"edges":[{"node":{"t":1}}]}}`},
		{"wrappers may be mentioned", `{"nodes":[{"t":1,"u":2}]}`, "nodes.t", "", 0, `{"nodes":[{"t":1}]}`},
		{"paging members stay beside a wrapper", `{"has_more":true,"results":[{"t":1,"u":2}],"x":0,"next_cursor":"c"}`, "t", "", 0, `{"has_more":true,"results":[{"t":1}],"next_cursor":"c"}`},
		{"paging members stay nowhere else", `{"has_more":true,"pagination":{},"t":1,"next_cursor":"c","u":2}`, "t u", "", 0, `{"t":1,"u":2}`},
		{"_pagination stays beside what is kept", `{"l":[{"t":1,"_pagination":2}],"x":0,"_pagination":{"total":3}}`, "l.t", "", 0, `{"l":[{"t":1,"_pagination":2}],"_pagination":{"total":3}}`},
		{"nothing matched, so _pagination does not stay either", `{"_pagination":{"total":3},"x":1}`, "t", "", 0, `{}`},
		{"paging members stay if they are selected", `{"x":0,"has_more":true}`, "has_more", "", 0, `{"has_more":true}`},
		{"beyond the depth all is kept", `{"a":{"b":{"c":{"d":1,"e":2},"f":3}}}`, "a.b.c.d", "", 0, `{"a":{"b":{"c":{"d":1,"e":2}}}}`},
		{"less depth", `{"a":{"b":{"c":1},"d":2},"e":3}`, "a.b.c", "", 1, `{"a":{"b":{"c":1},"d":2}}`},
		{"more depth", `{"a":{"b":{"c":{"d":1,"e":2},"f":3}}}`, "a.b.c.d", "", 4, `{"a":{"b":{"c":{"d":1}}}}`},

		{"excluded", `{"a":1,"b":{"c":2,"d":3}}`, "", "a b.c", 0, `{"b":{"d":3}}`},
		{"exclude wins", `{"a":1,"b":2}`, "a b", "a", 0, `{"b":2}`},
		{"excluded below what is included", `{"a":{"n":1,"m":2}}`, "a", "a.n", 0, `{"a":{"m":2}}`},
		{"excluded in arrays and wrappers", `{"nodes":[{"t":1,"u":2}],"l":[{"t":3}]}`, "", "t l.t", 0, `{"nodes":[{"u":2}],"l":[{}]}`},
		{"an object emptied is left out", `{"a":{"n":{"m":1}},"b":{}}`, "", "a.n.m", 0, `{"b":{}}`},
		{"an excluded element", `{"l":[1,2,3]}`, "", "l.1", 0, `{"l":[1,3]}`},
		{"excluded however deep", `{"a":{"b":{"c":{"d":{"e":1,"f":2}}}}}`, "", "a.b.c.d.e", 0, `{"a":{"b":{"c":{"d":{"f":2}}}}}`},
		{"everything excluded", `{"a":1}`, "", "*", 0, `{}`},
		{"what is not excluded stays as written", `{"a": {"n" : 1}, "b" : 2}`, "", "b", 0, `{"a":{"n" : 1}}`},
		{"paths do not apply to a scalar", `"text"`, "a", "b", 0, `"text"`},
	} {
		s, err := Compile(Rule{Include: strings.Fields(c.include), Exclude: strings.Fields(c.exclude), Depth: c.depth})
		if err != nil {
			t.Fatalf("%s: %v", c.claim, err)
		}
		got, matched, err := s.Apply([]byte("before"), []byte(c.in))
		if err != nil || string(got) != "before"+strings.TrimSpace(c.want) {
			t.Errorf("%s: %s, include %q, exclude %q\n got  %s, %v\n want %s", c.claim, c.in, c.include, c.exclude, got, err, c.want)
		}
		if want := !strings.HasPrefix(c.claim, "nothing matched") && c.in[0] != '"'; matched != want {
			t.Errorf("%s: matched %t", c.claim, matched)
		}
	}
}

func TestOtherWrappers(t *testing.T) {
	in := []byte(`{"data":{"t":1,"u":2},"nodes":[{"t":3}]}`)
	for want, through := range map[string][]string{
		`{"data":{"t":1}}`:    {"data"},
		`{}`:                  {},
		`{"nodes":[{"t":3}]}`: nil,
	} {
		s, err := Compile(Rule{Include: []string{"t"}, Through: through})
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.Apply(nil, in); err != nil || string(got) != want {
			t.Errorf("through %q: %s, %v, want %s", through, got, err, want)
		}
	}
}

func TestBadRulesAreRefused(t *testing.T) {
	for _, path := range []string{"", ".", "a.", ".a", "a..b", `a\b`, `a\`, strings.Repeat("a", maxPathBytes+1)} {
		for _, r := range []Rule{{Include: []string{"ok", path}}, {Exclude: []string{path}}} {
			var bad *PathError
			if _, err := Compile(r); !errors.As(err, &bad) {
				t.Errorf("%.50q: %v", path, err)
			}
		}
	}
	var many []string
	for i := range maxPaths + 1 {
		many = append(many, fmt.Sprint("f", i))
	}
	if _, err := Compile(Rule{Include: many}); err == nil {
		t.Errorf("%d paths were taken", len(many))
	}
	if _, err := Compile(Rule{Include: many[1:]}); err != nil {
		t.Error(err)
	}
	for _, depth := range []int{-1, 11} {
		if _, err := Compile(Rule{Depth: depth}); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("depth %d is out of range", depth)) {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

func TestBrokenValuesAreErrors(t *testing.T) {
	s, err := Compile(Rule{Include: []string{"a.b"}, Exclude: []string{"a.b.c"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{"", " ", "{", "[", `{"a"`, `{"a":`, `{"a":{`, `{"a":{"b":`, `{"a":{"b":1`, `{"a":{"b":1}`, `{"a":{"b":1}}x`, `{"a" 1}`, `{a:1}`, `{"a":1,}`, `{"a":1 "b":2}`, `{"a`, `{"a\`, `[1,`, `[,]`, `}`} {
		got, _, err := s.Apply([]byte("x"), []byte(in))
		if !errors.Is(err, tree.ErrSyntax) || string(got) != "x" {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	deep := strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)
	if _, _, err := s.Apply(nil, []byte(deep)); !errors.Is(err, tree.ErrSyntax) {
		t.Errorf("200,000 arrays: %v", err)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want []string
	}{
		{`{"b":{"x":1},"\u0061":2,"c":[]}`, 20, []string{"b", "a", "c"}},
		{`{"b":1,"a":2,"c":3}`, 2, []string{"b", "a"}},
		{`[{"a":1},{"b":2}]`, 20, []string{"a"}},
		{`[]`, 20, nil}, {`{}`, 20, nil}, {`7`, 20, nil}, {``, 20, nil}, {`[`, 20, nil}, {`{"a":1`, 20, []string{"a"}},
	} {
		if got := Names([]byte(c.in), c.n); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.in, got, c.want)
		}
	}
}

// random returns a random value in which no object has a name twice.
func random(r *rand.Rand, depth int) string {
	names := []string{"a", "b", "c", "id", "x.y", "nodes", "items", "has_more", "é"}
	switch k := r.IntN(8); {
	case k < 3 && depth < 6:
		var members []string
		for _, i := range r.Perm(len(names))[:r.IntN(5)] {
			members = append(members, fmt.Sprintf("%q:%s", names[i], random(r, depth+1)))
		}
		return "{" + strings.Join(members, ",") + "}"
	case k < 5 && depth < 6:
		var elements []string
		for range r.IntN(4) {
			elements = append(elements, random(r, depth+1))
		}
		return "[" + strings.Join(elements, ",") + "]"
	}
	return []string{"1", "-0.50e3", "true", "null", `"t"`, `"\u00e9,]}\""`, "12345678901234567890"}[r.IntN(7)]
}

func randomPaths(r *rand.Rand) (paths []string) {
	for range r.IntN(4) {
		var steps []string
		for range 1 + r.IntN(3) {
			steps = append(steps, []string{"a", "b", "c", "id", `x\.y`, "*", "nodes", "é"}[r.IntN(8)])
		}
		paths = append(paths, strings.Join(steps, "."))
	}
	return paths
}

// leaves lists the scalars of a value in their order, each with the names above it.
func leaves(t *testing.T, value []byte) (all []string) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var walk func(path string)
	walk = func(path string) {
		token, err := d.Token()
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		switch token {
		case json.Delim('{'):
			for d.More() {
				name, err := d.Token()
				if err != nil {
					t.Fatal(err)
				}
				walk(fmt.Sprint(path, "/", name))
			}
			d.Token()
		case json.Delim('['):
			for d.More() {
				walk(path + "/-")
			}
			d.Token()
		default:
			all = append(all, fmt.Sprintf("%s=%v", path, token))
		}
	}
	walk("")
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

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		in := []byte(random(r, 0))
		rule := Rule{Include: randomPaths(r), Exclude: randomPaths(r), Depth: 1 + r.IntN(4)}
		s, err := Compile(rule)
		if err != nil {
			t.Fatal(err)
		}
		before := bytes.Clone(in)
		out, matched, err := s.Apply(nil, in)
		if err != nil || !json.Valid(out) {
			t.Fatalf("%s by %+v became %s, %v", in, rule, out, err)
		}
		if !bytes.Equal(in, before) {
			t.Fatalf("%s was changed to %s", before, in)
		}
		if out[0] != in[0] && (in[0] == '{' || in[0] == '[') {
			t.Errorf("%s by %+v became %s", in, rule, out)
		}
		if !within(leaves(t, out), leaves(t, in)) {
			t.Errorf("%s by %+v became %s: not all of that was there, in that order", in, rule, out)
		}
		// What is excluded later may be all that an included path had led to.
		twice := matched && (len(rule.Include) == 0 || len(rule.Exclude) == 0)
		if again, _, err := s.Apply(nil, out); err != nil || twice && !bytes.Equal(again, out) {
			t.Errorf("%s by %+v became %s and then %s, %v", in, rule, out, again, err)
		}
		if len(rule.Include)+len(rule.Exclude) == 0 && !bytes.Equal(in, out) {
			t.Errorf("%s by no rule became %s", in, out)
		}
		// The same paths, included and then excluded, together keep the whole
		// value.
		if len(rule.Include) > 0 && (in[0] == '{' || in[0] == '[') {
			rule.Depth, rule.Through = maxDepth, []string{}
			kept := apply(t, Rule{Include: rule.Include, Depth: maxDepth, Through: rule.Through}, in)
			rest := apply(t, Rule{Exclude: rule.Include, Through: rule.Through}, in)
			got, want := append(leaves(t, kept), leaves(t, rest)...), leaves(t, in)
			slices.Sort(got)
			slices.Sort(want)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %q are %s, the rest is %s", in, rule.Include, kept, rest)
			}
		}
	}
}

func apply(t *testing.T, r Rule, in []byte) []byte {
	t.Helper()
	s, err := Compile(r)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := s.Apply(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzApply checks that a selection from valid JSON is valid JSON, and that
// Apply and Names do not panic on invalid JSON.
func FuzzApply(f *testing.F) {
	for _, in := range []string{`{"a":{"b":1}}`, `[{"nodes":[{"a":1}],"has_more":true}]`, `{"a":[[],{}],"\u0061":"\"}"}`, `{"has_more":1,"b":2}`, `[1,]`, `{"a":1}}`, ` `} {
		f.Add([]byte(in), "a.b", "b.0")
	}
	f.Fuzz(func(t *testing.T, in []byte, include, exclude string) {
		s, err := Compile(Rule{Include: []string{include}, Exclude: []string{exclude}})
		if err != nil {
			return
		}
		Names(in, 20)
		out, _, err := s.Apply(nil, in)
		if !json.Valid(in) {
			return // for invalid JSON, Apply only promises not to panic
		}
		if err != nil && wire.Valid(in) { // it is stricter: UTF-8, and depth
			t.Errorf("%q: %v", in, err)
		}
		if err == nil && !json.Valid(out) {
			t.Errorf("%q by %q without %q became %q", in, include, exclude, out)
		}
	})
}
