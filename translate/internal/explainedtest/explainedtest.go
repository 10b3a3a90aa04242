// Package explainedtest compares a message before and after its translation, guided by the changes that explain the
// differences. It is a structural comparison: objects by member, in order, and arrays by element. A change
// says which member or element is gone or new, so the others can be paired without guessing.
package explainedtest

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/internal/slowtest"
)

// Change is one change: removed, added, replaced or renamed.
type Change struct{ Kind, Before, After string }

// Faults returns the differences between two messages that no change explains, and the changes that correspond to no
// difference.
func Faults(before, after string, changes []Change) []string {
	c := comparison{changes: changes, used: make([]bool, len(changes)), at: map[Change]int{}}
	for i, change := range changes {
		if _, twice := c.at[change]; !twice {
			c.at[change] = i
		}
	}
	c.compare(gjson.Parse(before), gjson.Parse(after), "", "")
	for i, change := range changes {
		if !c.used[i] && !c.within(change) && !c.used[c.at[change]] {
			c.fault("no difference for: %s %q %q", change.Kind, change.Before, change.After)
		}
	}
	return c.faults
}

type comparison struct {
	changes []Change
	used    []bool
	at      map[Change]int // where in changes
	faults  []string
}

func (c *comparison) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// is reports whether there is such a change, and marks it as used.
func (c *comparison) is(kind, before, after string) bool {
	i, ok := c.at[Change{kind, before, after}]
	if ok {
		c.used[i] = true
	}
	return ok
}

// within reports whether the change is inside of a value that another change removes or replaces.
func (c *comparison) within(inner Change) bool {
	for _, outer := range c.changes {
		if (outer.Kind == "removed" || outer.Kind == "replaced") && outer.Before != inner.Before && below(inner.Before, outer.Before) {
			return inner.After == ""
		}
	}
	return false
}

// below reports whether a path is, or leads through, another one.
func below(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}

// item is a member or an element.
type item struct {
	name  string // "" for an element, "." and its name for a member
	path  string
	value gjson.Result
}

func items(v gjson.Result, path string) (list []item) {
	n := 0
	v.ForEach(func(k, w gjson.Result) bool {
		switch {
		case v.IsArray():
			list = append(list, item{"", fmt.Sprintf("%s[%d]", path, n), w})
		case plain(k.String()):
			list = append(list, item{"." + k.String(), strings.TrimPrefix(path+"."+k.String(), "."), w})
		default:
			list = append(list, item{"." + k.String(), path + "[" + k.Raw + "]", w})
		}
		n++
		return true
	})
	return list
}

func plain(name string) bool {
	return name != "" && strings.Trim(name, "_$-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") == ""
}

func (c *comparison) compare(b, a gjson.Result, before, after string) {
	switch {
	case c.is("replaced", before, after):
		if slowtest.Equal(b.Raw, a.Raw) {
			c.fault("replaced by an equal value: %q", before)
		}
	case b.IsObject() && a.IsObject(), b.IsArray() && a.IsArray():
		c.compareItems(items(b, before), items(a, after), before)
	case !slowtest.Equal(b.Raw, a.Raw):
		c.fault("unexplained at %q: %.80s became %.80s", before, b.Raw, a.Raw)
	}
}

func (c *comparison) compareItems(b, a []item, before string) {
	b, a = c.withoutTwins(b, a)
	removed := map[string]string{}
	var kept, there []item
	for _, m := range b {
		if c.is("removed", m.path, "") {
			removed[m.path] = m.value.Raw
		} else {
			kept = append(kept, m)
		}
	}
	for _, m := range a {
		if !c.is("added", "", m.path) {
			there = append(there, m)
		} else if old, ok := removed[m.path]; ok && m.name != "" && slowtest.Equal(old, m.value.Raw) {
			c.fault("removed and added again: %q", m.path)
		}
	}
	if len(kept) != len(there) {
		c.fault("unexplained at %q: %v became %v", before, paths(kept), paths(there))
		return
	}
	for i, m := range kept {
		n := there[i]
		if m.name != n.name && !c.is("renamed", m.path, n.path) {
			c.fault("unexplained: %q became %q", m.path, n.path)
			continue
		}
		c.compare(m.value, n.value, m.path, n.path)
	}
}

// withoutTwins leaves out the members that another one has the name of, if some change is about one of them: the
// path does not tell which.
func (c *comparison) withoutTwins(lists ...[]item) (b, a []item) {
	ambiguous := map[string]bool{}
	for _, list := range lists {
		seen := map[string]bool{}
		for _, m := range list {
			if m.name != "" && seen[m.name] && c.touches(m.path) {
				ambiguous[m.name] = true
			}
			seen[m.name] = true
		}
	}
	for _, change := range c.changes {
		if change.Kind == "renamed" {
			spread(ambiguous, lists[0], change.Before, lists[1], change.After)
			spread(ambiguous, lists[1], change.After, lists[0], change.Before)
		}
	}
	left := make([][]item, 2)
	for i, list := range lists {
		for _, m := range list {
			if !ambiguous[m.name] {
				left[i] = append(left[i], m)
			}
		}
	}
	return left[0], left[1]
}

// spread makes the name at a path ambiguous if that at the path in the other list is.
func spread(ambiguous map[string]bool, from []item, path string, to []item, other string) {
	for _, m := range from {
		for _, n := range to {
			if m.path == path && n.path == other && ambiguous[m.name] {
				ambiguous[n.name] = true
			}
		}
	}
}

// touches reports whether a change is at or below a path, and marks all those as used.
func (c *comparison) touches(path string) (touched bool) {
	for i, change := range c.changes {
		if below(change.Before, path) || below(change.After, path) {
			c.used[i], touched = true, true
		}
	}
	return touched
}

func paths(list []item) (all []string) {
	for _, m := range list {
		all = append(all, m.path)
	}
	return all
}
