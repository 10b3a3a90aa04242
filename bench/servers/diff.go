package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A difference is one place in which two transcripts are not equal.
type difference struct {
	at     string // where, with indexes and names: tools/list.result.tools[echo].title
	place  string // the same without them: tools/list.result.tools[].title
	what   string // added, removed, changed or reordered
	before any    // what came directly; nil if nothing did
	after  any    // what came through dragoman
}

func (d difference) String() string {
	return fmt.Sprintf("%s %s: %s → %s", d.at, d.what, short(d.before), short(d.after))
}

// short writes a value on a line of bounded length.
func short(v any) string {
	if v == nil {
		return "nothing"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if len(text) > 300 {
		return strings.ToValidUTF8(string(text[:200]), "") + "…" + strings.ToValidUTF8(string(text[len(text)-80:]), "")
	}
	return string(text)
}

// compare lists where after differs from before. Both are what [json.Decoder] makes of JSON. Elements of arrays that all
// have a name of their own are compared with the element of the same name.
func compare(before, after any) []difference {
	var c comparison
	c.values("", "", before, after)
	return c.found
}

type comparison struct{ found []difference }

func (c *comparison) note(at, place, what string, before, after any) {
	c.found = append(c.found, difference{at, place, what, before, after})
}

func (c *comparison) values(at, place string, before, after any) {
	switch b := before.(type) {
	case map[string]any:
		if a, ok := after.(map[string]any); ok {
			c.objects(at, place, b, a)
			return
		}
	case []any:
		if a, ok := after.([]any); ok {
			c.arrays(at, place, b, a)
			return
		}
	}
	if !reflect.DeepEqual(before, after) {
		c.note(at, place, "changed", before, after)
	}
}

func (c *comparison) objects(at, place string, before, after map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(union(before, after))) {
		c.pair(join(at, name), join(place, name), before, after, name)
	}
}

func (c *comparison) pair(at, place string, before, after map[string]any, name string) {
	b, hadIt := before[name]
	a, hasIt := after[name]
	switch {
	case !hadIt:
		c.note(at, place, "added", nil, a)
	case !hasIt:
		c.note(at, place, "removed", b, nil)
	default:
		c.values(at, place, b, a)
	}
}

func (c *comparison) arrays(at, place string, before, after []any) {
	b, orderBefore, a, orderAfter := byName(before, after)
	if b == nil {
		c.elements(at, place+"[]", before, after)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(union(b, a))) {
		c.pair(at+"["+name+"]", place+"[]", b, a, name)
	}
	orderBefore = slices.DeleteFunc(orderBefore, func(n string) bool { _, ok := a[n]; return !ok })
	orderAfter = slices.DeleteFunc(orderAfter, func(n string) bool { _, ok := b[n]; return !ok })
	if !slices.Equal(orderBefore, orderAfter) {
		c.note(at, place, "reordered", orderBefore, orderAfter)
	}
}

// elements compares elements without names: those at the same place, or where one side has more, what the other lacks.
func (c *comparison) elements(at, place string, before, after []any) {
	if len(before) == len(after) {
		for i := range before {
			c.values(fmt.Sprintf("%s[%d]", at, i), place, before[i], after[i])
		}
		return
	}
	for _, i := range without(before, after) {
		c.note(fmt.Sprintf("%s[%d]", at, i), place, "removed", before[i], nil)
	}
	for _, i := range without(after, before) {
		c.note(fmt.Sprintf("%s[%d]", at, i), place, "added", nil, after[i])
	}
}

// without returns the indexes in a of what b does not have as often.
func without(a, b []any) (indexes []int) {
	rest := slices.Clone(b)
	for i, e := range a {
		if j := slices.IndexFunc(rest, func(r any) bool { return reflect.DeepEqual(e, r) }); j >= 0 {
			rest = slices.Delete(rest, j, j+1)
		} else {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// byName returns the elements of two arrays by what tells them apart, and their names in order; nil if nothing does.
func byName(before, after []any) (b map[string]any, orderBefore []string, a map[string]any, orderAfter []string) {
	for _, key := range []string{"uri", "uriTemplate", "name"} {
		b, orderBefore = elementsBy(key, before)
		a, orderAfter = elementsBy(key, after)
		if b != nil && a != nil {
			return b, orderBefore, a, orderAfter
		}
	}
	return nil, nil, nil, nil
}

// elementsBy returns the elements by a member that all have, each with a value of its own; nil if they do not.
func elementsBy(key string, list []any) (elements map[string]any, order []string) {
	elements = map[string]any{}
	for _, e := range list {
		member, _ := e.(map[string]any)
		name, _ := member[key].(string)
		if _, twice := elements[name]; name == "" || twice {
			return nil, nil
		}
		elements[name] = e
		order = append(order, name)
	}
	return elements, order
}

func union(a, b map[string]any) map[string]bool {
	all := map[string]bool{}
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	return all
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// steady removes the differences in places in which the server itself answers differently each time.
func steady(found, unsteady []difference) []difference {
	return slices.DeleteFunc(found, func(d difference) bool {
		return slices.ContainsFunc(unsteady, func(u difference) bool { return within(d.at, listOf(u.at)) })
	})
}

// listOf returns the whole list for what comes beside the answers: one more of it moves all others.
func listOf(at string) string {
	if strings.HasPrefix(at, "notifications.") || strings.HasPrefix(at, "asked.") {
		at, _, _ = strings.Cut(at, "[")
	}
	return at
}

func within(at, outer string) bool {
	rest, ok := strings.CutPrefix(at, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
