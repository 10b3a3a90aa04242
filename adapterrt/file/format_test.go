package file

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// An example is a part of a file that shows the block at a place.
type example struct {
	at, text string
	more     bool // it is not on the page
}

func examples(t *testing.T) (all []example) {
	t.Helper()
	data, err := os.ReadFile("testdata/examples.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(data), "\n-- ")[1:] {
		at, text, ok := strings.Cut(part, " --\n")
		if !ok {
			t.Fatalf("an example without a place: %s", part)
		}
		at, more := strings.CutPrefix(at, "more: ")
		all = append(all, example{at, strings.TrimSpace(text) + "\n", more})
	}
	return all
}

// minimal is what a file needs, and minimalOperation what an operation needs.
const (
	minimal = `
name: shop
type: adapter
version: "1.0.0"
description: A file for an example
target: {base_url: "https://shop.example.com", transport: http, protocol: rest, serialization: json}
operations: {read: [{name: list_orders, maps_to: GET /orders, description: List orders}]}
`
	minimalOperation = "{name: do_it, maps_to: GET /orders, description: An example}"
)

// tree returns a whole file around the example.
func (e example) tree(t *testing.T) *node {
	t.Helper()
	parse := func(text string) *node {
		_, n, err := parseYAML([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v\n%s", e.at, err, text)
		}
		return n
	}
	n := parse(e.text)
	if strings.HasPrefix(e.at, "operations.") && !n.has("operations") {
		fill(n, parse(minimalOperation))
		method, _, _ := strings.Cut(n.get("maps_to").text, " ")
		category := map[string]string{"GET": "read", "POST": "create", "PUT": "update", "DELETE": "delete"}[method]
		operation := n
		n = parse("operations: {" + category + ": [{}]}")
		n.get("operations").get(category).list[0] = operation
	}
	fill(n, parse(minimal))
	return n
}

// fill gives n the fields of o that it does not have.
func fill(n, o *node) {
	for _, f := range o.fields {
		if n.get(f.key) == nil {
			n.fields = append(n.fields, f)
		}
	}
}

// check reads a file as [Parse] does in strict mode.
func check(root *node) (*Adapter, []Problem) {
	return Parse("shop-adapter.md", slices.Concat([]byte("---\n"), root.JSON(nil), []byte("\n---\n")), &Options{Strict: true})
}

// set sets the field of n, or removes it if v is nil.
func (n *node) set(name string, v *node) {
	n.fields = slices.DeleteFunc(n.fields, func(f field) bool { return f.key == name })
	if v != nil {
		n.fields = append(n.fields, field{key: name, val: v})
	}
}

// A place is a map in a file, with its path in problems.
type place struct {
	path string
	n    *node
}

// mapsAt returns the maps of a file that stand where a block says: NAME and CATEGORY are any name.
func mapsAt(root *node, at string) []place {
	at, kind, _ := strings.Cut(strings.TrimSuffix(at, ")"), " (type: ")
	all := []place{{"", root}}
	if at == top {
		return all
	}
	for _, step := range strings.Split(at, ".") {
		name, list := strings.CutSuffix(step, "[]")
		var next []place
		for _, p := range all {
			for _, f := range p.n.fields {
				switch path := join(p.path, f.key); {
				case f.key != name && name != "NAME" && name != "CATEGORY":
				case list:
					for i, e := range f.val.list {
						next = append(next, place{index(path, i), e})
					}
				case f.val.kind == wire.Object:
					next = append(next, place{path, f.val})
				}
			}
		}
		all = next
	}
	return slices.DeleteFunc(all, func(p place) bool { return kind != "" && p.n.get("type").text != kind })
}

// atExamples runs test for each key of each block, with an example in which the key occurs, and its place there.
func atExamples(t *testing.T, test func(t *testing.T, k key, root *node, p place)) {
	all := examples(t)
	inFolder(t)
	for _, b := range format {
		for _, k := range b.keys {
			if b.at == "" {
				continue
			}
			found := false
			for _, e := range all {
				if e.at != b.at || found {
					continue
				}
				root := e.tree(t)
				for _, p := range mapsAt(root, b.at) {
					if found = p.n.has(k.name); found {
						t.Run(b.at+" "+k.name, func(t *testing.T) { test(t, k, root, p) })
						break
					}
				}
			}
			if !found {
				t.Errorf("%s: no example has %s", b.at, k.name)
			}
		}
	}
}

// inFolder changes into a folder with the files that are read together with an adapter file.
func inFolder(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/shop.url", []byte("https://shop.example.com\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
}

// TestExamplesLoad reads every example of docs/adapter-format.md without a problem.
func TestExamplesLoad(t *testing.T) {
	all := examples(t)
	inFolder(t)
	for _, e := range all {
		if !slices.ContainsFunc(format, func(b *block) bool { return b.at == e.at }) {
			t.Errorf("there is no block at %s", e.at)
		}
		if a, problems := check(e.tree(t)); a == nil || len(problems) > 0 {
			t.Errorf("%s: %v\n%s", e.at, problems, e.text)
		} else {
			for _, op := range a.Operations {
				if op.Transform == nil {
					continue
				}
				if _, err := transform.GivenRule(transform.Match{}, op.Transform); err != nil {
					t.Errorf("%s: %v\n%s", e.at, err, e.text)
				}
			}
		}
	}
}

// TestRequiredKeys checks that a file is refused without a key that docs/adapter-format.md calls required.
func TestRequiredKeys(t *testing.T) {
	atExamples(t, func(t *testing.T, k key, root *node, p place) {
		if k.absent != must {
			return
		}
		p.n.set(k.name, nil)
		if _, problems := check(root); !slices.ContainsFunc(problems, func(o Problem) bool {
			return o.Severity == Error && strings.HasPrefix(o.Path, p.path)
		}) {
			t.Errorf("accepted without %s: %v", join(p.path, k.name), problems)
		}
	})
}

// TestDefaults checks that a file with a default of docs/adapter-format.md is the same as one without the key.
func TestDefaults(t *testing.T) {
	atExamples(t, func(t *testing.T, k key, root *node, p place) {
		if k.absent == must || k.absent == "" {
			return
		}
		_, v, err := parseYAML([]byte("v: " + k.absent))
		if err != nil {
			t.Fatal(err)
		}
		var read [2]*Adapter
		for i, v := range []*node{nil, v.get("v")} {
			p.n.set(k.name, v)
			a, problems := check(root)
			if a == nil {
				t.Fatal(problems)
			}
			a.Digest = [32]byte{}
			for _, l := range append([]*Limits{a.Limits}, a.Operations[0].Limits) {
				if l != nil {
					l.Source = nil
				}
			}
			read[i] = a
		}
		if !reflect.DeepEqual(read[0], read[1]) {
			t.Errorf("%s: %s is not the default", join(p.path, k.name), k.absent)
		}
	})
}

var wholeNumber = regexp.MustCompile(`^integer (\d+)–(\d+)$`)

// TestKeysTakeWhatIsSaid checks that what docs/adapter-format.md says of values is what the checks say when they refuse others.
func TestKeysTakeWhatIsSaid(t *testing.T) {
	atExamples(t, func(t *testing.T, k key, root *node, p place) {
		path := join(p.path, k.name)
		// refused returns what is expected in the place of v, or "" if v is no mistake.
		refused := func(v *node) (expected string, bad bool) {
			p.n.set(k.name, v)
			_, problems := check(root)
			i := slices.IndexFunc(problems, func(o Problem) bool { return o.Path == path || strings.HasPrefix(o.Path, path+"[") })
			if i < 0 {
				return "", false
			}
			return problems[i].Expected, true
		}
		number := func(i int) *node { return &node{kind: wire.Number, integer: true, text: strconv.Itoa(i)} }
		if k.takes != "any" {
			other := &node{kind: wire.Array, list: []*node{{kind: wire.Array}}}
			if strings.Contains(k.takes, "list") || strings.Contains(k.takes, "map") {
				other = number(7)
			}
			if _, bad := refused(other); !bad {
				t.Errorf("%s takes %s, not only %s", path, other.JSON(nil), k.takes)
			}
		}
		if m := wholeNumber.FindStringSubmatch(k.takes); m != nil {
			low, _ := strconv.Atoi(m[1])
			high, _ := strconv.Atoi(m[2])
			for _, i := range []int{low - 1, high + 1} {
				if expected, _ := refused(number(i)); expected != k.takes {
					t.Errorf("%s: %d: %q is expected, the page says %s", path, i, expected, k.takes)
				}
			}
			for _, i := range []int{low, high} {
				if expected, _ := refused(number(i)); expected == k.takes {
					t.Errorf("%s: %d is refused", path, i)
				}
			}
		}
		if words := strings.Split(k.takes, ", "); len(words) > 1 && !strings.Contains(k.takes, " or ") && !strings.Contains(k.takes, " of ") {
			expected, _ := refused(&node{kind: wire.String, text: "no_such_word"})
			known := strings.Split(strings.TrimPrefix(expected, ", "), ", ")
			slices.Sort(known)
			slices.Sort(words)
			if !slices.Equal(known, words) {
				t.Errorf("%s: expected are %s, the page says %s", path, known, words)
			}
		}
	})
}
