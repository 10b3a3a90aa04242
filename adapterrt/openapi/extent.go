package openapi

import (
	"cmp"

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

// number returns the member of n if it is a number, or nil.
func number(n *node, key string) *node {
	if v := n.get(key); v.is(wire.Number) {
		return v
	}
	return nil
}

// equalOr returns a if b is the same number or text, or nil.
func equalOr(a, b *node) *node {
	if a == nil || b == nil || a.text != b.text {
		return nil
	}
	return a
}
