package translate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/internal/slowtest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// place is a path from a message to a value: member names, and [] for any
// element of an array. In a loss, * stands for any name.
type place []string

const element = "[]"

func (p place) to(step string) place { return append(p[:len(p):len(p)], step) }

func (p place) String() string { return strings.Join(p, ".") }

// under reports whether p is, or is within, a place of the list.
func (p place) under(list []place) bool {
	return slices.ContainsFunc(list, func(q place) bool {
		if len(p) < len(q) {
			return false
		}
		for i, step := range q {
			if step != p[i] && (step != "*" || p[i] == element) {
				return false
			}
		}
		return true
	})
}

// parsePlace parses the text of a [wire.Path]. Every index becomes [], any element.
func parsePlace(s string) place {
	var p place
	for member := range strings.SplitSeq(s, ".") {
		name, index, elements := strings.Cut(member, "[")
		if name != "" {
			p = append(p, name)
		}
		for ; elements; _, index, elements = strings.Cut(index, "[") {
			p = append(p, element)
		}
	}
	return p
}

// reported returns the places of losses. A loss names only the first of its
// places; the others are where the same rule removes the same member.
func reported(losses ...[]wire.Loss) []place {
	var list []place
	for _, l := range slices.Concat(losses...) {
		first := parsePlace(l.Path.String())
		list = append(list, first)
		for _, rule := range translate.Rules() {
			if rule.ID != l.Rule || rule.What != l.What || len(first) == 0 {
				continue
			}
			for _, p := range rule.Places {
				if other := parsePlace(p.Path); len(other) > 0 && other[len(other)-1] == first[len(first)-1] {
					list = append(list, other)
				}
			}
		}
	}
	return list
}

// missing compares two messages. It returns the members and elements of the first
// that the second does not have, or has with another value, except those under
// the places known.
func missing(a, b string, known []place) []place {
	var list []place
	var walk func(p place, a, b gjson.Result)
	walk = func(p place, a, b gjson.Result) {
		switch {
		case p.under(known):
		case !b.Exists():
			list = append(list, p)
		case a.IsObject() && b.IsObject():
			theirs := map[string]gjson.Result{}
			b.ForEach(func(k, v gjson.Result) bool { theirs[k.Raw] = v; return true })
			a.ForEach(func(k, v gjson.Result) bool {
				walk(p.to(k.String()), v, theirs[k.Raw])
				return true
			})
		case a.IsArray() && b.IsArray():
			theirs := b.Array()
			for i, v := range a.Array() {
				if i >= len(theirs) {
					walk(p.to(element), v, gjson.Result{})
					continue
				}
				walk(p.to(element), v, theirs[i])
			}
		case !slowtest.Equal(a.Raw, b.Raw):
			list = append(list, p)
		}
	}
	walk(nil, gjson.Parse(a), gjson.Parse(b))
	return list
}

// members returns all members of the objects in a text. It does not distinguish the
// elements of an array.
func members(text string) []place {
	var list []place
	var walk func(p place, v gjson.Result)
	walk = func(p place, v gjson.Result) {
		if !v.IsObject() && !v.IsArray() {
			return
		}
		v.ForEach(func(k, w gjson.Result) bool {
			if v.IsArray() {
				walk(p.to(element), w)
				return true
			}
			next := p.to(k.String())
			list = append(list, next)
			walk(next, w)
			return true
		})
	}
	walk(nil, gjson.Parse(text))
	return list
}

// without removes the nth member of a text, in the order of [members].
func without(text string, n int) string {
	seen := -1
	var build func(v gjson.Result) string
	build = func(v gjson.Result) string {
		if !v.IsObject() && !v.IsArray() {
			return v.Raw
		}
		var parts []string
		v.ForEach(func(k, w gjson.Result) bool {
			if v.IsArray() {
				parts = append(parts, build(w))
				return true
			}
			seen++
			if mine := seen; mine != n {
				parts = append(parts, k.Raw+":"+build(w))
			} else {
				build(w) // counts the members that are removed with it
			}
			return true
		})
		if v.IsArray() {
			return "[" + strings.Join(parts, ",") + "]"
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return build(gjson.Parse(text))
}

func TestMissingFindsEveryMember(t *testing.T) {
	const text = `{"a":{"b":[{"c":1},{"c":null,"d":[[{"e":"x"}]]}]},"f":""}`
	all := members(text)
	if len(all) != 7 {
		t.Fatalf("members: %v", all)
	}
	for i, p := range all {
		mutant := without(text, i)
		if got := missing(text, mutant, nil); len(got) != 1 || got[0].String() != p.String() {
			t.Errorf("without %s: missing %v in %s", p, got, mutant)
		}
		if got := missing(text, mutant, []place{p}); len(got) != 0 {
			t.Errorf("without %s, which is known: missing %v", p, got)
		}
	}
	for _, changed := range []string{
		`{"a":{"b":[{"c":2},{"c":null,"d":[[{"e":"x"}]]}]},"f":""}`,
		`{"a":{"b":[{"c":1}]},"f":""}`,
		`{"a":{"b":{"c":1}},"f":""}`,
		`{"a":{"b":[{"c":1},{"c":null,"d":[[{"e":"x "}]]}]},"f":""}`,
		`{"a":{"b":[{"c":1},{"c":false,"d":[[{"e":"x"}]]}]},"f":""}`,
	} {
		if got := missing(text, changed, nil); len(got) == 0 {
			t.Errorf("nothing missing in %s", changed)
		}
	}
}

func TestParsePlace(t *testing.T) {
	for text, want := range map[string]place{
		"result.tools[0].title": {"result", "tools", element, "title"},
		"result.x[1][22]":       {"result", "x", element, element},
		"params.properties.*":   {"params", "properties", "*"},
		"id":                    {"id"},
	} {
		if got := parsePlace(text); !slices.Equal(got, want) {
			t.Errorf("%s: %v", text, got)
		}
	}
}
