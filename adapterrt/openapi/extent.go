package openapi

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// extent says how many elements a schema allows, and of which step its numbers are multiples.
type extent struct {
	minItems, maxItems *node
	step               *node
	unique             bool
}

func extentOf(n *node) extent {
	return extent{number(n, "minItems"), number(n, "maxItems"), number(n, "multipleOf"), n.flag("uniqueItems")}
}

// and is what both allow, as far as one of them says it.
func (e extent) and(o extent) extent {
	return extent{cmp.Or(e.minItems, o.minItems), cmp.Or(e.maxItems, o.maxItems), cmp.Or(e.step, o.step), e.unique || o.unique}
}

// or is what both say.
func (e extent) or(o extent) extent {
	return extent{equalOr(e.minItems, o.minItems), equalOr(e.maxItems, o.maxItems), equalOr(e.step, o.step), e.unique && o.unique}
}

// extents takes over how many elements an array has, and of which step a number is a multiple.
func (m *mapper) extents(d *definition, s *shape) {
	switch d.typ {
	case "array":
		d.minItems, d.maxItems, d.unique = count(s.minItems), count(s.maxItems), s.unique
		if d.maxItems > 0 && d.minItems > d.maxItems {
			d.minItems, d.maxItems = 0, 0
		}
		if s.maxItems != nil && d.maxItems == 0 {
			m.weak("a list that must be empty may have elements")
		}
	case "integer", "number":
		if s.step != nil && file.CompareNumbers([]byte(s.step.text), []byte("0")) > 0 {
			d.step = s.step.text
		}
	}
}

// count returns a number of elements, or 0 for none.
func count(n *node) int {
	if n == nil {
		return 0
	}
	i, err := strconv.Atoi(n.text)
	if err != nil || i < 0 || i > 1_000_000 {
		return 0
	}
	return i
}

// furtherMembers describes the members of an object that have no definition of their own.
func (m *mapper) furtherMembers(d *definition, s *shape, depth int) {
	if s.extra == nil {
		return
	}
	if e := m.shape(s.extra); e.untyped() && len(e.props) == 0 {
		return
	}
	if depth >= m.levels || m.members > maxMembers+surplus && m.levels > 1 {
		if m.levels == maxLevels {
			m.weak("members of objects are described to four levels only")
		}
		return
	}
	d.values = m.define(s.extra, depth+1, 0)
	d.values.also = withoutNull(d.values.also) // null passes for a member that is not described
}

// extentKeys adds the keys of an extent and of open bounds.
func (d *definition) extentKeys(out *pairs) {
	out.add("multipleOf", d.step)
	out.add("minItems", countText(d.minItems))
	out.add("maxItems", countText(d.maxItems))
	out.flag("uniqueItems", d.unique)
}

func countText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// edgeKey returns the key of a bound.
func edgeKey(key string, open bool) string {
	if open {
		return "exclusive" + strings.ToUpper(key[:1]) + key[1:]
	}
	return key
}

// inventNumber appends a number within the bounds.
func (d *definition) inventNumber(dst []byte, try int) []byte {
	switch {
	case d.min != "" && !d.minOpen:
		return append(dst, d.min...)
	case d.max != "" && !d.maxOpen && (d.min == "" && strings.HasPrefix(d.max, "-") || d.min != ""):
		return append(dst, d.max...)
	case d.min != "" || d.max != "":
		lo, _ := strconv.ParseFloat(d.min, 64)
		hi, err := strconv.ParseFloat(d.max, 64)
		switch {
		case err != nil:
			hi = lo + 2
		case d.min == "":
			lo = hi - 2
		}
		return strconv.AppendFloat(dst, (lo+hi)/2, 'f', -1, 64)
	case d.step != "":
		return append(dst, d.step...)
	}
	return strconv.AppendInt(dst, int64(1-try%2), 10)
}

// inventArray appends an array with as many elements as it must have, and at least one.
func (d *definition) inventArray(dst []byte, try, depth int) []byte {
	dst = append(dst, '[')
	for i := range min(max(1, d.minItems), 20) {
		if d.items == nil || depth >= 8 {
			break
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		at := len(dst)
		dst = d.items.example(dst, try+i, depth+1)
		if d.unique && i > 0 && wire.KindOf(dst[at:]) == wire.String && len(d.items.enum) == 0 && d.items.pattern == "" {
			dst = append(strconv.AppendInt(dst[:len(dst)-1], int64(i+1), 10), '"')
		}
	}
	return append(dst, ']')
}

// extent compares how many elements two definitions allow, and what else they say beyond bounds.
func (c *comparison) extent(what string, was, now *file.Definition) {
	c.limit(what, "minItems", countText(was.MinItems), countText(now.MinItems), 1)
	c.limit(what, "maxItems", countText(was.MaxItems), countText(now.MaxItems), -1)
	switch {
	case was.Unique && !now.Unique:
		c.add("widened", false, "%s may have equal elements", what)
	case now.Unique && !was.Unique:
		c.add("narrowed", true, "%s must not have equal elements any more", what)
	}
	switch p, q := string(was.Step), string(now.Step); {
	case p == q:
	case q == "":
		c.add("widened", false, "%s has no multipleOf any more", what)
	default:
		c.add("narrowed", true, "%s has the multipleOf %s", what, short(q))
	}
	for _, b := range [...][2]*file.Bound{{was.Minimum, now.Minimum}, {was.Maximum, now.Maximum}} {
		if b[0] == nil || b[1] == nil || b[0].Open == b[1].Open || file.CompareNumbers(b[0].Raw, b[1].Raw) != 0 {
			continue
		}
		if b[1].Open {
			c.add("narrowed", true, "%s must not be %s any more", what, b[1].Raw)
		} else {
			c.add("widened", false, "%s may now be %s", what, b[1].Raw)
		}
	}
	if was.Values != nil && now.Values != nil {
		c.definition("a further member of "+what, was.Values, now.Values)
	} else if now.Values != nil {
		c.add("narrowed", true, "further members of %s must now be %s", what, strings.Join(types(now.Values), " or "))
	}
}
